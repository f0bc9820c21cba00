/* Host agents: who may report for which DIP, and what their reports do to the flow table. An agent
 * runs on a backend and knows its connections; nothing of the promise rests on it. It tells of
 * connections that this forwarder never saw and of ends that only the backend saw.
 *
 * A report is applied once: it bears a sequence number of the agent's instance, and what is lost,
 * doubled or out of order is answered with what was applied last. Whenever the two sides may differ
 * (either restarted, a report is missing) the answer asks for a full report: all connections that the
 * backend has, in as many parts as it takes. */
#pragma once

#include "control/control.h"

#define AGENT_INSTANCE_LEN 17     /* 16 hex digits and NUL */
#define AGENT_ENTRIES_MAX 4096    /* of one report: what control does between two drains is bounded */
#define AGENTS_MAX 65536u
#define AGENT_AGE_MAX_MS 604800000u /* a week, the longest time-out of a flow */

/** A connection of the backend, opened or ended age_ms before the report was made. */
struct agent_entry {
	struct ip_addr src; /* the client */
	struct ip_addr dst; /* which address of the VIP, if it has several; else the VIP's, or: */
	bool has_dst;       /* false: not given */
	uint16_t sport, dport;
	uint8_t proto; /* IPPROTO_TCP or IPPROTO_UDP */
	bool ended;
	uint32_t age_ms;
};

struct agent_load {
	uint64_t connections;
	uint32_t cpus;
	uint32_t load_percent; /* one-minute load average over all CPUs */
};

struct agent_report {
	char instance[AGENT_INSTANCE_LEN]; /* random, made by the agent at its start */
	uint64_t sequence;                 /* from 1 */
	bool full;  /* part of a list of all connections; first: its first part, last: its last */
	bool first;
	bool last;
	/** The forwarder's clock (of an earlier answer, and the time since that answer came), never
	 *  ahead of it; what the ages count from. 0: unknown, they count from the arrival. */
	uint64_t clock_ms;
	struct agent_load load;
	uint64_t orphans; /* since the agent's start */
	unsigned n;
	const struct agent_entry *entries;
};

struct agent_answer {
	bool found;      /* the agent exists */
	uint64_t ack;    /* sequence of the last report applied; 0 = none of this instance */
	bool resync;     /* a full report is wanted next */
	uint64_t clock_ms;
	unsigned n_refused; /* entries of this report that were not the agent's to tell */
	char instance[AGENT_INSTANCE_LEN]; /* of this forwarder process */
	struct vip_match match; /* the VIP to report of */
};

/** An agent as it is shown. */
struct agent_info {
	char id[ID_LEN];
	char vip[ID_LEN];
	char dip[ID_LEN];
	char instance[AGENT_INSTANCE_LEN]; /* "" = has not reported to this process */
	uint64_t sequence;
	bool synced; /* a full report has come to its end and nothing is missing since */
	uint64_t last_report_age_ms;
	struct agent_load load;
	uint64_t orphans_total;
	uint64_t reports_total;
	uint64_t refused_total; /* entries refused */
};

/** Bind an agent to a DIP and set its token's hash (SHA-256; NULL: only see whether that would go); durable
 *  when it returns. *created: it
 *  was not there. CONTROL_OK, CONTROL_NOT_FOUND (the VIP or DIP), CONTROL_CONFLICT (another agent has
 *  the DIP), CONTROL_NO_STORAGE, CONTROL_FAILED: err says why. Thread: any but control's; blocks. */
MUST_CHECK enum control_status control_agent_put(struct control *c, const char *id, const char *vip,
						 const char *dip, const uint8_t token_hash[32],
						 bool *created, struct error *err);

/** Forget an agent; durable when it returns. Thread: any but control's; blocks. */
MUST_CHECK enum control_status control_agent_delete(struct control *c, const char *id,
						    struct error *err);

/** All agents by id, or the one named (id != NULL). free() the array; NULL and *n = 0 if there is
 *  none. An agent goes with its DIP. Thread: any but control's. */
struct agent_info *control_read_agents(struct control *c, const char *id, size_t *n);

/** The hash of an agent's token. False: no such agent. Thread: any but control's. */
bool control_agent_token(struct control *c, const char *id, uint8_t token_hash[32]);

/** Apply a report, whose token was checked; n <= AGENT_ENTRIES_MAX. Thread: any but control's. */
void control_agent_report(struct control *c, const char *id, const struct agent_report *r,
			  struct agent_answer *out);
