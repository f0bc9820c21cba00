/* Control: the one thread that owns the desired state, the flow tables and the building of snapshots.
 * Everyone else asks it. */
#pragma once

#include "base/histogram.h"
#include "control/events.h"
#include "control/health.h"
#include "control/model.h"
#include "control/neighbor.h"
#include "control/persist.h"
#include "control/state_file.h"
#include "control/transaction.h"
#include "worker/worker.h"

struct control;
struct links;

/** How control learns next hops: rtnetlink in production, fixed answers in tests. */
struct next_hops {
	void *ctx;
	int fd; /* readable when poll has something to do; -1 = none */
	int (*watch)(void *ctx, const struct ip_addr *a);
	void (*unwatch)(void *ctx, const struct ip_addr *a);
	void (*get)(void *ctx, const struct ip_addr *a, struct next_hop *hop, bool *has_route);
	/** See control/links.h. NULL: no interface stands on others. */
	const struct links *links;
	bool (*poll)(void *ctx, uint64_t now_ms);
	/** Have the kernel resolve a neighbour, or probe it if that was long ago. */
	void (*resolve)(void *ctx, int ifindex, const struct ip_addr *a);
};

/** The rtnetlink one. */
struct next_hops neighbor_next_hops(struct neighbor *n);

struct control_config {
	unsigned n_workers;
	struct worker *const *workers; /* not started; control starts and parks them */
	struct state_file *state;
	struct persist persist;
	struct next_hops next_hops;
	struct steering steering;
	unsigned n_ifaces;   /* egress: kernel ifindex of each port interface */
	int ifindexes[IFACES_MAX];
	struct host_links *links; /* the workers'; NULL: they have none */
};

/** Plan every VIP of the loaded state with the flows found in the state file and set the first
 *  snapshot in the (not yet started) workers and in steering. boot: taken over, freed by control.
 *  Thread: main. */
MUST_CHECK int control_new(const struct control_config *c, struct persist_state *boot,
			   struct control **out, struct error *err);
/** Workers must have been stopped. NULL is fine. */
void control_free(struct control *c);

/** Start the control thread (workers are main's to start and stop) / end and join it; requests under
 *  way are answered with CONTROL_UNAVAILABLE. */
MUST_CHECK int control_start(struct control *c, struct error *err);
void control_stop(struct control *c);

/** One step of the control thread's loop in the caller's thread, for tests and the simulation: drain
 *  rings, expire, take waiting requests, plan, persist, publish what is due. Returns true if there was
 *  something to do. Not together with control_start. */
bool control_step(struct control *c);

/* --- changes ------------------------------------------------------------------------------------- */

enum dip_state { DIP_UP, DIP_DOWN, DIP_DRAINING, DIP_UNRESOLVED, N_DIP_STATES };
extern const char *const dip_state_names[]; /* up down draining unresolved */

/** What a publish did, for the answer of the change that caused it (the changed VIP's figures). */
struct change_info {
	uint64_t generation;
	uint64_t flows_known;
	uint64_t flows_pinned;
	uint64_t flows_moved;
	uint64_t dcodes_moved;
	uint64_t build_us;
	uint64_t pause_us;
};

/** How far the drain of something that is being deleted has come; at its deadline it is cut. */
struct drain_info {
	bool on;
	uint64_t flows_remaining;
	uint64_t oldest_age_s; /* since the opening of the longest known one; up to 49 days */
	int64_t deadline_s;    /* wall clock */
};

struct dip_info {
	struct dip_conf conf;
	enum dip_state state;
	uint32_t dcodes; /* of the table that packets see */
	uint64_t flows;
	uint64_t packets;
	uint64_t bytes;
	uint64_t return_packets; /* mode nat: from the DIP to clients */
	uint64_t return_bytes;
	uint64_t flows_opened; /* on it, since the process started */
	bool deleting;
	struct drain_info drain;
	uint32_t weight_in_use; /* of new flows, in parts of HEALTH_STEPS; 0 while it is down */
	struct dip_health_info health;
};

