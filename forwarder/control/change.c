/* Changes: all requests that wait become one batch, are planned, committed and published together,
 * and are answered with what came of it. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/announce.h"

#define BATCH_MAX 256

static bool accepted(const struct control_request *r)
{
	return r->status == CONTROL_OK || r->status == CONTROL_CREATED;
}

/* --- answers ------------------------------------------------------------------------------- */

static void answer_failure(struct control_request *r, int rc, const struct error *err)
{
	if (rc == -ENOSPC || rc == -EROFS)
		request_refuse(r, CONTROL_NO_STORAGE, "the change could not be stored: %s",
			       err->message);
	else
		request_refuse(r, CONTROL_FAILED, "the change failed: %s", err->message);
}

/* A created VIP that the publish had to leave out, or what was put into it. */
static bool answer_refused(const struct batch *b, struct control_request *r)
{
	for (unsigned i = 0; i < b->n; i++) {
		if (!b->vips[i].refused || strcmp(b->vips[i].id, r->vip) != 0)
			continue;
		if (r->op == OP_VIP_PUT || r->op == OP_VIP_PATCH)
			request_refuse(r, CONTROL_CONFLICT, OVERLAP_DETAIL);
		else
			request_refuse(r, CONTROL_NOT_FOUND, "there is no VIP \"%s\"", r->vip);
		return true;
	}
	return false;
}

static void answer_success(struct control *c, const struct batch *b, struct control_request *r)
{
	struct vip_runtime *v = control_find_vip(c, r->vip);

	r->change.generation = c->generation;
	r->change.pause_us = c->stats.last_pause_us;
	for (unsigned i = 0; i < b->n; i++) {
		const struct batch_vip *e = &b->vips[i];
		if (v ? e->rt != v : !e->remove)
			continue;
		r->change.flows_moved = e->n_moved;
		r->change.dcodes_moved = e->dcodes_moved;
		r->change.build_us = e->build_us;
	}
	if (!v)
		return;
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
}

static void log_change(struct control *c, const struct control_request *r)
{
	static const char *const verbs[] = {
		[OP_VIP_PUT] = "put", [OP_VIP_PATCH] = "patched", [OP_VIP_DELETE] = "deleted",
		[OP_DIP_PUT] = "put", [OP_DIP_PATCH] = "patched", [OP_DIP_DELETE] = "deleted",
	};

	announce_change(c, r);
	log_info("control", "vip %s%s%s: %s%s (generation %llu, %llu Dcodes and %llu flows moved)",
		 r->vip, r->dip[0] ? ": dip " : "", r->dip, verbs[r->op],
		 r->status == CONTROL_ACCEPTED ? ", draining" : "",
		 (unsigned long long)r->change.generation,
		 (unsigned long long)r->change.dcodes_moved,
		 (unsigned long long)r->change.flows_moved);
}

static struct queued_change *take_changes(struct control *c)
{
	pthread_mutex_lock(&c->mutex);
	struct queued_change *list = c->changes;
	c->changes = NULL;
	c->changes_end = &c->changes;
	pthread_mutex_unlock(&c->mutex);
	return list;
}

static void put_back(struct control *c, struct queued_change *list)
{
	struct queued_change **end = &list;

	while (*end)
		end = &(*end)->next;
	pthread_mutex_lock(&c->mutex);
	*end = c->changes;
	if (!c->changes)
		c->changes_end = end;
	c->changes = list;
	pthread_mutex_unlock(&c->mutex);
}

static void finish(struct control *c, struct queued_change *q)
{
	pthread_mutex_lock(&c->mutex);
	*q->done = true;
	pthread_cond_broadcast(&c->answered);
	pthread_mutex_unlock(&c->mutex);
	free(q);
}

bool control_run_changes(struct control *c)
{
	struct queued_change *list = take_changes(c);
	struct queued_change *batch[BATCH_MAX];
	struct batch b = {0};
	struct error err = {{0}};
	unsigned n = 0;

	if (!list)
		return false;
	while (list && n < BATCH_MAX && !change_must_wait(c, &b, list->request)) {
		batch[n] = list;
		list = list->next;
		change_apply(c, &b, batch[n++]->request);
	}
	if (list)
		put_back(c, list);
	control_collect_due(c, &b, clock_now_ms());
	int rc = control_publish(c, &b, &err);
	for (unsigned i = 0; i < n; i++) {
		if (accepted(batch[i]->request) && rc)
			answer_failure(batch[i]->request, rc, &err);
		else if (accepted(batch[i]->request) && !answer_refused(&b, batch[i]->request))
			answer_success(c, &b, batch[i]->request);
		if (accepted(batch[i]->request) || batch[i]->request->status == CONTROL_ACCEPTED)
			log_change(c, batch[i]->request);
		finish(c, batch[i]);
	}
	batch_destroy(c, &b);
	return true;
}
