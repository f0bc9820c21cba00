/* Backends and their agents: which connections a backend really has, what its agent says of them by the
 * production code of agents, and what the network between agent and forwarder makes of that. */
#pragma once

#include "api/client/agent_talk.h"
#include "tests/sim/sim.h"

#define BACKENDS 8
#define BACKEND_MESSAGES 48

struct backend_conn { /* of a tuple */
	bool open;
	uint64_t cookie;
	uint64_t end_ms; /* of the last one that ended */
};

/** What control must have taken from an agent since the process began. */
struct backend_said {
	char instance[AGENT_INSTANCE_LEN];
	uint64_t sequence, orphans;
	bool full_open, synced;
	bool lies; /* of the full report under way, some part may be */
	bool named[SIM_TUPLES]; /* in the full report under way, flows of these tuples */
};

struct backend {
	bool bound; /* to this DIP */
	char id[ID_LEN];
	unsigned vip;
	uint16_t dip;
	struct backend_conn conns[SIM_TUPLES];
	/* its agent */
	bool liar;        /* it says what it likes, or its clock was stepped */
	int64_t ahead_ms; /* its clock, of the forwarder's */
	uint64_t life;    /* a restart ends what was on its way to it */
	uint64_t binding; /* to another DIP: also what was on its way from it */
	bool posted;      /* waits for an answer */
	uint64_t give_up_ms, tick_ms;
	struct agent_talk talk;
	struct backend_said said;
};

/** A report or an answer on its way. */
struct backend_message {
	bool used;
	uint64_t due_ms, life, binding;
	struct backend *to_or_from;
	bool answers;
	bool lies; /* of one who is a liar no more, perhaps, when it arrives */
	struct agent_reply reply;
	struct agent_report report;
	struct agent_entry entries[2 * AGENT_NEWS_MAX];
};

struct backends {
	struct sim *s;
	struct backend list[BACKENDS];
	struct backend_message messages[BACKEND_MESSAGES];
	uint64_t next_cookie, next_id;
	struct backend_message *delivered; /* the one that control is about to read */
	struct backend *binding;           /* the one that it is about to be told of */
	struct queued_call call;
	bool calling;
	bool quiet; /* the network loses and delays nothing, and agents that begin are honest */
	/* what control's counters must be */
	uint64_t n_reports, n_refused, n_orphans;
	uint64_t n_claims; /* over all: those of a process may be overruled in the next */
	unsigned n_all_reports, n_ended, n_spared; /* flows that a report ended, or did not though it named them */
};

struct backends *backends_new(struct sim *s);
void backends_free(struct backends *b);
/** Something happens at a backend, its agent or on the network. */
void backends_step(struct backends *b);
/** Agents have their turns, and what is due arrives. */
void backends_turn(struct backends *b);
/** All agents begin anew. */
void backends_restart_agents(struct backends *b);
/** A packet reached a DIP. */
void backends_packet(struct backends *b, uint16_t dip, unsigned tuple, enum segment segment);
/** The forwarder's process is gone / there again. */
void backends_killed(struct backends *b);
void backends_resync(struct backends *b);

/* agreement.c */
/** Nobody sends, the network is whole, and agents begin anew: an interval later, control holds no connection for
 *  established that the backend of its DIP does not have. */
void agreement_reach(struct sim *s);

/* reports.c */
/** An agent's turn to speak. */
void reports_send(struct backends *b, struct backend *k);
/** Have whatever is due arrive. */
void reports_arrive(struct backends *b);
