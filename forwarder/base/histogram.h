/* How long things took: counts by powers of two, which need no setting and lose no outlier. */
#pragma once

#include <stdint.h>

/* Bucket i holds the values above its neighbour's limit and up to 2^i: 1 to 16,777,216. In
 * microseconds that ends at 17 seconds; what is longer is in count and sum alone. */
#define HISTOGRAM_BUCKETS 25

/** All zero is an empty one. Belongs to one thread, which adds to it and copies it for others. */
struct histogram {
	uint64_t count;
	uint64_t sum;
	uint64_t buckets[HISTOGRAM_BUCKETS]; /* each value in one */
};

/** The largest value of a bucket (i < HISTOGRAM_BUCKETS). */
static inline uint64_t histogram_limit(unsigned i)
{
	return (uint64_t)1 << i;
}

void histogram_add(struct histogram *h, uint64_t value);

/** How many values were at most histogram_limit(i). */
uint64_t histogram_up_to(const struct histogram *h, unsigned i);
