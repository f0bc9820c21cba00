/* What requests ask for, checked and put into a batch. Each edit is checked against what the ones
 * before it will have made. Nothing of the published state changes here.
 *
 * Why a request may have to wait for the next batch. What leaves with a batch is given up, or kept
 * after all, only at the swap, when it is certain whether a flow has opened on it meanwhile. A
 * request that builds on its absence, in the same batch, could then not be answered truly. The same
 * is so the other way round: what one request has made must be there when it is answered, so
 * another one must not take it away in the same batch. Within one transaction neither is a
 * question: all its edits are answered together; a DELETE without force only begins a drain, which
 * later edits see and may end, and whether what drains can leave at once is looked at after the
 * last edit; a DELETE with force cuts whatever may open until the swap. A DIP that is made again
 * under the same name is another one, with another index: the old index leaves with the publish. */
#include <search.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "control/internal.h"

#define EDITS_AT_ONCE SIM_SIZE(256u, 1u) /* between two breaths */

/* --- refusing ------------------------------------------------------------------------------ */

static void refuse(struct control_request *r, enum control_status status, const char *fmt,
		   va_list ap) __attribute__((format(printf, 3, 0)));

static void refuse(struct control_request *r, enum control_status status, const char *fmt,
		   va_list ap)
{
	r->status = status;
	vsnprintf(r->detail, sizeof(r->detail), fmt, ap);
}

void request_refuse(struct control_request *r, enum control_status status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(r, status, fmt, ap);
	va_end(ap);
}

bool edit_is_faulty(const struct change *x)
{
	return field_errors_count(&x->r->errors) != x->n_faults;
}

