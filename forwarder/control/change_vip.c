/* Edits of VIPs. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "control/internal.h"

#define PLAIN_MAX 6 /* two ports, three protocols */

/* --- what a VIP takes from others ---------------------------------------------------------- */

static bool takes_over(const struct vip_match *m, const struct vip_match *from)
{
	return vip_match_overlaps(m, from) && vip_match_order(m, from) < 0;
}

static void tell_duplicate(struct change *x, const struct vip_version *other)
{
	field_errors_add(&x->r->errors, "/address", "duplicate",
			 "VIP \"%s\" has this address, port and protocol%s", other->conf.id,
			 other->deleting ? " while it drains" : "");
	edit_refuse(x, CONTROL_CONFLICT, "another VIP has this address, port and protocol");
}

/* Packets of v's connections would be another VIP's. */
static bool may_not_take(struct change *x, struct vip_runtime *v)
{
	if (edit_is_held(x, v))
		return true;
	if (v->flows.n == 0)
		return false;
	field_errors_add(&x->r->errors, "/address", "overlap",
			 "VIP \"%s\" overlaps and has %u known flows", v->id, v->flows.n);
	edit_refuse(
		x, CONTROL_CONFLICT,
		"connections of an overlapping VIP could move (force=true does it all the same)");
	return true;
}

/* The VIPs that one with match m takes packets from, as the batch will leave them, malloc; or NULL.
 * Of one address and one port, or any, what is less specific than m and overlaps it can be of few
 * matches only. */
static struct vip_runtime **find_wider(const struct change *x, const struct vip_match *m,
				       unsigned *n)
{
	static const enum vip_protocol protocols[] = {VIP_TCP, VIP_UDP, VIP_ANY};
	const struct vip_index *index = &x->c->index;
	struct vip_runtime **out = calloc(PLAIN_MAX + index->n_wide, sizeof(struct vip_runtime *));

	*n = 0;
	for (unsigned i = 0; out && i < PLAIN_MAX; i++) {
		struct vip_match from = {.address = m->address,
					 .port = i < ARRAY_LEN(protocols) ? 0 : m->port,
					 .protocol = protocols[i % ARRAY_LEN(protocols)]};
		if (takes_over(m, &from))
			out[*n] = vip_index_by_match(x->c, x->b, &from);
		*n += out[*n] != NULL;
	}
	for (struct vip_runtime *v = index->wide; out && v; v = v->next_wide)
		if (vip_index_has(x->b, v) && takes_over(m, &v->match))
			out[(*n)++] = v;
	return out;
}

/* Another VIP with the same match, or one whose flows the new one would take over. */
static bool vip_collides(struct change *x, const struct vip_conf *conf)
{
	struct vip_runtime *same = vip_index_by_match(x->c, x->b, &conf->match);
	bool collides = false;
	unsigned n;

	if (same) {
		tell_duplicate(x, batch_version_of(x->b, same));
		return true;
	}
	if (x->e->force)
		return false;
	struct vip_runtime **wider = find_wider(x, &conf->match, &n);
	if (!wider) {
		edit_refuse(x, CONTROL_FAILED, "out of memory");
		return true;
	}
	for (unsigned i = 0; i < n && !collides; i++)
		collides = may_not_take(x, wider[i]);
	free(wider);
	return collides;
}

/* Flows may open on the VIPs that a new one takes packets from until the very swap: remember them
 * for the publish. */
static int note_taken(const struct change *x, struct batch_vip *e, const struct vip_match *m)
{
	unsigned n;

	e->taken = find_wider(x, m, &n);
	if (!e->taken)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		if (e->taken[i]->now)
			e->taken[e->n_taken++] = e->taken[i];
	return 0;
}

/* --- the edits ----------------------------------------------------------------------------- */

static void vip_create(struct change *x)
{
	struct field_errors *errors = &x->r->errors;
	struct control *c = x->c;
	struct vip_conf conf;

	vip_conf_defaults(&conf);
	vip_conf_apply(&conf, x->e->vip_edit, true);
	snprintf(conf.id, sizeof(conf.id), "%s", x->e->vip);
	if (vip_edit_complete(x->e->vip_edit, errors))
		vip_conf_validate(&conf, errors);
	if (edit_is_faulty(x)) {
		edit_refuse(x, CONTROL_INVALID, "the VIP is not valid");
		return;
	}
	if (vip_collides(x, &conf))
		return;
	if (!change_has_room_for_vip(x)) {
		edit_refuse_limit(x, "vips", VIPS_MAX);
		return;
	}
	struct vip_runtime *v = vip_runtime_new(c, c->next_vip_uid, &conf, entropy_u64());
	struct batch_vip *e = v ? batch_get(x->b, v) : NULL;
	if (!e) {
		vip_runtime_free(c, v);
		edit_refuse(x, CONTROL_FAILED, "out of memory");
		return;
	}
	if (!vip_index_take_slot(&c->index, &v->slot)) {
		batch_drop(c, x->b, e);
		edit_refuse_limit(x, "vips", VIPS_MAX);
		return;
	}
	vip_index_add(&c->index, v);
	c->next_vip_uid++;
	v->pin_seed = entropy_u64();
	e->next->conf = conf;
	memcpy(e->id, conf.id, sizeof(e->id));
	if (!x->e->force && note_taken(x, e, &conf.match)) {
		batch_drop(c, x->b, e);
		edit_refuse(x, CONTROL_FAILED, "out of memory");
		return;
	}
	x->status = CONTROL_CREATED;
	edit_tell(x, &(struct control_seen){.vip = conf.id, .vip_after = &e->next->conf});
}

