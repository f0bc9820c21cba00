/* A batch: versions of VIPs that are edited, planned, committed and published together, or thrown
 * away together. */
#include <errno.h>
#include <stdlib.h>

#include "control/internal.h"

static struct batch_vip *batch_append(struct batch *b, struct vip_runtime *v)
{
	if (b->n == b->cap) {
		unsigned cap = b->cap ? b->cap * 2 : 8;
		struct batch_vip *grown = realloc(b->vips, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		b->vips = grown;
		b->cap = cap;
	}
	struct vip_version *next = vip_version_copy(v->now);
	if (!next)
		return NULL;
	v->at = b->n;
	struct batch_vip *e = &b->vips[b->n++];
	*e = (struct batch_vip){.rt = v, .next = next, .created = !v->now, .dry = b->dry};
	memcpy(e->id, next->conf.id, sizeof(e->id));
	return e;
}

struct batch_vip *batch_get(struct batch *b, struct vip_runtime *v)
{
	struct batch_vip *e = batch_entry(b, v);

	return e ? e : batch_append(b, v);
}

const struct vip_version *batch_version_of(const struct batch *b, const struct vip_runtime *v)
{
	const struct batch_vip *e = batch_entry(b, v);

	return e ? e->next : v->now;
}

/* --- DIPs that come and go ----------------------------------------------------------------- */

static void watch(struct control *c, const struct batch_vip *b, const struct ip_addr *a)
{
	if (!b->dry)
		c->conf.next_hops.watch(c->conf.next_hops.ctx, a);
}

static void forget_added(struct control *c, const struct batch_vip *b, const struct dip_version *d)
{
	if (!b->dry)
		c->conf.next_hops.unwatch(c->conf.next_hops.ctx, &d->conf.address);
	vip_runtime_release_index(c, b->rt, d, false);
}

int batch_remove_dip(struct control *c, struct batch_vip *b, struct dip_version *d, bool cut)
{
	for (unsigned i = 0; i < b->n_added; i++) {
		if (b->added[i] != d->uid)
			continue;
		/* It came with this very batch: nobody ever sees it. */
		forget_added(c, b, d);
		b->added[i] = b->added[--b->n_added];
		vip_version_remove_dip(b->next, d);
		return 0;
	}
	struct gone_dip *grown = realloc(b->gone, (b->n_gone + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	b->gone = grown;
	b->gone[b->n_gone++] = (struct gone_dip){.d = *d, .cut = cut};
	vip_version_remove_dip(b->next, d);
	return 0;
}

int batch_add_dip(struct control *c, struct batch_vip *b, struct dip_version *d)
{
	uint64_t *grown = realloc(b->added, (b->n_added + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	b->added = grown;
	uint16_t want = FAULT(reuse_leaving_index) && b->n_gone ? b->gone[0].d.index : 0;
	int rc = vip_runtime_take_index(c, b->rt, want, d);
	if (rc)
		return rc;
	if (!vip_version_add_dip(b->next, d)) {
		vip_runtime_release_index(c, b->rt, d, false);
		return -ENOMEM;
	}
	b->added[b->n_added++] = d->uid;
	watch(c, b, &d->conf.address);
	return 0;
}

static const struct dip_version *find_uid(const struct batch_vip *b, uint64_t uid)
{
	for (unsigned i = 0; i < b->next->n_dips; i++)
		if (b->next->dips[i].uid == uid)
			return &b->next->dips[i];
	return NULL;
}

/* --- undoing ------------------------------------------------------------------------------- */

/* next == NULL: the VIP was installed by the publish. */
static void batch_vip_undo(struct control *c, struct batch_vip *b)
{
	for (unsigned i = 0; b->next && i < b->n_added; i++)
		forget_added(c, b, find_uid(b, b->added[i]));
	if (b->next) {
		flow_set_unwatch(&c->flows, &b->rt->flows);
		vip_version_free(b->next);
		if (b->created)
			vip_runtime_free(c, b->rt);
	}
	free(b->added);
	free(b->gone);
	free(b->taken);
	end_set_free(&b->addresses);
}

typedef bool (*entry_fn)(const struct batch_vip *e);

static void drop_all(struct control *c, struct batch *b, entry_fn goes)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < b->n; i++) {
		if (goes(&b->vips[i])) {
			batch_vip_undo(c, &b->vips[i]);
			continue;
		}
		b->vips[i].rt->at = kept;
		b->vips[kept++] = b->vips[i];
	}
	b->n = kept;
}

void batch_drop(struct control *c, struct batch *b, struct batch_vip *e)
{
	batch_vip_undo(c, e);
	*e = b->vips[--b->n];
	if (e != &b->vips[b->n])
		e->rt->at = (unsigned)(e - b->vips);
}

static bool came_and_went(const struct batch_vip *e)
{
	return e->created && e->remove;
}

void batch_drop_passing(struct control *c, struct batch *b)
{
	drop_all(c, b, came_and_went);
}

/* A DIP that was made again under its old name has another uid. */
static bool asks_for_what_is(const struct batch_vip *e)
{
	const struct vip_version *now = e->rt->now, *next = e->next;

	if (e->created || e->remove || e->n_added || e->n_gone || now->deleting != next->deleting ||
	    now->n_dips != next->n_dips || !vip_conf_equal(&now->conf, &next->conf))
		return false;
	for (unsigned i = 0; i < now->n_dips; i++) {
		const struct dip_version *x = &now->dips[i], *y = &next->dips[i];
		if (x->uid != y->uid || x->deleting != y->deleting ||
		    !dip_conf_equal(&x->conf, &y->conf))
			return false;
	}
	return true;
}

void batch_drop_unchanged(struct control *c, struct batch *b)
{
	drop_all(c, b, asks_for_what_is);
}

void batch_destroy(struct control *c, struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++)
		batch_vip_undo(c, &b->vips[i]);
	free(b->vips);
	free(b->log);
	end_set_free(&b->back_ends);
	*b = (struct batch){.dry = false};
}
