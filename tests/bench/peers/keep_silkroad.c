/* SilkRoad (Miao et al., SIGCOMM 2017, 4.2 and 4.3) in software: a table of digests that says under
 * which version of its VIP's pool a flow was opened (digest_table.h), and each version's DIPs, of
 * which the hash chooses one. What is not in the table goes by the present version.
 *
 * A first packet is told to the software (learning filter), which inserts it. One that hits the
 * word of another flow goes to the software at once, which moves that word to another stage. A pool
 * changes in three steps: first packets are noted in a Bloom filter (TransitTable) while those that
 * were told before are inserted; then the VIP goes over to the new version, and what is neither in
 * the table nor new but in the filter still goes by the old one; once those are inserted too, the
 * filter is cleared. An old version whose pool is the one that is wanted is used again.
 *
 * Known to be weak: other packets than first ones cannot be told from another flow's with the same
 * digest, when a word was moved to where they look; they go by that word's version (false hits).
 * 63 versions a VIP: when flows hold them all, the one with the fewest is taken from those. A flow
 * keeps its version even where its DIP is gone. */
#include "tests/bench/peers/keeper.h"

#include <assert.h>
#include <stdlib.h>

#include "tests/bench/peers/digest_table.h"

#define N_VERSIONS 64u /* 6 bits; 0 = none */
#define SLOTS_MAX 256u /* of a version: DIPs, as often as their weight */
#define TRANSIT_BITS 2048u
#define TRANSIT_HASHES 3u

struct version {
	uint32_t n;
	uint32_t refs; /* flows in the table; the software's */
	uint16_t slots[SLOTS_MAX];
};

enum step { SETTLED, NOTE, GO_OVER };

struct service {
	struct version *versions[N_VERSIONS]; /* NULL: not in use */
	_Atomic uint32_t state;		      /* step << 16 | old version << 8 | present one */
};

struct silkroad {
	uint64_t seed;
	unsigned n_vips, n_threads;
	struct gate *gate;
	struct service *services;
	struct digest_table table;
	_Atomic uint64_t transit[TRANSIT_BITS / 64];
	struct learn_ring **reports;
	bool witness;
	uint64_t false_hits;
};

static uint32_t present_of(uint32_t state)
{
	return state & 0xff;
}

static uint32_t old_of(uint32_t state)
{
	return state >> 8 & 0xff;
}

static enum step step_of(uint32_t state)
{
	return (enum step)(state >> 16);
}

static ALWAYS_INLINE uint32_t state_of(const struct silkroad *k, unsigned vip)
{
	return atomic_load_explicit(&k->services[vip].state, memory_order_acquire);
}

static ALWAYS_INLINE uint16_t choose(const struct silkroad *k, unsigned vip, uint32_t version,
				     uint64_t hash)
{
	const struct version *v = k->services[vip].versions[version];

	return v->slots[mul_shift32((uint32_t)(hash >> 16), v->n)];
}

/* --- the TransitTable ----------------------------------------------------------------------------
 */

static uint32_t transit_bit(uint64_t hash, unsigned i)
{
	return (uint32_t)peer_mix(hash, i + 1) & (TRANSIT_BITS - 1);
}

static void transit_note(struct silkroad *k, uint64_t hash)
{
	for (unsigned i = 0; i < TRANSIT_HASHES; i++) {
		uint32_t bit = transit_bit(hash, i);
		atomic_fetch_or(&k->transit[bit / 64], (uint64_t)1 << bit % 64);
	}
}

static bool transit_has(const struct silkroad *k, uint64_t hash)
{
	for (unsigned i = 0; i < TRANSIT_HASHES; i++) {
		uint32_t bit = transit_bit(hash, i);
		if (!(k->transit[bit / 64] >> bit % 64 & 1))
			return false;
	}
	return true;
}

/* --- the software --------------------------------------------------------------------------------
 */

static void silkroad_work(void *keeper)
{
	struct silkroad *k = keeper;
	const struct learn_record *rec;
	uint32_t version;

	for (unsigned t = 0; t < k->n_threads; t++) {
		while ((rec = learn_ring_peek(k->reports[t])) != NULL) {
			struct version *v = k->services[rec->vip_slot].versions[rec->dip];
			if (digest_find(&k->table, rec->hash, &version).stage == DIGEST_STAGES &&
			    digest_insert(&k->table, rec->hash, rec->dip))
				v->refs++;
			learn_ring_pop(k->reports[t]);
		}
	}
}

