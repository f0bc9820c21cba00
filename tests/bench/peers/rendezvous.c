#include "tests/bench/peers/rendezvous.h"

#include <math.h>

#include "tests/bench/peers/peer.h"

void rendezvous_fill(const struct dcode_dip *dips, unsigned n_dips, uint16_t *entries)
{
	for (uint32_t e = 0; e < RENDEZVOUS_SIZE; e++) {
		double best = -1;
		for (unsigned i = 0; i < n_dips; i++) {
			uint64_t h = peer_mix(e, peer_mix(dips[i].id, 1));
			double u = ((double)(h >> 11) + 0.5) * 0x1p-53;
			double score = -(double)dips[i].weight / log(u);
			if (score > best) {
				best = score;
				entries[e] = dips[i].index;
			}
		}
	}
}
