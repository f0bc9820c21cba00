/* What the layouts that are measured against have in common: bursts of PEER_BURST keys, hashed by
 * the same function, tables from the same allocator. */
#pragma once

#include "lookup/flow_key.h"

#define PEER_BURST 32u

/** hugemem_alloc, or exit. */
void *peer_alloc(size_t size);

/** A good mix of x under a seed. */
static inline uint64_t peer_mix(uint64_t x, uint64_t seed)
{
	x ^= seed * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}
