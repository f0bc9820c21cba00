/* OthelloMap, the control side of an Othello: the keyed set with its acyclic bipartite graph. Keys
 * are 64-bit flow hashes, values 32-bit words. Add, delete and find are O(1) amortised; a cycle
 * draws a new re-mix seed from base/entropy and rebuilds (expected < 1.6 builds in all).
 * (Concury section 4.2) */
#pragma once

#include <stdbool.h>

#include "base/cpu.h"
#include "lookup/othello.h"

struct othello_map;

/** n_hint: how many keys are expected (the arrays grow and shrink by themselves). seed: the re-mix
 *  seed to try first. NULL without memory. Thread: one at a time; free with othello_map_free. */
MUST_CHECK struct othello_map *othello_map_new(uint32_t n_hint, uint64_t seed);
void othello_map_free(struct othello_map *m);

/** Add a hash. 0, -EEXIST (the hash is there already; nothing changed), -ENOMEM (nothing changed),
 *  or -ENOSPC (nothing changed: with 8 new seeds in a row a cycle remained; the caller puts the
 *  key into the exact table instead). */
MUST_CHECK int othello_map_add(struct othello_map *m, uint64_t hash, uint32_t value);

/** Delete a hash. 0 or -ENOENT. */
int othello_map_delete(struct othello_map *m, uint64_t hash);

/** True and *value if the hash is in. */
bool othello_map_find(const struct othello_map *m, uint64_t hash, uint32_t *value);

/** Change the value of a hash that is in. 0 or -ENOENT. */
int othello_map_set(struct othello_map *m, uint64_t hash, uint32_t value);

uint32_t othello_map_count(const struct othello_map *m);

/** How often the graph was built over the map's life (1 = no cycle ever met, no growth). */
uint64_t othello_map_builds(const struct othello_map *m);

/** Cells for n keys: a pure function of n, about 1.5 n for each array (the arrays are a
 *  pure function of pins, seed and size). */
void othello_map_size(uint32_t n_keys, uint32_t *n_a, uint32_t *n_b);

/** Write the arrays by one traversal of the graph into *out (allocated here, freed by the caller
 *  with othello_destroy). The content depends on the keys, values, seed and sizes only, not on the
 *  order of the adds and deletes. An empty map gives an empty *out (n_a == 0). 0 or -ENOMEM. */
MUST_CHECK int othello_map_write(const struct othello_map *m, struct othello *out);

/** Build a map of n keys at once (fast path of plan): like n adds, with size othello_map_size(n) for
 *  the given seed where that seed is acyclic. clashes[] (n entries, may be NULL when no clash is
 *  possible) receives the indexes, ascending, of keys left out because an equal hash with another
 *  value is in already (*n_clashes of them); equal hash and equal value is no clash. 0, -ENOMEM, or
 *  -ENOSPC: a clash though clashes was NULL (or no acyclic seed in 64: a broken random source). */
MUST_CHECK int othello_map_build(struct othello_map **out, uint32_t n, const uint64_t *hashes,
				 const uint32_t *values, uint64_t seed, uint32_t *clashes,
				 uint32_t *n_clashes);

/** The same map with exactly these sizes and this seed, for arrays that must come out as they were
 *  before a restart. 0, -ENOMEM, or -ENOSPC if there is a cycle or a clash. */
MUST_CHECK int othello_map_rebuild(struct othello_map **out, uint32_t n, const uint64_t *hashes,
				   const uint32_t *values, uint64_t seed, uint32_t n_a,
				   uint32_t n_b);
