/* Requests: each is checked against the state that the ones before it will have made, edits the
 * batch or is refused alone, and is answered after the batch was published. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/log.h"
#include "control/internal.h"

#define BATCH_MAX 256

/* Refuse with one sentence. */
static void refuse(struct control_request *r, enum control_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void refuse(struct control_request *r, enum control_status status, const char *fmt, ...)
{
	va_list ap;

	r->status = status;
	va_start(ap, fmt);
	vsnprintf(r->detail, sizeof(r->detail), fmt, ap);
	va_end(ap);
}

/* --- finding things in batch and published state ------------------------------------------- */

static struct vip_runtime *find_vip(struct control *c, struct batch *b, const char *id)
{
	for (unsigned i = 0; i < b->n; i++)
		if (b->vips[i].created && strcmp(b->vips[i].next->conf.id, id) == 0)
			return b->vips[i].rt;
	return control_find_vip(c, id);
}

static const struct vip_version *version_of(const struct batch *b, const struct vip_runtime *v)
{
	for (unsigned i = 0; i < b->n; i++)
		if (b->vips[i].rt == v)
			return b->vips[i].next;
	return v->now;
}

/* True if the request must wait for the next batch: it concerns what this batch takes away, or
 * would take away what it has just made. */
static bool must_wait(struct control *c, struct batch *b, const struct control_request *r)
{
	struct vip_runtime *v = find_vip(c, b, r->vip);
	bool deletes = r->op == OP_VIP_DELETE || r->op == OP_DIP_DELETE;

	for (unsigned i = 0; i < b->n && !FAULT(reuse_leaving_index); i++) {
		const struct batch_vip *e = &b->vips[i];
		if (e->rt == v && (deletes || e->remove || e->n_gone))
			return true;
	}
	return false;
}

static bool held(const struct control *c, const struct vip_runtime *v, struct control_request *r)
{
	uint64_t now = clock_now_ms();

	if (!v->held || r->override_hold || now >= c->hold_until_ms)
		return false;
	refuse(r, CONTROL_UNAVAILABLE,
	       "connections are being learned again after a start without known flows; a change "
	       "now "
	       "could move them (override_hold=true does it all the same)");
	r->retry_after_s = (uint32_t)((c->hold_until_ms - now + 999) / 1000);
	return true;
}

/* --- VIPs ---------------------------------------------------------------------------------- */

static int free_vip_slot(const struct control *c, const struct batch *b)
{
	for (int slot = 0; slot < VIPS_MAX; slot++) {
		bool taken = c->vips[slot] != NULL;
		for (unsigned i = 0; i < b->n; i++)
			taken |= b->vips[i].rt->slot == slot;
		if (!taken)
			return slot;
	}
	return -1;
}

/* How specific a match is: of two that a packet fits, the higher one takes it (snapshot_match). */
static int match_rank(const struct vip_match *m)
{
	return (m->port != 0) * 2 + (m->protocol != VIP_ANY);
}

/* Another VIP with the same match, or one whose flows the new one would take over. */
static bool vip_collides(struct control *c, struct batch *b, const struct vip_conf *conf,
			 struct control_request *r)
{
	for (unsigned i = 0; i < VIPS_MAX + b->n; i++) {
		struct vip_runtime *v = i < VIPS_MAX ? c->vips[i] : b->vips[i - VIPS_MAX].rt;
		if (!v || (i >= VIPS_MAX && !b->vips[i - VIPS_MAX].created))
			continue;
		const struct vip_version *other = version_of(b, v);
		if (vip_match_equal(&conf->match, &other->conf.match)) {
			field_errors_add(&r->errors, "/address", "duplicate",
					 "VIP \"%s\" has this address, port and protocol",
					 other->conf.id);
			refuse(r, CONTROL_CONFLICT,
			       "another VIP has this address, port and protocol");
			return true;
		}
		if (!r->force && v->flows.n &&
		    match_rank(&conf->match) > match_rank(&other->conf.match) &&
		    vip_match_overlaps(&conf->match, &other->conf.match)) {
			field_errors_add(&r->errors, "/address", "overlap",
					 "VIP \"%s\" overlaps and has %u known flows",
					 other->conf.id, v->flows.n);
			refuse(r, CONTROL_CONFLICT,
			       "connections of an overlapping VIP could move (force=true does it "
			       "all the same)");
			return true;
		}
	}
	return false;
}

static void vip_create(struct control *c, struct batch *b, struct control_request *r)
{
	struct vip_conf conf;

	vip_conf_defaults(&conf);
	vip_conf_apply(&conf, &r->vip_edit, true);
	snprintf(conf.id, sizeof(conf.id), "%s", r->vip);
	if (vip_edit_complete(&r->vip_edit, &r->errors))
		vip_conf_validate(&conf, &r->errors);
	if (r->errors.n) {
		refuse(r, CONTROL_INVALID, "the VIP is not valid");
		return;
	}
	if (vip_collides(c, b, &conf, r))
		return;
	int slot = free_vip_slot(c, b);
	if (slot < 0) {
		refuse(r, CONTROL_INVALID, "there are %d VIPs already, the most there can be",
		       VIPS_MAX);
		return;
	}
	struct vip_runtime *v = vip_runtime_new(c, c->next_vip_uid, (uint16_t)slot, entropy_u64());
	struct batch_vip *e = v ? batch_get(b, v) : NULL;
	if (!e) {
		vip_runtime_free(c, v);
		refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	c->next_vip_uid++;
	v->pin_seed = entropy_u64();
	e->next->conf = conf;
	r->status = CONTROL_CREATED;
}

/* Every DIP must still fit (mode ipip needs DIPs of the VIP's family). */
static bool dips_fit(const struct vip_version *v, const struct vip_conf *conf,
		     struct field_errors *errors)
{
	for (unsigned i = 0; i < v->n_dips; i++) {
		struct field_errors own = {0};
		if (dip_conf_validate(&v->dips[i].conf, conf, &own))
			continue;
		field_errors_add(errors, "/mode", "conflict", "DIP \"%s\" does not fit: %s",
				 v->dips[i].conf.id, own.list[0].detail);
		return false;
	}
	return true;
}

static void vip_edit(struct batch *b, struct vip_runtime *v, struct control_request *r)
{
	const struct vip_version *old = version_of(b, v);
	struct vip_conf conf = old->conf;
	bool replace = r->op == OP_VIP_PUT;

	vip_conf_apply(&conf, &r->vip_edit, replace);
	memcpy(conf.id, old->conf.id, sizeof(conf.id));
	if ((!replace || vip_edit_complete(&r->vip_edit, &r->errors)) &&
	    vip_conf_validate(&conf, &r->errors))
		dips_fit(old, &conf, &r->errors);
	if (r->errors.n) {
		refuse(r, CONTROL_INVALID, "the VIP is not valid");
		return;
	}
	if (!vip_conf_same_identity(&old->conf, &conf, &r->errors)) {
		refuse(r, CONTROL_CONFLICT, "a member that cannot change after creation differs");
		return;
	}
	struct batch_vip *e = batch_get(b, v);
	if (!e) {
		refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	e->next->conf = conf;
	if (replace) {
		e->next->deleting = false;
		e->next->drain_deadline_s = 0;
	}
	r->status = CONTROL_OK;
}

static void vip_delete(struct batch *b, struct vip_runtime *v, struct control_request *r)
{
	struct batch_vip *e = batch_get(b, v);

	if (!e) {
		refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	e->remove = r->force || v->flows.n == 0;
	e->cut = r->force;
	if (!e->next->deleting) {
		e->next->drain_deadline_s = clock_wall_s() + e->next->conf.drain_timeout_s;
		v->oldest.known = false;
	}
	e->next->deleting = true;
	r->status = CONTROL_OK;
}

/* --- DIPs ---------------------------------------------------------------------------------- */

static void dip_create(struct control *c, struct batch *b, struct vip_runtime *v,
		       struct control_request *r)
{
	const struct vip_version *old = version_of(b, v);
	struct dip_version d = {0};

	dip_conf_defaults(&d.conf);
	dip_conf_apply(&d.conf, &r->dip_edit, true);
	snprintf(d.conf.id, sizeof(d.conf.id), "%s", r->dip);
	if (dip_edit_complete(&r->dip_edit, &r->errors))
		dip_conf_validate(&d.conf, &old->conf, &r->errors);
	if (r->errors.n) {
		refuse(r, CONTROL_INVALID, "the DIP is not valid");
		return;
	}
	for (unsigned i = 0; i < old->n_dips; i++) {
		if (old->dips[i].deleting ||
		    !ip_addr_equal(&old->dips[i].conf.address, &d.conf.address))
			continue;
		field_errors_add(&r->errors, "/address", "duplicate",
				 "DIP \"%s\" of this VIP has this address", old->dips[i].conf.id);
		refuse(r, CONTROL_CONFLICT, "another DIP of this VIP has this address");
		return;
	}
	if (old->n_dips >= DIPS_PER_VIP_MAX) {
		refuse(r, CONTROL_INVALID, "the VIP has %d DIPs, the most there can be",
		       DIPS_PER_VIP_MAX);
		return;
	}
	struct batch_vip *e = batch_get(b, v);
	d.uid = c->next_dip_uid;
	int rc = e ? batch_add_dip(c, e, &d) : -ENOMEM;
	if (rc == -ENOSPC) {
		refuse(r, CONTROL_UNAVAILABLE, "no DIP index is free now; removed ones are soon");
		r->retry_after_s = 6;
	} else if (rc) {
		refuse(r, CONTROL_FAILED, "out of memory");
	} else {
		c->next_dip_uid++;
		r->status = CONTROL_CREATED;
	}
}

static void dip_edit(struct batch *b, struct vip_runtime *v, struct control_request *r)
{
	const struct vip_version *version = version_of(b, v);
	const struct dip_version *old = vip_version_dip(version, r->dip);
	struct dip_conf conf = old->conf;
	bool replace = r->op == OP_DIP_PUT;

	dip_conf_apply(&conf, &r->dip_edit, replace);
	memcpy(conf.id, old->conf.id, sizeof(conf.id));
	if (!replace || dip_edit_complete(&r->dip_edit, &r->errors))
		dip_conf_validate(&conf, &version->conf, &r->errors);
	if (r->errors.n) {
		refuse(r, CONTROL_INVALID, "the DIP is not valid");
		return;
	}
	if (!dip_conf_same_identity(&old->conf, &conf, &r->errors)) {
		refuse(r, CONTROL_CONFLICT, "a member that cannot change after creation differs");
		return;
	}
	struct batch_vip *e = batch_get(b, v);
	if (!e) {
		refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	struct dip_version *d = vip_version_dip(e->next, r->dip);
	d->conf = conf;
	if (replace) {
		d->deleting = false;
		d->drain_deadline_s = 0;
	}
	r->status = CONTROL_OK;
}

static void dip_delete(struct batch *b, struct vip_runtime *v, struct control_request *r)
{
	struct batch_vip *e = batch_get(b, v);

	if (!e) {
		refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	struct dip_version *d = vip_version_dip(e->next, r->dip);
	if (!d->deleting) {
		d->drain_deadline_s = clock_wall_s() + e->next->conf.drain_timeout_s;
		v->dips[d->index].oldest.known = false;
	}
	d->deleting = true;
	r->status = CONTROL_OK;
	if ((r->force || v->flows.dip_flows[d->index] == 0) && batch_remove_dip(e, d, r->force))
		refuse(r, CONTROL_FAILED, "out of memory");
}

/* --- one request --------------------------------------------------------------------------- */

static void apply_dip_op(struct control *c, struct batch *b, struct vip_runtime *v,
			 struct control_request *r)
{
	bool exists = vip_version_dip(version_of(b, v), r->dip) != NULL;

	if (r->op == OP_DIP_PUT && !exists)
		dip_create(c, b, v, r);
	else if (!exists)
		refuse(r, CONTROL_NOT_FOUND, "VIP \"%s\" has no DIP \"%s\"", r->vip, r->dip);
	else if (r->op == OP_DIP_DELETE)
		dip_delete(b, v, r);
	else
		dip_edit(b, v, r);
}

static void apply(struct control *c, struct batch *b, struct control_request *r)
{
	struct vip_runtime *v = find_vip(c, b, r->vip);

	r->errors.n = 0;
	r->detail[0] = '\0';
	if (!v && r->op == OP_VIP_PUT)
		vip_create(c, b, r);
	else if (!v)
		refuse(r, CONTROL_NOT_FOUND, "there is no VIP \"%s\"", r->vip);
	else if (held(c, v, r))
		return;
	else if (r->op == OP_VIP_DELETE)
		vip_delete(b, v, r);
	else if (r->op == OP_VIP_PUT || r->op == OP_VIP_PATCH)
		vip_edit(b, v, r);
	else
		apply_dip_op(c, b, v, r);
}

static bool accepted(const struct control_request *r)
{
	return r->status == CONTROL_OK || r->status == CONTROL_CREATED;
}

/* --- answers ------------------------------------------------------------------------------- */

static void answer_failure(struct control_request *r, int rc, const struct error *err)
{
	if (rc == -ENOSPC || rc == -EROFS)
		refuse(r, CONTROL_NO_STORAGE, "the change could not be stored: %s", err->message);
	else
		refuse(r, CONTROL_FAILED, "the change failed: %s", err->message);
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

static void log_change(const struct control_request *r)
{
	static const char *const verbs[] = {
		[OP_VIP_PUT] = "put", [OP_VIP_PATCH] = "patched", [OP_VIP_DELETE] = "deleted",
		[OP_DIP_PUT] = "put", [OP_DIP_PATCH] = "patched", [OP_DIP_DELETE] = "deleted",
	};

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
	while (list && n < BATCH_MAX && !must_wait(c, &b, list->request)) {
		batch[n] = list;
		list = list->next;
		apply(c, &b, batch[n++]->request);
	}
	if (list)
		put_back(c, list);
	control_collect_due(c, &b, clock_now_ms());
	int rc = control_publish(c, &b, &err);
	for (unsigned i = 0; i < n; i++) {
		if (accepted(batch[i]->request) && rc)
			answer_failure(batch[i]->request, rc, &err);
		else if (accepted(batch[i]->request))
			answer_success(c, &b, batch[i]->request);
		if (accepted(batch[i]->request) || batch[i]->request->status == CONTROL_ACCEPTED)
			log_change(batch[i]->request);
		finish(c, batch[i]);
	}
	batch_destroy(c, &b);
	return true;
}