/* Of several edits each one that is refused is named. */
static void name_edit(struct change *x, enum control_status status, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static void name_edit(struct change *x, enum control_status status, const char *fmt, va_list ap)
{
	static const char *const codes[] = {
		[CONTROL_NOT_FOUND] = "not_found",
		[CONTROL_CONFLICT] = "conflict",
		[CONTROL_INVALID] = "invalid",
		[CONTROL_UNAVAILABLE] = "unavailable",
		[CONTROL_PRECONDITION] = "precondition",
		[CONTROL_NO_STORAGE] = "no_storage",
		[CONTROL_FAILED] = "failed",
	};
	char detail[sizeof(x->r->detail)];

	vsnprintf(detail, sizeof(detail), fmt, ap);
	field_errors_add(&x->r->errors, "", codes[status], "%s", detail);
}

void edit_refuse(struct change *x, enum control_status status, const char *fmt, ...)
{
	va_list ap;

	x->status = status;
	if (edit_is_one_of_several(x) && !edit_is_faulty(x)) {
		va_start(ap, fmt);
		name_edit(x, status, fmt, ap);
		va_end(ap);
	}
	if (!change_accepted(x->r))
		return;
	va_start(ap, fmt);
	refuse(x->r, status, fmt, ap);
	va_end(ap);
}

void edit_refuse_limit(struct change *x, const char *limit, unsigned most)
{
	field_errors_add(&x->r->errors, "", "limit", "%s: %u at the most", limit, most);
	edit_refuse(x, CONTROL_INVALID, "the limit %s is reached: %u at the most", limit, most);
}

bool edit_is_held(struct change *x, const struct vip_runtime *v)
{
	uint64_t now = clock_now_ms();

	if (!v->held || x->r->override_hold || now >= x->c->hold_until_ms)
		return false;
	edit_refuse(x, CONTROL_UNAVAILABLE,
		    "connections are being learned again after a start without known flows; a "
		    "change now could move them (override_hold=true does it all the same)");
	x->r->retry_after_s = (uint32_t)((x->c->hold_until_ms - now + 999) / 1000);
	return true;
}

void edit_tell(const struct change *x, const struct control_seen *seen)
{
	const struct control_transaction *t = x->r->transaction;

	if (t && t->edited)
		t->edited(t->ctx, seen);
}

/* --- waiting ------------------------------------------------------------------------------- */

bool change_must_wait(struct control *c, struct batch *b, const struct control_request *r)
{
	const struct vip_runtime *v = vip_index_by_id(c, b, r->vip);
	bool deletes = r->op == OP_VIP_DELETE || r->op == OP_DIP_DELETE;

	for (unsigned i = 0; i < b->n && !FAULT(reuse_leaving_index); i++) {
		const struct batch_vip *e = &b->vips[i];
		bool same = e->rt == v || strcmp(e->id, r->vip) == 0;
		if (same && (deletes || e->remove || e->n_gone))
			return true;
		/* Its id, or what it matched, may be wanted again. */
		if (e->remove && r->op == OP_VIP_PUT)
			return true;
	}
	return false;
}

/* --- one request --------------------------------------------------------------------------- */

static int order_of_ids(const void *x, const void *y)
{
	return strcmp(x, y);
}

/* An edit of a VIP whose creation was refused, or of its DIPs, tells nothing new. */
static bool follows_from_refusal(const struct change *x)
{
	return x->refused && tfind(x->e->vip, &x->refused, order_of_ids) != NULL;
}

static void keep_refused(struct change *x)
{
	if (edit_is_one_of_several(x) && x->e->op == OP_VIP_PUT && x->status > CONTROL_ACCEPTED)
		(void)tsearch(x->e->vip, &x->refused, order_of_ids); /* no memory: more is told */
}

static void keep_nothing(void *id)
{
	(void)id; /* the edit's */
}

void change_begin_edit(struct change *x, const struct control_edit *e)
{
	x->e = e;
	x->n_faults = field_errors_count(&x->r->errors);
	x->status = CONTROL_OK;
	memcpy(x->r->errors.prefix, e->pointer, sizeof(e->pointer));
}

static enum control_status apply_edit(struct change *x)
{
	struct vip_runtime *v = vip_index_by_id(x->c, x->b, x->e->vip);

	if (!v && x->e->op != OP_VIP_PUT) {
		if (follows_from_refusal(x))
			return CONTROL_NOT_FOUND;
		edit_refuse(x, CONTROL_NOT_FOUND, "there is no VIP \"%s\"", x->e->vip);
	} else if (v && edit_is_held(x, v)) {
		return x->status;
	} else if (control_op_is_dip(x->e->op)) {
		change_apply_dip(x, v);
	} else {
		change_apply_vip(x, v);
	}
	keep_refused(x);
	return x->status;
}

static void check_ids(struct change *x)
{
	struct control_transaction *t = x->r->transaction;

	for (unsigned i = 0; i < t->n_edits && change_accepted(x->r); i++) {
		x->e = &t->edits[i];
		memcpy(x->r->errors.prefix, x->e->pointer, sizeof(x->e->pointer));
		x->n_faults = field_errors_count(&x->r->errors);
		quic_ids_check_edit(x);
		if (i % EDITS_AT_ONCE == EDITS_AT_ONCE - 1)
			control_breathe(x->c);
	}
}

static void apply_several(struct change *x)
{
	struct control_transaction *t = x->r->transaction;

	for (unsigned i = 0; i < t->n_edits; i++) {
		change_begin_edit(x, &t->edits[i]);
		t->edits[i].status = apply_edit(x);
		if (i % EDITS_AT_ONCE == EDITS_AT_ONCE - 1)
			control_breathe(x->c);
	}
	check_ids(x);
	tdestroy(x->refused, keep_nothing);
	if (change_accepted(x->r)) {
		for (unsigned i = 0; i < x->b->n; i++)
			control_take_due(x->c, &x->b->vips[i], clock_now_ms());
		batch_drop_passing(x->c, x->b);
		change_check_room(x);
	}
	x->r->errors.prefix[0] = '\0';
}

static void apply_own(struct change *x)
{
	const struct control_edit own = {.op = x->r->op,
					 .force = x->r->force,
					 .vip = x->r->vip,
					 .dip = x->r->dip,
					 .vip_edit = &x->r->vip_edit,
					 .dip_edit = &x->r->dip_edit};

	change_begin_edit(x, &own);
	enum control_status status = apply_edit(x);
	x->e = NULL;
	if (!change_accepted(x->r))
		return;
	x->r->status = status;
	struct vip_runtime *v = vip_index_by_id(x->c, x->b, x->r->vip);
	struct batch_vip *e = v ? batch_entry(x->b, v) : NULL;
	if (e)
		control_take_due(x->c, e, clock_now_ms());
}

static bool prepare(struct control *c, struct batch *b, struct control_request *r)
{
	struct control_transaction *t = r->transaction;
	struct control_view view = {.c = c, .b = b};

	if (t && t->begin)
		t->begin(t->ctx);
	if (!t || !t->prepare)
		return true;
	r->status = t->prepare(t->ctx, &view, t);
	control_view_end(&view);
	return change_accepted(r);
}

void change_apply(struct control *c, struct batch *b, struct control_request *r)
{
	struct change x = {.c = c, .b = b, .r = r};

	r->status = CONTROL_OK;
	r->errors.n = r->errors.n_more = 0;
	r->errors.prefix[0] = '\0';
	r->detail[0] = '\0';
	if (!prepare(c, b, r))
		return;
	if (edit_is_one_of_several(&x))
		apply_several(&x);
	else
		apply_own(&x);
}
