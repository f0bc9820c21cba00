/* Edits of DIPs. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "control/internal.h"

/* What its VIP does not show is no news. */
static void tell(const struct change *x, const struct batch_vip *e, const struct dip_conf *before,
		 const struct dip_conf *after, bool draining)
{
	if (e->next->deleting || (before && after && dip_conf_equal(before, after)))
		return;
	if (before || after)
		edit_tell(x, &(struct control_seen){.vip = x->e->vip,
						    .dip = x->e->dip,
						    .dip_before = before,
						    .dip_after = after,
						    .draining = draining});
}

static bool has_address(const struct vip_version *v, const struct ip_addr *a, const char **id)
{
	for (unsigned i = 0; i < v->n_dips; i++) {
		if (v->dips[i].deleting || !ip_addr_equal(&v->dips[i].conf.address, a))
			continue;
		*id = v->dips[i].conf.id;
		return true;
	}
	return false;
}

/* Of the DIPs of a version that is being edited, one after the other: is this one's address new?
 * From then on it counts as used. */
static bool is_new_address(struct batch_vip *e, const struct ip_addr *a)
{
	struct end_key key = {.kind = END_ADDRESS};

	for (unsigned i = 0; i < e->next->n_dips && !e->addresses_known; i++) {
		key.address = e->next->dips[i].conf.address;
		end_set_add(&e->addresses, &key);
	}
	e->addresses_known = true;
	key.address = *a;
	if (end_set_may_have(&e->addresses, &key))
		return false;
	end_set_add(&e->addresses, &key);
	return true;
}

/* One that drains may have lent its address to another: it comes back only without that one. */
static bool address_is_taken(struct change *x, const struct vip_runtime *v,
			     const struct dip_conf *conf)
{
	struct batch_vip *e = batch_entry(x->b, v);
	const char *other;

	if (e && is_new_address(e, &conf->address))
		return false;
	if (!has_address(batch_version_of(x->b, v), &conf->address, &other))
		return false;
	field_errors_add(&x->r->errors, "/address", "duplicate",
			 "DIP \"%s\" of this VIP has this address", other);
	edit_refuse(x, CONTROL_CONFLICT, "another DIP of this VIP has this address");
	return true;
}

static bool may_create(struct change *x, const struct vip_runtime *rt, const struct dip_conf *conf)
{
	const struct vip_version *v = batch_version_of(x->b, rt);
	struct field_errors *errors = &x->r->errors;

	if (dip_edit_complete(x->e->dip_edit, errors))
		dip_conf_validate(conf, &v->conf, errors);
	if (edit_is_faulty(x)) {
		edit_refuse(x, CONTROL_INVALID, "the DIP is not valid");
	} else if (address_is_taken(x, rt, conf) || quic_ids_clash(x, v, conf) ||
		   ways_back_collide(x, &v->conf, conf)) {
		return false;
	} else if (v->n_dips >= DIPS_PER_VIP_MAX && !edit_is_one_of_several(x)) {
		edit_refuse_limit(x, "dips_per_vip", DIPS_PER_VIP_MAX);
	} else if (!change_has_room_for_dip(x)) {
		edit_refuse_limit(x, "dips", DIPS_MAX);
	} else {
		return true;
	}
	return false;
}

static void dip_create(struct change *x, struct vip_runtime *v)
{
	struct control *c = x->c;
	struct dip_version d = {0};

	dip_conf_defaults(&d.conf);
	dip_conf_apply(&d.conf, x->e->dip_edit, true);
	snprintf(d.conf.id, sizeof(d.conf.id), "%s", x->e->dip);
	if (!may_create(x, v, &d.conf))
		return;
	struct batch_vip *e = batch_get(x->b, v);
	d.uid = c->next_dip_uid;
	int rc = e ? batch_add_dip(c, e, &d) : -ENOMEM;
	if (rc == -ENOSPC) {
		edit_refuse(x, CONTROL_UNAVAILABLE,
			    "no DIP index is free now; removed ones are soon");
		x->r->retry_after_s = 6;
	} else if (rc) {
		edit_refuse(x, CONTROL_FAILED, "out of memory");
	} else {
		c->next_dip_uid++;
		x->status = CONTROL_CREATED;
		tell(x, e, NULL, &d.conf, false);
	}
}

static void dip_edit(struct change *x, struct vip_runtime *v)
{
	const struct vip_version *version = batch_version_of(x->b, v);
	const struct dip_version *old = vip_version_dip(version, x->e->dip);
	struct field_errors *errors = &x->r->errors;
	struct dip_conf before = old->conf, conf = old->conf;
	bool replace = x->e->op == OP_DIP_PUT;
	bool drained = old->deleting;

	dip_conf_apply(&conf, x->e->dip_edit, replace);
	memcpy(conf.id, before.id, sizeof(conf.id));
	if (!replace || dip_edit_complete(x->e->dip_edit, errors))
		dip_conf_validate(&conf, &version->conf, errors);
	if (edit_is_faulty(x)) {
		edit_refuse(x, CONTROL_INVALID, "the DIP is not valid");
		return;
	}
	if (!dip_conf_same_identity(&before, &conf, errors)) {
		edit_refuse(x, CONTROL_CONFLICT,
			    "a member that cannot change after creation differs");
		return;
	}
	if (replace && drained && address_is_taken(x, v, &conf))
		return;
	if (quic_ids_clash(x, version, &conf))
		return;
	struct batch_vip *e = batch_get(x->b, v);
	if (!e) {
		edit_refuse(x, CONTROL_FAILED, "out of memory");
		return;
	}
	struct dip_version *d = vip_version_dip(e->next, x->e->dip);
	d->conf = conf;
	if (replace) {
		d->deleting = false;
		d->drain_deadline_ms = 0;
	}
	tell(x, e, drained ? NULL : &before, d->deleting ? NULL : &conf, false);
}

static void dip_delete(struct change *x, struct vip_runtime *v)
{
	struct batch_vip *e = batch_get(x->b, v);

	if (!e) {
		edit_refuse(x, CONTROL_FAILED, "out of memory");
		return;
	}
	struct dip_version *d = vip_version_dip(e->next, x->e->dip);
	quic_ids_listen(x->c, v, clock_now_ms());
	if (!d->deleting) {
		tell(x, e, &d->conf, NULL, !x->e->force && v->flows.dip_flows[d->index] != 0);
		d->drain_deadline_ms = clock_now_ms() + e->next->conf.drain_timeout_s * 1000ull + 1;
		d->drain_shown_s = deadline_to_wall(d->drain_deadline_ms);
		v->dips[d->index].oldest.known = false;
	}
	d->deleting = true;
	if (x->e->force && batch_remove_dip(x->c, e, d, true))
		edit_refuse(x, CONTROL_FAILED, "out of memory");
}

void change_apply_dip(struct change *x, struct vip_runtime *v)
{
	bool exists = vip_version_dip(batch_version_of(x->b, v), x->e->dip) != NULL;

	if (x->e->op == OP_DIP_PUT && !exists)
		dip_create(x, v);
	else if (!exists)
		edit_refuse(x, CONTROL_NOT_FOUND, "VIP \"%s\" has no DIP \"%s\"", x->e->vip,
			    x->e->dip);
	else if (x->e->op == OP_DIP_DELETE)
		dip_delete(x, v);
	else
		dip_edit(x, v);
}
