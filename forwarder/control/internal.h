/* What the files of control share; nobody else includes it. Everything here belongs to the control
 * thread unless a comment says otherwise. */
#pragma once

#include <pthread.h>

#include "control/agents.h"
#include "control/control.h"
#include "control/flows.h"

/** What a plan makes of a DIP's health and admin_state. (verdict.c) */
struct dip_use {
	bool up;                  /* packets may go there */
	uint32_t weight;          /* for new flows, in parts of HEALTH_STEPS */
	uint64_t ramp_from_ms;    /* its slow start began then; 0 = none is under way */
	struct dip_health health; /* as it was at the plan: what goes to disk with it */
};

/** A DIP within a version of its VIP. */
struct dip_version {
	struct dip_conf conf;
	uint64_t uid;
	uint16_t index;
	bool deleting;
	uint64_t drain_deadline_ms; /* clock_now_ms, 0 = none */
	int64_t drain_shown_s;      /* the same as wall time, as it was shown first */
	uint32_t counter;         /* of worker_counters.dips */
	struct dip_use use;       /* by the plan */
};

/** The desired state of a VIP and the plan made of it. The published one is vip_runtime.now; a change
 *  edits and plans a copy, which replaces it at the publish or is thrown away. */
struct vip_version {
	struct vip_conf conf;
	bool deleting;
	uint64_t drain_deadline_ms;
	int64_t drain_shown_s;
	unsigned n_dips;
	struct dip_version *dips; /* sorted by id */
	/* the plan */
	bool min_up_missed;     /* too few are up: health is not heeded */
	uint64_t health_seq;    /* vip_runtime's, as it was */
	uint64_t health_due_ms; /* then something changes by itself; UINT64_MAX = never */
	struct dcode_table table; /* by weight, before re-roll */
	struct vip_view *view;
	uint32_t n_pins; /* in the arrays and exact, as persisted below */
	struct persist_pin *pins;
	uint32_t n_exact;      /* flows that only the exact table can place */
	uint32_t *exact_slots; /* their flow slots */
	uint32_t n_dcodes_moved;
	uint32_t n_accidents;
};

/** The flow that was found to have opened first. (progress.c) */
struct oldest_flow {
	bool known;
	uint32_t slot;
	uint32_t opened_ms;
};

/** What a DIP has carried: to it, and in mode nat back from it. */
struct dip_traffic {
	uint64_t packets, bytes;
	uint64_t return_packets, return_bytes;
};

/** What lives as long as a DIP index is in use, by index. */
struct dip_runtime {
	bool used;          /* some published or planned version names the index */
	uint64_t free_at_ms; /* a removed DIP's index may be given out again from then on */
	uint32_t counter;
	struct dip_traffic base;    /* of the counter, when the DIP took it */
	struct dip_traffic carried; /* by earlier DIPs of its id */
	struct oldest_flow oldest;         /* while it drains */
	uint64_t uid;
	struct dip_health health;
	uint64_t override_until_ms; /* clock_now_ms; 0 = without end */
	struct health_stats stats;
	struct health_history *history; /* NULL until the first transition */
	bool hop_told; /* its next hop is resolved, as the last event said */
	uint64_t heard_packets, heard_ms; /* sent to it, and when that was seen to rise; 0 = not yet */
};

/** One VIP for life. */
struct vip_runtime {
	uint32_t uid;
	uint16_t slot;
	char id[ID_LEN];
	struct vip_match match;
	bool indexed; /* in control.index, by those below; then the slot is its own */
	struct vip_runtime *next_of_id, *next_of_match, *next_of_uid, *next_wide;
	unsigned at; /* where its entry is, if the batch at hand has one */
	uint64_t seed;
	uint64_t pin_seed;
	struct vip_version *now; /* published; NULL before the first publish */
	struct flow_set flows;
	uint32_t n_dips; /* entries of dips */
	uint32_t n_used_indexes; /* from 0 on, of which none is free; 0 names no DIP */
	struct dip_runtime *dips;
	struct dip_traffic retired_traffic; /* of DIPs that are gone */
	uint32_t n_retired, oldest_retired;
	struct retired_dip *retired; /* the same for each (retired.c) */
	bool steered;
	bool held;               /* its flows were not all known at the start (start-up hold) */
	bool refold;             /* late exact entries wait to be folded into the arrays */
	uint64_t health_seq;     /* changes with the health of any of its DIPs */
	bool claims; /* an agent told of flows that the published view would misplace */
	uint64_t purge_after_ms; /* not before: a purge costs a plan */
	uint64_t listened_ms;    /* when the packets of its DIPs were looked at last (quic_ids.c) */
	uint32_t cut_pos;        /* scan for flows of DIPs that are gone: next reference to look at */
	bool cut_scan;
	struct oldest_flow oldest; /* while it drains */
};

