/* The DIP code table: which DIP each home Dcode names. Exact weights, the fewest possible moves. */
#pragma once

#include <stdbool.h>

#include "base/cpu.h"

#define DIP_NONE 0u              /* DIP index 0 is never given out: "no DIP" */
#define DIP_INDEX_MAX 32767u     /* the 16th bit of a home is a mark (lookup/snapshot.h) */
#define DCODE_TABLE_MIN 1024u

/** What the table needs to know of one DIP. */
struct dcode_dip {
	uint64_t id;     /* stable for the DIP's life: the rendezvous score hangs on it */
	uint32_t weight; /* in any unit; all together below 2^32. 0 has no Dcode */
	uint16_t index;  /* per-VIP DIP index, 1.. */
	bool up;         /* false: dcode_table_reroll gives its Dcodes away for the time */
};

struct dcode_table {
	uint16_t *dcodes; /* n entries, each a DIP index or DIP_NONE; malloc */
	uint32_t n;       /* a power of two, at least DCODE_TABLE_MIN */
};

/** Size for these DIPs, never below n_now: the smallest power of two from 1024 up that gives every
 *  DIP with weight 64 Dcodes or more, capped at the larger of 65,536 and 128 for each DIP rounded up
 *  to a power of two. */
uint32_t dcode_table_size(const struct dcode_dip *dips, unsigned n_dips, uint32_t n_now);

/** Quotas (Dcodes for each DIP) for a table of n: floor or ceiling of the exact share, rounding up
 *  first those DIPs that already hold (held[i]) more than their floor, largest remainder among the
 *  rest; a DIP with weight gets at least 1. All zero if no DIP has weight. held may be NULL.
 *  quotas: n_dips entries, sum n (or 0). */
void dcode_table_quotas(const struct dcode_dip *dips, unsigned n_dips, uint32_t n,
			const uint32_t *held, uint32_t *quotas);

/** The next table from the old one (old->n == 0: none yet), grown if needed (growing moves
 *  nothing), with exactly sum(max(0, old quota - new quota)) moves, the minimum. Each gainer takes
 *  among the Dcodes of DIPs with a surplus (or of no DIP) by rendezvous rank(dcode, id), so that a
 *  DIP that leaves and returns gets nearly all of its own back. Indexes are unique and not DIP_NONE.
 *  The result does not hang on the order of dips. Weights alone count here, not `up`. With no weight anywhere every entry is
 *  DIP_NONE. *out is a new table (dcode_table_destroy); *n_moved (may be NULL) counts the entries
 *  that changed against the grown old table. 0 or -ENOMEM. Thread: control. */
MUST_CHECK int dcode_table_next(const struct dcode_table *old, const struct dcode_dip *dips,
				unsigned n_dips, struct dcode_table *out, uint32_t *n_moved);

/** The table that packets see: t with each Dcode of a DIP that is not up re-rolled
 *  deterministically, by weight, to a DIP that is up and has weight (none there: DIP_NONE). A pure
 *  function of t and the set of DIPs that are up, so a DIP that comes back gets exactly its old
 *  Dcodes back; while further DIPs go down, Dcodes re-rolled to a DIP that stays up stay there.
 *  out: n entries, the caller's. Thread: control. */
void dcode_table_reroll(const struct dcode_table *t, const struct dcode_dip *dips,
			unsigned n_dips, uint16_t *out);

/** Dcodes of each DIP index: counts has DIP_INDEX_MAX + 1 entries or n_counts of them. */
void dcode_table_count(const uint16_t *dcodes, uint32_t n, uint32_t *counts, uint32_t n_counts);

void dcode_table_destroy(struct dcode_table *t);
