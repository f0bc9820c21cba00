/* What the two files of OthelloMap (othello_map.c: one key at a time; othello_map_build.c: all at
 * once) share. Nobody else of the product includes it. */
#pragma once

#include "lookup/othello_graph.h"
#include "lookup/othello_map.h"

#define NONE UINT32_MAX
#define MIN_KEYS 64u                   /* arrays are never sized for fewer */
#define OTHELLO_KEYS_MAX (1u << 30)    /* numbers of edges fit 31 bits, doubling never wraps */

struct links {
	uint32_t next[2]; /* next edge of the same cell in a, in b */
};

struct othello_map {
	struct othello shape; /* seed and sizes; no arrays */
	uint32_t n;
	uint32_t sized_for; /* keys that the sizes are meant for; n never exceeds it */
	uint32_t capacity;  /* of the arrays below */
	uint64_t *hashes;
	uint32_t *values;
	struct othello_edge *edges;
	struct links *links;
	uint32_t *heads[2]; /* first edge of each cell, NONE if it has none */
	uint64_t n_builds;
};

/** An empty map of these sizes, or NULL. capacity >= 1. */
MUST_CHECK struct othello_map *othello_map_alloc(uint32_t capacity, uint32_t n_a, uint32_t n_b,
						 uint64_t seed);

/** Make the lists of all cells anew from the edges. */
void othello_map_link(struct othello_map *m);
