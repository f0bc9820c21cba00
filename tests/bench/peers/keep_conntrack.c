/* A connection table of whole 5-tuples: Katran (Facebook's, README "LRU cache for connection
 * table" and katran/lib/bpf/balancer.bpf.c: an LRU hash map for each CPU, Maglev's ring for what is
 * not in it, which is then put in) and, but for the bound, the kernel's IPVS (a chained hash table,
 * ip_vs_conn.c). Each thread has its own, for as many flows as are planned for.
 *
 * Known to be weak: any packet makes an entry, so a flood of SYNs pushes out flows that are alive
 * but silent for a while; those, and all flows of a table that is gone (a restart, another
 * balancer), go by the ring, and are broken if that has changed. And it is large. */
#include "tests/bench/peers/keeper.h"

#include <stdlib.h>

#include "tests/bench/peers/lru_table.h"

struct conntrack {
	uint64_t seed;
	unsigned n_vips, n_threads;
	struct ring **rings;
	struct gate *gate;
	struct lru_table *tables; /* by thread */
};

static void *conntrack_create(const struct keeper_config *c)
{
	struct conntrack *ct = keeper_alloc(1, sizeof(*ct));

	ct->seed = c->seed;
	ct->n_vips = c->n_vips;
	ct->n_threads = c->n_threads;
	ct->gate = c->gate;
	ct->rings = rings_new(c);
	ct->tables = keeper_alloc(c->n_threads, sizeof(*ct->tables));
	for (unsigned t = 0; t < c->n_threads; t++)
		lru_init(&ct->tables[t], (c->n_flows + c->n_threads - 1) / c->n_threads, c->seed);
	return ct;
}

static void conntrack_destroy(void *k)
{
	struct conntrack *ct = k;

	for (unsigned t = 0; t < ct->n_threads; t++)
		lru_destroy(&ct->tables[t]);
	free(ct->tables);
	rings_free(ct->rings, ct->n_vips);
	free(ct);
}

static ALWAYS_INLINE uint16_t lookup_one(struct conntrack *ct, struct lru_table *t, unsigned vip,
					 const struct flow_key *key, uint64_t hash)
{
	struct lru_entry *e = lru_find(t, vip, key, hash);
	const struct ring *ring = ct->rings[vip];

	if (likely(e != NULL)) {
		uint16_t dip = lru_ask(e);
		if (!ring_is_up(ring, dip))
			e->dip = dip = ring_dip(ring, hash);
		return dip;
	}
	uint16_t dip = ring_dip(ring, hash);
	lru_insert(t, vip, key, hash, dip);
	return dip;
}

static void conntrack_lookup(void *k, unsigned thread, struct keeper_burst *b)
{
	struct conntrack *ct = k;
	struct lru_table *t = &ct->tables[thread];

	for (unsigned i = 0; i < PEER_BURST; i++) {
		b->l[i].hash = flow_key_hash(&b->l[i].key, keeper_seed(ct->seed, b->vips[i]));
		lru_prefetch(t, b->l[i].hash);
	}
	for (unsigned i = 0; i < PEER_BURST; i++)
		lru_prefetch_entry(t, b->l[i].hash);
	for (unsigned i = 0; i < PEER_BURST; i++)
		b->l[i].dip = lookup_one(ct, t, b->vips[i], &b->l[i].key, b->l[i].hash);
}

static uint16_t conntrack_open(void *k, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct conntrack *ct = k;

	return lookup_one(ct, &ct->tables[thread], vip, key,
			  flow_key_hash(key, keeper_seed(ct->seed, vip)));
}

static void conntrack_close(void *k, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct conntrack *ct = k;

	lru_remove(&ct->tables[thread], vip, key, flow_key_hash(key, keeper_seed(ct->seed, vip)));
}

static void conntrack_change(void *k, unsigned vip, const struct pool *pool)
{
	struct conntrack *ct = k;

	rings_change(ct->rings, vip, pool, ct->gate);
}

static size_t conntrack_bytes(const void *k)
{
	const struct conntrack *ct = k;
	size_t bytes = ct->n_vips * sizeof(struct ring);

	for (unsigned t = 0; t < ct->n_threads; t++)
		bytes += lru_bytes(&ct->tables[t]);
	return bytes;
}

const struct keeper keeper_conntrack = {
	.name = "conntrack",
	.create = conntrack_create,
	.open = conntrack_open,
	.lookup = conntrack_lookup,
	.close = conntrack_close,
	.change = conntrack_change,
	.bytes = conntrack_bytes,
	.destroy = conntrack_destroy,
};