/** A DIP that leaves with a batch. */
struct gone_dip {
	struct dip_version d;
	bool cut; /* even if flows name it */
};

/** A VIP in a batch. */
struct batch_vip {
	struct vip_runtime *rt;
	struct vip_version *next;
	bool created; /* rt is not in control.vips yet */
	bool dry;     /* nobody is to notice: next hops are not looked for */
	char id[ID_LEN];
	unsigned n_taken; /* VIPs that a created one takes packets from: without flows, unless forced */
	struct vip_runtime **taken;
	bool remove;  /* the VIP goes with this publish */
	bool cut;     /* ... even if it has flows */
	unsigned n_added;
	uint64_t *added; /* uids of DIPs that took an index for this batch */
	uint32_t n_fitting; /* of those; while it is looked who does not */
	unsigned n_gone;
	struct gone_dip *gone;
	uint32_t n_late; /* of next->exact_slots: added by the publish itself */
	uint64_t n_moved;
	uint64_t build_us;
	uint32_t dcodes_moved;
};

/** Changes that are planned, committed and published together. */
struct batch {
	bool dry;
	bool unstored; /* published although it cannot be written */
	unsigned n, cap;
	struct batch_vip *vips;
	unsigned n_log;
	struct persist_log_entry *log; /* of the requests that are in it */
};

/** What a callback sees: with a batch, the state that it will make. */
struct control_view {
	struct control *c;
	const struct batch *b; /* NULL: the published state */
	unsigned n;
	const struct vip_version **sorted; /* by id; NULL = not made yet */
	bool failed;
};

/** An edit that is being applied. (change_apply.c and its like) */
struct change {
	struct control *c;
	struct batch *b;
	struct control_request *r; /* whose it is */
	const struct control_edit *e;
	enum control_status status;
	unsigned n_faults; /* of r->errors, before it */
	void *refused;     /* ids of VIPs whose creation was refused (tsearch) */
};

struct queued_change {
	struct control_request *request;
	bool *done;
	struct queued_change *next;
};

struct queued_call {
	void (*fn)(struct control *c, void *arg);
	void *arg;
	bool done;
	struct queued_call *next;
};

/** An agent and how far its reports have come. */
struct agent {
	struct persist_agent conf;
	bool leaving; /* its row is being deleted */
	char instance[AGENT_INSTANCE_LEN]; /* "" = has not reported to this process */
	uint64_t sequence;                 /* of the last report applied */
	uint64_t last_ms;                  /* when it came */
	bool full_open;                    /* a full report has begun */
	bool synced;                       /* one has ended, and nothing is missing since */
	uint8_t epoch;                     /* of the last full report */
	uint32_t n_unknown;                /* connections it told of that were not known */
	uint32_t silent_since_ms; /* the sweep ends flows that were last heard of before */
	uint32_t listed_ms;       /* when the full report began */
	uint32_t sweep_left;      /* references still to be looked at, from the end of the array */
	bool undecided;    /* the sweep met flows that fell silent just before the list was made */
	bool repeated;     /* the last full report was asked for because of that */
	uint64_t again_ms; /* ... then it is; 0 = it is not */
	struct agent_load load;
	uint64_t orphans; /* as it counts them */
	uint64_t orphans_total, reports_total, refused_total;
};

