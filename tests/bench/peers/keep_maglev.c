/* Maglev (Eisenbud et al., NSDI 2016, 3.3 and 3.4): each thread has a connection table of its own,
 * of a fixed size, that knows a flow by a part of its hash; what is not in it goes by Maglev's ring
 * and is put in, whatever packet of the flow it is. A flow is chosen for anew if its DIP is not
 * healthy.
 *
 * A set of ten entries is a cache line: 32 bits of the hash and a DIP each. Four flows a set are
 * planned for (16 bytes a flow). A full set forgets what was not asked for since its hand passed.
 *
 * Known to be weak: a flow that was forgotten goes by the ring, and is broken if that has changed
 * since it was opened. So are all flows of a thread or a balancer whose table is not there: another
 * one's after a change of ECMP, or a restart. A flow with the bits of another one shares its entry.
 */
#include "tests/bench/peers/keeper.h"

#include <stdlib.h>

#define WAYS 10u
#define FLOWS_A_SET 4u

struct set {
	uint32_t digests[WAYS];
	uint16_t dips[WAYS]; /* DIP_NONE: free */
	uint16_t refs;	     /* by way: asked for since the hand passed */
	uint16_t hand;
};
_Static_assert(sizeof(struct set) == CACHE_LINE, "one miss a lookup");

struct table {
	struct set *sets;
	uint64_t (*hashes)[WAYS]; /* whole ones, if there is a witness */
	uint32_t n_sets;
};

struct maglev {
	uint64_t seed;
	unsigned n_vips, n_threads;
	struct ring **rings;
	struct gate *gate;
	struct table *tables; /* by thread */
	uint64_t false_hits;
};

static void *maglev_create(const struct keeper_config *c)
{
	struct maglev *m = keeper_alloc(1, sizeof(*m));
	uint32_t n_flows = (c->n_flows + c->n_threads - 1) / c->n_threads;

	m->seed = c->seed;
	m->n_vips = c->n_vips;
	m->n_threads = c->n_threads;
	m->gate = c->gate;
	m->rings = rings_new(c);
	m->tables = keeper_alloc(c->n_threads, sizeof(*m->tables));
	for (unsigned t = 0; t < c->n_threads; t++) {
		struct table *table = &m->tables[t];
		table->n_sets = (n_flows + FLOWS_A_SET - 1) / FLOWS_A_SET;
		table->sets = peer_alloc(table->n_sets * sizeof(*table->sets));
		if (c->witness)
			table->hashes = keeper_alloc(table->n_sets, sizeof(*table->hashes));
	}
	return m;
}

static void maglev_destroy(void *k)
{
	struct maglev *m = k;

	for (unsigned t = 0; t < m->n_threads; t++) {
		hugemem_free(m->tables[t].sets, m->tables[t].n_sets * sizeof(struct set));
		free(m->tables[t].hashes);
	}
	free(m->tables);
	rings_free(m->rings, m->n_vips);
	free(m);
}

static ALWAYS_INLINE uint32_t set_of(const struct table *t, uint64_t hash)
{
	return mul_shift32((uint32_t)(hash >> 32), t->n_sets);
}

/* The way of the digest, or WAYS. */
static ALWAYS_INLINE unsigned find(const struct set *s, uint32_t digest)
{
	unsigned found = 0;

	for (unsigned w = 0; w < WAYS; w++)
		found |= (unsigned)(s->digests[w] == digest && s->dips[w] != DIP_NONE) << w;
	return found ? (unsigned)__builtin_ctz(found) : WAYS;
}

static unsigned victim(struct set *s)
{
	for (unsigned w = 0; w < WAYS; w++) {
		if (s->dips[w] == DIP_NONE)
			return w;
	}
	for (;;) {
		unsigned w = s->hand;
		s->hand = (uint16_t)((w + 1) % WAYS);
		if (!(s->refs >> w & 1))
			return w;
		s->refs &= (uint16_t) ~(1u << w);
	}
}

static uint16_t insert(struct maglev *m, struct table *t, unsigned vip, uint64_t hash)
{
	struct set *s = &t->sets[set_of(t, hash)];
	unsigned w = find(s, (uint32_t)hash); /* of a DIP that is not up */

	if (w == WAYS)
		w = victim(s);
	s->digests[w] = (uint32_t)hash;
	s->dips[w] = ring_dip(m->rings[vip], hash);
	s->refs &= (uint16_t) ~(1u << w);
	if (t->hashes)
		t->hashes[s - t->sets][w] = hash;
	return s->dips[w];
}

static ALWAYS_INLINE uint16_t lookup_one(struct maglev *m, struct table *t, unsigned vip,
					 uint64_t hash)
{
	struct set *s = &t->sets[set_of(t, hash)];
	unsigned w = find(s, (uint32_t)hash);

	if (unlikely(w == WAYS) || !ring_is_up(m->rings[vip], s->dips[w]))
		return insert(m, t, vip, hash);
	if (!(s->refs >> w & 1))
		s->refs |= (uint16_t)(1u << w);
	if (unlikely(t->hashes != NULL))
		m->false_hits += t->hashes[s - t->sets][w] != hash;
	return s->dips[w];
}

static void maglev_lookup(void *k, unsigned thread, struct keeper_burst *b)
{
	struct maglev *m = k;
	struct table *t = &m->tables[thread];

	for (unsigned i = 0; i < PEER_BURST; i++) {
		b->l[i].hash = flow_key_hash(&b->l[i].key, keeper_seed(m->seed, b->vips[i]));
		cpu_prefetch(&t->sets[set_of(t, b->l[i].hash)]);
	}
	for (unsigned i = 0; i < PEER_BURST; i++)
		b->l[i].dip = lookup_one(m, t, b->vips[i], b->l[i].hash);
}

static uint16_t maglev_open(void *k, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct maglev *m = k;

	return lookup_one(m, &m->tables[thread], vip,
			  flow_key_hash(key, keeper_seed(m->seed, vip)));
}

static void maglev_close(void *k, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct maglev *m = k;
	struct table *t = &m->tables[thread];
	uint64_t hash = flow_key_hash(key, keeper_seed(m->seed, vip));
	struct set *s = &t->sets[set_of(t, hash)];
	unsigned w = find(s, (uint32_t)hash);

	if (w < WAYS)
		s->dips[w] = DIP_NONE;
}

static void maglev_change(void *k, unsigned vip, const struct pool *pool)
{
	struct maglev *m = k;

	rings_change(m->rings, vip, pool, m->gate);
}

static size_t maglev_bytes(const void *k)
{
	const struct maglev *m = k;
	size_t bytes = m->n_vips * sizeof(struct ring);

	for (unsigned t = 0; t < m->n_threads; t++)
		bytes += m->tables[t].n_sets * sizeof(struct set);
	return bytes;
}

static uint64_t maglev_false_hits(const void *k)
{
	const struct maglev *m = k;

	return m->false_hits;
}

const struct keeper keeper_maglev = {
	.name = "maglev",
	.create = maglev_create,
	.open = maglev_open,
	.lookup = maglev_lookup,
	.close = maglev_close,
	.change = maglev_change,
	.bytes = maglev_bytes,
	.false_hits = maglev_false_hits,
	.destroy = maglev_destroy,
};
