/* How far a drain has come: how many flows are left, and for how long the oldest of them has
 * lasted.
 *
 * No list is in the order of opening, so the oldest flow is searched among all of its VIP. It is
 * remembered: while it lives no other can be older, since whatever opens later is younger and
 * nothing is sent to what drains from elsewhere. So only a read after its end costs a search, and
 * that one drains the rings between its chunks, as all long work does. It goes from the dense
 * array's end to its beginning, because a removal moves the last flow into the hole. */
#include "base/clock.h"
#include "control/internal.h"

enum { AHEAD = 16 };

static uint32_t opened_ms(const struct control *c, uint32_t slot)
{
	return atomic_load_explicit(&c->flows.slots[slot].opened_ms, memory_order_relaxed);
}

/* Look at n flows from position `first` on. dip: only of this one; DIP_NONE: of any. */
static void search_some(const struct control *c, const struct vip_runtime *v, uint32_t first,
			uint32_t n, uint16_t dip, struct oldest_flow *o)
{
	for (uint32_t i = first; i < first + n; i++) {
		const struct flow_ref *r = flow_set_ref(&v->flows, i);
		if (i + AHEAD < first + n) {
			const struct flow_ref *next = flow_set_ref(&v->flows, i + AHEAD);
			if (dip == DIP_NONE || next->dip == dip)
				cpu_prefetch(&c->flows.slots[next->slot]);
		}
		if (dip != DIP_NONE && r->dip != dip)
			continue;
		uint32_t opened = opened_ms(c, r->slot);
		if (!o->known || (int32_t)(opened - o->opened_ms) < 0)
			*o = (struct oldest_flow){
				.known = true, .slot = r->slot, .opened_ms = opened};
	}
}

static void search(struct control *c, const struct vip_runtime *v, uint16_t dip,
		   struct oldest_flow *o)
{
	uint32_t left = v->flows.n;

	o->known = false;
	while (left) {
		uint32_t n = (left - 1) % REF_CHUNK + 1;
		left -= n;
		search_some(c, v, left, n, dip, o);
		control_drain(c, UINT64_MAX);
		if (left > v->flows.n)
			left = v->flows.n;
	}
}

static bool still_there(const struct control *c, const struct vip_runtime *v, uint16_t dip,
			const struct oldest_flow *o)
{
	return o->known && flow_slot_live(&c->flows, &v->flows, o->slot) &&
	       opened_ms(c, o->slot) == o->opened_ms &&
	       (dip == DIP_NONE || flow_meta_get(&c->flows.slots[o->slot]).dip == dip);
}

static uint64_t oldest_age_s(struct control *c, const struct vip_runtime *v, uint16_t dip,
			     struct oldest_flow *o)
{
	if (!still_there(c, v, dip, o))
		search(c, v, dip, o);
	return o->known ? ((uint32_t)clock_now_ms() - o->opened_ms) / 1000u : 0;
}

void control_vip_progress(struct control *c, struct vip_runtime *v, struct drain_info *out)
{
	uint64_t age_s = oldest_age_s(c, v, DIP_NONE, &v->oldest);

	*out = (struct drain_info){
		.on = true,
		.flows_remaining = v->flows.n,
		.oldest_age_s = age_s,
		.deadline_s = deadline_shown(v->now->drain_deadline_ms, v->now->drain_shown_s)};
}

void control_dip_progress(struct control *c, struct vip_runtime *v, const struct dip_version *d,
			  struct drain_info *out)
{
	uint64_t age_s = oldest_age_s(c, v, d->index, &v->dips[d->index].oldest);

	*out = (struct drain_info){.on = true,
				   .flows_remaining = v->flows.dip_flows[d->index],
				   .oldest_age_s = age_s,
				   .deadline_s =
					   deadline_shown(d->drain_deadline_ms, d->drain_shown_s)};
}
