/* The lookup of a burst, in two stages: the first hashes, places each flow by its home Dcode and asks
 * for the cache lines of the pins that may overrule it; the second reads those. Between them lie the
 * other flows of the burst, and whatever the caller does. The table of homes is read at once: it is
 * small enough for a private cache, and its mark says of nearly every flow that it has no pin, which
 * then costs nothing more. The DIP's own line is asked for; who reads it is the rewrite. */
#include "lookup/snapshot.h"

#include <assert.h>

#define LOOKUPS_MAX 64u

uint64_t snapshot_lookup_prepare(const struct snapshot *s, struct lookup *l, unsigned n)
{
	const struct vip_view *v = NULL;
	const struct dip_view *dips = NULL;
	const uint16_t *homes = NULL;
	uint64_t seed = 0, maybe_pinned = 0;
	uint32_t mask = 0;

	assert(n <= LOOKUPS_MAX);
	for (unsigned i = 0; i < n; i++) {
		if (!l[i].vip)
			continue;
		if (l[i].vip != v) { /* seldom: packets of a VIP come together */
			v = l[i].vip;
			dips = v->dips;
			homes = v->homes;
			seed = v->seed;
			mask = v->home_mask;
		}
		uint64_t h = flow_key_hash(&l[i].key, seed);
		uint32_t home = homes[(uint32_t)h & mask];
		l[i].hash = h;
		l[i].dip = (uint16_t)(home & ~HOME_HAS_PINS);
		cpu_prefetch(&dips[l[i].dip]);
		if (home & HOME_HAS_PINS) {
			othello_cells(&v->pins, h, &l[i].cell_a, &l[i].cell_b);
			cpu_prefetch(&v->pins.a[l[i].cell_a]);
			cpu_prefetch(&v->pins.b[l[i].cell_b]);
			maybe_pinned |= (uint64_t)1 << i;
		}
	}
	for (unsigned i = 0; s->n_exact && i < n; i++) {
		if (l[i].vip)
			cpu_prefetch(&s->exact[(uint32_t)(l[i].hash >> 24) & s->exact_mask]);
	}
	return maybe_pinned;
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

void snapshot_lookup_burst(const struct snapshot *s, struct lookup *l, unsigned n,
			   uint64_t maybe_pinned)
{
	assert(n <= LOOKUPS_MAX);
	for (; maybe_pinned; maybe_pinned &= maybe_pinned - 1) {
		struct lookup *one = &l[__builtin_ctzll(maybe_pinned)];
		const struct vip_view *v = one->vip;
		uint32_t x = v->pins.a[one->cell_a] ^ v->pins.b[one->cell_b];
		if (!vip_view_pin_valid(v, one->hash, x))
			continue;
		one->dip = (uint16_t)x;
		cpu_prefetch(&v->dips[one->dip]);
	}
	for (unsigned i = 0; s->n_exact && i < n; i++) {
		if (!l[i].vip)
			continue;
		uint16_t dip = exact_dip(s, l[i].vip, &l[i].key, l[i].hash);
		if (dip != DIP_NONE)
			l[i].dip = dip;
	}
}

uint16_t snapshot_lookup_one(const struct snapshot *s, const struct vip_view *v,
			     const struct flow_key *key, enum lookup_reason *reason,
			     uint32_t *dcode)
{
	uint64_t h = flow_key_hash(key, v->seed);
	uint16_t dip = exact_dip(s, v, key, h);

	*dcode = (uint32_t)h & v->home_mask;
	if (dip != DIP_NONE) {
		*reason = LOOKUP_EXACT;
		return dip;
	}
	if (v->homes[*dcode] & HOME_HAS_PINS) {
		uint32_t x = othello_get(&v->pins, h);
		if (vip_view_pin_valid(v, h, x)) {
			*reason = LOOKUP_PIN;
			return (uint16_t)x;
		}
	}
	dip = vip_view_home(v, *dcode);
	*reason = dip == DIP_NONE ? LOOKUP_NONE : LOOKUP_HOME;
	return dip;
}
