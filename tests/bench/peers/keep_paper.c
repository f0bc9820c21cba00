/* Concury as it was published (arXiv 1908.01889, sections 4 and 5): each VIP has an Othello of the
 * states of all its flows, a state being a Dcode of 12 bits, and a table of 4096 DIPs by Dcode,
 * filled like Maglev's. A new flow takes the Dcode that the arrays, random where no state decides,
 * happen to hold for it; its host agent reports it, and control adds it to its map. At a change
 * control gives each state whose Dcode names another DIP now a Dcode of its own DIP, writes the
 * arrays anew, and the data plane goes over to them.
 *
 * As kind as the text allows: reports are never late and never lost, and a DIP that drains keeps a
 * Dcode, without which its flows would be lost.
 *
 * Known to be weak: a flow that was not reported is lost at the next change, whatever was changed,
 * since new arrays hold something else for it. Every flow takes 4.5 bytes and two cache lines.
 * 12 bits leave no room for what tells a known flow from another. */
#include "tests/bench/peers/keeper.h"

#include <errno.h>
#include <stdlib.h>

#include "base/entropy.h"
#include "lookup/othello_graph.h"
#include "lookup/othello_map.h"
#include "lookup/othello_map_impl.h"
#include "tests/bench/peers/maglev.h"

#define N_DCODES 4096u
#define FILLED 4093u /* a prime; the three that are left are as the first three */
#define DCODE_MASK (N_DCODES - 1)

/* What the data plane has of a VIP. */
struct states {
	struct othello shape; /* no arrays of its own */
	uint8_t *a;	      /* two cells in three bytes; hugemem */
	uint8_t *b;
	uint16_t dips[N_DCODES];
};

struct service {
	struct states *states;
	struct othello_map *map; /* control's */
};

struct paper {
	uint64_t seed;
	uint64_t random;
	unsigned n_vips, n_threads;
	struct gate *gate;
	struct service *services;
	struct learn_ring **reports;
};

/* --- arrays of 12-bit cells ----------------------------------------------------------------------
 */

static size_t packed_bytes(uint32_t n)
{
	return (size_t)n * 3 / 2 + sizeof(uint16_t);
}

static ALWAYS_INLINE const uint8_t *packed_at(const uint8_t *cells, uint32_t i)
{
	return cells + (size_t)i * 3 / 2;
}

static ALWAYS_INLINE uint32_t packed_get(const uint8_t *cells, uint32_t i)
{
	uint16_t word;

	memcpy(&word, packed_at(cells, i), sizeof(word));
	return (i & 1 ? word >> 4 : word) & DCODE_MASK;
}

static uint8_t *pack(const uint32_t *cells, uint32_t n)
{
	uint8_t *to = peer_alloc(packed_bytes(n));

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *p = to + (size_t)i * 3 / 2;
		if (i & 1) {
			p[0] |= (uint8_t)(cells[i] << 4);
			p[1] = (uint8_t)(cells[i] >> 4);
		} else {
			p[0] = (uint8_t)cells[i];
			p[1] = (uint8_t)(cells[i] >> 8);
		}
	}
	return to;
}

static void randomize(struct paper *p, uint32_t *cells, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		cells[i] = (uint32_t)peer_mix(p->random++, p->seed) & DCODE_MASK;
}

/* The arrays of all states of a map: what none of them decides is random. */
static void write_arrays(struct paper *p, const struct othello_map *m, struct states *s)
{
	struct othello wide;
	struct othello_peel peel;

	if (othello_init(&wide, m->shape.n_a, m->shape.n_b, m->shape.seed) ||
	    othello_peel_init(&peel, m->n, wide.n_a, wide.n_b))
		keeper_fail("no memory");
	randomize(p, wide.a, wide.n_a);
	randomize(p, wide.b, wide.n_b);
	if (!othello_peel_run(&peel, m->edges, m->n, wide.n_a, wide.n_b))
		keeper_fail("a cycle");
	othello_graph_write(&peel, m->edges, m->values, &wide);
	s->shape = m->shape;
	s->a = pack(wide.a, wide.n_a);
	s->b = pack(wide.b, wide.n_b);
	othello_peel_destroy(&peel);
	othello_destroy(&wide);
}

static void states_free(struct states *s)
{
	if (!s)
		return;
	hugemem_free(s->a, packed_bytes(s->shape.n_a));
	hugemem_free(s->b, packed_bytes(s->shape.n_b));
	hugemem_free(s, sizeof(*s));
}

/* --- Dcodes --------------------------------------------------------------------------------------
 */

static void fill_dips(const struct pool *pool, uint16_t *dips)
{
	struct dcode_dip takers[KEEPER_DIP_MAX];
	unsigned n = pool_takers(pool, false, takers);

	if (!n)
		keeper_fail("no DIP takes flows");
	maglev_fill_sized(takers, n, dips, FILLED);
	memcpy(dips + FILLED, dips, (N_DCODES - FILLED) * sizeof(*dips));
	for (unsigned i = 0, c = 0; i < pool->n; i++) {
		if (pool->dips[i].up && !pool->dips[i].weight)
			dips[c++] = pool->dips[i].index;
	}
}

/* Dcodes of each DIP, one list after another. */
struct by_dip {
	uint16_t start[KEEPER_DIP_MAX + 2];
	uint16_t dcodes[N_DCODES];
};

static void sort_dcodes(const uint16_t *dips, struct by_dip *by)
{
	uint16_t at[KEEPER_DIP_MAX + 2] = {0};

	for (uint32_t c = 0; c < N_DCODES; c++)
		at[dips[c] + 1]++;
	for (unsigned d = 1; d < ARRAY_LEN(at); d++)
		at[d] = (uint16_t)(at[d] + at[d - 1]);
	memcpy(by->start, at, sizeof(at));
	for (uint32_t c = 0; c < N_DCODES; c++)
		by->dcodes[at[dips[c]]++] = (uint16_t)c;
}

