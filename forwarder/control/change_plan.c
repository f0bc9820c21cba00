/* A dry run: what a change would come to. The versions are planned as for a publish, with the flows
 * that are known now, and thrown away. */
#include <errno.h>
#include <stdlib.h>

#include "control/internal.h"

static void fill_dips_after(const struct vip_version *next, const uint32_t *counts,
			    struct plan_info *out)
{
	for (unsigned i = 0; i < next->n_dips; i++) {
		struct plan_dip *d = &out->dips[out->n_dips++];
		memcpy(d->id, next->dips[i].conf.id, sizeof(d->id));
		d->dcodes = counts[next->dips[i].index];
		d->created = true;
	}
}

/* Both lists have the order of ids: one pass, since control's thread has no time to search. */
static void fill_dips_before(const struct vip_version *now, const struct vip_version *next,
			     const uint32_t *counts, struct plan_info *out)
{
	unsigned n_after = out->n_dips, k = 0;

	for (unsigned i = 0; i < now->n_dips; i++) {
		const char *id = now->dips[i].conf.id;
		while (k < n_after && strcmp(out->dips[k].id, id) < 0)
			k++;
		bool stays = k < n_after && strcmp(out->dips[k].id, id) == 0;
		struct plan_dip *d = &out->dips[stays ? k : out->n_dips++];
		if (!stays)
			memcpy(d->id, id, sizeof(d->id));
		d->removed = !stays;
		d->created = false;
		d->changed = stays && !dip_conf_equal(&now->dips[i].conf, &next->dips[k].conf);
		d->dcodes_before = counts[now->dips[i].index];
	}
}

static int fill_dips(const struct batch_vip *e, struct plan_info *out)
{
	const struct vip_version *now = e->rt->now, *next = e->remove ? NULL : e->next;
	const uint32_t *after = next ? vip_view_dcodes(next->view) : NULL;
	const uint32_t *before = now ? vip_view_dcodes(now->view) : NULL;
	unsigned room = (now ? now->n_dips : 0) + (next ? next->n_dips : 0) + 1;

	out->dips = calloc(room, sizeof(*out->dips));
	if (!out->dips || (next && !after) || (now && !before))
		return -ENOMEM;
	if (next)
		fill_dips_after(next, after, out);
	if (now)
		fill_dips_before(now, next, before, out);
	return 0;
}

static int fill_plan(const struct batch_vip *e, struct plan_info *out)
{
	*out = (struct plan_info){.created = e->created,
				  .removed = e->remove,
				  .flows_known = e->remove ? 0 : e->rt->flows.n,
				  .flows_moved = e->n_moved,
				  .build_us = e->build_us};
	memcpy(out->id, e->id, sizeof(out->id));
	if (!e->remove) {
		out->flows_pinned = e->next->n_pins;
		out->dcodes_moved = e->next->n_dcodes_moved;
		out->pin_bytes = vip_view_pin_bytes(e->next->view);
		out->dcode_bytes = vip_view_dcode_bytes(e->next->view);
		out->n_dcodes = e->next->view->n_dcodes;
	}
	return fill_dips(e, out);
}

static int fill_plans(struct control *c, const struct batch *b, struct control_transaction *t,
		      struct change_info *sum)
{
	int rc = 0;

	*sum = (struct change_info){.generation = c->generation};
	t->plans = calloc(b->n + 1, sizeof(*t->plans));
	if (!t->plans)
		return -ENOMEM;
	for (unsigned i = 0; rc == 0 && i < b->n; i++) {
		struct plan_info *p = &t->plans[t->n_plans++];
		rc = fill_plan(&b->vips[i], p);
		sum->flows_known += p->flows_known;
		sum->flows_pinned += p->flows_pinned;
		sum->flows_moved += p->flows_moved;
		sum->dcodes_moved += p->dcodes_moved;
		sum->build_us += p->build_us;
		control_breathe(c);
	}
	return rc;
}

int change_plan(struct control *c, struct batch *b, struct control_transaction *t,
		struct change_info *sum, struct error *err)
{
	int rc = batch_plan(c, b, err);

	return rc ? rc : fill_plans(c, b, t, sum);
}

void change_answer_plan(struct control *c, struct batch *b, struct control_request *r)
{
	struct error err = {{0}};

	batch_drop_unchanged(c, b);
	int rc = change_plan(c, b, r->transaction, &r->change, &err);
	if (rc)
		change_answer_failure(r, rc, &err);
}
