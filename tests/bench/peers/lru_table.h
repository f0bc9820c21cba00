/* A table of whole flow keys that never holds more than it was made for: the flow that goes is the
 * next one, clockwise, that was not asked for since the hand passed it. That is what the kernel's
 * LRU hash map comes to, which marks an entry when it is read and looks for one without mark when
 * it needs one. 36 bytes a flow, less than a third of what an entry of that map takes. */
#pragma once

#include "lookup/dcode_table.h"
#include "tests/bench/peers/peer.h"

struct lru_entry {
	struct flow_key key;
	uint32_t next; /* in its chain or among the free, number + 1; 0 = last */
	uint16_t vip;
	uint16_t dip; /* DIP_NONE: free; the highest bit: asked for */
};
_Static_assert(sizeof(struct lru_entry) == 32, "two in a cache line");

#define LRU_ASKED 0x8000u

struct lru_table {
	uint64_t seed;
	uint32_t *heads; /* as many as entries; entry number + 1 */
	struct lru_entry *entries;
	uint32_t n;
	uint32_t hand;
	uint32_t free; /* number + 1 */
	uint64_t n_evicted;
};

/** Empty, for n flows; hashes are those of keeper_seed. Exits without memory. */
void lru_init(struct lru_table *t, uint32_t n, uint64_t seed);
void lru_destroy(struct lru_table *t);
size_t lru_bytes(const struct lru_table *t);

/** Put in a flow that is not in. */
void lru_insert(struct lru_table *t, unsigned vip, const struct flow_key *key, uint64_t hash,
		uint16_t dip);
/** Take a flow out, if it is in. */
void lru_remove(struct lru_table *t, unsigned vip, const struct flow_key *key, uint64_t hash);

static ALWAYS_INLINE uint32_t *lru_head(const struct lru_table *t, uint64_t hash)
{
	return &t->heads[mul_shift32((uint32_t)(hash >> 32), t->n)];
}

/** Two steps towards an entry. */
static ALWAYS_INLINE void lru_prefetch(const struct lru_table *t, uint64_t hash)
{
	cpu_prefetch(lru_head(t, hash));
}

static ALWAYS_INLINE void lru_prefetch_entry(const struct lru_table *t, uint64_t hash)
{
	uint32_t e = *lru_head(t, hash);

	if (e)
		cpu_prefetch(&t->entries[e - 1]);
}

/** The flow's entry, or NULL. */
static ALWAYS_INLINE struct lru_entry *lru_find(const struct lru_table *t, unsigned vip,
						const struct flow_key *key, uint64_t hash)
{
	uint32_t e = *lru_head(t, hash);

	while (e) {
		struct lru_entry *x = &t->entries[e - 1];
		if (x->vip == vip && flow_key_equal(&x->key, key))
			return x;
		e = x->next;
	}
	return NULL;
}

/** Its DIP; and it was asked for. */
static ALWAYS_INLINE uint16_t lru_ask(struct lru_entry *e)
{
	if (!(e->dip & LRU_ASKED))
		e->dip |= LRU_ASKED;
	return e->dip & (uint16_t)~LRU_ASKED;
}
