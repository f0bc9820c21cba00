/* What the files of control share; nobody else includes it. Everything here belongs to the control
 * thread unless a comment says otherwise. */
#pragma once

#include <pthread.h>

#include "control/agents.h"
#include "control/change.h"

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

/** The interfaces by their codes in steer's marks. */
struct host_codes {
	int ifindexes[STEER_STACKED_MAX]; /* 0 = free */
	unsigned last;			  /* code that was taken last */
	bool changed;			  /* steer is to be told */
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
	struct host_codes host_codes;
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

/* Walk over all VIPs in the order of their slots, as far as there are any: {0} to begin with; NULL
 * after the last one. None may come or go meanwhile. */
struct vip_walk {
	unsigned slot; /* the next one */
	unsigned n;    /* VIPs that were met */
};

static inline struct vip_runtime *vip_walk_next(const struct control *c, struct vip_walk *w)
{
	struct vip_runtime *v = NULL;

	while (!v && w->n < c->n_vips)
		v = c->vips[w->slot++];
	w->n += v != NULL;
	return v;
}

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
/** Bit i: packets that leave by this hop may do so by interface i of io/port.h. 0: by none that is
 *  served. */
uint32_t control_ports(const struct control *c, const struct next_hop *hop);
/** Fill the next-hop members of a view's DIP. */
void control_fill_hop(struct control *c, const struct dip_version *d, struct dip_view *view);
/** Put changed next hops into the published views, with the workers parked. */
void control_refresh_hops(struct control *c);

/* host_links.c */
/** Have the workers know what stands on the served interfaces, as the kernel has it now. While they are
 *  parked. */
void host_links_fill(struct control *c);
/** Tell steer what has changed in it. */
void host_links_steer(struct control *c);

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
