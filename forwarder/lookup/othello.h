/* Othello, the read side: two flat arrays, two reads and an XOR; keys are not stored.
 * (Concury, arXiv 1908.01889, section 4) */
#pragma once

#include "base/cpu.h"
#include "base/hugemem.h"

/** Immutable once published. n_a == 0: there are no pins and nothing may be looked up. */
struct othello {
	uint32_t *a;  /* n_a cells; hugemem, b follows in the same block */
	uint32_t *b;  /* n_b cells */
	uint32_t n_a; /* any size from 1 up, no power of two needed */
	uint32_t n_b;
	uint64_t seed; /* re-mix seed: can change without moving any home Dcode */
	enum hugemem_kind memory;
};

/** Re-mix of a flow's hash: upper 32 bits index a, lower 32 bits index b. A bijection of h, so two
 *  keys clash for every seed only if their hashes are equal. h is a good hash already: what is needed
 *  is another pair of cells with another seed, and multiplying by a random odd number gives that; the
 *  fold before it lets all of h into the lower half, which depends on the lower half alone. Never two
 *  hashes of one linear family (two CRC32C seeds are fully correlated). */
static ALWAYS_INLINE uint64_t othello_remix(uint64_t h, uint64_t seed)
{
	return (h ^ h >> 32) * (seed | 1);
}

/** The cells of hash h. */
static ALWAYS_INLINE void othello_cells(const struct othello *o, uint64_t h, uint32_t *ia,
					uint32_t *ib)
{
	uint64_t x = othello_remix(h, o->seed);

	*ia = mul_shift32((uint32_t)(x >> 32), o->n_a);
	*ib = mul_shift32((uint32_t)x, o->n_b);
}

/** Value of hash h; for a hash that was not inserted, any value. o must not be empty. */
static ALWAYS_INLINE uint32_t othello_get(const struct othello *o, uint64_t h)
{
	uint32_t ia, ib;

	othello_cells(o, h, &ia, &ib);
	return o->a[ia] ^ o->b[ib];
}

/** Allocate both arrays, zeroed. 0 or -ENOMEM; *o is written only on success. n_a, n_b >= 1.
 *  Thread: control; free with othello_destroy. */
MUST_CHECK int othello_init(struct othello *o, uint32_t n_a, uint32_t n_b, uint64_t seed);

/** Free the arrays and make *o empty. An all-zero struct is fine. */
void othello_destroy(struct othello *o);

/** Bytes of both arrays. */
size_t othello_bytes(const struct othello *o);
