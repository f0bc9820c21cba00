/* A connection table: open addressing, at most half full, an entry of 16 bytes that knows the flow
 * by its 64-bit hash (a table that keeps whole keys would be twice as large). A baseline. */
#pragma once

#include "tests/bench/peers/peer.h"

struct conn {
	uint64_t hash;
	uint16_t dip; /* 0 = free */
};

struct conntable {
	uint64_t seed;
	struct conn *conns; /* hugemem */
	uint64_t mask;
};

/** Empty, for n flows. Exits without memory. */
void conntable_init(struct conntable *t, uint32_t n, uint64_t seed);
void conntable_add(struct conntable *t, uint64_t hash, uint16_t dip);
void conntable_destroy(struct conntable *t);
size_t conntable_bytes(const struct conntable *t);

/** Look up a burst, all entries asked for before the first one is read. */
void conntable_lookup(const struct conntable *t, const struct flow_key *keys, uint16_t *dips);
