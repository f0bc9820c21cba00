/* Weighted rendezvous hashing: each entry goes to the DIP with the largest -weight / ln(hash). A
 * baseline: fewest moves, weights only in the mean. */
#pragma once

#include "lookup/dcode_table.h"

#define RENDEZVOUS_SIZE 65536u

/** Fill RENDEZVOUS_SIZE entries with DIP indexes; at least one DIP has weight. */
void rendezvous_fill(const struct dcode_dip *dips, unsigned n_dips, uint16_t *entries);
