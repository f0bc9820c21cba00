/* The oracle: what the promise says of each flow, from what was sent where, and from what operators asked
 * for. It knows nothing of how control keeps the promise; it looks into the forwarder only for what
 * releases a flow from it: a DIP that the published snapshot calls unusable (and an operator or its
 * health allowed to be), a record that was lost, a flow that was forgotten for lack of room. */
#pragma once

#include "control/flows.h"
#include "control/model.h"

/* INITIAL: the datagram that opens a QUIC connection. */
enum segment {
	SEGMENT_SYN,
	SEGMENT_ACK,
	SEGMENT_DATA,
	SEGMENT_FIN,
	SEGMENT_RST,
	SEGMENT_UDP,
	SEGMENT_INITIAL
};
extern const char *const segment_names[];

enum model_phase { MODEL_HALF_OPEN, MODEL_ESTABLISHED, MODEL_CLOSING, MODEL_UDP };

#define MODEL_NEVER INT64_MAX

/** A DIP, numbered over the whole run: the last two bytes of its address. */
struct model_dip {
	bool may_be_down;   /* an operator asked for it, and has not been told that it is up again */
	int64_t may_go_s;   /* box_time_s: it may be cut from then on */
};

struct model_flow {
	/* who it is, within a VIP */
	struct flow_key key;
	uint32_t vip_uid; /* of its last packet */
	unsigned vip;     /* ... in the caller's numbers */
	uint16_t dip;     /* number of the DIP that has it; 0 = none yet */
	enum model_phase phase;
	uint64_t last_ms; /* its last packet that was sent, and that it was to tell of itself */
	uint64_t spoke_ms; /* its last packet that could be told of, ... */
	uint64_t spoke_hash; /* ... and the flow's hash, in the VIP that it went to */
	uint64_t epoch;   /* publishes before its last packet */
	uint64_t syn_ms;  /* its last SYN that control was told of */
	/* An agent has ended it, and no packet has told control since that it lives: */
	bool agent_ended;
	uint64_t ended_ms;
	enum model_phase phase_before;
	bool unlearned;   /* control was not told where it is */
	bool unsure;      /* a record may have named a DIP that no packet reached */
	bool hidden;      /* a packet may have been learned, and was then dropped */
	bool unknown;     /* control has forgotten it; it is told again ... */
	uint64_t told_after_ms; /* ... by a packet after that time, ... */
	uint64_t syn_after_ms;  /* ... or an opening one after that: not if it was under way then */
};

struct model {
	/* The DIP may be down by what control was told of its health. */
	bool (*down_by_health)(void *ctx, uint16_t dip);
	void *ctx;
	struct model_dip dips[65536];
	unsigned n_checks;
	char fault[256]; /* the first violation in words; empty = none */
	const struct model_flow *culprit;
	uint64_t n_moved, n_held, n_excused; /* packets sent elsewhere with reason, to the same DIP */
};

/** What a packet met on its way. */
struct model_sent {
	enum segment segment;
	uint16_t dip;   /* that it was sent to */
	bool lost;      /* a record of this flow's bucket was lost about then, or none made: */
	bool twin;      /* another flow with an equal hash has spoken for it */
	uint64_t now_ms;
	const struct vip_view *view;
	uint64_t epoch; /* publishes before it */
	const struct vip_conf *conf; /* the VIP as operators know it */
};

void model_init(struct model *m);

/** Number of a view's DIP of this index, 0 if it has none; and the other way, DIP_NONE if it has none. */
uint16_t model_dip_number(const struct vip_view *v, uint16_t index);
uint16_t model_dip_index(const struct vip_view *v, uint16_t number);

/** A packet of the flow was sent: right or wrong? */
void model_packet(struct model *m, struct model_flow *f, const struct model_sent *s);

/** A packet of the flow came into the forwarder but not out of it, perhaps after it was learned. */
void model_dropped(struct model *m, struct model_flow *f, enum segment segment,
		   const struct vip_conf *conf);

/** A snapshot was published: every flow that must not move is where it was. v: the flow's VIP in it, or
 *  NULL. */
void model_published(struct model *m, struct model_flow *f, const struct snapshot *s,
		     const struct vip_view *v, uint64_t epoch, const struct vip_conf *conf);

/** ... and no VIP takes its packets. */
void model_vip_gone(struct model *m, struct model_flow *f, uint64_t epoch,
		    const struct vip_conf *conf);

/** The process was killed / the machine rebooted. pinned: the database names the flow. */
void model_killed(struct model_flow *f);
void model_rebooted(struct model_flow *f, bool pinned);

/** Control took an agent's word that the flow's connection has ended. */
void model_agent_ended(struct model_flow *f, const struct vip_conf *conf);

/** Control forgot the flow for lack of room. */
void model_forgotten(struct model_flow *f, uint32_t refresh_ms);
