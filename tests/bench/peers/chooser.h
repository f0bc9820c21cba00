/* Ways to choose the DIP of a flow that nothing is remembered of, behind one interface: Concury's
 * and those it is measured against. One file each, choose_NAME.c, which says where the way comes
 * from, what it keeps of its history, and what it is known to be weak at.
 *
 * All get the same: 64-bit hashes of flows in bursts of PEER_BURST, the same mixing of servers'
 * ids, tables by the allocator with huge pages. Weights are small integers (one ticket, point or
 * array entry a unit where a way has such): together at most CHOOSER_WEIGHTS_MAX. Without memory
 * all exit. */
#pragma once

#include "base/hugemem.h"
#include "lookup/dcode_table.h"
#include "tests/bench/peers/peer.h"

#define CHOOSER_WEIGHTS_MAX (1u << 22)

struct chooser {
	const char *name;
	/** A chooser for these DIPs, at least one of which has weight and is up. Indexes and ids
	 * are unique. */
	void *(*build)(const struct dcode_dip *dips, unsigned n);
	/** Go over to other DIPs, keeping what this way keeps of its history. */
	void (*change)(void *c, const struct dcode_dip *dips, unsigned n);
	/** The DIP of each of PEER_BURST hashes: one with weight that is up. */
	void (*choose)(const void *c, const uint64_t *hashes, uint16_t *dips);
	/** shares[index], DIP_INDEX_MAX + 1 of them: the part of all hashes that choose gives to
	 * each DIP, hashes and mixes being random; exact, by the tables. */
	void (*shares)(const void *c, double *shares);
	/** Bytes that choose may read. */
	size_t (*bytes)(const void *c);
	void (*destroy)(void *c);
};

extern const struct chooser chooser_dcode, chooser_maglev, chooser_ketama, chooser_two_level,
	chooser_tournament, chooser_ticket, chooser_pow2_weights2, chooser_pow2_weights3,
	chooser_reroll, chooser_old_new_set;

#define N_CHOOSERS 10u

/** All of them, Concury's first. */
extern const struct chooser *const choosers[N_CHOOSERS];

/** The DIPs that have weight and are up, by id, so that what is made of them does not hang on the
 *  caller's order: *n_usable > 0 of them; free() frees them. */
struct dcode_dip *chooser_usable(const struct dcode_dip *dips, unsigned n, unsigned *n_usable);

/** The sum of their weights, at most CHOOSER_WEIGHTS_MAX. */
uint32_t chooser_weights(const struct dcode_dip *dips, unsigned n);

/** calloc, or exit. */
void *chooser_alloc(size_t n, size_t size);

/** shares of a table of n entries, DIP indexes, all equally often chosen. */
void chooser_count_shares(const uint16_t *entries, uint32_t n, double *shares);
