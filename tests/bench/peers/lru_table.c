#include "tests/bench/peers/lru_table.h"

#include <assert.h>

#include "base/hugemem.h"
#include "tests/bench/peers/keeper.h"

void lru_init(struct lru_table *t, uint32_t n, uint64_t seed)
{
	*t = (struct lru_table){.n = n, .seed = seed, .free = 1};
	t->heads = peer_alloc(n * sizeof(*t->heads));
	t->entries = peer_alloc(n * sizeof(*t->entries));
	for (uint32_t i = 0; i + 1 < n; i++)
		t->entries[i].next = i + 2;
}

void lru_destroy(struct lru_table *t)
{
	hugemem_free(t->heads, t->n * sizeof(*t->heads));
	hugemem_free(t->entries, t->n * sizeof(*t->entries));
}

size_t lru_bytes(const struct lru_table *t)
{
	return t->n * (sizeof(*t->heads) + sizeof(*t->entries));
}

/* Take entry number e - 1 out of its chain, and put it among the free. */
static void unlink_entry(struct lru_table *t, uint32_t e, uint64_t hash)
{
	uint32_t *p = lru_head(t, hash);

	while (*p != e) {
		assert(*p);
		p = &t->entries[*p - 1].next;
	}
	*p = t->entries[e - 1].next;
	t->entries[e - 1].dip = DIP_NONE;
	t->entries[e - 1].next = t->free;
	t->free = e;
}

static void evict(struct lru_table *t)
{
	for (;;) {
		struct lru_entry *e = &t->entries[t->hand];
		t->hand = t->hand + 1 < t->n ? t->hand + 1 : 0;
		if (e->dip & LRU_ASKED) {
			e->dip &= (uint16_t)~LRU_ASKED;
			continue;
		}
		unlink_entry(t, (uint32_t)(e - t->entries) + 1,
			     flow_key_hash(&e->key, keeper_seed(t->seed, e->vip)));
		t->n_evicted++;
		return;
	}
}

void lru_insert(struct lru_table *t, unsigned vip, const struct flow_key *key, uint64_t hash,
		uint16_t dip)
{
	if (!t->free)
		evict(t);
	uint32_t e = t->free, *head = lru_head(t, hash);
	struct lru_entry *x = &t->entries[e - 1];

	t->free = x->next;
	*x = (struct lru_entry){.key = *key, .next = *head, .vip = (uint16_t)vip, .dip = dip};
	*head = e;
}

void lru_remove(struct lru_table *t, unsigned vip, const struct flow_key *key, uint64_t hash)
{
	struct lru_entry *x = lru_find(t, vip, key, hash);

	if (x)
		unlink_entry(t, (uint32_t)(x - t->entries) + 1, hash);
}
