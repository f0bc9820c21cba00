#include "tests/bench/peers/maglev.h"

#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/peer.h"

struct taker {
	uint32_t offset;
	uint32_t skip;
	uint32_t next;	 /* how far in its permutation */
	uint64_t credit; /* of weight; a turn costs the largest weight */
};

static void take_next(struct taker *t, uint16_t index, uint16_t *entries)
{
	for (;;) {
		uint32_t e = (uint32_t)((t->offset + (uint64_t)t->next++ * t->skip) % MAGLEV_SIZE);
		if (entries[e] == DIP_NONE) {
			entries[e] = index;
			return;
		}
	}
}

void maglev_fill(const struct dcode_dip *dips, unsigned n_dips, uint16_t *entries)
{
	struct taker *takers = calloc(n_dips, sizeof(*takers));
	uint32_t filled = 0, heaviest = 0;

	if (!takers)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < n_dips; i++) {
		uint64_t x = peer_mix(dips[i].id, 1), y = peer_mix(dips[i].id, 2);
		takers[i].offset = (uint32_t)(x % MAGLEV_SIZE);
		takers[i].skip = (uint32_t)(y % (MAGLEV_SIZE - 1)) + 1;
		if (dips[i].weight > heaviest)
			heaviest = dips[i].weight;
	}
	memset(entries, 0, MAGLEV_SIZE * sizeof(*entries));
	while (filled < MAGLEV_SIZE) {
		for (unsigned i = 0; i < n_dips && filled < MAGLEV_SIZE; i++) {
			takers[i].credit += dips[i].weight;
			if (takers[i].credit < heaviest || !dips[i].weight)
				continue;
			takers[i].credit -= heaviest;
			take_next(&takers[i], dips[i].index, entries);
			filled++;
		}
	}
	free(takers);
}
