/* Requests: each is checked against the state that the ones before it will have made, edits the
 * batch or is refused alone, and is answered after the batch was published. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/log.h"
#include "control/internal.h"

void request_refuse(struct control_request *r, enum control_status status, const char *fmt, ...)
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
bool change_must_wait(struct control *c, struct batch *b, const struct control_request *r)
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
	request_refuse(
		r, CONTROL_UNAVAILABLE,
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
		for (unsigned i = 0; i < b->n; i++) {
			assert(b->vips[i].rt);
			taken |= b->vips[i].rt->slot == slot;
		}
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

static bool takes_over(const struct vip_match *m, const struct vip_match *from)
{
	return match_rank(m) > match_rank(from) && vip_match_overlaps(m, from);
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
			request_refuse(r, CONTROL_CONFLICT,
				       "another VIP has this address, port and protocol");
			return true;
		}
		if (r->force || !takes_over(&conf->match, &other->conf.match))
			continue;
		if (held(c, v, r))
			return true;
		if (v->flows.n) {
			field_errors_add(&r->errors, "/address", "overlap",
					 "VIP \"%s\" overlaps and has %u known flows",
					 other->conf.id, v->flows.n);
			request_refuse(r, CONTROL_CONFLICT, OVERLAP_DETAIL);
			return true;
		}
	}
	return false;
}

/* Flows may open on the VIPs that a new one takes packets from until the very swap: remember them
 * for the publish. */
static int note_taken(struct control *c, struct batch_vip *e, const struct vip_match *m)
{
	for (unsigned i = 0, left = c->n_vips; left; i++) {
		if (!c->vips[i])
			continue;
		left--;
		if (!takes_over(m, &c->vips[i]->now->conf.match))
			continue;
		struct vip_runtime **grown =
			realloc(e->taken, (e->n_taken + 1) * sizeof(struct vip_runtime *));
		if (!grown)
			return -ENOMEM;
		e->taken = grown;
		e->taken[e->n_taken++] = c->vips[i];
	}
	return 0;
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
		request_refuse(r, CONTROL_INVALID, "the VIP is not valid");
		return;
	}
	if (vip_collides(c, b, &conf, r))
		return;
	int slot = free_vip_slot(c, b);
	if (slot < 0) {
		request_refuse(r, CONTROL_INVALID,
			       "there are %d VIPs already, the most there can be", VIPS_MAX);
		return;
	}
	struct vip_runtime *v = vip_runtime_new(c, c->next_vip_uid, (uint16_t)slot, entropy_u64());
	struct batch_vip *e = v ? batch_get(b, v) : NULL;
	if (!e) {
		vip_runtime_free(c, v);
		request_refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	c->next_vip_uid++;
	v->pin_seed = entropy_u64();
	e->next->conf = conf;
	memcpy(e->id, conf.id, sizeof(e->id));
	r->status = CONTROL_CREATED;
	if (!r->force && note_taken(c, e, &conf.match)) {
		e->remove = true; /* it never was */
		request_refuse(r, CONTROL_FAILED, "out of memory");
	}
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
		request_refuse(r, CONTROL_INVALID, "the VIP is not valid");
		return;
	}
	if (!vip_conf_same_identity(&old->conf, &conf, &r->errors)) {
		request_refuse(r, CONTROL_CONFLICT,
			       "a member that cannot change after creation differs");
		return;
	}
	struct batch_vip *e = batch_get(b, v);
	if (!e) {
		request_refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	e->next->conf = conf;
	if (replace) {
		e->next->deleting = false;
		e->next->drain_deadline_ms = 0;
	}
	r->status = CONTROL_OK;
}

