/* The lookup of a burst, in two stages: the first hashes and asks for the cache lines, the second
 * reads them. Between them lie the other flows of the burst, and whatever the caller does. A flow
 * whose home Dcode is not the home of any pin, which is nearly every flow, touches two lines: the
 * mark and the entry of the Dcode, both of tables that fit a private cache; only the others read
 * the Othello. The DIP's own line is asked for at the end; who reads it is the rewrite. */
#include "lookup/snapshot.h"

#include <assert.h>

#define LOOKUPS_MAX 64u
#define NO_CELL UINT32_MAX /* arrays are shorter: the flow is not pinned */

void snapshot_lookup_prepare(const struct snapshot *s, struct lookup *l, unsigned n)
{
	assert(n <= LOOKUPS_MAX);
	for (unsigned i = 0; i < n; i++) {
		const struct vip_view *v = l[i].vip;
		if (!v)
			continue;
		uint64_t h = flow_key_hash(&l[i].key, v->seed);
		l[i].hash = h;
		l[i].home = flow_home(h, v->n_dcodes);
		l[i].cell_a = NO_CELL;
		if (!v->n_dcodes)
			continue;
		cpu_prefetch(&v->dcodes[l[i].home]);
		if (vip_view_may_pin(v, l[i].home)) {
			othello_cells(&v->pins, h, &l[i].cell_a, &l[i].cell_b);
			cpu_prefetch(&v->pins.a[l[i].cell_a]);
			cpu_prefetch(&v->pins.b[l[i].cell_b]);
		}
	}
	for (unsigned i = 0; s->n_exact && i < n; i++) {
		if (l[i].vip)
			cpu_prefetch(&s->exact[(uint32_t)(l[i].hash >> 24) & s->exact_mask]);
	}
}

static bool usable(const struct vip_view *v, uint32_t dip)
{
	return dip < v->n_dips && v->dips[dip].usable;
}

/* Where a flow of the exact table goes, if its DIP still may be named; else DIP_NONE. */
static uint16_t exact_dip(const struct snapshot *s, const struct vip_view *v,
			  const struct flow_key *key, uint64_t hash)
{
	uint16_t dip = snapshot_exact_find(s, v->slot, key, hash);

	return usable(v, dip) ? dip : DIP_NONE;
}

void snapshot_lookup_burst(const struct snapshot *s, struct lookup *l, unsigned n)
{
	assert(n <= LOOKUPS_MAX);
	for (unsigned i = 0; i < n; i++) {
		const struct vip_view *v = l[i].vip;
		if (!v)
			continue;
		uint16_t dip = v->n_dcodes ? v->dcodes[l[i].home] : DIP_NONE;
		if (l[i].cell_a != NO_CELL) {
			uint32_t x = v->pins.a[l[i].cell_a] ^ v->pins.b[l[i].cell_b];
			if (vip_view_pin_valid(v, l[i].hash, x))
				dip = (uint16_t)x;
		}
		if (s->n_exact) {
			uint16_t exact = exact_dip(s, v, &l[i].key, l[i].hash);
			if (exact != DIP_NONE)
				dip = exact;
		}
		l[i].dip = dip;
		cpu_prefetch(&v->dips[dip]);
	}
}

uint16_t snapshot_lookup_one(const struct snapshot *s, const struct vip_view *v,
			     const struct flow_key *key, enum lookup_reason *reason,
			     uint32_t *dcode)
{
	uint64_t h = flow_key_hash(key, v->seed);
	uint16_t dip = exact_dip(s, v, key, h);

	*dcode = v->n_dcodes ? flow_home(h, v->n_dcodes) : 0;
	if (dip != DIP_NONE) {
		*reason = LOOKUP_EXACT;
		return dip;
	}
	if (!v->n_dcodes) {
		*reason = LOOKUP_NONE;
		return DIP_NONE;
	}
	if (vip_view_may_pin(v, *dcode)) {
		uint32_t x = othello_get(&v->pins, h);
		if (vip_view_pin_valid(v, h, x)) {
			*reason = LOOKUP_PIN;
			return (uint16_t)x;
		}
	}
	dip = v->dcodes[*dcode];
	*reason = dip == DIP_NONE ? LOOKUP_NONE : LOOKUP_HOME;
	return dip;
}
