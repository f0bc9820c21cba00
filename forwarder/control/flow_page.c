/* Flows are paged through in the order of their places in the flow table. A flow keeps its place
 * for life, whatever comes and goes around it, so a place is all that a cursor needs to say; and
 * control does a bounded piece of work at a time, however few of the flows are meant. What a place
 * holds is looked up in the private array beside it, which is a third of the size. */
#include "control/flow_page.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/internal.h"

/* Places looked at in one call: some 50 microseconds. */
#define PLACES_MAX SIM_SIZE(8192u, 16u)

const char *const flow_state_names[] = {"half_open", "established", "closing", "unproven", NULL};

struct read_flows {
	const struct flow_query *query;
	struct flow_page *page;
};

static enum flow_state state_of(const struct flow_side *side)
{
	static const enum flow_state states[] = {
		[CLASS_CLOSING] = FLOW_IS_CLOSING,
		[CLASS_HALF_OPEN] = FLOW_IS_HALF_OPEN,
		[CLASS_UNPROVEN] = FLOW_IS_UNPROVEN,
		[CLASS_ESTABLISHED] = FLOW_IS_ESTABLISHED,
	};

	return states[flow_list_class(side->list)];
}

static bool is_meant(const struct control *c, const struct flow_query *q, uint32_t dip,
		     uint32_t slot)
{
	const struct flow_ref *ref = flow_table_ref(&c->flows, slot);

	if (q->dip && ref->dip != dip)
		return false;
	if (q->pinned >= 0 && !!(ref->flags & REF_PINNED) != q->pinned)
		return false;
	if (q->state >= 0 && (int)state_of(&c->flows.side[slot]) != q->state)
		return false;
	return !q->has_client || ip_addr_equal(&c->flows.slots[slot].key.src, &q->client);
}

static void fill(const struct control *c, uint32_t slot, const char *dip, uint32_t now_ms,
		 struct flow_info *out)
{
	const struct flow_slot *s = &c->flows.slots[slot];
	const struct flow_ref *ref = flow_table_ref(&c->flows, slot);
	uint32_t opened_ms = atomic_load_explicit(&s->opened_ms, memory_order_relaxed);
	int32_t idle_ms = (int32_t)(now_ms - flow_meta_get(s).seen_ms);

	*out = (struct flow_info){
		.client = s->key.src,
		.client_port = ntohs(s->key.sport_be),
		.port = ntohs(s->key.dport_be),
		.proto = s->key.proto,
		.state = state_of(&c->flows.side[slot]),
		.pinned = ref->flags & REF_PINNED,
		.exact = ref->flags & REF_EXACT,
		.age_s = (now_ms - opened_ms) / 1000u,
		/* a record may be younger than our clock's reading */
		.idle_s = idle_ms > 0 ? (uint32_t)idle_ms / 1000u : 0,
	};
	snprintf(out->dip, sizeof(out->dip), "%s", dip ? dip : "");
}

/* Ids by DIP index; NULL without memory. */
static const char **name_dips(const struct vip_runtime *v)
{
	const char **names = calloc(v->n_dips, sizeof(*names));

	for (unsigned i = 0; names && i < v->now->n_dips; i++)
		names[v->now->dips[i].index] = v->now->dips[i].conf.id;
	return names;
}

static void look(const struct control *c, const struct vip_runtime *v, const struct flow_query *q,
		 uint32_t dip, const char *const *names, struct flow_page *page)
{
	uint32_t n_places = c->flows.next_fresh_slot; /* behind them, none is used */
	uint32_t end = n_places > q->from && n_places - q->from > PLACES_MAX ? q->from + PLACES_MAX
									     : n_places;
	uint32_t now_ms = (uint32_t)clock_now_ms();
	uint32_t slot = q->from;

	for (; slot < end && page->n < q->limit; slot++) {
		if (!flow_slot_live(&c->flows, &v->flows, slot) || !is_meant(c, q, dip, slot))
			continue;
		uint16_t index = flow_table_ref(&c->flows, slot)->dip;
		fill(c, slot, index < v->n_dips ? names[index] : NULL, now_ms,
		     &page->list[page->n++]);
	}
	page->more = slot < n_places;
	page->next = slot;
}

static void read_flows(struct control *c, void *arg)
{
	struct read_flows *r = arg;
	const struct flow_query *q = r->query;
	const struct vip_runtime *v = control_find_vip(c, q->vip);

	if (!v)
		return;
	const struct dip_version *d = q->dip ? vip_version_dip(v->now, q->dip) : NULL;
	r->page->vip_found = true;
	r->page->dip_found = d || !q->dip;
	if (!r->page->dip_found)
		return;
	const char **names = name_dips(v);
	if (names)
		look(c, v, q, d ? d->index : 0, names, r->page);
	else
		r->page->failed = true;
	free(names);
}

void control_read_flows(struct control *c, const struct flow_query *q, struct flow_page *page)
{
	struct read_flows r = {.query = q, .page = page};

	*page = (struct flow_page){.list = page->list};
	control_call(c, read_flows, &r);
}
