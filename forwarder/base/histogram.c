#include "base/histogram.h"

/* The first bucket whose limit is not below the value: the bits that value - 1 needs. */
static unsigned bucket_of(uint64_t value)
{
	return value <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(value - 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	unsigned i = bucket_of(value);

	h->count++;
	h->sum += value;
	if (i < HISTOGRAM_BUCKETS)
		h->buckets[i]++;
}

uint64_t histogram_up_to(const struct histogram *h, unsigned i)
{
	uint64_t n = 0;

	for (unsigned k = 0; k <= i; k++)
		n += h->buckets[k];
	return n;
}
