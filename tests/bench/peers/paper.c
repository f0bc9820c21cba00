#include "tests/bench/peers/paper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "lookup/othello_graph.h"
#include "lookup/othello_map.h"

void *peer_alloc(size_t size)
{
	void *p = hugemem_alloc(size, NULL);

	if (!p) {
		fprintf(stderr, "no memory for %zu bytes\n", size);
		exit(EXIT_FAILURE);
	}
	return p;
}

static uint32_t packed_get(const uint8_t *cells, uint32_t i)
{
	uint16_t word;

	memcpy(&word, cells + (size_t)i * 3 / 2, sizeof(word));
	return (i & 1 ? word >> 4 : word) & 0xfff;
}

static void packed_set(uint8_t *cells, uint32_t i, uint32_t value)
{
	uint16_t word;
	uint8_t *p = cells + (size_t)i * 3 / 2;

	memcpy(&word, p, sizeof(word));
	word = (uint16_t)(i & 1 ? (word & 0xf) | value << 4 : (word & 0xf000) | value);
	memcpy(p, &word, sizeof(word));
}

static uint8_t *narrow(const uint32_t *cells, uint32_t n, size_t *bytes)
{
	*bytes = (size_t)n * sizeof(uint16_t);
	uint8_t *to = peer_alloc(*bytes);
	for (uint32_t i = 0; i < n; i++)
		((uint16_t *)to)[i] = (uint16_t)cells[i];
	return to;
}

static uint8_t *pack(const uint8_t *cells, uint32_t n, size_t *bytes)
{
	*bytes = (size_t)n * 3 / 2 + sizeof(uint16_t);
	uint8_t *to = peer_alloc(*bytes);
	for (uint32_t i = 0; i < n; i++)
		packed_set(to, i, ((const uint16_t *)cells)[i]);
	return to;
}

static uint16_t *copy_dips(const uint16_t *dips, uint32_t n)
{
	uint16_t *to = peer_alloc(n * sizeof(*to));

	memcpy(to, dips, n * sizeof(*to));
	return to;
}

void paper_build(struct paper *p, uint64_t seed, uint32_t n, const uint64_t *hashes,
		 const uint32_t *dcodes, const uint16_t *dips, uint32_t n_dcodes)
{
	struct othello_peel peel;
	struct othello wide;

	*p = (struct paper){.seed = seed, .n_dcodes = n_dcodes};
	othello_map_size(n, &p->shape.n_a, &p->shape.n_b);
	struct othello_edge *edges = peer_alloc(n * sizeof(*edges));
	if (othello_peel_init(&peel, n, p->shape.n_a, p->shape.n_b))
		exit(EXIT_FAILURE);
	do {
		p->shape.seed = entropy_u64();
		othello_graph_edges(&p->shape, hashes, n, edges);
	} while (!othello_peel_run(&peel, edges, n, p->shape.n_a, p->shape.n_b));
	if (othello_init(&wide, p->shape.n_a, p->shape.n_b, p->shape.seed))
		exit(EXIT_FAILURE);
	othello_graph_write(&peel, edges, dcodes, &wide);
	p->a = narrow(wide.a, wide.n_a, &p->bytes_a);
	p->b = narrow(wide.b, wide.n_b, &p->bytes_b);
	p->dips = copy_dips(dips, n_dcodes);
	othello_destroy(&wide);
	othello_peel_destroy(&peel);
	hugemem_free(edges, n * sizeof(*edges));
}

void paper_pack(struct paper *p, const struct paper *from)
{
	*p = *from;
	p->a = pack(from->a, from->shape.n_a, &p->bytes_a);
	p->b = pack(from->b, from->shape.n_b, &p->bytes_b);
	p->dips = copy_dips(from->dips, from->n_dcodes);
}

void paper_destroy(struct paper *p)
{
	hugemem_free(p->a, p->bytes_a);
	hugemem_free(p->b, p->bytes_b);
	hugemem_free(p->dips, p->n_dcodes * sizeof(*p->dips));
}

size_t paper_bytes(const struct paper *p)
{
	return p->bytes_a + p->bytes_b + p->n_dcodes * sizeof(*p->dips);
}

void paper_lookup(const struct paper *p, const struct flow_key *keys, uint16_t *dips)
{
	const uint16_t *a = (const uint16_t *)p->a;
	const uint16_t *b = (const uint16_t *)p->b;

	for (unsigned i = 0; i < PEER_BURST; i++) {
		uint32_t ia, ib;
		othello_cells(&p->shape, flow_key_hash(&keys[i], p->seed), &ia, &ib);
		dips[i] = p->dips[(a[ia] ^ b[ib]) & (p->n_dcodes - 1)];
	}
}

void paper_lookup_prefetch(const struct paper *p, const struct flow_key *keys, uint16_t *dips)
{
	const uint16_t *a = (const uint16_t *)p->a;
	const uint16_t *b = (const uint16_t *)p->b;
	uint32_t ia[PEER_BURST], ib[PEER_BURST];

	for (unsigned i = 0; i < PEER_BURST; i++) {
		othello_cells(&p->shape, flow_key_hash(&keys[i], p->seed), &ia[i], &ib[i]);
		cpu_prefetch(&a[ia[i]]);
		cpu_prefetch(&b[ib[i]]);
	}
	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = p->dips[(a[ia[i]] ^ b[ib[i]]) & (p->n_dcodes - 1)];
}

void paper_lookup_packed(const struct paper *p, const struct flow_key *keys, uint16_t *dips)
{
	for (unsigned i = 0; i < PEER_BURST; i++) {
		uint32_t ia, ib;
		othello_cells(&p->shape, flow_key_hash(&keys[i], p->seed), &ia, &ib);
		dips[i] =
			p->dips[(packed_get(p->a, ia) ^ packed_get(p->b, ib)) & (p->n_dcodes - 1)];
	}
}
