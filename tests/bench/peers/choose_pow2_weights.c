/* Weights that are sums of few powers of two: one array for each power, in which a DIP stands once
 * if its weight has that bit, so that a DIP costs an entry of 2 bytes for each bit, however large
 * its weight. (The binary decomposition of a discrete distribution, as in Marsaglia, Tsang and
 * Wang, Fast generation of discrete random variables, 2004.) The hash draws a unit of weight; how
 * many arrays end below it, counted without a branch, names the array, and the unit's place there,
 * shifted by the power, the entry.
 *
 * Weights are rounded to at most two or three bits, the two choosers here: by up to a seventh, or
 * a fifteenth. Like tickets, every change that changes the sum of weights is a full re-deal. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/chooser.h"

#define POWERS 23u /* of CHOOSER_WEIGHTS_MAX */

struct power {
	uint32_t start; /* first unit of weight in this array */
	uint32_t base;	/* first entry */
};

struct pow2_weights {
	unsigned bits; /* that a weight may have */
	uint32_t weights;
	uint32_t n_entries;
	uint32_t n_powers; /* those in use, the largest, 2^(n_powers - 1), first */
	struct power powers[POWERS];
	uint16_t *entries; /* hugemem */
};

/* The nearest number with so many one-bits, the larger one of two. */
static uint32_t round_weight(uint32_t weight, unsigned bits)
{
	uint32_t down = 0, rest = weight;

	for (unsigned i = 0; i < bits && rest; i++) {
		const uint32_t top = 1u << (31 - __builtin_clz(rest));
		down |= top;
		rest -= top;
	}
	if (!rest)
		return weight;
	/* One up in its lowest bit: a carry leaves fewer bits, never more. */
	const uint32_t up = down + (down & -down);
	return up - weight <= weight - down ? up : down;
}

static size_t entries_bytes(const struct pow2_weights *p)
{
	return p->n_entries * sizeof(*p->entries);
}

static size_t bytes(const void *c)
{
	const struct pow2_weights *p = c;

	return entries_bytes(p) + p->n_powers * sizeof(*p->powers);
}

static void measure(struct pow2_weights *p, const struct dcode_dip *dips, unsigned n)
{
	uint32_t all = 0;

	p->n_entries = 0;
	for (unsigned i = 0; i < n; i++) {
		all |= dips[i].weight;
		p->n_entries += (uint32_t)__builtin_popcount(dips[i].weight);
	}
	p->n_powers = 32 - (uint32_t)__builtin_clz(all);
}

static void fill(struct pow2_weights *p, const struct dcode_dip *dips, unsigned n)
{
	uint32_t k = 0;

	p->weights = 0;
	for (uint32_t i = 0; i < p->n_powers; i++) {
		const uint32_t power = 1u << (p->n_powers - 1 - i);
		p->powers[i] = (struct power){.start = p->weights, .base = k};
		for (unsigned d = 0; d < n; d++) {
			if (dips[d].weight & power) {
				p->entries[k++] = dips[d].index;
				p->weights += power;
			}
		}
	}
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct pow2_weights *p = c;
	unsigned n_usable;
	struct dcode_dip *usable = chooser_usable(dips, n, &n_usable);

	hugemem_free(p->entries, entries_bytes(p));
	for (unsigned i = 0; i < n_usable; i++)
		usable[i].weight = round_weight(usable[i].weight, p->bits);
	(void)chooser_weights(usable, n_usable);
	measure(p, usable, n_usable);
	p->entries = peer_alloc(entries_bytes(p));
	fill(p, usable, n_usable);
	free(usable);
}

static void *build(const struct dcode_dip *dips, unsigned n, unsigned bits)
{
	struct pow2_weights *p = chooser_alloc(1, sizeof(*p));

	p->bits = bits;
	change(p, dips, n);
	return p;
}

static void *build2(const struct dcode_dip *dips, unsigned n)
{
	return build(dips, n, 2);
}

static void *build3(const struct dcode_dip *dips, unsigned n)
{
	return build(dips, n, 3);
}

static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct pow2_weights *p = c;
	uint32_t units[PEER_BURST], which[PEER_BURST] = {0};

	for (unsigned i = 0; i < PEER_BURST; i++)
		units[i] = mul_shift32((uint32_t)(hashes[i] >> 32), p->weights);
	for (uint32_t k = 1; k < p->n_powers; k++) {
		for (unsigned i = 0; i < PEER_BURST; i++)
			which[i] += units[i] >= p->powers[k].start;
	}
	for (unsigned i = 0; i < PEER_BURST; i++) {
		const struct power *power = &p->powers[which[i]];
		const uint32_t shift = p->n_powers - 1 - which[i];
		dips[i] = p->entries[power->base + ((units[i] - power->start) >> shift)];
	}
}

static void shares(const void *c, double *out)
{
	const struct pow2_weights *p = c;

	memset(out, 0, (DIP_INDEX_MAX + 1) * sizeof(*out));
	for (uint32_t i = 0; i < p->n_powers; i++) {
		const uint32_t end = i + 1 < p->n_powers ? p->powers[i + 1].base : p->n_entries;
		const double share = (double)(1u << (p->n_powers - 1 - i)) / p->weights;
		for (uint32_t k = p->powers[i].base; k < end; k++)
			out[p->entries[k]] += share;
	}
}

static void destroy(void *c)
{
	struct pow2_weights *p = c;

	hugemem_free(p->entries, entries_bytes(p));
	free(p);
}

const struct chooser chooser_pow2_weights2 = {"pow2_weights2", build2, change, choose,
					      shares,	       bytes,  destroy};
const struct chooser chooser_pow2_weights3 = {"pow2_weights3", build3, change, choose,
					      shares,	       bytes,  destroy};