static uint32_t divisor(const struct dcode_dip *dips, unsigned n)
{
	uint32_t g = 0;

	for (unsigned i = 0; i < n; i++) {
		for (uint32_t a = dips[i].weight; a;) {
			uint32_t rest = g % a;
			g = a;
			a = rest;
		}
	}
	return g;
}

static struct version *version_new(const struct pool *pool)
{
	struct version *v = keeper_alloc(1, sizeof(*v));
	struct dcode_dip takers[KEEPER_DIP_MAX];
	unsigned n = pool_takers(pool, false, takers);
	uint32_t unit = divisor(takers, n);

	if (!n)
		keeper_fail("no DIP takes flows");
	for (unsigned i = 0; i < n; i++) {
		for (uint32_t w = 0; w < takers[i].weight / unit; w++) {
			assert(v->n < SLOTS_MAX);
			v->slots[v->n++] = takers[i].index;
		}
	}
	return v;
}

/* A version with the same DIPs, one that no flow has, or the one that the fewest have. */
static uint32_t version_number(const struct service *s, const struct version *next)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < N_VERSIONS; i++) {
		const struct version *v = s->versions[i];
		if (v && v->n == next->n && memcmp(v->slots, next->slots, sizeof(v->slots)) == 0)
			return i;
	}
	for (uint32_t i = 1; i < N_VERSIONS; i++) {
		const struct version *v = s->versions[i], *b = s->versions[best];
		if (!v)
			return i;
		if (i != present_of(s->state) && (!best || v->refs < b->refs))
			best = i;
	}
	return best;
}

static void set_state(struct silkroad *k, unsigned vip, enum step step, uint32_t old,
		      uint32_t present)
{
	atomic_store(&k->services[vip].state, (uint32_t)step << 16 | old << 8 | present);
}

/* All that was noted is in the table now. Versions that no flow has are not needed. */
static void settle(struct silkroad *k, unsigned vip, uint32_t number)
{
	struct service *s = &k->services[vip];

	set_state(k, vip, SETTLED, number, number);
	for (unsigned i = 0; i < ARRAY_LEN(k->transit); i++)
		k->transit[i] = 0;
	for (uint32_t i = 1; i < N_VERSIONS; i++) {
		if (i != number && s->versions[i] && !s->versions[i]->refs) {
			free(s->versions[i]);
			s->versions[i] = NULL;
		}
	}
}

static void silkroad_change(void *keeper, unsigned vip, const struct pool *pool)
{
	struct silkroad *k = keeper;
	struct service *s = &k->services[vip];
	struct version *next = version_new(pool), *was;
	uint32_t number = version_number(s, next), old = present_of(s->state);

	was = s->versions[number];
	if (was)
		next->refs = was->refs;
	set_state(k, vip, NOTE, old, old);
	gate_hold(k->gate); /* what was told before is there, and nobody reads `was` */
	silkroad_work(k);
	s->versions[number] = next;
	gate_release(k->gate);
	set_state(k, vip, GO_OVER, old, number);
	gate_hold(k->gate);
	silkroad_work(k);
	settle(k, vip, number);
	gate_release(k->gate);
	free(was);
}

/* --- packets -------------------------------------------------------------------------------------
 */

/* What is not in the table. */
static ALWAYS_INLINE uint32_t version_of_miss(const struct silkroad *k, unsigned vip, uint64_t hash)
{
	uint32_t state = state_of(k, vip);

	if (unlikely(step_of(state) == GO_OVER) && transit_has(k, hash))
		return old_of(state);
	return present_of(state);
}

static ALWAYS_INLINE uint16_t lookup_one(struct silkroad *k, unsigned vip, uint64_t hash)
{
	uint32_t version;
	struct digest_place p = digest_hit(&k->table, hash, &version);

	if (p.stage == DIGEST_STAGES)
		return choose(k, vip, version_of_miss(k, vip, hash), hash);
	if (unlikely(k->witness))
		k->false_hits += digest_hash_at(&k->table, p) != hash;
	/* Another VIP's flow, whose version this one does not have. */
	if (unlikely(!k->services[vip].versions[version]))
		version = present_of(state_of(k, vip));
	return choose(k, vip, version, hash);
}

static void silkroad_lookup(void *keeper, unsigned thread, struct keeper_burst *b)
{
	struct silkroad *k = keeper;

	(void)thread;
	for (unsigned i = 0; i < PEER_BURST; i++) {
		b->l[i].hash = flow_key_hash(&b->l[i].key, keeper_seed(k->seed, b->vips[i]));
		digest_prefetch(&k->table, b->l[i].hash);
	}
	for (unsigned i = 0; i < PEER_BURST; i++)
		b->l[i].dip = lookup_one(k, b->vips[i], b->l[i].hash);
}

