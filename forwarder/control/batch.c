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
	b->vips[b->n] = (struct batch_vip){.rt = v, .next = next, .created = !v->now};
	return &b->vips[b->n++];
}

struct batch_vip *batch_get(struct batch *b, struct vip_runtime *v)
{
	for (unsigned i = 0; i < b->n; i++)
		if (b->vips[i].rt == v)
			return &b->vips[i];
	return batch_append(b, v);
}

int batch_remove_dip(struct batch_vip *b, struct dip_version *d, bool cut)
{
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
	c->conf.next_hops.watch(c->conf.next_hops.ctx, &d->conf.address);
	return 0;
}

static const struct dip_version *find_uid(const struct batch_vip *b, uint64_t uid)
{
	for (unsigned i = 0; i < b->next->n_dips; i++)
		if (b->next->dips[i].uid == uid)
			return &b->next->dips[i];
	for (unsigned i = 0; i < b->n_gone; i++)
		if (b->gone[i].d.uid == uid)
			return &b->gone[i].d;
	return NULL;
}

/* next == NULL: the VIP was installed by the publish. */
static void batch_vip_undo(struct control *c, struct batch_vip *b)
{
	for (unsigned i = 0; i < b->n_added; i++) {
		const struct dip_version *d = find_uid(b, b->added[i]);
		c->conf.next_hops.unwatch(c->conf.next_hops.ctx, &d->conf.address);
		vip_runtime_release_index(c, b->rt, d, false);
	}
	flow_set_unwatch(&c->flows, &b->rt->flows);
	vip_version_free(b->next);
	if (b->created)
		vip_runtime_free(c, b->rt);
}

void batch_destroy(struct control *c, struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++) {
		if (b->vips[i].next)
			batch_vip_undo(c, &b->vips[i]);
		free(b->vips[i].added);
		free(b->vips[i].gone);
		free(b->vips[i].taken);
	}
	free(b->vips);
	*b = (struct batch){0};
}
