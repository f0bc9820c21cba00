/* What must stay on one DIP: the key of a flow within its VIP, and its one hash. (DESIGN 1, 3) */
#pragma once

#include "base/addr.h"

/** A flow within a VIP. Fixed width, no padding with unknown content, so it may be compared with
 *  memcmp and stored. With affinity `client` everything but src is 0. */
struct flow_key {
	struct ip_addr src;
	uint16_t sport_be;
	uint16_t dport_be;
	uint8_t proto; /* IPPROTO_TCP or IPPROTO_UDP */
	uint8_t zero[3];
};
_Static_assert(sizeof(struct flow_key) == 24, "three 64-bit words, hashed as such");

static ALWAYS_INLINE bool flow_key_equal(const struct flow_key *x, const struct flow_key *y)
{
	return memcmp(x, y, sizeof(*x)) == 0;
}

/** 64-bit hash of a key under a VIP's secret seed: multiply, xor and shift only, so that the same
 *  function can run in eBPF. Passes the avalanche and chi-squared tests of tests/unit. Each word is
 *  mixed fully before the next one enters, so a difference in one word cannot be cancelled by a
 *  chosen difference in the next without knowing the seed. Thread: any. (DESIGN 3) */
static ALWAYS_INLINE uint64_t flow_key_hash(const struct flow_key *key, uint64_t seed)
{
	uint64_t w[3];
	uint64_t h = seed;

	memcpy(w, key, sizeof(w));
	for (int i = 0; i < 3; i++) {
		h ^= w[i];
		h ^= h >> 32;
		h *= 0xd6e8feb86659fd93u;
		h ^= h >> 29;
		h *= 0x9fb21c651e98df25u;
		h += seed; /* so that the seed is not only a mask on the first word */
	}
	return h ^ (h >> 32);
}

/** Home Dcode of hash h in a table of n (a power of two) Dcodes. Growing the table by doubling
 *  keeps `home(h, n) == home(h, 2n) mod n`, which DESIGN 5's doubling relies on: so it must be the
 *  low bits. Bits 0..23 are home's. */
static ALWAYS_INLINE uint32_t flow_home(uint64_t h, uint32_t n)
{
	return (uint32_t)h & (n - 1);
}

/** Fingerprint: bits 48..63, used by nothing else but (re-mixed) the Othello. */
static ALWAYS_INLINE uint32_t flow_fingerprint(uint64_t h)
{
	return (uint32_t)(h >> 48);
}