/* The software parts a first packet from the words of others that it hits; a switch sends it there
 * for that. Where the software is another thread (there is a gate), it goes by what it hit. */
static bool part(struct silkroad *k, uint64_t hash, uint32_t *version)
{
	for (unsigned tries = 0; tries < 4; tries++) {
		struct digest_place p = digest_hit(&k->table, hash, version);
		if (p.stage == DIGEST_STAGES)
			return false;
		if (k->gate || digest_hash_at(&k->table, p) == hash)
			return true;
		if (!digest_relocate(&k->table, p))
			return true;
	}
	return true;
}

static uint16_t silkroad_open(void *keeper, unsigned thread, unsigned vip,
			      const struct flow_key *key)
{
	struct silkroad *k = keeper;
	uint64_t hash = flow_key_hash(key, keeper_seed(k->seed, vip));
	uint32_t version;

	if (part(k, hash, &version) && k->services[vip].versions[version])
		return choose(k, vip, version, hash);
	uint32_t state = state_of(k, vip);
	version = present_of(state);
	if (step_of(state) == NOTE)
		transit_note(k, hash);
	struct learn_record rec = {
		.key = *key, .hash = hash, .vip_slot = (uint16_t)vip, .dip = (uint16_t)version};
	if (unlikely(!learn_ring_push(k->reports[thread], &rec)) && !k->gate) {
		silkroad_work(k);
		if (!learn_ring_push(k->reports[thread], &rec))
			keeper_fail("a report is lost");
	}
	return choose(k, vip, version, hash);
}

static void silkroad_close(void *keeper, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct silkroad *k = keeper;
	uint64_t hash = flow_key_hash(key, keeper_seed(k->seed, vip));
	uint32_t version;

	(void)thread;
	silkroad_work(k);
	struct digest_place p = digest_find(&k->table, hash, &version);
	if (p.stage == DIGEST_STAGES)
		return;
	struct version *v = k->services[vip].versions[version];
	assert(v && v->refs > 0);
	v->refs--;
	digest_remove(&k->table, p);
}

/* --- life ----------------------------------------------------------------------------------------
 */

static void *silkroad_create(const struct keeper_config *c)
{
	struct silkroad *k = keeper_alloc(1, sizeof(*k));

	k->seed = c->seed;
	k->n_vips = c->n_vips;
	k->n_threads = c->n_threads;
	k->gate = c->gate;
	k->witness = c->witness;
	k->reports = reports_new(c->n_threads);
	digest_init(&k->table, c->n_flows);
	k->services = keeper_alloc(c->n_vips, sizeof(*k->services));
	for (unsigned v = 0; v < c->n_vips; v++) {
		k->services[v].versions[1] = version_new(&c->pools[v]);
		set_state(k, v, SETTLED, 1, 1);
	}
	return k;
}

static void silkroad_destroy(void *keeper)
{
	struct silkroad *k = keeper;

	for (unsigned v = 0; v < k->n_vips; v++) {
		for (unsigned i = 1; i < N_VERSIONS; i++)
			free(k->services[v].versions[i]);
	}
	free(k->services);
	digest_destroy(&k->table);
	reports_free(k->reports, k->n_threads);
	free(k);
}

static size_t silkroad_bytes(const void *keeper)
{
	const struct silkroad *k = keeper;
	size_t bytes = digest_bytes(&k->table) + sizeof(k->transit);

	for (unsigned v = 0; v < k->n_vips; v++) {
		for (unsigned i = 1; i < N_VERSIONS; i++) {
			const struct version *version = k->services[v].versions[i];
			bytes += version ? version->n * sizeof(version->slots[0]) : 0;
		}
	}
	return bytes;
}

static uint64_t silkroad_false_hits(const void *keeper)
{
	const struct silkroad *k = keeper;

	return k->false_hits;
}

const struct keeper keeper_silkroad = {
	.name = "silkroad",
	.create = silkroad_create,
	.open = silkroad_open,
	.lookup = silkroad_lookup,
	.work = silkroad_work,
	.close = silkroad_close,
	.change = silkroad_change,
	.bytes = silkroad_bytes,
	.false_hits = silkroad_false_hits,
	.destroy = silkroad_destroy,
};
