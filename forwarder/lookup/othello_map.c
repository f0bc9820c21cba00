/* Keys are kept as parallel arrays (hash, value, edge, links), an entry's number being the number
 * of its edge, so that what runs over all keys streams through memory. Each cell heads a list of
 * its edges; with fewer than 1.5 edges for a cell in the mean, lists and trees are short, find and
 * delete walk a list, and there is no other index.
 *
 * An edge may be added iff its cells lie in different trees. That is found by walking both trees in
 * lock-step until one is exhausted, so it costs the size of the smaller one. The walk is the tour
 * around a tree (always take the next edge of the cell, cyclically): it needs no stack and no
 * marks.
 *
 * A new seed is tried aside, with edges of its own, and adopted when it has no cycle: whatever
 * fails leaves the map as it was. */
#include "lookup/othello_map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "lookup/othello_graph.h"
#include "lookup/othello_map_impl.h"

#define ADD_SEEDS 8

void othello_map_size(uint32_t n_keys, uint32_t *n_a, uint32_t *n_b)
{
	uint64_t cells = (uint64_t)(n_keys > MIN_KEYS ? n_keys : MIN_KEYS) * 3 / 2;

	*n_a = *n_b = cells < UINT32_MAX ? (uint32_t)cells : UINT32_MAX;
}

/* --- memory --------------------------------------------------------------------------------------
 */

static int grow_one(void **array, size_t size, uint32_t n, uint32_t capacity)
{
	void *p = othello_alloc(capacity, size);

	if (!p)
		return -ENOMEM;
	if (n)
		memcpy(p, *array, n * size);
	free(*array);
	*array = p;
	return 0;
}

/* On failure some arrays may be larger than before, which does no harm. */
static int reserve(struct othello_map *m, uint32_t capacity)
{
	if (capacity <= m->capacity)
		return 0;
	if (grow_one((void **)&m->hashes, sizeof(*m->hashes), m->n, capacity) ||
	    grow_one((void **)&m->values, sizeof(*m->values), m->n, capacity) ||
	    grow_one((void **)&m->edges, sizeof(*m->edges), m->n, capacity) ||
	    grow_one((void **)&m->links, sizeof(*m->links), m->n, capacity))
		return -ENOMEM;
	m->capacity = capacity;
	return 0;
}

struct othello_map *othello_map_alloc(uint32_t capacity, uint32_t n_a, uint32_t n_b, uint64_t seed)
{
	struct othello_map *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->shape = (struct othello){.n_a = n_a, .n_b = n_b, .seed = seed};
	m->sized_for = (uint32_t)((uint64_t)n_a * 2 / 3);
	if (m->sized_for < capacity)
		m->sized_for = capacity;
	m->heads[0] = othello_alloc(n_a, sizeof(uint32_t));
	m->heads[1] = othello_alloc(n_b, sizeof(uint32_t));
	if (!m->heads[0] || !m->heads[1] || reserve(m, capacity)) {
		othello_map_free(m);
		return NULL;
	}
	memset(m->heads[0], 0xff, (size_t)n_a * sizeof(uint32_t));
	memset(m->heads[1], 0xff, (size_t)n_b * sizeof(uint32_t));
	return m;
}

struct othello_map *othello_map_new(uint32_t n_hint, uint64_t seed)
{
	uint32_t keys = n_hint > MIN_KEYS ? n_hint : MIN_KEYS;
	uint32_t n_a, n_b;

	othello_map_size(keys, &n_a, &n_b);
	struct othello_map *m = othello_map_alloc(keys, n_a, n_b, seed);
	if (m)
		m->n_builds = 1;
	return m;
}

void othello_map_free(struct othello_map *m)
{
	if (!m)
		return;
	free(m->hashes);
	free(m->values);
	free(m->edges);
	free(m->links);
	free(m->heads[0]);
	free(m->heads[1]);
	free(m);
}

/* --- lists and trees -----------------------------------------------------------------------------
 */

static void link_edge(struct othello_map *m, uint32_t e)
{
	for (int s = 0; s < 2; s++) {
		uint32_t *head = &m->heads[s][m->edges[e].cell[s]];
		m->links[e].next[s] = *head;
		*head = e;
	}
}

