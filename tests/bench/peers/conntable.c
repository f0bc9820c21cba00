#include "tests/bench/peers/conntable.h"

#include "base/hugemem.h"

void conntable_init(struct conntable *t, uint32_t n, uint64_t seed)
{
	uint64_t size = 1;

	while (size < 2 * (uint64_t)n)
		size *= 2;
	t->seed = seed;
	t->mask = size - 1;
	t->conns = peer_alloc(size * sizeof(*t->conns));
}

void conntable_add(struct conntable *t, uint64_t hash, uint16_t dip)
{
	uint64_t i = hash & t->mask;

	while (t->conns[i].dip)
		i = (i + 1) & t->mask;
	t->conns[i] = (struct conn){.hash = hash, .dip = dip};
}

void conntable_destroy(struct conntable *t)
{
	hugemem_free(t->conns, conntable_bytes(t));
}

size_t conntable_bytes(const struct conntable *t)
{
	return (t->mask + 1) * sizeof(*t->conns);
}

static uint16_t find(const struct conntable *t, uint64_t hash)
{
	uint64_t i = hash & t->mask;

	while (t->conns[i].dip && t->conns[i].hash != hash)
		i = (i + 1) & t->mask;
	return t->conns[i].dip;
}

void conntable_lookup(const struct conntable *t, const struct flow_key *keys, uint16_t *dips)
{
	uint64_t hashes[PEER_BURST];

	for (unsigned i = 0; i < PEER_BURST; i++) {
		hashes[i] = flow_key_hash(&keys[i], t->seed);
		cpu_prefetch(&t->conns[hashes[i] & t->mask]);
	}
	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = find(t, hashes[i]);
}
