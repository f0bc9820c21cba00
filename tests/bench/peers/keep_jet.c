/* JET, just enough tracking (Mendelson et al., CoNEXT 2021): only flows that a server which may
 * come could take are tracked. The servers that may come, the horizon, are known beforehand: a flow
 * is unsafe, and goes into the connection table, iff the consistent hash over working servers and
 * horizon names another one than that over working servers alone. A server that is removed goes to
 * the horizon, since it may return.
 *
 * The consistent hash is the authors' table of rows, each of which rendezvous hashing gives to a
 * server; here by weight (-weight / ln(hash)), and with a bit that says whether the row is unsafe.
 * The connection table is conntrack's, for an eighth of the flows: three times a horizon of one in
 * 32.
 *
 * Known to be weak: a server outside of the horizon, or a larger weight, takes flows that nobody
 * tracked; and a server that drains cannot keep its flows, since they were safe: to be removed
 * breaks them like a failure. */
#include "tests/bench/peers/keeper.h"

#include <math.h>
#include <stdlib.h>

#include "tests/bench/peers/lru_table.h"

#define ROWS 4096u
#define UNSAFE 0x8000u
#define TRACKED_PART 8u

struct rows {
	uint64_t up;
	uint16_t dips[ROWS]; /* and UNSAFE */
};

struct jet {
	uint64_t seed;
	unsigned n_vips, n_threads;
	struct rows **rows; /* by VIP */
	struct gate *gate;
	struct lru_table *tables; /* by thread */
};

/* --- rows ----------------------------------------------------------------------------------------
 */

/* The one of n DIPs that a row goes to: with the largest ln(u) / weight. */
static uint16_t winner(const struct dcode_dip *dips, unsigned n, uint32_t row)
{
	double best = -INFINITY;
	uint16_t index = DIP_NONE;

	for (unsigned i = 0; i < n; i++) {
		uint64_t x = peer_mix(row, dips[i].id) >> 11;
		double score = log(((double)x + 0.5) * 0x1p-53) / dips[i].weight;
		if (score > best) {
			best = score;
			index = dips[i].index;
		}
	}
	return index;
}

static bool has(const struct dcode_dip *dips, unsigned n, uint16_t index)
{
	for (unsigned i = 0; i < n; i++) {
		if (dips[i].index == index)
			return true;
	}
	return false;
}

static struct rows *rows_new(const struct pool *pool)
{
	struct rows *r = peer_alloc(sizeof(*r));
	struct dcode_dip working[KEEPER_DIP_MAX], all[KEEPER_DIP_MAX];
	unsigned n_working = pool_takers(pool, false, working);
	unsigned n_all = pool_takers(pool, true, all);

	if (!n_working)
		keeper_fail("no DIP takes flows");
	r->up = pool_up(pool);
	for (uint32_t row = 0; row < ROWS; row++) {
		uint16_t dip = winner(all, n_all, row);
		/* Else it would win among the working ones, too. */
		if (!has(working, n_working, dip))
			dip = winner(working, n_working, row) | UNSAFE;
		r->dips[row] = dip;
	}
	return r;
}

static void rows_free(struct rows *r)
{
	hugemem_free(r, sizeof(*r));
}

static void jet_change(void *k, unsigned vip, const struct pool *pool)
{
	struct jet *j = k;
	struct rows *next = rows_new(pool), *old = j->rows[vip];

	gate_hold(j->gate);
	j->rows[vip] = next;
	gate_release(j->gate);
	rows_free(old);
}

/* --- life ----------------------------------------------------------------------------------------
 */

static void *jet_create(const struct keeper_config *c)
{
	struct jet *j = keeper_alloc(1, sizeof(*j));

	j->seed = c->seed;
	j->n_vips = c->n_vips;
	j->n_threads = c->n_threads;
	j->gate = c->gate;
	j->rows = keeper_alloc(c->n_vips, sizeof(struct rows *));
	for (unsigned v = 0; v < c->n_vips; v++)
		j->rows[v] = rows_new(&c->pools[v]);
	j->tables = keeper_alloc(c->n_threads, sizeof(*j->tables));
	for (unsigned t = 0; t < c->n_threads; t++)
		lru_init(&j->tables[t], c->n_flows / TRACKED_PART / c->n_threads + 1, c->seed);
	return j;
}

static void jet_destroy(void *k)
{
	struct jet *j = k;

	for (unsigned v = 0; v < j->n_vips; v++)
		rows_free(j->rows[v]);
	for (unsigned t = 0; t < j->n_threads; t++)
		lru_destroy(&j->tables[t]);
	free(j->rows);
	free(j->tables);
	free(j);
}

/* --- packets -------------------------------------------------------------------------------------
 */

static ALWAYS_INLINE const uint16_t *row_of(const struct rows *r, uint64_t hash)
{
	return &r->dips[mul_shift32((uint32_t)hash, ROWS)];
}

static ALWAYS_INLINE uint16_t lookup_one(struct jet *j, struct lru_table *t, unsigned vip,
					 const struct flow_key *key, uint64_t hash)
{
	struct lru_entry *e = lru_find(t, vip, key, hash);
	const struct rows *r = j->rows[vip];
	uint16_t row = *row_of(r, hash), dip = row & (uint16_t)~UNSAFE;

	if (e) {
		uint16_t known = lru_ask(e);
		if (r->up >> known & 1)
			return known;
		lru_remove(t, vip, key, hash);
	}
	if (row & UNSAFE)
		lru_insert(t, vip, key, hash, dip);
	return dip;
}

static void jet_lookup(void *k, unsigned thread, struct keeper_burst *b)
{
	struct jet *j = k;
	struct lru_table *t = &j->tables[thread];

	for (unsigned i = 0; i < PEER_BURST; i++) {
		b->l[i].hash = flow_key_hash(&b->l[i].key, keeper_seed(j->seed, b->vips[i]));
		lru_prefetch(t, b->l[i].hash);
		cpu_prefetch(row_of(j->rows[b->vips[i]], b->l[i].hash));
	}
	for (unsigned i = 0; i < PEER_BURST; i++)
		lru_prefetch_entry(t, b->l[i].hash);
	for (unsigned i = 0; i < PEER_BURST; i++)
		b->l[i].dip = lookup_one(j, t, b->vips[i], &b->l[i].key, b->l[i].hash);
}

static uint16_t jet_open(void *k, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct jet *j = k;

	return lookup_one(j, &j->tables[thread], vip, key,
			  flow_key_hash(key, keeper_seed(j->seed, vip)));
}

static void jet_close(void *k, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct jet *j = k;

	lru_remove(&j->tables[thread], vip, key, flow_key_hash(key, keeper_seed(j->seed, vip)));
}

static size_t jet_bytes(const void *k)
{
	const struct jet *j = k;
	size_t bytes = j->n_vips * sizeof(struct rows);

	for (unsigned t = 0; t < j->n_threads; t++)
		bytes += lru_bytes(&j->tables[t]);
	return bytes;
}

const struct keeper keeper_jet = {
	.name = "jet",
	.create = jet_create,
	.open = jet_open,
	.lookup = jet_lookup,
	.close = jet_close,
	.change = jet_change,
	.bytes = jet_bytes,
	.destroy = jet_destroy,
};