void othello_map_link(struct othello_map *m)
{
	memset(m->heads[0], 0xff, (size_t)m->shape.n_a * sizeof(uint32_t));
	memset(m->heads[1], 0xff, (size_t)m->shape.n_b * sizeof(uint32_t));
	for (uint32_t e = 0; e < m->n; e++) {
		if (e + 16 < m->n) {
			__builtin_prefetch(&m->heads[0][m->edges[e + 16].cell[0]], 1);
			__builtin_prefetch(&m->heads[1][m->edges[e + 16].cell[1]], 1);
		}
		link_edge(m, e);
	}
}

/* Where the number of edge e stands in the list of its cell on side s. */
static uint32_t *link_slot(struct othello_map *m, uint32_t e, int s)
{
	uint32_t *p = &m->heads[s][m->edges[e].cell[s]];

	while (*p != e)
		p = &m->links[*p].next[s];
	return p;
}

static uint32_t find(const struct othello_map *m, uint64_t hash)
{
	uint32_t ia, ib;

	othello_cells(&m->shape, hash, &ia, &ib);
	uint32_t e = m->heads[0][ia];
	while (e != NONE && m->hashes[e] != hash)
		e = m->links[e].next[0];
	return e;
}

/* A tour around the tree of a cell: stands at a cell, about to cross an edge. */
struct tour {
	unsigned side;
	uint32_t cell;
	uint32_t edge;
};

/* Cross the edge and turn to the next one of the cell there. */
static void tour_step(const struct othello_map *m, struct tour *t)
{
	t->side ^= 1;
	t->cell = m->edges[t->edge].cell[t->side];
	t->edge = m->links[t->edge].next[t->side];
	if (t->edge == NONE)
		t->edge = m->heads[t->side][t->cell];
}

static bool tour_at(const struct tour *t, unsigned side, uint32_t cell)
{
	return t->side == side && t->cell == cell;
}

/* True if the cells of an edge that is not in yet are connected already. */
static bool connected(const struct othello_map *m, const struct othello_edge *e)
{
	const struct tour start[2] = {
		{.side = 0, .cell = e->cell[0], .edge = m->heads[0][e->cell[0]]},
		{.side = 1, .cell = e->cell[1], .edge = m->heads[1][e->cell[1]]},
	};
	struct tour t[2] = {start[0], start[1]};

	if (start[0].edge == NONE || start[1].edge == NONE)
		return false;
	for (;;) {
		for (unsigned i = 0; i < 2; i++) {
			tour_step(m, &t[i]);
			if (tour_at(&t[i], i ^ 1, e->cell[i ^ 1]))
				return true;
			if (tour_at(&t[i], i, e->cell[i]) && t[i].edge == start[i].edge)
				return false;
		}
	}
}

/* --- new seeds and sizes -------------------------------------------------------------------------
 */

/* Take over edges computed for a shape: cannot fail. heads are of the shape's sizes. */
static void adopt(struct othello_map *m, const struct othello *shape, struct othello_edge *edges,
		  uint32_t *const heads[2])
{
	free(m->edges);
	m->edges = edges;
	for (int s = 0; s < 2; s++) {
		if (m->heads[s] != heads[s])
			free(m->heads[s]);
		m->heads[s] = heads[s];
	}
	m->shape = *shape;
	othello_map_link(m);
}

/* Seeds until the shape has no cycle: the shape's own first if first is set. */
static bool find_seed(struct othello_map *m, struct othello *shape, struct othello_peel *peel,
		      struct othello_edge *edges, bool first)
{
	for (int i = 0; i < ADD_SEEDS; i++) {
		if (i > 0 || !first)
			shape->seed = entropy_u64();
		m->n_builds++;
		othello_graph_edges(shape, m->hashes, m->n, edges);
		if (othello_peel_run(peel, edges, m->n, shape->n_a, shape->n_b))
			return true;
	}
	return false;
}

/* Build the graph of the m->n keys anew for sized_for keys. 0, -ENOMEM or -ENOSPC (no seed), both
 * with the map as it was. */
static int rebuild(struct othello_map *m, uint32_t sized_for, bool keep_seed)
{
	struct othello shape = m->shape;
	struct othello_peel peel = {0};
	uint32_t *heads[2] = {m->heads[0], m->heads[1]};
	int rc = -ENOMEM;

	othello_map_size(sized_for, &shape.n_a, &shape.n_b);
	bool resized = shape.n_a != m->shape.n_a || shape.n_b != m->shape.n_b;
	struct othello_edge *edges = othello_alloc(m->capacity, sizeof(*edges));
	if (resized) {
		heads[0] = othello_alloc(shape.n_a, sizeof(uint32_t));
		heads[1] = othello_alloc(shape.n_b, sizeof(uint32_t));
	}
	if (!edges || !heads[0] || !heads[1] ||
	    othello_peel_init(&peel, m->n, shape.n_a, shape.n_b))
		goto out;
	rc = -ENOSPC;
	if (!find_seed(m, &shape, &peel, edges, keep_seed))
		goto out;
	adopt(m, &shape, edges, heads);
	m->sized_for = sized_for;
	othello_peel_destroy(&peel);
	return 0;
out:
	othello_peel_destroy(&peel);
	if (resized) {
		free(heads[0]);
		free(heads[1]);
	}
	free(edges);
	return rc;
}