struct agents {
	unsigned n, cap;
	struct agent *list;                /* sorted by id */
	char instance[AGENT_INSTANCE_LEN]; /* of this process */
	uint8_t last_epoch;
	/* Any thread but control's: one change of agents at a time, and one report, so that control
	 * gets to its rings between any two. */
	pthread_mutex_t writing;
	pthread_mutex_t reporting;
};

/** The audit under way. */
struct audit_scan {
	struct audit *askers; /* who wait for it; NULL = none is under way */
	struct audit found;
	uint64_t started_us;
	unsigned slot; /* VIP at hand */
	bool begun;    /* left says how far its flows are done */
	uint32_t left; /* positions of its dense array from 0 on that are still to be looked at */
};

/** The last one, for the event that tells of it and of those before it. */
struct violation {
	uint64_t n_told; /* of stats.violations_total */
	uint64_t generation;
	uint16_t vip_slot;
	uint16_t lives; /* DIP indexes: whose the flow is */
	uint16_t goes;  /* ... and where it was, or would be, sent */
};

/** A way back whose DIP has gone. (ways_back.c) */
struct lingering_way {
	struct back_key key;
	uint64_t until_ms;
};

struct ways_back {
	struct back_table *table; /* of the published snapshot; NULL: there was no VIP of mode nat yet */
	unsigned n_lingering;
	struct lingering_way *lingering;
};

/** Published VIPs and those of the batch at hand. (vip_index.c) */
struct vip_index {
	uint64_t seed, secret;
	struct vip_runtime *by_id[VIPS_MAX], *by_match[VIPS_MAX], *by_uid[VIPS_MAX]; /* chains */
	struct vip_runtime *wide; /* chain of those that are more than one address, or a range of ports */
	unsigned n_wide;
	unsigned n_free_slots;
	uint16_t free_slots[VIP_SLOTS]; /* stack */
};

struct control {
	struct control_config conf;
	struct ways_back ways_back;
	struct agents agents;
	struct events *events;
	struct violation violation;
	uint64_t n_unlearned_told, n_forgotten_told; /* of the counters, by events */
	struct flow_table flows;
	unsigned n_vips;
	struct vip_runtime *vips[VIP_SLOTS]; /* by slot */
	struct vip_index index;
	unsigned n_zombies;                  /* VIPs that are gone but still have flows to be freed */
	struct vip_runtime **zombies;
	struct snapshot *snapshot; /* published */
	uint64_t generation;
	_Atomic uint64_t generation_shown; /* the same once it is installed, for any thread */
	uint64_t next_dip_uid;
	uint32_t next_vip_uid;
	bool committed_in_vain; /* the last commit was not published after all */
	bool agents_astray;     /* such a commit may have deleted agents that are still there */
	unsigned n_stale;       /* VIPs that it made */
	uint32_t *stale_uids;
	uint32_t n_free_counters;
	uint32_t *free_counters; /* stack of DIP counter indexes */
	uint32_t floor_ms;       /* start of this process: no flow's idle time counts from before it */
	uint64_t hold_until_ms;  /* start-up hold of VIPs with `held`; 0 = none, or over */
	uint64_t last_expire_ms;
	uint64_t health_after_ms; /* no publish for health's sake before: they must not take all time */
	_Atomic uint64_t health_epoch; /* control_health_epoch */
	uint64_t last_record_ms;
	bool hops_changed;
	struct consistency stats; /* totals; gauges are filled in by the reader */
	struct audit_scan audit;

	/* shared with other threads, under mutex */
	pthread_mutex_t mutex;
	pthread_cond_t answered;
	struct queued_change *changes, **changes_end;
	struct queued_call *calls;
	struct queued_override *overrides;
	struct audit *audits; /* wait for the next one */
	bool running; /* the thread runs */
	bool stop;
	int wake_fd; /* eventfd */
	pthread_t thread;
};

/* versions.c: versions and runtimes */
MUST_CHECK struct vip_version *vip_version_copy(const struct vip_version *v); /* without the plan */
void vip_version_free(struct vip_version *v);
struct dip_version *vip_version_dip(const struct vip_version *v, const char *id);
/** Insert a DIP in order; NULL without memory. */
MUST_CHECK struct dip_version *vip_version_add_dip(struct vip_version *v,
						   const struct dip_version *d);