static void vip_delete(struct batch *b, struct vip_runtime *v, struct control_request *r)
{
	struct batch_vip *e = batch_get(b, v);

	if (!e) {
		request_refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	e->remove = r->force || v->flows.n == 0;
	e->cut = r->force;
	if (!e->next->deleting) {
		e->next->drain_deadline_ms =
			clock_now_ms() + e->next->conf.drain_timeout_s * 1000ull + 1;
		e->next->drain_shown_s = deadline_to_wall(e->next->drain_deadline_ms);
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
		request_refuse(r, CONTROL_INVALID, "the DIP is not valid");
		return;
	}
	for (unsigned i = 0; i < old->n_dips; i++) {
		if (old->dips[i].deleting ||
		    !ip_addr_equal(&old->dips[i].conf.address, &d.conf.address))
			continue;
		field_errors_add(&r->errors, "/address", "duplicate",
				 "DIP \"%s\" of this VIP has this address", old->dips[i].conf.id);
		request_refuse(r, CONTROL_CONFLICT, "another DIP of this VIP has this address");
		return;
	}
	if (old->n_dips >= DIPS_PER_VIP_MAX) {
		request_refuse(r, CONTROL_INVALID, "the VIP has %d DIPs, the most there can be",
			       DIPS_PER_VIP_MAX);
		return;
	}
	struct batch_vip *e = batch_get(b, v);
	d.uid = c->next_dip_uid;
	int rc = e ? batch_add_dip(c, e, &d) : -ENOMEM;
	if (rc == -ENOSPC) {
		request_refuse(r, CONTROL_UNAVAILABLE,
			       "no DIP index is free now; removed ones are soon");
		r->retry_after_s = 6;
	} else if (rc) {
		request_refuse(r, CONTROL_FAILED, "out of memory");
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
		request_refuse(r, CONTROL_INVALID, "the DIP is not valid");
		return;
	}
	if (!dip_conf_same_identity(&old->conf, &conf, &r->errors)) {
		request_refuse(r, CONTROL_CONFLICT,
			       "a member that cannot change after creation differs");
		return;
	}
	struct batch_vip *e = batch_get(b, v);
	if (!e) {
		request_refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	struct dip_version *d = vip_version_dip(e->next, r->dip);
	d->conf = conf;
	if (replace) {
		d->deleting = false;
		d->drain_deadline_ms = 0;
	}
	r->status = CONTROL_OK;
}

static void dip_delete(struct batch *b, struct vip_runtime *v, struct control_request *r)
{
	struct batch_vip *e = batch_get(b, v);

	if (!e) {
		request_refuse(r, CONTROL_FAILED, "out of memory");
		return;
	}
	struct dip_version *d = vip_version_dip(e->next, r->dip);
	if (!d->deleting) {
		d->drain_deadline_ms = clock_now_ms() + e->next->conf.drain_timeout_s * 1000ull + 1;
		d->drain_shown_s = deadline_to_wall(d->drain_deadline_ms);
		v->dips[d->index].oldest.known = false;
	}
	d->deleting = true;
	r->status = CONTROL_OK;
	if ((r->force || v->flows.dip_flows[d->index] == 0) && batch_remove_dip(e, d, r->force))
		request_refuse(r, CONTROL_FAILED, "out of memory");
}

/* --- one request --------------------------------------------------------------------------- */

static void apply_dip_op(struct control *c, struct batch *b, struct vip_runtime *v,
			 struct control_request *r)
{
	bool exists = vip_version_dip(version_of(b, v), r->dip) != NULL;

	if (r->op == OP_DIP_PUT && !exists)
		dip_create(c, b, v, r);
	else if (!exists)
		request_refuse(r, CONTROL_NOT_FOUND, "VIP \"%s\" has no DIP \"%s\"", r->vip,
			       r->dip);
	else if (r->op == OP_DIP_DELETE)
		dip_delete(b, v, r);
	else
		dip_edit(b, v, r);
}

void change_apply(struct control *c, struct batch *b, struct control_request *r)
{
	struct vip_runtime *v = find_vip(c, b, r->vip);

	r->errors.n = 0;
	r->detail[0] = '\0';
	if (!v && r->op == OP_VIP_PUT)
		vip_create(c, b, r);
	else if (!v)
		request_refuse(r, CONTROL_NOT_FOUND, "there is no VIP \"%s\"", r->vip);
	else if (held(c, v, r))
		return;
	else if (r->op == OP_VIP_DELETE)
		vip_delete(b, v, r);
	else if (r->op == OP_VIP_PUT || r->op == OP_VIP_PATCH)
		vip_edit(b, v, r);
	else
		apply_dip_op(c, b, v, r);
}
