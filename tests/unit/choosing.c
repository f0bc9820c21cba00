#include "tests/unit/choosing.h"

#include <math.h>
#include <string.h>

void pool_grow(struct choosing_pool *p, unsigned n, uint32_t weight)
{
	for (; n > 0; n--) {
		const uint32_t index = ++p->next;
		p->dips[p->n++] = (struct dcode_dip){.id = peer_mix(index, 11),
						     .weight = weight,
						     .index = (uint16_t)index,
						     .up = true};
	}
}

void pool_drop(struct choosing_pool *p, unsigned at)
{
	p->n--;
	memmove(&p->dips[at], &p->dips[at + 1], (p->n - at) * sizeof(*p->dips));
}

void pool_shuffle(struct choosing_pool *p, struct prng *rng)
{
	for (unsigned i = p->n; i > 1; i--) {
		const unsigned k = prng_below(rng, i);
		const struct dcode_dip last = p->dips[i - 1];
		p->dips[i - 1] = p->dips[k];
		p->dips[k] = last;
	}
}

static double weight_up(const struct dcode_dip *d)
{
	return d->up ? d->weight : 0;
}

double pool_share(const struct choosing_pool *p, unsigned i)
{
	double weights = 0;

	for (unsigned k = 0; k < p->n; k++)
		weights += weight_up(&p->dips[k]);
	return weight_up(&p->dips[i]) / weights;
}

static double share_of_index(const struct choosing_pool *p, uint16_t index)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (p->dips[i].index == index)
			return pool_share(p, i);
	}
	return 0;
}

double pool_least_moves(const struct choosing_pool *was, const struct choosing_pool *is)
{
	double lost = 0;

	for (unsigned i = 0; i < was->n; i++)
		lost += fmax(0, pool_share(was, i) - share_of_index(is, was->dips[i].index));
	return lost;
}

void choose_many(const struct chooser *ch, const void *c, uint32_t n, uint16_t *dips)
{
	struct prng rng = {4711};
	uint64_t burst[PEER_BURST];

	for (uint32_t at = 0; at < n; at += PEER_BURST) {
		for (unsigned i = 0; i < PEER_BURST; i++)
			burst[i] = prng_u64(&rng);
		ch->choose(c, burst, dips + at);
	}
}

uint32_t count_moves(const uint16_t *was, const uint16_t *is, uint32_t n)
{
	uint32_t moved = 0;

	for (uint32_t i = 0; i < n; i++)
		moved += was[i] != is[i];
	return moved;
}

double choices_z(const uint16_t *dips, uint32_t n, const double *shares)
{
	static uint32_t counts[DIP_INDEX_MAX + 1];
	double chi2 = 0, degrees = -1;

	memset(counts, 0, sizeof(counts));
	for (uint32_t i = 0; i < n; i++)
		counts[dips[i]]++;
	for (uint32_t i = 0; i <= DIP_INDEX_MAX; i++) {
		const double expected = shares[i] * n;
		if (expected < 5)
			continue;
		chi2 += (counts[i] - expected) * (counts[i] - expected) / expected;
		degrees++;
	}
	return degrees > 0 ? (chi2 - degrees) / sqrt(2 * degrees) : 0;
}
