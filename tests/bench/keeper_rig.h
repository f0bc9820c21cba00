/* Known flows over N_VIPS VIPs of equal pools, and a keeper that holds them: what the benches of
 * keepers have in common. Flow i is of VIP i % N_VIPS; of two threads' flows, N_VIPS belong to one,
 * the next N_VIPS to the other, and so on. */
#pragma once

#include "tests/bench/peers/keeper.h"

#define N_VIPS 128u
#define N_DIPS 32u	/* of a VIP; the last one is a spare one at first */
#define RIG_SEED 20261130u

struct rig {
	const struct keeper *keeper;
	void *k;
	struct gate gate;
	bool gated;
	unsigned n_threads;
	uint32_t n;	/* flows opened at the start */
	uint16_t *dips; /* where each flow of n_max was opened; hugemem */
	uint32_t n_max;
};

/** N_DIPS DIPs of equal weight, the last one in the pool or a spare one. */
struct pool rig_pool(unsigned vip, bool with_spare, struct dcode_dip dips[N_DIPS]);

/** A keeper for n_max flows; none is open. gated: data threads run beside control. */
void rig_new(struct rig *r, const struct keeper *keeper, uint32_t n_max, unsigned n_threads,
	     bool gated);
void rig_free(struct rig *r);

/** Open flows first .. first + n - 1, all taken in. Returns CPU nanoseconds. */
uint64_t rig_open(struct rig *r, uint32_t first, uint32_t n);

/** The spare DIP comes in every VIP; returns the median of what a change takes in CPU nanoseconds. */
double rig_change_all(struct rig *r);

/** How many of n flows are not where they were opened. n is a multiple of PEER_BURST. */
uint32_t rig_broken(struct rig *r, uint32_t n);

/** A thread's flow number f. */
static ALWAYS_INLINE uint32_t rig_flow(const struct rig *r, unsigned thread, uint32_t f)
{
	return r->n_threads == 1 ? f
				 : f % N_VIPS + (f / N_VIPS * r->n_threads + thread) * N_VIPS;
}

/** The thread of flow i. */
static ALWAYS_INLINE unsigned rig_thread(const struct rig *r, uint32_t i)
{
	return i / N_VIPS % r->n_threads;
}