struct vip_info {
	struct vip_conf conf;
	uint64_t flows;
	uint64_t flows_pinned;
	uint64_t packets;
	uint64_t bytes;
	uint64_t return_packets; /* mode nat: from the DIPs to clients */
	uint64_t return_bytes;
	uint32_t n_dcodes;
	bool deleting;
	struct drain_info drain;
	uint32_t dips_in_state[N_DIP_STATES];
	unsigned n_dips;
	struct dip_info *dips; /* sorted by id */
};

struct control_request {
	/* in */
	char author[ID_LEN]; /* who asks, for the log; "" = unknown */
	struct control_transaction *transaction; /* what it is besides; the caller's; NULL = nothing */
	enum control_op op;
	char vip[ID_LEN];
	char dip[ID_LEN];
	struct vip_edit vip_edit;
	struct dip_edit dip_edit;
	bool force;         /* DELETE: cut at once; PUT of a VIP: overlap is meant */
	bool override_hold; /* go on during the hold after a reboot */
	/* out */
	enum control_status status;
	char detail[192]; /* one sentence for people when status is an error */
	struct field_errors errors;
	uint32_t retry_after_s;
	uint64_t flows_remaining;
	struct change_info change;
	struct vip_info vip_info; /* the resource after the change (OP_VIP_*): dips is NULL */
	struct dip_info dip_info; /* OP_DIP_* */
};

/** Carry out one change; returns when it is durable and published, or refused with nothing changed.
 *  Changes that wait together are planned, committed and published together. Thread: any but
 *  control's; blocks. */
void control_change(struct control *c, struct control_request *r);

/** The same without waiting, for one-threaded tests: *done becomes true within some control_step. r
 *  and done stay valid until then. */
void control_change_async(struct control *c, struct control_request *r, bool *done);

/* --- reads (thread: any but control's; block for at most some milliseconds) ---------------------- */

/** All VIPs sorted by id, or the one named (vip != NULL). Returns an array (free with vip_infos_free),
 *  *n = 0 and NULL if there is none. with_dips: fill dips. */
struct vip_info *control_read_vips(struct control *c, const char *vip, bool with_dips, size_t *n);
void vip_infos_free(struct vip_info *v, size_t n);

/* Every counter of GET /v1/consistency, each with what it means: struct, JSON and metric come from
 * this table. What ends in _total only grows while the process lives; the rest are gauges. */
#define CONSISTENCY_FIELDS(X)                                                                      \
	X(generation, "of the published snapshot")                                                 \
	X(flows_known, "flows that control knows")                                                 \
	X(flows_half_open, "known flows that only a SYN speaks for")                               \
	X(flows_established, "known flows that are established")                                   \
	X(flows_closing, "known flows after FIN or RST")                                           \
	X(flows_unproven,                                                                          \
	  "known flows met in mid-stream or over UDP, not yet heard of in two refresh intervals")  \
	X(flows_pinned, "known flows that are not where their hash alone would put them")          \
	X(flows_exact, "flows that the exact table holds one by one")                              \
	X(flows_opened_total, "flows learned")                                                     \
	X(flows_opened_on_pin_total,                                                               \
	  "new flows that met the pin of an old one with the same addresses and ports")            \
	X(flows_late_total,                                                                        \
	  "flows learned between a plan and its publish that got an exact entry")                  \
	X(flows_unlearned_total,                                                                   \
	  "packets of new flows carried though they could not be recorded")                        \
	X(flows_forgotten_total, "flows dropped from memory because there was no room")            \
	X(flows_lost_total, "flows whose DIP was cut or down and that lost it")                    \
	X(flows_rehomed_total, "of the lost flows, those that a packet has shown on another DIP")  \
	X(orphans_total, "packets that backends got for connections they do not have")             \
	X(agents_reports_total, "reports of agents applied")                                       \
	X(agents_refused_total,                                                                    \
	  "connections in reports that were not the agent's to tell, or that a packet overruled")  \
	X(accidents_pinned_total,                                                                  \
	  "flows pinned because another one's pin would have caught them")                         \
	X(violations_total,                                                                        \
	  "packets and audited flows found on another DIP than their flow's; must stay 0")         \
	X(audits_total, "audits of all known flows")                                               \
	X(publishes_total, "snapshots published")                                                  \
	X(last_build_us, "time the last plan took")                                                \
	X(last_pause_us, "time the workers were parked by the last publish")                       \
	X(max_pause_us, "the longest time the workers were parked")                                \
	X(pin_bytes, "memory of the Othello arrays")                                               \
	X(dcode_bytes, "memory of the DIP code tables")

