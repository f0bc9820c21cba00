#include "tests/bench/peers/maglev.h"

#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/peer.h"

#define ENTRIES_PER_DIP 100u

struct taker {
	uint32_t offset;
	uint32_t skip;
	uint32_t next;	 /* how far in its permutation */
	uint64_t credit; /* of weight; a turn costs the largest weight */
};

static void take_next(struct taker *t, uint16_t index, uint16_t *entries, uint32_t n)
{
	for (;;) {
		uint32_t e = (uint32_t)((t->offset + (uint64_t)t->next++ * t->skip) % n);
		if (entries[e] == DIP_NONE) {
			entries[e] = index;
			return;
		}
	}
}

void maglev_fill_sized(const struct dcode_dip *dips, unsigned n_dips, uint16_t *entries,
		       uint32_t n_entries)
{
	struct taker *takers = calloc(n_dips, sizeof(*takers));
	uint32_t filled = 0, heaviest = 0;

	if (!takers)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < n_dips; i++) {
		uint64_t x = peer_mix(dips[i].id, 1), y = peer_mix(dips[i].id, 2);
		takers[i].offset = (uint32_t)(x % n_entries);
		takers[i].skip = (uint32_t)(y % (n_entries - 1)) + 1;
		if (dips[i].weight > heaviest)
			heaviest = dips[i].weight;
	}
	memset(entries, 0, n_entries * sizeof(*entries));
	while (filled < n_entries) {
		for (unsigned i = 0; i < n_dips && filled < n_entries; i++) {
			takers[i].credit += dips[i].weight;
			if (takers[i].credit < heaviest || !dips[i].weight)
				continue;
			takers[i].credit -= heaviest;
			take_next(&takers[i], dips[i].index, entries, n_entries);
			filled++;
		}
	}
	free(takers);
}

void maglev_fill(const struct dcode_dip *dips, unsigned n_dips, uint16_t *entries)
{
	maglev_fill_sized(dips, n_dips, entries, MAGLEV_SIZE);
}

static bool is_prime(uint32_t n)
{
	for (uint32_t d = 2; d <= n / d; d++) {
		if (n % d == 0)
			return false;
	}
	return true;
}

uint32_t maglev_size(unsigned n_dips)
{
	uint32_t n = MAGLEV_SIZE - 1;

	while (n < ENTRIES_PER_DIP * n_dips)
		n *= 2;
	do {
		n++;
	} while (!is_prime(n));
	return n;
}
