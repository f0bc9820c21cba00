/* A pool of DIPs that changes, and what choosers (tests/bench/peers/chooser.h) make of it. */
#pragma once

#include "tests/bench/peers/chooser.h"
#include "tests/unit/prng.h"

#define POOL_MAX 2000u
#define CHOICES_MAX (1u << 16)

struct choosing_pool {
	struct dcode_dip dips[POOL_MAX];
	unsigned n;
	uint32_t next; /* index of the next one that comes */
};

/** n more DIPs of this weight. */
void pool_grow(struct choosing_pool *p, unsigned n, uint32_t weight);
void pool_drop(struct choosing_pool *p, unsigned at);
/** The same DIPs in another order. */
void pool_shuffle(struct choosing_pool *p, struct prng *rng);
/** The part of the flows that a DIP's weight claims; 0 if it is not up. */
double pool_share(const struct choosing_pool *p, unsigned i);
/** The least part of all flows that must move from *was to *is. */
double pool_least_moves(const struct choosing_pool *was, const struct choosing_pool *is);

/** What n hashes, a multiple of PEER_BURST, the same in every call, choose. */
void choose_many(const struct chooser *ch, const void *c, uint32_t n, uint16_t *dips);
/** How many of n differ. */
uint32_t count_moves(const uint16_t *was, const uint16_t *is, uint32_t n);
/** How many standard deviations the choices are off the shares, of DIPs that have some 5 or more.
 */
double choices_z(const uint16_t *dips, uint32_t n, const double *shares);