/* Every DIP must still fit. */
static void check_dips_fit(const struct vip_version *v, const struct vip_conf *conf,
			   struct field_errors *errors)
{
	for (unsigned i = 0; i < v->n_dips; i++) {
		struct field_errors own = {0};
		if (dip_conf_validate(&v->dips[i].conf, conf, &own))
			continue;
		field_errors_add(errors, "/mode", "conflict", "DIP \"%s\" does not fit: %s",
				 v->dips[i].conf.id, own.list[0].detail);
		return;
	}
}

/* The DIPs of a VIP come and go with it. */
static void tell_dips(const struct change *x, const struct vip_version *v, bool come, bool draining)
{
	for (unsigned i = 0; i < v->n_dips; i++) {
		const struct dip_version *d = &v->dips[i];
		if (!d->deleting)
			edit_tell(x, &(struct control_seen){.vip = v->conf.id,
							    .dip = d->conf.id,
							    .dip_before = come ? NULL : &d->conf,
							    .dip_after = come ? &d->conf : NULL,
							    .draining = draining});
	}
}

static void tell_edited(const struct change *x, const struct vip_version *next,
			const struct vip_conf *before)
{
	if (next->deleting || (before && vip_conf_equal(before, &next->conf)))
		return;
	edit_tell(x, &(struct control_seen){
			     .vip = next->conf.id, .vip_before = before, .vip_after = &next->conf});
	if (!before)
		tell_dips(x, next, true, false);
}

static void vip_edit(struct change *x, struct vip_runtime *v)
{
	const struct vip_version *old = batch_version_of(x->b, v);
	struct field_errors *errors = &x->r->errors;
	struct vip_conf before = old->conf, conf = old->conf;
	bool replace = x->e->op == OP_VIP_PUT;
	bool drained = old->deleting;

	vip_conf_apply(&conf, x->e->vip_edit, replace);
	memcpy(conf.id, before.id, sizeof(conf.id));
	if ((!replace || vip_edit_complete(x->e->vip_edit, errors)) &&
	    vip_conf_validate(&conf, errors))
		check_dips_fit(old, &conf, errors);
	if (edit_is_faulty(x)) {
		edit_refuse(x, CONTROL_INVALID, "the VIP is not valid");
		return;
	}
	if (!vip_conf_same_identity(&before, &conf, errors)) {
		edit_refuse(x, CONTROL_CONFLICT,
			    "a member that cannot change after creation differs");
		return;
	}
	for (unsigned i = 0; i < old->n_dips && before.mode != VIP_NAT; i++)
		if (ways_back_collide(x, &conf, &old->dips[i].conf))
			return;
	struct batch_vip *e = batch_get(x->b, v);
	if (!e) {
		edit_refuse(x, CONTROL_FAILED, "out of memory");
		return;
	}
	e->next->conf = conf;
	if (replace) {
		e->next->deleting = false;
		e->next->drain_deadline_ms = 0;
	}
	tell_edited(x, e->next, drained ? NULL : &before);
}

static void vip_delete(struct change *x, struct vip_runtime *v)
{
	struct batch_vip *e = batch_get(x->b, v);
	bool draining = !x->e->force && v->flows.n != 0;

	if (!e) {
		edit_refuse(x, CONTROL_FAILED, "out of memory");
		return;
	}
	quic_ids_listen(x->c, v, clock_now_ms());
	if (!e->next->deleting) {
		tell_dips(x, e->next, false, draining);
		edit_tell(x, &(struct control_seen){.vip = x->e->vip,
						    .vip_before = &e->next->conf,
						    .draining = draining});
		e->next->drain_deadline_ms =
			clock_now_ms() + e->next->conf.drain_timeout_s * 1000ull + 1;
		e->next->drain_shown_s = deadline_to_wall(e->next->drain_deadline_ms);
		v->oldest.known = false;
	}
	e->next->deleting = true;
	if (x->e->force && e->created)
		batch_drop(x->c, x->b, e);
	else if (x->e->force)
		e->remove = e->cut = true;
}

void change_apply_vip(struct change *x, struct vip_runtime *v)
{
	if (!v)
		vip_create(x);
	else if (x->e->op == OP_VIP_DELETE)
		vip_delete(x, v);
	else
		vip_edit(x, v);
}