void vip_version_remove_dip(struct vip_version *v, struct dip_version *d);
MUST_CHECK struct vip_runtime *vip_runtime_new(struct control *c, uint32_t uid,
					       const struct vip_conf *conf, uint64_t seed);
void vip_runtime_free(struct control *c, struct vip_runtime *v);
struct vip_runtime *control_find_vip(struct control *c, const char *id);
/** Take a DIP index (want: this one, 0 = the lowest that may be given out) and a counter. 0 or
 *  -ENOMEM, -ENOSPC. */
MUST_CHECK int vip_runtime_take_index(struct control *c, struct vip_runtime *v, uint16_t want,
				      struct dip_version *d);
/** Give the index back: at once if it was never published, else after the refresh interval. */
void vip_runtime_release_index(struct control *c, struct vip_runtime *v,
			       const struct dip_version *d, bool published);
void vip_runtime_traffic(const struct control *c, const struct dip_runtime *d,
			 struct dip_traffic *out);
/** The same, with what earlier DIPs of its id have carried: what is shown of a DIP. */
void dip_runtime_traffic(const struct control *c, const struct dip_runtime *d,
			 struct dip_traffic *out);
void dip_traffic_add(struct dip_traffic *to, const struct dip_traffic *t);
/** A deadline as wall-clock seconds, 0 = none; and back, at most timeout_s from now, so that a clock that
 *  is wrong for a while after a boot cannot keep a drain for ever. */
int64_t deadline_to_wall(uint64_t deadline_ms);
/** What to show: shown_s, unless the wall clock was stepped since. */
int64_t deadline_shown(uint64_t deadline_ms, int64_t shown_s);
uint64_t deadline_from_wall(int64_t wall_s, uint32_t timeout_s);
/** New flows may go to the DIP: it has weight and is not on its way out. */
uint32_t dip_version_weight(const struct vip_version *v, const struct dip_version *d);
enum dip_state dip_version_state(const struct vip_version *v, const struct dip_version *d);

/* verdict.c */
/** Set `use` of every DIP of a version that is to be planned, from the runtime's health. */
void health_decide(const struct control *c, const struct vip_runtime *v, struct vip_version *next);
/** What is published differs from what health says now. */
bool health_is_due(const struct vip_runtime *v, uint64_t now_ms);
/** A version is about to become the published one: v->now is still the old one, or NULL. */
void health_install(struct control *c, struct vip_runtime *v, const struct vip_version *next);
/** What a DIP counts as has changed, for log, history and events. */
void health_tell(struct control *c, struct vip_runtime *v, const struct dip_version *d,
		 const char *state, const char *cause);
/** min_up is missed, and worth a warning: of a VIP whose DIPs are all new nothing is known to be wrong. v may
 *  be NULL. */
bool health_is_worn(const struct vip_version *v);
/** Publish what is due, at once if there was none for a while. False if nothing was. */
bool control_run_health(struct control *c);
void control_fill_health(const struct vip_runtime *v, const struct dip_version *d,
			 struct dip_health_info *out);

/* override.c */
/** Take all waiting overrides, publish, answer. False if none waits. */
bool control_run_overrides(struct control *c);
/** Under the mutex: answer all that wait. */
void control_refuse_overrides(struct control *c);
/** End those whose time is over. */
void health_expire_overrides(struct control *c, struct vip_runtime *v, uint64_t now_ms);

/* ways_back.c */
/** The table for the snapshot of a batch, with a reference for it; NULL if there need be none. 0 or
 *  -ENOMEM. */
MUST_CHECK int ways_back_plan(struct control *c, const struct batch *b, struct back_table **out);
/** Tell steer, before the swap, of what is new in t / take that back: it was not swapped in. */
void ways_back_open(const struct control *c, const struct back_table *t);
void ways_back_undo(const struct control *c, const struct back_table *t);
/** t was swapped in. */
void ways_back_install(struct control *c, struct back_table *t);
/** The next hops of a published VIP's DIPs may be others. Only while all workers are parked. */
void ways_back_refresh(struct control *c, const struct vip_version *v);
/** Every 100 ms or so. */
void ways_back_tick(struct control *c, uint64_t now_ms);
void ways_back_destroy(struct ways_back *w);
/** True if another VIP has this DIP's end of its connections; the edit is refused then. */
bool ways_back_collide(struct change *x, const struct vip_conf *vip, const struct dip_conf *dip);

