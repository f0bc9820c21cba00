/* Maglev hashing (Eisenbud et al., NSDI 2016, 3.4): DIPs take turns, as often as their weight says,
 * to take the next free entry of their own permutation of a table of prime size. A baseline. */
#pragma once

#include "lookup/dcode_table.h"

#define MAGLEV_SIZE 65537u

/** Fill MAGLEV_SIZE entries with DIP indexes; at least one DIP has weight. Exits without memory. */
void maglev_fill(const struct dcode_dip *dips, unsigned n_dips, uint16_t *entries);

/** The same with n_entries, a prime. */
void maglev_fill_sized(const struct dcode_dip *dips, unsigned n_dips, uint16_t *entries,
		       uint32_t n_entries);

/** MAGLEV_SIZE, or the first prime beyond a larger power of two, so that there are 100 entries for
 *  each DIP: then shares are even to a hundredth (the paper's 5.3), and seldom does one DIP more
 *  change the size, which would deal everything anew. */
uint32_t maglev_size(unsigned n_dips);
