/* Rendezvous hashing (Thaler and Ravishankar, IEEE/ACM ToN 6(1), 1998): every server draws from the
 * flow's hash and its own id, and the best draw wins. With weights by exponential draws
 * (Schindelhauer and Schomaker, SPAA 2005): -ln(1 - u) / weight, the least of which is each
 * server's as often as its weight says. The draw is one 64 by 64 bit multiplication whose halves
 * are folded, as in wyhash (Wang Yi, 2019), with ids mixed beforehand. A logarithm is seldom taken:
 * u is below -ln(1 - u), and has mostly lost already. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "lookup/dcode_table.h"
#include "tests/bench/peers/peer.h"

struct contestant {
	uint64_t id;	/* mixed */
	float inverse;	/* 1 / weight */
	uint16_t index; /* of the DIP */
};

static ALWAYS_INLINE struct contestant contestant_of(const struct dcode_dip *d)
{
	return (struct contestant){
		.id = peer_mix(d->id, 1), .inverse = 1 / (float)d->weight, .index = d->index};
}

/** The server's draw for this hash. */
static ALWAYS_INLINE uint64_t tournament_draw(uint64_t hash, uint64_t id)
{
	unsigned __int128 product = (unsigned __int128)(hash ^ 0xa0761d6478bd642fu) * (id ^ hash);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/** Of n > 0 with equal weights, the DIP index of the winner: the least draw. */
static ALWAYS_INLINE uint16_t tournament_equal(const struct contestant *servers, uint32_t n,
					       uint64_t hash)
{
	uint64_t best = UINT64_MAX;
	uint32_t winner = 0;

	for (uint32_t i = 0; i < n; i++) {
		const uint64_t draw = tournament_draw(hash, servers[i].id);
		winner = draw < best ? i : winner;
		best = draw < best ? draw : best;
	}
	return servers[winner].index;
}

/** The same by weight. */
static ALWAYS_INLINE uint16_t tournament_weighted(const struct contestant *servers, uint32_t n,
						  uint64_t hash)
{
	double best = INFINITY;
	uint32_t winner = 0;

	for (uint32_t i = 0; i < n; i++) {
		const int64_t draw = (int64_t)(tournament_draw(hash, servers[i].id) >> 11);
		const double inverse = (double)servers[i].inverse;
		if (unlikely((double)draw * inverse < best)) {
			const double score = -log(1 - (double)draw * 0x1p-53) * inverse * 0x1p53;
			winner = score < best ? i : winner;
			best = score < best ? score : best;
		}
	}
	return servers[winner].index;
}

/** True if a tournament of these needs no weights. */
static inline bool tournament_is_equal(const struct contestant *servers, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		if (memcmp(&servers[i].inverse, &servers[0].inverse, sizeof(servers->inverse)) != 0)
			return false;
	}
	return true;
}