/* retired.c */
/** What a DIP of this id that goes has carried, earlier ones of its id included / what a new one goes on
 *  from. */
void retired_keep(struct vip_runtime *v, const char *id, const struct dip_traffic *t);
void retired_recall(const struct vip_runtime *v, const char *id, struct dip_runtime *d);

/* quic_ids.c */
/** The table of a version that routes by server ID, for its view. 0 or -ENOMEM. */
MUST_CHECK int quic_ids_fill(const struct vip_version *v, struct vip_view *view);
/** See what packets have been sent to the DIPs of a VIP that routes by server ID. */
void quic_ids_listen(const struct control *c, struct vip_runtime *v, uint64_t now_ms);
/** The same where something of the version drains, right before it is told whether it has. */
void quic_ids_listen_drains(const struct control *c, struct vip_runtime *v,
			    const struct vip_version *version, uint64_t now_ms);
void quic_ids_listen_now_and_then(const struct control *c, struct vip_runtime *v, uint64_t now_ms);
/** No connection is known to live on a DIP without a known flow: it has had no packet for long. */
bool quic_ids_quiet(const struct vip_runtime *v, const struct vip_version *version,
		    const struct dip_version *d);
bool quic_ids_all_quiet(const struct vip_runtime *v, const struct vip_version *version);
/** Refuse a DIP whose server ID does not go with those of the others. True if it was refused. Of several edits
 *  the IDs are looked at when all are made, edit by edit: they may change places, or their length. */
bool quic_ids_clash(struct change *x, const struct vip_version *v, const struct dip_conf *conf);
void quic_ids_check_edit(struct change *x);

/* next_hops.c */
/** Fill the next-hop members of a view's DIP. */
void control_fill_hop(struct control *c, const struct dip_version *d, struct dip_view *view);
/** Put changed next hops into the published views, with the workers parked. */
void control_refresh_hops(struct control *c);

/* drain.c */
/** Apply what waits in the rings at the time of the call, at most `limit` records of each worker (UINT64_MAX:
 *  all). Returns how many. */
uint64_t control_drain(struct control *c, uint64_t limit);
/** Records that wait. */
uint64_t control_backlog(struct control *c);
/** Once, at start: drain the rings that the last process left. */
void control_drain_leftovers(struct control *c);

/* expire.c */
/** Forget flows whose time is over and free those of DIPs and VIPs that are gone. */
void control_expire(struct control *c, uint64_t now_ms);
/** Wall-clock deadlines, purges, folds, removals that are due: adds their VIPs to the batch. */
void control_collect_due(struct control *c, struct batch *b, uint64_t now_ms);
/** Take out of the next version what drains and has no flow, or is overdue. */
void control_take_due(struct control *c, struct batch_vip *b, uint64_t now_ms);

/* plan.c */
MUST_CHECK int plan_vip(struct control *c, struct vip_runtime *v, struct vip_version *next);

/* vip_index.c */
void vip_index_init(struct vip_index *x);
/** A slot that no VIP has. False if all are taken. */
MUST_CHECK bool vip_index_take_slot(struct vip_index *x, uint16_t *slot);
/** The slots of control.vips are not free. */
void vip_index_claim_slots(struct control *c);
/** A VIP with id, match and slot of its own comes / goes; its slot is free then. */
void vip_index_add(struct vip_index *x, struct vip_runtime *v);
void vip_index_remove(struct vip_index *x, struct vip_runtime *v);
/** The VIP of this id, of exactly this match, as the batch will leave it (NULL: as it is published), or
 *  NULL. */
struct vip_runtime *vip_index_by_id(const struct control *c, const struct batch *b, const char *id);
struct vip_runtime *vip_index_by_match(const struct control *c, const struct batch *b,
				       const struct vip_match *m);
