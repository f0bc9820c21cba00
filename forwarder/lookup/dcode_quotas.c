/* How many Dcodes each DIP gets. Integers only: a share is n * weight / sum of weights, below 2^39
 * before the division, and remainders are compared exactly. */
#include <assert.h>

#include "lookup/dcode_table.h"

#define DCODES_PER_DIP 64u /* wanted for the lightest DIP */
#define CAP_MIN 65536u
#define CAP_PER_DIP 128u

static uint64_t sum_weights(const struct dcode_dip *dips, unsigned n_dips)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n_dips; i++)
		sum += dips[i].weight;
	return sum;
}

uint32_t dcode_table_size(const struct dcode_dip *dips, unsigned n_dips, uint32_t n_now)
{
	uint64_t sum = sum_weights(dips, n_dips);
	uint32_t n = n_now > DCODE_TABLE_MIN ? n_now : DCODE_TABLE_MIN;
	uint32_t cap = CAP_MIN;
	uint32_t lightest = UINT32_MAX;

	for (unsigned i = 0; i < n_dips; i++) {
		if (dips[i].weight && dips[i].weight < lightest)
			lightest = dips[i].weight;
	}
	while (cap < CAP_PER_DIP * n_dips)
		cap *= 2;
	while (n < cap && (uint64_t)n * lightest < DCODES_PER_DIP * sum)
		n *= 2;
	return n;
}

/* What is divided by weight: n Dcodes among DIPs whose weights' sum is given. DIPs whose share is
 * below 1 stand aside with 1 Dcode. */
struct division {
	uint64_t n;
	uint64_t weights;
};

static bool stands_aside(const struct dcode_dip *d, const struct division *div)
{
	return d->weight && div->n * d->weight < div->weights;
}

/* Where there are so many DIPs below 1 Dcode that the rounding of the others cannot pay for them,
 * they are paid for first, and the rest is divided anew, until nobody else falls below 1. Whoever
 * stands aside once does so for good: what each other one gets for its weight only falls. */
static struct division pay_small_first(const struct dcode_dip *dips, unsigned n_dips,
				       const struct division *all)
{
	struct division div = *all;

	for (;;) {
		struct division next = *all;
		for (unsigned i = 0; i < n_dips; i++) {
			if (stands_aside(&dips[i], &div)) {
				next.n--;
				next.weights -= dips[i].weight;
			}
		}
		if (next.weights == div.weights)
			return div;
		div = next;
	}
}

/* Quotas are floors, and 1 for those aside. Returns the sum of both. */
static uint64_t set_floors(const struct dcode_dip *dips, unsigned n_dips,
			   const struct division *div, uint32_t *quotas)
{
	uint64_t given = 0;

	for (unsigned i = 0; i < n_dips; i++) {
		quotas[i] = stands_aside(&dips[i], div)
				    ? 1
				    : (uint32_t)(div->n * dips[i].weight / div->weights);
		given += quotas[i];
	}
	return given;
}

/* How strongly a DIP claims one of the Dcodes that flooring left over, 0: not at all. Those that
 * hold more than their floor come first, then the larger remainder (below 2^32, as the weights'
 * sum). */
static uint64_t claim(const struct dcode_dip *d, const struct division *div, uint32_t held,
		      uint32_t floor)
{
	uint64_t remainder = div->n * d->weight % div->weights;

	if (!remainder || stands_aside(d, div))
		return 0;
	return (uint64_t)(held > floor) << 33 | remainder;
}

/* What the choice of those that are rounded up looks at. */
struct rounding {
	const struct dcode_dip *dips;
	unsigned n_dips;
	const struct division *div;
	const uint32_t *held; /* or NULL */
	uint32_t *quotas;     /* floors so far */
};

static uint64_t claim_of(const struct rounding *r, unsigned i)
{
	return claim(&r->dips[i], r->div, r->held ? r->held[i] : 0, r->quotas[i]);
}

static uint64_t count_claims_from(const struct rounding *r, uint64_t least)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < r->n_dips; i++)
		count += claim_of(r, i) >= least;
	return count;
}

static uint64_t count_equal_claims(const struct rounding *r, uint64_t equal, uint64_t id_max)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < r->n_dips; i++)
		count += r->dips[i].id <= id_max && claim_of(r, i) == equal;
	return count;
}

/* Round up the `left` strongest claims, the lower id first among equals. The limits are found by
 * bisection, some hundred passes over the DIPs, since sorting would need memory, and this function
 * cannot fail. */
static void round_up(const struct rounding *r, uint64_t left)
{
	uint64_t lo = 1, hi = (uint64_t)1 << 34; /* enough claims from lo, too few from hi */
	uint64_t id_lo = 0, id_hi = UINT64_MAX;

	if (!left)
		return;
	assert(count_claims_from(r, lo) >= left);
	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (count_claims_from(r, mid) >= left)
			lo = mid;
		else
			hi = mid;
	}
	uint64_t n_equal = left - count_claims_from(r, lo + 1);
	while (id_lo < id_hi) {
		uint64_t mid = id_lo + (id_hi - id_lo) / 2;
		if (count_equal_claims(r, lo, mid) >= n_equal)
			id_hi = mid;
		else
			id_lo = mid + 1;
	}
	for (unsigned i = 0; i < r->n_dips; i++) {
		uint64_t c = claim_of(r, i);
		if (c > lo) {
			r->quotas[i]++;
		} else if (c == lo && r->dips[i].id <= id_hi && n_equal) {
			r->quotas[i]++;
			n_equal--;
		}
	}
}

/* Fewer Dcodes than DIPs with weight: no table is made so; one each while they last. */
static void quotas_of_one(const struct dcode_dip *dips, unsigned n_dips, uint32_t n,
			  uint32_t *quotas)
{
	for (unsigned i = 0; i < n_dips; i++) {
		quotas[i] = dips[i].weight && n ? 1 : 0;
		n -= quotas[i];
	}
}

void dcode_table_quotas(const struct dcode_dip *dips, unsigned n_dips, uint32_t n,
			const uint32_t *held, uint32_t *quotas)
{
	struct division div = {.n = n, .weights = sum_weights(dips, n_dips)};
	struct rounding r = {dips, n_dips, &div, held, quotas};
	uint32_t n_weighted = 0;

	for (unsigned i = 0; i < n_dips; i++)
		n_weighted += dips[i].weight > 0;
	if (n_weighted == 0 || n_weighted > n) {
		quotas_of_one(dips, n_dips, n, quotas);
		return;
	}
	uint64_t given = set_floors(dips, n_dips, &div, quotas);
	if (given > n) {
		div = pay_small_first(dips, n_dips, &div);
		given = set_floors(dips, n_dips, &div, quotas);
	}
	round_up(&r, n - given);
}
