/* Why peeling, and not union-find or a depth-first search: it needs no adjacency lists (a cell is a
 * counter and the xor of its edges' numbers: with one edge left, the xor is that edge), it runs
 * through memory in sequential passes but for one access to the far cell of each edge, and the
 * reverse of its order is an order in which every edge has exactly one cell that is still open,
 * which is how the arrays are written. */
#include "lookup/othello_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ONE_EDGE ((uint64_t)1 << 32)
#define HUGE_PAGE ((size_t)2 << 20)
#define AHEAD 16 /* edges between a prefetch and its use */

void *othello_alloc(size_t n, size_t size)
{
	size_t bytes = n * size;

	if (bytes < HUGE_PAGE)
		return malloc(bytes ? bytes : 1);
	bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	void *p = aligned_alloc(HUGE_PAGE, bytes);
	if (p)
		(void)madvise(p, bytes, MADV_HUGEPAGE); /* a wish: small pages work too */
	return p;
}

int othello_peel_init(struct othello_peel *p, uint32_t n, uint32_t n_a, uint32_t n_b)
{
	p->n_order = 0;
	p->cells = othello_alloc((size_t)n_a + n_b, sizeof(*p->cells));
	p->order = othello_alloc(n, sizeof(*p->order));
	if (p->cells && p->order)
		return 0;
	othello_peel_destroy(p);
	return -ENOMEM;
}

void othello_peel_destroy(struct othello_peel *p)
{
	free(p->cells);
	free(p->order);
	*p = (struct othello_peel){0};
}

void othello_graph_edges(const struct othello *shape, const uint64_t *hashes, uint32_t n,
			 struct othello_edge *edges)
{
	for (uint32_t e = 0; e < n; e++)
		othello_cells(shape, hashes[e], &edges[e].cell[0], &edges[e].cell[1]);
}

static void count_edges(uint64_t *a, uint64_t *b, const struct othello_edge *edges, uint32_t n)
{
	for (uint32_t e = 0; e < n; e++) {
		if (e + AHEAD < n) {
			__builtin_prefetch(&a[edges[e + AHEAD].cell[0]], 1);
			__builtin_prefetch(&b[edges[e + AHEAD].cell[1]], 1);
		}
		uint64_t *ca = &a[edges[e].cell[0]];
		uint64_t *cb = &b[edges[e].cell[1]];
		*ca = (*ca + ONE_EDGE) ^ e;
		*cb = (*cb + ONE_EDGE) ^ e;
	}
}

/* Peel from one cell on, along the path that opens up. */
static void peel_from(struct othello_peel *p, const struct othello_edge *edges,
		      uint64_t *const side[2], unsigned s, uint32_t i)
{
	while (side[s][i] >> 32 == 1) {
		uint32_t e = (uint32_t)side[s][i];
		p->order[p->n_order++] = e << 1 | s;
		side[s][i] = 0;
		s ^= 1;
		i = edges[e].cell[s];
		side[s][i] = (side[s][i] - ONE_EDGE) ^ e;
	}
}

bool othello_peel_run(struct othello_peel *p, const struct othello_edge *edges, uint32_t n,
		      uint32_t n_a, uint32_t n_b)
{
	uint64_t *const side[2] = {p->cells, p->cells + n_a};

	memset(p->cells, 0, ((size_t)n_a + n_b) * sizeof(*p->cells));
	p->n_order = 0;
	count_edges(side[0], side[1], edges, n);
	for (uint32_t i = 0; i < n_a; i++)
		peel_from(p, edges, side, 0, i);
	for (uint32_t i = 0; i < n_b; i++)
		peel_from(p, edges, side, 1, i);
	return p->n_order == n;
}

void othello_graph_write(const struct othello_peel *p, const struct othello_edge *edges,
			 const uint32_t *values, struct othello *out)
{
	uint32_t *const side[2] = {out->a, out->b};

	/* The far cell of an edge was decided before it, since it was peeled later (or never: 0).
	 */
	for (uint32_t i = p->n_order; i-- > 0;) {
		uint32_t e = p->order[i] >> 1;
		unsigned s = p->order[i] & 1;
		if (i >= AHEAD) {
			const struct othello_edge *ahead = &edges[p->order[i - AHEAD] >> 1];
			__builtin_prefetch(&out->a[ahead->cell[0]], 1);
			__builtin_prefetch(&out->b[ahead->cell[1]], 1);
		}
		side[s][edges[e].cell[s]] = values[e] ^ side[s ^ 1][edges[e].cell[s ^ 1]];
	}
}
