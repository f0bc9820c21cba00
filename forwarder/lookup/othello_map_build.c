/* All keys at once: no list is touched before a seed without a cycle is found. Equal hashes are two
 * edges between the same cells, a cycle for every seed, so they are looked for only among the few
 * edges that a failed peeling leaves. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "lookup/othello_map_impl.h"

#define BUILD_SEEDS 64 /* 0.26^64: only a broken random source gets there */

struct leftover {
	uint64_t hash;
	uint32_t index;
};

static int compare_leftovers(const void *x, const void *y)
{
	const struct leftover *a = x;
	const struct leftover *b = y;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static int compare_u32(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x;
	uint32_t b = *(const uint32_t *)y;

	return a < b ? -1 : a > b;
}

/* Collect the edges that the peeling left. NULL without memory. */
static struct leftover *collect_leftovers(const struct othello_map *m, const struct othello_peel *p,
					  uint32_t *n_left)
{
	struct leftover *left = malloc((size_t)(m->n - p->n_order) * sizeof(*left));
	uint32_t n = 0;

	if (!left)
		return NULL;
	for (uint32_t e = 0; e < m->n; e++) {
		if (othello_peel_left(p, &m->edges[e], m->shape.n_a))
			left[n++] = (struct leftover){.hash = m->hashes[e], .index = e};
	}
	assert(n == m->n - p->n_order);
	*n_left = n;
	return left;
}

/* Take the keys drop[0..n) (ascending) out, keeping the order of the others. */
static void compact(struct othello_map *m, const uint32_t *drop, uint32_t n)
{
	uint32_t to = drop[0];

	for (uint32_t from = to, d = 0; from < m->n; from++) {
		if (d < n && drop[d] == from) {
			d++;
			continue;
		}
		m->hashes[to] = m->hashes[from];
		m->values[to] = m->values[from];
		to++;
	}
	m->n = to;
}

/* Leave out every key whose hash an earlier one has; those with another value are clashes. 0 (with
 * *n_dropped, 0 if all hashes are unique) or -ENOMEM. */
static int drop_equal_hashes(struct othello_map *m, const struct othello_peel *p, uint32_t *clashes,
			     uint32_t *n_clashes, uint32_t *n_dropped)
{
	uint32_t n_left, n_drop = 0;
	struct leftover *left = collect_leftovers(m, p, &n_left);
	uint32_t *drop = malloc((size_t)(m->n - p->n_order) * sizeof(*drop));

	if (!left || !drop) {
		free(left);
		free(drop);
		return -ENOMEM;
	}
	qsort(left, n_left, sizeof(*left), compare_leftovers);
	for (uint32_t i = 1, first = 0; i < n_left; i++) {
		if (left[i].hash != left[first].hash) {
			first = i;
			continue;
		}
		drop[n_drop++] = left[i].index;
		if (m->values[left[i].index] == m->values[left[first].index])
			continue;
		if (clashes)
			clashes[*n_clashes] = left[i].index;
		++*n_clashes;
	}
	if (n_drop) {
		qsort(drop, n_drop, sizeof(*drop), compare_u32);
		compact(m, drop, n_drop);
	}
	*n_dropped = n_drop;
	free(left);
	free(drop);
	return 0;
}

/* Fill a map's graph, trying up to n_seeds seeds, its own first. 0, -ENOMEM, or -ENOSPC. */
static int build_graph(struct othello_map *m, int n_seeds, uint32_t *clashes, uint32_t *n_clashes)
{
	struct othello_peel peel;
	uint32_t n_dropped = 0;
	int tries = 0;
	int rc = othello_peel_init(&peel, m->n, m->shape.n_a, m->shape.n_b);

	if (rc)
		return rc;
	for (;;) {
		m->n_builds++;
		othello_graph_edges(&m->shape, m->hashes, m->n, m->edges);
		if (othello_peel_run(&peel, m->edges, m->n, m->shape.n_a, m->shape.n_b))
			break;
		if (tries++ == 0 &&
		    (rc = drop_equal_hashes(m, &peel, clashes, n_clashes, &n_dropped)))
			goto out;
		rc = -ENOSPC;
		if (!clashes && *n_clashes)
			goto out;
		if (tries == 1 && n_dropped)
			continue; /* the seed has not had its chance yet */
		if (tries >= n_seeds)
			goto out;
		m->shape.seed = entropy_u64();
	}
	rc = 0;
	othello_map_link(m);
out:
	othello_peel_destroy(&peel);
	return rc;
}

static int build(struct othello_map **out, uint32_t n, const uint64_t *hashes,
		 const uint32_t *values, const struct othello *shape, int n_seeds,
		 uint32_t *clashes, uint32_t *n_clashes)
{
	struct othello_map *m;
	uint32_t clashes_found = 0;

	if (n > OTHELLO_KEYS_MAX)
		return -ENOMEM;
	m = othello_map_alloc(n > MIN_KEYS ? n : MIN_KEYS, shape->n_a, shape->n_b, shape->seed);
	if (!m)
		return -ENOMEM;
	if (n) {
		memcpy(m->hashes, hashes, n * sizeof(*hashes));
		memcpy(m->values, values, n * sizeof(*values));
	}
	m->n = n;
	int rc = build_graph(m, n_seeds, clashes, &clashes_found);
	if (rc) {
		othello_map_free(m);
		return rc;
	}
	if (n_clashes) {
		if (clashes_found)
			qsort(clashes, clashes_found, sizeof(*clashes), compare_u32);
		*n_clashes = clashes_found;
	}
	*out = m;
	return 0;
}

int othello_map_build(struct othello_map **out, uint32_t n, const uint64_t *hashes,
		      const uint32_t *values, uint64_t seed, uint32_t *clashes, uint32_t *n_clashes)
{
	struct othello shape = {.seed = seed};

	othello_map_size(n, &shape.n_a, &shape.n_b);
	return build(out, n, hashes, values, &shape, BUILD_SEEDS, clashes, n_clashes);
}

int othello_map_rebuild(struct othello_map **out, uint32_t n, const uint64_t *hashes,
			const uint32_t *values, uint64_t seed, uint32_t n_a, uint32_t n_b)
{
	struct othello shape = {.n_a = n_a, .n_b = n_b, .seed = seed};

	if (!n)
		othello_map_size(0, &shape.n_a, &shape.n_b);
	else if (!n_a || !n_b)
		return -ENOSPC;
	return build(out, n, hashes, values, &shape, 1, NULL, NULL);
}
