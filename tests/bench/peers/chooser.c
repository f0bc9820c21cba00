#include "tests/bench/peers/chooser.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct chooser *const choosers[N_CHOOSERS] = {
	&chooser_dcode,	     &chooser_maglev,	   &chooser_ketama,	   &chooser_two_level,
	&chooser_tournament, &chooser_ticket,	   &chooser_pow2_weights2, &chooser_pow2_weights3,
	&chooser_reroll,     &chooser_old_new_set,
};

void *chooser_alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p) {
		fprintf(stderr, "no memory for %zu times %zu bytes\n", n, size);
		exit(EXIT_FAILURE);
	}
	return p;
}

static int by_id(const void *x, const void *y)
{
	const struct dcode_dip *a = x;
	const struct dcode_dip *b = y;

	return a->id < b->id ? -1 : a->id > b->id;
}

struct dcode_dip *chooser_usable(const struct dcode_dip *dips, unsigned n, unsigned *n_usable)
{
	struct dcode_dip *usable = chooser_alloc(n, sizeof(*usable));
	unsigned k = 0;

	for (unsigned i = 0; i < n; i++) {
		if (dips[i].up && dips[i].weight)
			usable[k++] = dips[i];
	}
	assert(k > 0);
	qsort(usable, k, sizeof(*usable), by_id);
	*n_usable = k;
	return usable;
}

uint32_t chooser_weights(const struct dcode_dip *dips, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += dips[i].weight;
	assert(sum <= CHOOSER_WEIGHTS_MAX);
	return (uint32_t)sum;
}

void chooser_count_shares(const uint16_t *entries, uint32_t n, double *shares)
{
	memset(shares, 0, (DIP_INDEX_MAX + 1) * sizeof(*shares));
	for (uint32_t i = 0; i < n; i++)
		shares[entries[i]] += 1.0 / n;
}