/* States from number `first` on get Dcodes of their DIPs; that of a DIP which has none is lost. */
static void assign_dcodes(struct othello_map *m, uint32_t first, const uint16_t *old,
			  const uint16_t *new)
{
	struct by_dip by;

	sort_dcodes(new, &by);
	for (uint32_t i = first; i < m->n; i++) {
		uint16_t dip = old[m->values[i]];
		uint32_t n = by.start[dip + 1] - (uint32_t)by.start[dip];
		if (new[m->values[i]] != dip && n)
			m->values[i] =
				by.dcodes[by.start[dip] + mul_shift32((uint32_t)m->hashes[i], n)];
	}
}

/* --- the keeper ----------------------------------------------------------------------------------
 */

static void paper_work(void *k)
{
	struct paper *p = k;
	const struct learn_record *rec;

	for (unsigned t = 0; t < p->n_threads; t++) {
		while ((rec = learn_ring_peek(p->reports[t])) != NULL) {
			struct othello_map *m = p->services[rec->vip_slot].map;
			int rc = othello_map_add(m, rec->hash, rec->dip);
			if (rc && rc != -EEXIST)
				keeper_fail("a flow cannot be added");
			learn_ring_pop(p->reports[t]);
		}
	}
}

static void paper_change(void *k, unsigned vip, const struct pool *pool)
{
	struct paper *p = k;
	struct service *s = &p->services[vip];
	struct states *old = s->states, *next = peer_alloc(sizeof(*next));

	paper_work(p);
	uint32_t first_late = s->map->n;
	fill_dips(pool, next->dips);
	if (old)
		assign_dcodes(s->map, 0, old->dips, next->dips);
	write_arrays(p, s->map, next);
	gate_hold(p->gate);
	paper_work(p);
	s->states = next;
	gate_release(p->gate);
	/* Flows that were reported since are lost until the next change, which puts them right. */
	if (old)
		assign_dcodes(s->map, first_late, old->dips, next->dips);
	states_free(old);
}

static void *paper_create(const struct keeper_config *c)
{
	struct paper *p = keeper_alloc(1, sizeof(*p));

	p->seed = c->seed;
	p->n_vips = c->n_vips;
	p->n_threads = c->n_threads;
	p->reports = reports_new(c->n_threads);
	p->services = keeper_alloc(c->n_vips, sizeof(*p->services));
	for (unsigned v = 0; v < c->n_vips; v++) {
		p->services[v].map = othello_map_new(c->n_flows / c->n_vips, peer_mix(v, c->seed));
		if (!p->services[v].map)
			keeper_fail("no memory");
		paper_change(p, v, &c->pools[v]);
	}
	p->gate = c->gate;
	return p;
}

static void paper_destroy(void *k)
{
	struct paper *p = k;

	for (unsigned v = 0; v < p->n_vips; v++) {
		states_free(p->services[v].states);
		othello_map_free(p->services[v].map);
	}
	free(p->services);
	reports_free(p->reports, p->n_threads);
	free(p);
}

static void paper_lookup(void *k, unsigned thread, struct keeper_burst *b)
{
	const struct paper *p = k;

	(void)thread;
	for (unsigned i = 0; i < PEER_BURST; i++) {
		const struct states *s = p->services[b->vips[i]].states;
		struct lookup *l = &b->l[i];
		l->hash = flow_key_hash(&l->key, keeper_seed(p->seed, b->vips[i]));
		othello_cells(&s->shape, l->hash, &l->cell_a, &l->cell_b);
		cpu_prefetch(packed_at(s->a, l->cell_a));
		cpu_prefetch(packed_at(s->b, l->cell_b));
	}
	for (unsigned i = 0; i < PEER_BURST; i++) {
		const struct states *s = p->services[b->vips[i]].states;
		struct lookup *l = &b->l[i];
		l->dip = s->dips[packed_get(s->a, l->cell_a) ^ packed_get(s->b, l->cell_b)];
	}
}

static uint16_t paper_open(void *k, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct paper *p = k;
	const struct states *s = p->services[vip].states;
	uint64_t hash = flow_key_hash(key, keeper_seed(p->seed, vip));
	uint32_t ia, ib;

	othello_cells(&s->shape, hash, &ia, &ib);
	uint32_t dcode = packed_get(s->a, ia) ^ packed_get(s->b, ib);
	struct learn_record rec = {
		.key = *key, .hash = hash, .vip_slot = (uint16_t)vip, .dip = (uint16_t)dcode};
	if (unlikely(!learn_ring_push(p->reports[thread], &rec)) && !p->gate) {
		paper_work(p);
		if (!learn_ring_push(p->reports[thread], &rec))
			keeper_fail("a report is lost");
	}
	return s->dips[dcode];
}

static void paper_close(void *k, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct paper *p = k;

	(void)thread;
	paper_work(p);
	othello_map_delete(p->services[vip].map, flow_key_hash(key, keeper_seed(p->seed, vip)));
}

static size_t paper_bytes(const void *k)
{
	const struct paper *p = k;
	size_t bytes = 0;

	for (unsigned v = 0; v < p->n_vips; v++) {
		const struct states *s = p->services[v].states;
		bytes += packed_bytes(s->shape.n_a) + packed_bytes(s->shape.n_b) + sizeof(s->dips);
	}
	return bytes;
}

const struct keeper keeper_paper = {
	.name = "paper",
	.create = paper_create,
	.open = paper_open,
	.lookup = paper_lookup,
	.work = paper_work,
	.close = paper_close,
	.change = paper_change,
	.bytes = paper_bytes,
	.destroy = paper_destroy,
};