/** True if the batch leaves the VIP (NULL: if it is published). */
bool vip_index_has(const struct batch *b, const struct vip_runtime *v);
/** The published VIP of this uid, or NULL. */
struct vip_runtime *vip_index_by_uid(const struct control *c, uint32_t uid);

/* batch.c */
/** The batch's entry for this VIP, or NULL. There is one batch at a time. */
static inline struct batch_vip *batch_entry(const struct batch *b, const struct vip_runtime *v)
{
	return v->at < b->n && b->vips[v->at].rt == v ? &b->vips[v->at] : NULL;
}

/** The batch's entry for this VIP, made (with a copy of its version) if there is none. NULL: no
 *  memory. */
MUST_CHECK struct batch_vip *batch_get(struct batch *b, struct vip_runtime *v);
/** Take a DIP out of the next version; with cut set even if flows name it at the publish, else it stays
 *  then (and goes on draining). 0 or -ENOMEM. */
int batch_remove_dip(struct control *c, struct batch_vip *b, struct dip_version *d, bool cut);
/** Put a new DIP (conf, uid set) into the next version with an index of its own. 0, -ENOMEM, -ENOSPC. */
MUST_CHECK int batch_add_dip(struct control *c, struct batch_vip *b, struct dip_version *d);
/** The VIP's desired state as the batch will leave it. */
const struct vip_version *batch_version_of(const struct batch *b, const struct vip_runtime *v);
/** Undo an entry and forget it. */
void batch_drop(struct control *c, struct batch *b, struct batch_vip *e);
/** The same for VIPs that the batch itself has made and takes away again. */
void batch_drop_passing(struct control *c, struct batch *b);
/** The same for all that ask for what is there already. */
void batch_drop_unchanged(struct control *c, struct batch *b);
/** Free it; what was not published is undone. */
void batch_destroy(struct control *c, struct batch *b);
/* publish.c */
/** Plan all; what it takes is left in the entries. 0, or negative with err set. */
MUST_CHECK int batch_plan(struct control *c, struct batch *b, struct error *err);
/** Plan, persist, publish, install. 0, or negative with err set and nothing changed. -ECANCELED: flows have
 *  opened that a new VIP would take over: the requests are to be applied anew, to what is there now. */
MUST_CHECK int control_publish(struct control *c, struct batch *b, struct error *err);

/* install.c */
/** The batch was published: its versions are the VIPs' own now. */
void batch_install(struct control *c, struct batch *b);
/** What the plans said of each flow is so now; breathes. */
void batch_install_flags(struct control *c, const struct batch *b);

/* commit.c */
/** Write the batch's next versions in one transaction and wait for it. 0, or negative with err set. */
MUST_CHECK int commit_batch(struct control *c, const struct batch *b, struct error *err);
/** Write the installed versions that the publish gave exact entries: they must be on disk before anyone
 *  is told of it. A failure is logged; the next publish repeats it. */
void commit_late(struct control *c, struct batch *b);

/* change_apply.c */
#define OVERLAP_DETAIL                                                                             \
	"connections of an overlapping VIP could move (force=true does it all the same)"
