/* What must stay on one DIP: the key of a flow within its VIP, and its one hash. */
#pragma once

#include "base/addr.h"
#include "base/fault.h"

/** A flow within a VIP. Fixed width, no padding with unknown content, so it may be compared with
 *  memcmp and stored. With affinity `client` everything but src is 0. */
struct flow_key {
	struct ip_addr src;
	uint16_t sport_be;
	uint16_t dport_be;
	uint8_t proto; /* IPPROTO_TCP or IPPROTO_UDP */
	uint8_t dst[3]; /* which address of a VIP that has several (flow_key_put_dst); else 0 */
};
_Static_assert(sizeof(struct flow_key) == 24, "three 64-bit words, hashed as such");

static ALWAYS_INLINE bool flow_key_equal(const struct flow_key *x, const struct flow_key *y)
{
	return memcmp(x, y, sizeof(*x)) == 0;
}

/** Word i of the key's three. (One load each: as an array of three, the compiler copies the key.) */
static ALWAYS_INLINE uint64_t flow_key_word(const struct flow_key *key, unsigned i)
{
	uint64_t word;

	memcpy(&word, (const char *)key + i * sizeof(word), sizeof(word));
	return word;
}

/** One word more into the state of flow_key_hash. */
static ALWAYS_INLINE uint64_t flow_key_mix(uint64_t h, uint64_t word, uint64_t secret)
{
	h ^= word;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	h ^= h >> 29;
	return h * secret;
}

/** True for the key of an IPv4 flow, given its first two words. */
static ALWAYS_INLINE bool flow_key_words_are_v4(uint64_t w0, uint64_t w1)
{
	return w0 == 0 && (uint32_t)w1 == 0xffff0000u; /* ::ffff:a.b.c.d, little-endian */
}

/** 64-bit hash of a key under a VIP's secret seed: multiply, xor and shift only, so that the same
 *  function can run in eBPF. Passes the avalanche, chi-squared and differential tests of tests/unit.
 *  The second multiplier of each round is secret. With two constants there the pair of differences
 *  {bit 63, bit 31} in one word would leave the round as 2^63 +- 2^34 * constant, for every seed, and
 *  a chosen difference in the next word would cancel that once in some thousand keys. With a secret
 *  multiplier at least 30 of its bits decide what must be cancelled.
 *
 *  An IPv4 flow's address and ports fill one word: one round, which is a bijection, so no two flows of
 *  a protocol and dst have equal hashes. Protocol and dst are worth a secret in that round's input; flows
 *  that differ there have equal hashes where their words differ by what only who knows the seed can tell.
 *  Thread: any. */
static ALWAYS_INLINE uint64_t flow_key_hash(const struct flow_key *key, uint64_t seed)
{
	uint64_t secret = (seed ^ 0x9fb21c651e98df25u) | 1;
	uint64_t w0 = flow_key_word(key, 0), w1 = flow_key_word(key, 1);
	uint64_t w2 = flow_key_word(key, 2), h = seed;

	if (flow_key_words_are_v4(w0, w1)) {
		h += (w2 >> 32) * secret;
		h = flow_key_mix(h, w1 >> 32 | w2 << 32, secret);
	} else {
		h = flow_key_mix(h, w0, secret);
		h = flow_key_mix(h, w1, secret);
		h = flow_key_mix(h, w2, secret);
	}
	return FAULT_HASH(h ^ (h >> 32));
}

/** Home Dcode of hash h in a table of n (a power of two) Dcodes. Growing the table by doubling
 *  keeps `home(h, n) == home(h, 2n) mod n`, which growing by doubling relies on: so it must be the
 *  low bits. Bits 0..23 are home's. */
static ALWAYS_INLINE uint32_t flow_home(uint64_t h, uint32_t n)
{
	return (uint32_t)h & (n - 1);
}

/** Fingerprint: bits 48..63, used by nothing else but (re-mixed) the Othello. */
static ALWAYS_INLINE uint32_t flow_fingerprint(uint64_t h)
{
	return (uint32_t)(h >> SIM_SIZE(48, 60));
}
