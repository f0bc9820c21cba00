/* The bipartite graph of an Othello, as OthelloMap builds it: a key is an edge between a cell of a and
 * a cell of b. Values can be given to all edges iff there is no cycle. (Concury section 4.1) */
#pragma once

#include <stdbool.h>

#include "lookup/othello.h"

/** Memory for control's work on n keys or cells, on transparent huge pages where it is large: a build
 *  touches it once, and faulting it in by small pages takes longer than the build. Not from the
 *  reserved pool, which is the packet path's. NULL without memory; free() frees it. */
MUST_CHECK void *othello_alloc(size_t n, size_t size);

/** The two cells of an edge: [0] in a, [1] in b. */
struct othello_edge {
	uint32_t cell[2];
};

/** Peeling: take away, again and again, the one edge of a cell that has only one left. Without a
 *  cycle nothing remains. Which edge goes when depends on the graph alone, not on the numbering of
 *  the edges, so what is derived from the order is canonical. */
struct othello_peel {
	uint64_t *cells;  /* n_a + n_b: edges left << 32 | xor of their numbers */
	uint32_t *order;  /* edges as they went: number << 1 | side of the cell that had only this one */
	uint32_t n_order; /* how many went; the rest hang on a cycle */
};

/** Room for graphs of up to n edges over n_a + n_b cells. 0 or -ENOMEM. */
MUST_CHECK int othello_peel_init(struct othello_peel *p, uint32_t n, uint32_t n_a, uint32_t n_b);
void othello_peel_destroy(struct othello_peel *p);

/** Compute the edges of n hashes under shape's seed and sizes (its arrays are not touched). */
void othello_graph_edges(const struct othello *shape, const uint64_t *hashes, uint32_t n,
			 struct othello_edge *edges);

/** Peel n edges. True if none is left: the graph is acyclic. Thread: control, like all here. */
bool othello_peel_run(struct othello_peel *p, const struct othello_edge *edges, uint32_t n,
		      uint32_t n_a, uint32_t n_b);

/** True if edge e was left over by a run that returned false: it lies on a cycle or between two. */
static inline bool othello_peel_left(const struct othello_peel *p, const struct othello_edge *e,
				     uint32_t n_a)
{
	return p->cells[e->cell[0]] && p->cells[n_a + e->cell[1]];
}

/** Write values into zeroed arrays so that a[cell] ^ b[cell] is the value of each edge: p is a run
 *  that returned true for these edges. Cells that no path decides stay 0. */
void othello_graph_write(const struct othello_peel *p, const struct othello_edge *edges,
			 const uint32_t *values, struct othello *out);