/** Refuse the request, or an edit of it, with one sentence; of several edits' the first stays. */
void request_refuse(struct control_request *r, enum control_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void edit_refuse(struct change *x, enum control_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/** Refuse it because there would be more than a documented limit (GET /v1/limits) allows. */
void edit_refuse_limit(struct change *x, const char *limit, unsigned most);
/** Faults of this edit were found. */
bool edit_is_faulty(const struct change *x);
/** A change of the VIP waits for the end of the start-up hold: refused. */
bool edit_is_held(struct change *x, const struct vip_runtime *v);
/** Tell what an edit has done. */
void edit_tell(const struct change *x, const struct control_seen *seen);
/** True if the request must wait for the next batch. */
bool change_must_wait(struct control *c, struct batch *b, const struct control_request *r);
/** True if it needs a batch of its own. */
static inline bool change_stands_alone(const struct control_request *r)
{
	return r->transaction && (r->transaction->several || r->transaction->dry_run);
}
/** Check it and edit the batch (status OK or CREATED), or refuse it: then, if it stands alone, what it left
 *  in the batch is to be thrown away. */
void change_apply(struct control *c, struct batch *b, struct control_request *r);

/** An edit is looked at: faults that are found from now on are its own. */
void change_begin_edit(struct change *x, const struct control_edit *e);

static inline bool edit_is_one_of_several(const struct change *x)
{
	return x->r->transaction && x->r->transaction->several;
}

/* change_room.c */
/** There may be one more. Of several edits that is asked when all are applied. */
bool change_has_room_for_vip(const struct change *x);
bool change_has_room_for_dip(const struct change *x);
/** What there will be is within the limits. */
bool batch_fits(const struct control *c, const struct batch *b);
/** Refuse those of several edits that make more than there may be. */
void change_check_room(struct change *x);

/* change_vip.c, change_dip.c */
/** v: the VIP, NULL if there is none of this id. */
void change_apply_vip(struct change *x, struct vip_runtime *v);
void change_apply_dip(struct change *x, struct vip_runtime *v);

/* change_answer.c */
static inline bool change_accepted(const struct control_request *r)
{
	return r->status <= CONTROL_ACCEPTED;
}
void change_answer_failure(struct control_request *r, int rc, const struct error *err);
/** b: was published, if it held anything. False if the request has changed nothing. */
bool change_answer_success(struct control *c, const struct batch *b, struct control_request *r);

/* change_plan.c */
/** Plan the batch and tell what would come of it. */
void change_answer_plan(struct control *c, struct batch *b, struct control_request *r);

/* transaction.c */
void control_view_end(struct control_view *view);

/* change.c */
/** Take all waiting changes, publish them together, answer them. False if none waits. */
bool control_run_changes(struct control *c);

/* read.c */
void control_fill_vip_info(struct control *c, struct vip_runtime *v, struct vip_info *out);
void control_fill_dip_info(struct control *c, struct vip_runtime *v, const struct dip_version *d,
			   struct dip_info *out);

/* progress.c */
/** How far the drain of a VIP or DIP has come (which are `deleting`). */
void control_vip_progress(struct control *c, struct vip_runtime *v, struct drain_info *out);
void control_dip_progress(struct control *c, struct vip_runtime *v, const struct dip_version *d,
			  struct drain_info *out);

/* audit.c */
/** Go on with the audit under way, or begin one that is asked for. False if there is none. */
bool control_run_audit(struct control *c);
/** Under the mutex: answer all that wait. */
void control_refuse_audits(struct control *c);

/* boot.c */
/** Desired state and flows from database and state file, planned, committed and set in the workers. */
MUST_CHECK int control_boot(struct control *c, struct persist_state *boot, struct error *err);
/** The hold is over: whatever speaks is known now, also to the next process. */
void control_end_hold(struct control *c);

/* agents.c */
/** Take over the loaded agents / forget all. */
MUST_CHECK int agents_init(struct agents *a, const struct persist_state *boot);
void agents_destroy(struct agents *a);
/** The agent with its VIP and DIP; NULL: there is none (one whose DIP is gone is forgotten). */
struct agent *agents_find(struct control *c, const char *id, struct vip_runtime **v,
			  const struct dip_version **d);

/** True if an agent claims the flow for its DIP and no publish has placed it there yet: until then
 *  packets go where the hash says, which is no violation. */
static inline bool flow_claim_waits(const struct control *c, uint32_t slot)
{
	return (flow_meta_get(&c->flows.slots[slot]).flags & FLOW_CLAIMED) &&
	       !(flow_table_ref(&c->flows, slot)->flags & REF_PINNED);
}

/* agents_report.c */
/** After a full report: end the flows that its backend does not have, some at a time. */
void control_agents_sweep(struct control *c);

/* control.c */
/** End the control thread's sleep. Thread: any. */
void control_wake(struct control *c);
/** Between the steps of long work: drain rings and answer reads. */
void control_breathe(struct control *c);
/** Run fn in the control thread and wait for it. Thread: any. */
void control_call(struct control *c, void (*fn)(struct control *c, void *arg), void *arg);
