/* SilkRoad's connection table (Miao et al., SIGCOMM 2017, 4.2): stages with a hash each, in each a
 * bucket of four words, in a word 16 bits of digest and 6 of a version. The packets' threads see
 * only the words; the switch's software beside them knows the whole hash of each, so that it can move
 * words between stages: to make room (cuckoo), and to part a flow from another one with its digest.
 *
 * Two stages, the fewest that can be moved between: each costs a cache line a lookup. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "tests/bench/peers/peer.h"

#define DIGEST_STAGES 2u
#define DIGEST_WAYS 4u

struct digest_bucket {
	_Atomic uint32_t words[DIGEST_WAYS]; /* digest << 16 | version; 0 = free */
};
_Static_assert(sizeof(struct digest_bucket) == 16, "within a cache line");

struct digest_table {
	struct digest_bucket *stages[DIGEST_STAGES];
	uint64_t (*hashes[DIGEST_STAGES])[DIGEST_WAYS]; /* the software's */
	uint32_t n_buckets;				/* of a stage */
	uint64_t random;
};

/** One word's place; stage DIGEST_STAGES: none. */
struct digest_place {
	uint32_t stage;
	uint32_t bucket;
	uint32_t way;
};

/** Empty, for n flows, at five sixths of its words. Exits without memory. */
void digest_init(struct digest_table *t, uint32_t n);
void digest_destroy(struct digest_table *t);
size_t digest_bytes(const struct digest_table *t);

static ALWAYS_INLINE uint32_t digest_bucket_of(const struct digest_table *t, uint64_t hash,
					       unsigned stage)
{
	uint64_t x = stage ? (hash ^ hash >> 32) * 0x9fb21c651e98df25u : hash;

	return mul_shift32((uint32_t)(x >> 32), t->n_buckets);
}

static ALWAYS_INLINE uint32_t digest_of(uint64_t hash)
{
	return (uint32_t)hash & 0xffff;
}

static ALWAYS_INLINE void digest_prefetch(const struct digest_table *t, uint64_t hash)
{
	for (unsigned s = 0; s < DIGEST_STAGES; s++)
		cpu_prefetch(&t->stages[s][digest_bucket_of(t, hash, s)]);
}

/** What a packet of this hash hits: the first word with its digest. */
static ALWAYS_INLINE struct digest_place digest_hit(const struct digest_table *t, uint64_t hash,
						    uint32_t *version)
{
	for (uint32_t s = 0; s < DIGEST_STAGES; s++) {
		uint32_t b = digest_bucket_of(t, hash, s);
		for (uint32_t w = 0; w < DIGEST_WAYS; w++) {
			uint32_t word = atomic_load_explicit(&t->stages[s][b].words[w],
							     memory_order_relaxed);
			if (word >> 16 == digest_of(hash) && (word & 0xffff)) {
				*version = word & 0xffff;
				return (struct digest_place){s, b, w};
			}
		}
	}
	return (struct digest_place){.stage = DIGEST_STAGES};
}

/** The whole hash of a word. */
static inline uint64_t digest_hash_at(const struct digest_table *t, struct digest_place p)
{
	return t->hashes[p.stage][p.bucket][p.way];
}

/** Put in a flow that is not in, moving others. False: there is no room. Thread of these: the
 *  software. */
bool digest_insert(struct digest_table *t, uint64_t hash, uint32_t version);
/** Move a flow to another stage. False: there is no room. */
bool digest_relocate(struct digest_table *t, struct digest_place p);
/** The place of the flow itself, not only of its digest. */
struct digest_place digest_find(const struct digest_table *t, uint64_t hash, uint32_t *version);
void digest_remove(struct digest_table *t, struct digest_place p);
