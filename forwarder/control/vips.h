/* VIPs as control has them: versions of their desired state, and what lives as long as they do. For
 * control's own files; everything here belongs to the control thread. */
#pragma once

#include "control/control.h"
#include "control/flows.h"

struct batch;

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
	/* a dry run's: an override in the place of a DIP's own (uid 0: of none) */
	uint64_t supposed_uid;
	enum health_override supposed;
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
	uint64_t flows_opened;
};

/** What lives as long as a DIP index is in use, by index. */
struct dip_runtime {
	bool used;          /* some published or planned version names the index */
	uint64_t free_at_ms; /* a removed DIP's index may be given out again from then on */
	uint32_t counter;
	struct dip_traffic base;    /* of the counter, when the DIP took it */
	struct dip_traffic carried; /* by earlier DIPs of its id */
	uint64_t flows_opened;      /* on it, since it took the index */
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

/** Published VIPs and those of the batch at hand. (vip_index.c) */
struct vip_index {
	uint64_t seed, secret;
	struct vip_runtime *by_id[VIPS_MAX], *by_match[VIPS_MAX], *by_uid[VIPS_MAX]; /* chains */
	struct vip_runtime *wide; /* chain of those that are more than one address, or a range of ports */
	unsigned n_wide;
	unsigned n_free_slots;
	uint16_t free_slots[VIP_SLOTS]; /* stack */
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

/* retired.c */
/** What a DIP of this id that goes has carried, earlier ones of its id included / what a new one goes on
 *  from. */
void retired_keep(struct vip_runtime *v, const char *id, const struct dip_traffic *t);
void retired_recall(const struct vip_runtime *v, const char *id, struct dip_runtime *d);

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
