/* After the swap: the published versions become control's own; flags, indexes and steering follow.
 */
#include <assert.h>

#include "base/log.h"
#include "control/announce.h"

/* The exact flows; at once, since a slot may be another flow's after a breath. */
static void install_exact(struct control *c, struct batch_vip *b)
{
	const uint8_t flags = REF_PINNED | REF_EXACT | REF_PLANNED_EXACT;

	assert(b->next); /* only what goes has none */
	for (uint32_t i = 0; i < b->next->n_exact; i++)
		if (flow_slot_live(&c->flows, &b->rt->flows, b->next->exact_slots[i]))
			flow_table_flag(&c->flows, b->next->exact_slots[i], flags, flags);
}

static void install_flag(struct flow_table *t, const struct flow_ref *r)
{
	uint8_t want = r->flags & (REF_PLANNED | REF_PLANNED_EXACT) ? REF_PINNED : 0;

	if (r->flags & REF_PLANNED_EXACT)
		want |= REF_EXACT;
	if ((r->flags & (REF_PINNED | REF_EXACT)) != want)
		flow_table_flag(t, r->slot, REF_PINNED | REF_EXACT, want);
}

/* What the plan said of each flow is so now. All of control shows the new version already, so it
 * can breathe: with 10 million flows the rings would not hold what opens meanwhile. From the end of
 * the dense array to its start, because a flow that ends leaves its place to the last one; what was
 * inserted since is neither planned nor pinned, and so is nothing to do for. */
static void install_flags(struct control *c, struct vip_runtime *v)
{
	for (uint32_t left = v->flows.n; left;) {
		uint32_t stop = left > REF_CHUNK ? left - REF_CHUNK : 0;
		while (left > stop)
			install_flag(&c->flows, flow_set_ref(&v->flows, --left));
		if (left)
			control_breathe(c);
		if (left > v->flows.n)
			left = v->flows.n;
	}
	/* Pins of flows that have ended since the plan was begun. */
	uint32_t n_pins = v->now->n_pins;
	v->flows.dead_pins = n_pins > v->flows.n_pinned ? n_pins - v->flows.n_pinned : 0;
	flow_set_published(&v->flows);
}

static void release_dip(struct control *c, struct vip_runtime *v, const struct dip_version *d)
{
	c->conf.next_hops.unwatch(c->conf.next_hops.ctx, &d->conf.address);
	vip_runtime_release_index(c, v, d, true);
}

static void install_gone(struct control *c, struct batch_vip *b)
{
	for (unsigned i = 0; i < b->n_gone; i++) {
		const struct dip_version *d = &b->gone[i].d;
		log_info("control", "vip %s: dip %s is gone", b->rt->now->conf.id, d->conf.id);
		announce_gone(c, b->rt->now->conf.id, d->conf.id, b->rt->flows.dip_flows[d->index]);
		release_dip(c, b->rt, d);
		if (b->rt->flows.dip_flows[d->index]) {
			b->rt->cut_scan = true;
			b->rt->cut_pos = 0;
		}
	}
}

/* A VIP of the same match that comes with this batch takes over the removed one's steering. */
static void hand_over_steering(const struct control *c, const struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++) {
		struct vip_runtime *v = b->vips[i].rt;
		struct vip_runtime *heir =
			b->vips[i].remove ? vip_index_by_match(c, b, &v->match) : NULL;
		if (!heir)
			continue;
		heir->steered = v->steered;
		v->steered = false;
	}
}

static void steer_what_comes(struct control *c, const struct batch *b, bool last_try)
{
	struct error err;

	for (unsigned i = 0; i < b->n; i++) {
		struct vip_runtime *v = b->vips[i].rt;
		if (b->vips[i].remove || v->steered)
			continue;
		v->steered = c->conf.steering.add(c->conf.steering.ctx, &v->match, &err) == 0;
		if (!v->steered && last_try)
			log_error("control", "vip %s: not steered (%s)", v->id, err.message);
	}
}

static void install_removed_vip(struct control *c, struct batch_vip *b)
{
	struct vip_runtime *v = b->rt;
	struct error err;

	if (v->steered && c->conf.steering.del(c->conf.steering.ctx, &v->now->conf.match, &err))
		log_error("control", "vip %s: still steered (%s)", v->now->conf.id, err.message);
	for (unsigned i = 0; i < b->next->n_dips; i++)
		release_dip(c, v, &b->next->dips[i]);
	for (unsigned i = 0; i < b->n_gone; i++)
		release_dip(c, v, &b->gone[i].d);
	log_info("control", "vip %s is gone", b->id);
	announce_gone(c, b->id, NULL, v->flows.n);
	c->vips[v->slot] = NULL;
	vip_index_remove(&c->index, v);
	c->n_vips--;
	c->stats.flows_lost_total += v->flows.n;
	flow_set_unwatch(&c->flows, &v->flows);
	c->zombies[c->n_zombies++] = v;
	vip_version_free(b->next);
	b->next = NULL;
}

static void install_vip(struct control *c, struct batch_vip *b)
{
	struct vip_runtime *v = b->rt;

	flow_set_unwatch(&c->flows, &v->flows);
	install_exact(c, b);
	if (b->next->view->pins.n_a)
		v->pin_seed = b->next->view->pins.seed;
	v->refold = b->n_late != 0; /* the next publish folds them into the arrays */
	v->claims = false;	    /* what agents told until the swap is in it */
	c->stats.accidents_pinned_total += b->next->n_accidents;
	c->stats.flows_late_total += b->n_late;
	health_install(c, v, b->next);
	vip_version_free(v->now);
	v->now = b->next;
	v->cut_scan |= FAULT(down_rehomes_idle);
	install_gone(c, b);
	if (b->created) {
		c->vips[v->slot] = v;
		c->n_vips++;
	}
	b->next = NULL;
}

/* All that comes is steered before anything that goes is not: what of a removed VIP's packets a new
 * one takes, of the same match or an overlapping one, would else go to the host's own kernel for a
 * moment. Only what does not fit into steer's maps waits for the room that what goes makes. */
void batch_install(struct control *c, struct batch *b)
{
	hand_over_steering(c, b);
	steer_what_comes(c, b, false);
	for (unsigned i = 0; i < b->n; i++) {
		b->vips[i].dcodes_moved = b->vips[i].next->n_dcodes_moved;
		if (b->vips[i].remove)
			install_removed_vip(c, &b->vips[i]);
	}
	steer_what_comes(c, b, true);
	for (unsigned i = 0; i < b->n; i++)
		if (!b->vips[i].remove)
			install_vip(c, &b->vips[i]);
}

void batch_install_flags(struct control *c, const struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++)
		if (!b->vips[i].remove)
			install_flags(c, b->vips[i].rt);
}
