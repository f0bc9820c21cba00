/* Ways to keep connections on their DIPs while pools change, behind one interface: Concury's and
 * those it is measured against. One file each, keep_NAME.c, which says where the way comes from,
 * what it remembers, and what it is known to be weak at.
 *
 * All get the same: bursts of PEER_BURST flows that name their VIP, the same hash, tables by the
 * allocator with huge pages, and lookups that hash all, prefetch all and only then read. Without
 * memory all exit. A lookup may be made for a flow that was never opened: packets come as they
 * like. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "lookup/snapshot.h"
#include "tests/bench/peers/peer.h"
#include "worker/learn.h"

#define KEEPER_DIP_MAX 63u /* the highest DIP index: one bit of a word each */

/** The DIPs of a VIP: with weight and up: new flows go there; without weight and up: draining, old
 *  flows stay; not up: failed. After the n there are n_spare more, with weight, that may come some
 *  day: not in use, but known to whoever wants to know. */
struct pool {
	const struct dcode_dip *dips;
	unsigned n;
	unsigned n_spare;
};

/** A burst: in the keys and VIPs, out the DIPs (l[i].key, l[i].dip). A keeper may use the rest of
 *  l[i]. */
struct keeper_burst {
	struct lookup l[PEER_BURST];
	uint16_t vips[PEER_BURST];
};

/** Where data threads stop between two bursts, so that what they read can be swapped. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	_Atomic bool held;
	unsigned n_threads;
	unsigned n_parked;
};

void gate_init(struct gate *g, unsigned n_threads);
void gate_destroy(struct gate *g);
/** Wait until all data threads are parked or gone; NULL: there are none. Thread: control. */
void gate_hold(struct gate *g);
void gate_release(struct gate *g);
/** Data threads: between two bursts, and at the end. */
void gate_park(struct gate *g);
void gate_leave(struct gate *g);

static ALWAYS_INLINE void gate_pass(struct gate *g)
{
	if (unlikely(atomic_load_explicit(&g->held, memory_order_relaxed)))
		gate_park(g);
}

struct keeper_config {
	unsigned n_vips;
	unsigned n_threads; /* data threads; a flow's packets come to one of them only */
	uint32_t n_flows;   /* at a time, of all threads together: what tables are made for */
	uint64_t seed;
	const struct pool *pools; /* n_vips; not kept */
	struct gate *gate;	  /* NULL: data threads and control are one thread */
	bool witness;		  /* keep whole hashes beside digests, to count false hits */
};

struct keeper {
	const char *name;
	void *(*create)(const struct keeper_config *c);
	/** The first packet of a flow: choose its DIP, and remember what this way remembers. Thread: the
	 *  flow's data thread, like lookup. */
	uint16_t (*open)(void *k, unsigned thread, unsigned vip, const struct flow_key *key);
	/** Packets of PEER_BURST flows. */
	void (*lookup)(void *k, unsigned thread, struct keeper_burst *b);
	/** Let control take in what the data threads told it; NULL: there is nothing. Thread: control. */
	void (*work)(void *k);
	/** The flow has ended. Thread: control, while no data thread runs, like all that follow but
	 *  change. */
	void (*close)(void *k, unsigned thread, unsigned vip, const struct flow_key *key);
	/** Another pool for a VIP: adds, drains, failures, weights. Thread: control. */
	void (*change)(void *k, unsigned vip, const struct pool *pool);
	/** Bytes that the data threads may read. */
	size_t (*bytes)(const void *k);
	/** Flows whose DIP came from what was stored for another flow; NULL: cannot happen. */
	uint64_t (*false_hits)(const void *k);
	void (*destroy)(void *k);
};

extern const struct keeper keeper_concury, keeper_paper, keeper_maglev, keeper_silkroad,
	keeper_conntrack, keeper_jet;

#define N_KEEPERS 6u

/** All of them, Concury's first. */
extern const struct keeper *const keepers[N_KEEPERS];

/* --- reports -------------------------------------------------------------------------------------
 */

/** A ring a thread, by which data threads tell control of flows. */
struct learn_ring **reports_new(unsigned n_threads);
void reports_free(struct learn_ring **rings, unsigned n_threads);

/** Seed of a VIP's hashes. */
static ALWAYS_INLINE uint64_t keeper_seed(uint64_t seed, unsigned vip)
{
	return seed + (uint64_t)vip * 0x9e3779b97f4a7c15u;
}

/** calloc, or exit. */
void *keeper_alloc(size_t n, size_t size);

/** Say why, and exit. */
__attribute__((noreturn)) void keeper_fail(const char *why);

/** The DIPs that take new flows: fills out, of pool->n + pool->n_spare, and returns how many. spare:
 *  with those that may come or come back. */
unsigned pool_takers(const struct pool *pool, bool spare, struct dcode_dip *out);

/** Bit d: DIP index d may be used by flows that have it. */
uint64_t pool_up(const struct pool *pool);

/* --- a VIP's Maglev ring, for what remembers flows in a table and hashes the rest ---------------- */

#define RING_SIZE 4099u /* prime; the authors want more than 100 entries a DIP */

struct ring {
	uint64_t up; /* pool_up */
	uint16_t dips[RING_SIZE];
};

/** One for each VIP. */
struct ring **rings_new(const struct keeper_config *c);
void rings_free(struct ring **rings, unsigned n_vips);
/** The ring of a VIP's new pool, swapped in at the gate. */
void rings_change(struct ring **rings, unsigned vip, const struct pool *pool, struct gate *gate);

static ALWAYS_INLINE uint16_t ring_dip(const struct ring *r, uint64_t hash)
{
	return r->dips[mul_shift32((uint32_t)hash, RING_SIZE)];
}

static ALWAYS_INLINE bool ring_is_up(const struct ring *r, uint16_t dip)
{
	return r->up >> dip & 1;
}
