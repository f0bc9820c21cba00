/* What requests are answered. */
#include <errno.h>
#include <stdlib.h>

#include "control/internal.h"

void change_answer_failure(struct control_request *r, int rc, const struct error *err)
{
	if (rc == -ENOSPC || rc == -EROFS)
		request_refuse(r, CONTROL_NO_STORAGE, "the change could not be stored: %s",
			       err->message);
	else
		request_refuse(r, CONTROL_FAILED, "the change failed: %s", err->message);
}

static const struct batch_vip *find_entry(const struct batch *b, const char *id)
{
	const struct batch_vip *found = NULL;

	/* Of two of one name the later one: it was made after the other was cut. */
	for (unsigned i = 0; i < b->n; i++)
		if (strcmp(b->vips[i].id, id) == 0)
			found = &b->vips[i];
	return found;
}

static void add_entry(struct change_info *out, const struct batch_vip *e)
{
	out->flows_moved += e->n_moved;
	out->dcodes_moved += e->dcodes_moved;
	out->build_us += e->build_us;
}

/* --- one edit ------------------------------------------------------------------------------ */

static bool answer_own(struct control *c, const struct batch *b, struct control_request *r)
{
	struct vip_runtime *v = control_find_vip(c, r->vip);
	const struct batch_vip *e = find_entry(b, r->vip);

	if (e)
		add_entry(&r->change, e);
	if (!v)
		return e != NULL;
	r->change.flows_known = v->flows.n;
	r->change.flows_pinned = v->flows.n_pinned;
	control_fill_vip_info(c, v, &r->vip_info);
	const struct dip_version *d = vip_version_dip(v->now, r->dip);
	if (d)
		control_fill_dip_info(c, v, d, &r->dip_info);
	if (r->op == OP_VIP_DELETE) {
		r->status = CONTROL_ACCEPTED;
		r->flows_remaining = v->flows.n;
	} else if (r->op == OP_DIP_DELETE && d) {
		r->status = CONTROL_ACCEPTED;
		r->flows_remaining = v->flows.dip_flows[d->index];
	}
	return e != NULL;
}

/* --- several ------------------------------------------------------------------------------- */

static void *copy(const void *conf, size_t size)
{
	void *to = malloc(size);

	return to ? memcpy(to, conf, size) : NULL;
}

static void answer_vip_edit(struct control_edit *e, bool want_conf, const struct vip_runtime *v)
{
	e->deleting = v->now->deleting;
	if (want_conf)
		e->vip_conf = copy(&v->now->conf, sizeof(v->now->conf));
	if (e->op != OP_VIP_DELETE || !e->deleting)
		return;
	e->status = CONTROL_ACCEPTED;
	e->flows_remaining = v->flows.n;
}

static void answer_dip_edit(struct control_edit *e, bool want_conf, const struct vip_runtime *v)
{
	const struct dip_version *d = vip_version_dip(v->now, e->dip);

	if (!d)
		return;
	e->deleting = d->deleting;
	if (want_conf)
		e->dip_conf = copy(&d->conf, sizeof(d->conf));
	if (e->op != OP_DIP_DELETE || !e->deleting)
		return;
	e->status = CONTROL_ACCEPTED;
	e->flows_remaining = v->flows.dip_flows[d->index];
}

static void answer_several(struct control *c, const struct batch *b, struct control_request *r)
{
	struct control_transaction *t = r->transaction;

	for (unsigned i = 0; i < b->n; i++) {
		add_entry(&r->change, &b->vips[i]);
		if (b->vips[i].remove)
			continue;
		r->change.flows_known += b->vips[i].rt->flows.n;
		r->change.flows_pinned += b->vips[i].rt->flows.n_pinned;
	}
	for (unsigned i = 0; i < t->n_edits; i++) {
		const struct vip_runtime *v = control_find_vip(c, t->edits[i].vip);
		if (v && control_op_is_dip(t->edits[i].op))
			answer_dip_edit(&t->edits[i], t->want_conf, v);
		else if (v)
			answer_vip_edit(&t->edits[i], t->want_conf, v);
		if (i % 4096 == 4095)
			control_drain(c, UINT64_MAX);
	}
}

bool change_answer_success(struct control *c, const struct batch *b, struct control_request *r)
{
	r->change = (struct change_info){.generation = c->generation,
					 .pause_us = b->n ? c->stats.last_pause_us : 0};
	if (!r->transaction || !r->transaction->several)
		return answer_own(c, b, r);
	answer_several(c, b, r);
	return b->n != 0;
}
