/* Dcodes of DIPs that are down. Each looks at a fixed pseudo-random sequence of entries of the
 * table and takes the first that is up: by weight, since the entries are, and monotone: when
 * another DIP goes down, only the Dcodes that had been re-rolled to it look further. */
#include "base/fault.h"
#include "lookup/dcode_table.h"

#define PROBES                                                                                     \
	1024 /* each finds a target with the chance that is the targets' part of the table         \
	      */

struct index_set {
	uint64_t bits[(DIP_INDEX_MAX + 1) / 64];
};

static bool index_set_has(const struct index_set *s, uint32_t i)
{
	return s->bits[i / 64] >> (i % 64) & 1;
}

static uint32_t probe(uint32_t dcode, uint32_t i, uint32_t n)
{
	uint64_t x = ((uint64_t)i << 32 | dcode) + 0x9e3779b97f4a7c15u;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return (uint32_t)(x >> 32) & (n - 1);
}

static uint16_t reroll(const struct dcode_table *t, const struct index_set *targets, uint32_t dcode,
		       uint16_t next_up)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint16_t dip = FAULT(reroll_to_weightless) ? (uint16_t)(i + 1)
							   : t->dcodes[probe(dcode, i, t->n)];
		if (index_set_has(targets, dip))
			return dip;
	}
	return next_up;
}

void dcode_table_reroll(const struct dcode_table *t, const struct dcode_dip *dips, unsigned n_dips,
			uint16_t *out)
{
	struct index_set up = {0};	/* keeps its Dcodes */
	struct index_set targets = {0}; /* may get others' */
	uint16_t next_up = DIP_NONE;
	unsigned n_targets = 0;

	for (unsigned i = 0; i < n_dips; i++) {
		uint64_t bit = (uint64_t)dips[i].up << (dips[i].index % 64);
		up.bits[dips[i].index / 64] |= bit;
		n_targets += dips[i].up && dips[i].weight;
		if (dips[i].weight)
			targets.bits[dips[i].index / 64] |= bit;
	}
	/* What PROBES cannot find, where nearly everything is down, is found as the next entry that
	 * is up, the table being a ring: hence backwards, from the first one on. */
	for (uint32_t c = 0; c < t->n && next_up == DIP_NONE; c++) {
		if (index_set_has(&targets, t->dcodes[c]))
			next_up = t->dcodes[c];
	}
	for (uint32_t c = t->n; c-- > 0;) {
		uint16_t dip = t->dcodes[c];
		if (index_set_has(&targets, dip))
			next_up = dip;
		if (dip == DIP_NONE || index_set_has(&up, dip))
			out[c] = dip;
		else
			out[c] = n_targets > 1 ? reroll(t, &targets, c, next_up) : next_up;
	}
}
