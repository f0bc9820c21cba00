/* The layout of the paper (Concury, arXiv 1908.01889): the state of every known flow, its Dcode, in
 * the arrays of an Othello, and a table from Dcodes to DIPs. A baseline. */
#pragma once

#include "lookup/othello.h"
#include "tests/bench/peers/peer.h"

struct paper {
	uint64_t seed;	      /* of the flows' hash */
	struct othello shape; /* seed and sizes; arrays below */
	uint8_t *a;	      /* hugemem */
	uint8_t *b;
	size_t bytes_a;
	size_t bytes_b;
	uint16_t *dips; /* by Dcode, hugemem */
	uint32_t n_dcodes;
};

/** Build 16-bit arrays from n hashes and their Dcodes. Exits without memory. */
void paper_build(struct paper *p, uint64_t seed, uint32_t n, const uint64_t *hashes,
		 const uint32_t *dcodes, const uint16_t *dips, uint32_t n_dcodes);
/** The same with 12-bit cells, for at most 4096 Dcodes. */
void paper_pack(struct paper *p, const struct paper *from);
void paper_destroy(struct paper *p);
size_t paper_bytes(const struct paper *p);

/** Look up a burst of keys; 16-bit cells. */
void paper_lookup(const struct paper *p, const struct flow_key *keys, uint16_t *dips);
/** The same with all cells of the burst asked for before the first one is read. */
void paper_lookup_prefetch(const struct paper *p, const struct flow_key *keys, uint16_t *dips);
/** 12-bit cells, two in three bytes. */
void paper_lookup_packed(const struct paper *p, const struct flow_key *keys, uint16_t *dips);