/* --- the keyed set -------------------------------------------------------------------------------
 */

/* The arrays take an eighth more keys than they were sized for before they grow: a map that was
 * built for n keys takes the few that follow without new arrays, which would place all other hashes
 * anew. */
int othello_map_add(struct othello_map *m, uint64_t hash, uint32_t value)
{
	struct othello_edge edge;
	int rc = 0;

	if (find(m, hash) != NONE)
		return -EEXIST;
	if (m->n == OTHELLO_KEYS_MAX)
		return -ENOMEM;
	if (m->n == m->capacity && (rc = reserve(m, m->capacity * 2)))
		return rc;
	if (m->n == m->sized_for + m->sized_for / 8 && (rc = rebuild(m, m->sized_for * 2, true)))
		return rc;

	uint32_t e = m->n;
	othello_cells(&m->shape, hash, &edge.cell[0], &edge.cell[1]);
	m->hashes[e] = hash;
	m->values[e] = value;
	if (connected(m, &edge)) {
		m->n++;
		rc = rebuild(m, m->sized_for, false);
		m->n -= rc ? 1 : 0;
		return rc;
	}
	m->edges[e] = edge;
	m->n++;
	link_edge(m, e);
	return 0;
}

/* Move the last entry into the hole at e, so that the arrays stay dense. */
static void fill_hole(struct othello_map *m, uint32_t e)
{
	uint32_t last = m->n - 1;

	if (e != last) {
		*link_slot(m, last, 0) = e;
		*link_slot(m, last, 1) = e;
		m->hashes[e] = m->hashes[last];
		m->values[e] = m->values[last];
		m->edges[e] = m->edges[last];
		m->links[e] = m->links[last];
	}
	m->n--;
}

int othello_map_delete(struct othello_map *m, uint64_t hash)
{
	uint32_t e = find(m, hash);

	if (e == NONE)
		return -ENOENT;
	for (int s = 0; s < 2; s++)
		*link_slot(m, e, s) = m->links[e].next[s];
	fill_hole(m, e);
	/* Shrink at an eighth, to a quarter's room: far from where it would grow again. Without the
	 * memory for that the map stays large, and is right all the same. */
	if (m->sized_for > MIN_KEYS && m->n < m->sized_for / 8)
		(void)!rebuild(m, m->sized_for / 4 > MIN_KEYS ? m->sized_for / 4 : MIN_KEYS, true);
	return 0;
}

bool othello_map_find(const struct othello_map *m, uint64_t hash, uint32_t *value)
{
	uint32_t e = find(m, hash);

	if (e == NONE)
		return false;
	*value = m->values[e];
	return true;
}

int othello_map_set(struct othello_map *m, uint64_t hash, uint32_t value)
{
	uint32_t e = find(m, hash);

	if (e == NONE)
		return -ENOENT;
	m->values[e] = value;
	return 0;
}

uint32_t othello_map_count(const struct othello_map *m)
{
	return m->n;
}

uint64_t othello_map_builds(const struct othello_map *m)
{
	return m->n_builds;
}

int othello_map_write(const struct othello_map *m, struct othello *out)
{
	struct othello_peel peel;
	struct othello fresh = {0};

	if (!m->n) {
		*out = fresh;
		return 0;
	}
	int rc = othello_peel_init(&peel, m->n, m->shape.n_a, m->shape.n_b);
	if (rc)
		return rc;
	rc = othello_init(&fresh, m->shape.n_a, m->shape.n_b, m->shape.seed);
	if (rc == 0) {
		bool acyclic = othello_peel_run(&peel, m->edges, m->n, fresh.n_a, fresh.n_b);
		assert(acyclic);
		othello_graph_write(&peel, m->edges, m->values, &fresh);
		*out = fresh;
	}
	othello_peel_destroy(&peel);
	return rc;
}
