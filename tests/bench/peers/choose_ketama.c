/* Ketama (R. Jones, last.fm, 2007; the ring of Karger et al., STOC 1997): 160 points on a ring of
 * 2^32 for each unit of weight; a hash belongs to the DIP of the first point at or after it. Its
 * points come from MD5; here from the mix that all others use. The bursts' binary searches run side
 * by side, without branches. It keeps nothing, balancers agree, a change moves what it must of its
 * own shares; but arcs are of random length, so shares are uneven by some 1 / sqrt(160 * weight),
 * and the ring is large. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/chooser.h"

#define POINTS_PER_UNIT 160u
#define DIGITS 4 /* of 8 bits, of a point */

struct ring {
	uint32_t n;
	uint32_t *points; /* ascending; hugemem */
	uint16_t *owners; /* DIP indexes; hugemem */
};

static size_t points_bytes(const struct ring *r)
{
	return r->n * sizeof(*r->points);
}

static size_t owners_bytes(const struct ring *r)
{
	return r->n * sizeof(*r->owners);
}

static size_t bytes(const void *c)
{
	return points_bytes(c) + owners_bytes(c);
}

static void clear(struct ring *r)
{
	hugemem_free(r->points, points_bytes(r));
	hugemem_free(r->owners, owners_bytes(r));
}

/* Sort `from` by one digit of the points into `to`; the order of equals stays. */
static void sort_digit(const uint64_t *from, uint64_t *to, uint32_t n, int shift)
{
	uint32_t starts[257] = {0};

	for (uint32_t i = 0; i < n; i++)
		starts[(from[i] >> shift & 0xff) + 1]++;
	for (uint32_t d = 1; d <= 256; d++)
		starts[d] += starts[d - 1];
	for (uint32_t i = 0; i < n; i++)
		to[starts[from[i] >> shift & 0xff]++] = from[i];
}

/* All points, each with its owner below it, in ascending order; of equal points the lower id's is
 * first, and takes all. free() frees them. */
static uint64_t *make_points(const struct dcode_dip *dips, unsigned n_dips, uint32_t n)
{
	uint64_t *points = chooser_alloc(n, sizeof(*points));
	uint64_t *other = chooser_alloc(n, sizeof(*other));
	uint32_t k = 0;

	for (unsigned i = 0; i < n_dips; i++) {
		for (uint32_t p = 0; p < POINTS_PER_UNIT * dips[i].weight; p++)
			points[k++] = (peer_mix(dips[i].id, p + 1) & ~(uint64_t)UINT32_MAX) |
				      dips[i].index;
	}
	for (int digit = 0; digit < DIGITS; digit++) {
		sort_digit(points, other, n, 32 + 8 * digit);
		uint64_t *sorted = other;
		other = points;
		points = sorted;
	}
	free(other);
	return points;
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct ring *r = c;
	unsigned n_usable;
	struct dcode_dip *usable = chooser_usable(dips, n, &n_usable);

	clear(r);
	r->n = POINTS_PER_UNIT * chooser_weights(usable, n_usable);
	r->points = peer_alloc(points_bytes(r));
	r->owners = peer_alloc(owners_bytes(r));
	uint64_t *points = make_points(usable, n_usable, r->n);
	for (uint32_t i = 0; i < r->n; i++) {
		r->points[i] = (uint32_t)(points[i] >> 32);
		r->owners[i] = (uint16_t)points[i];
	}
	free(points);
	free(usable);
}

static void *build(const struct dcode_dip *dips, unsigned n)
{
	struct ring *r = chooser_alloc(1, sizeof(*r));

	change(r, dips, n);
	return r;
}

/* How many points are below each hash, by halving for all of them at once. */
static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct ring *r = c;
	uint32_t low[PEER_BURST] = {0};

	for (uint32_t left = r->n; left > 1; left -= left / 2) {
		const uint32_t half = left / 2;
		for (unsigned i = 0; i < PEER_BURST; i++) {
			const uint32_t hash = (uint32_t)(hashes[i] >> 32);
			low[i] += r->points[low[i] + half - 1] < hash ? half : 0;
			cpu_prefetch(&r->points[low[i] + (left - half) / 2]);
		}
	}
	for (unsigned i = 0; i < PEER_BURST; i++) {
		low[i] += r->points[low[i]] < (uint32_t)(hashes[i] >> 32);
		low[i] = low[i] == r->n ? 0 : low[i];
		cpu_prefetch(&r->owners[low[i]]);
	}
	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = r->owners[low[i]];
}

static void shares(const void *c, double *out)
{
	const struct ring *r = c;
	uint32_t before = r->points[r->n - 1];

	memset(out, 0, (DIP_INDEX_MAX + 1) * sizeof(*out));
	for (uint32_t i = 0; i < r->n; i++) {
		/* modulo 2^32; all of it where there is one point only */
		uint32_t arc = r->points[i] - before;
		out[r->owners[i]] += (r->n == 1 ? 0x1p32 : (double)arc) * 0x1p-32;
		before = r->points[i];
	}
}

static void destroy(void *c)
{
	clear(c);
	free(c);
}

const struct chooser chooser_ketama = {"ketama", build, change, choose, shares, bytes, destroy};
