/* What is published together: a batch of VIPs with their next versions, from plan to install. For
 * control's own files; everything here belongs to the control thread. */
#pragma once

#include "control/end_set.h"
#include "control/vips.h"

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
	bool addresses_known; /* those of the next version are in the set */
	struct end_set addresses;
};

/** Changes that are planned, committed and published together. */
struct batch {
	bool dry;
	bool unstored; /* published although it cannot be written */
	unsigned n, cap;
	struct batch_vip *vips;
	unsigned n_log;
	struct persist_log_entry *log; /* of the requests that are in it */
	unsigned n_back_searches;      /* after the first one those of all ways back are in the set */
	struct end_set back_ends;
};

/* plan.c */
MUST_CHECK int plan_vip(struct control *c, struct vip_runtime *v, struct vip_version *next);

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