/* Times in microseconds, the same way. */
#define CONSISTENCY_HISTOGRAMS(X)                                                                  \
	X(publish_pause_us, "time the workers were parked by a publish")                           \
	X(publish_build_us, "time the plan of a VIP took")

struct consistency {
#define CONSISTENCY_MEMBER(name, text) uint64_t name;
	CONSISTENCY_FIELDS(CONSISTENCY_MEMBER)
#undef CONSISTENCY_MEMBER
#define CONSISTENCY_MEMBER(name, text) struct histogram name;
	CONSISTENCY_HISTOGRAMS(CONSISTENCY_MEMBER)
#undef CONSISTENCY_MEMBER
};

void control_read_consistency(struct control *c, struct consistency *out);

/** What comparing every known flow with the published snapshot has found. */
struct audit {
	uint64_t generation;         /* published at its end */
	uint64_t flows_checked;
	uint64_t flows_misplaced;    /* would go to another DIP than theirs: must be 0 */
	uint64_t flows_of_down_dips; /* not compared: they have no place until theirs is back */
	uint64_t duration_us;
	bool done;
	bool refused; /* control has ended */
	struct audit *next; /* control's */
};

/** Audit every flow that is known now and until the end; forwarding and changes go on meanwhile. False
 *  if control ends before. Those who wait together share one. Thread: any but control's, while its
 *  thread runs; blocks (some 25 ms for a million flows). */
MUST_CHECK bool control_audit(struct control *c, struct audit *a);

/** The same without waiting, for one-threaded tests: a->done becomes true within some control_step. a
 *  stays valid until then. */
void control_audit_async(struct control *c, struct audit *a);

struct explanation {
	bool found; /* the VIP exists and takes such a packet */
	char dip[ID_LEN]; /* "" = none */
	char reason[12];  /* home pin exact reroll server_id none */
	uint32_t dcode;
	uint64_t generation;
	bool known; /* control knows the flow */
};

#define QUIC_CID_MAX 20u

/** A packet to be explained. */
struct explain_question {
	const char *vip;
	struct ip_addr src;
	uint16_t sport;
	struct ip_addr dst; /* for VIPs of several addresses, else ignored */
	uint16_t dport;     /* for VIPs of several ports, else ignored */
	uint8_t proto;	/* IPPROTO_TCP or IPPROTO_UDP, 0 = the VIP's own (of any: udp with a cid, else tcp) */
	uint8_t cid_len; /* 0: it has no connection ID that its server has chosen */
	uint8_t cid[QUIC_CID_MAX];
};

/** Where it would go; not found if there is no such VIP, or another one takes the packet. Thread: any but
 *  control's; blocks. */
void control_explain(struct control *c, const struct explain_question *q, struct explanation *out);

/** What happens in control, and what others add; ends with control_free. Thread: any. */
struct events *control_events(struct control *c);

/** Run fn while every worker stands still outside of its port, which it may change (io/port.h). fn must
 *  be quick: nothing is forwarded meanwhile. They hold no frames then. Thread: any but control's. */
void control_pause(struct control *c, void (*fn)(void *arg), void *arg);

/** An interface (its place in control_config) has another index; 0: it is gone. Thread: any but control's. */
void control_move_iface(struct control *c, unsigned iface, int ifindex);

/** The published generation: at least that of every answer that was given. Thread: any. */
uint64_t control_generation(struct control *c);

/** The last event, and the end of all waiting for more. Thread: main. */
void control_announce_end(struct control *c);

/** How full the flow table is. */
void control_read_capacity(struct control *c, uint64_t *flows, uint64_t *capacity);
