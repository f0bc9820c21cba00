/* What operators ask for: an edit is applied to the batch at hand, and answered when that is published.
 * For control's own files; everything here belongs to the control thread. */
#pragma once

#include "control/batch.h"

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
/** Plan the batch into t, which gets a plan for each VIP, and *sum. 0, or negative with err set. */
MUST_CHECK int change_plan(struct control *c, struct batch *b, struct control_transaction *t,
			   struct change_info *sum, struct error *err);

/* transaction.c */
void control_view_end(struct control_view *view);

/* change.c */
/** Take all waiting changes, publish them together, answer them. False if none waits. */
bool control_run_changes(struct control *c);
