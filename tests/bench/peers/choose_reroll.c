/* Draw again: an array of a power of two of slots, as many of a server as its weight; slots of
 * servers that are dead, or of nobody, are marked, and a hash that draws one draws again from a
 * further mix, until it draws a live one. (Rehashing on failure, as in CARP's and Anchor's family:
 * Mendelson et al., AnchorHash, IEEE/ACM ToN 2021.) A quarter of the slots at least is nobody's at
 * first, and who comes takes the lowest of them.
 *
 * Changes move what they must until nothing is free: then the array doubles, and half of all flows
 * draw elsewhere. A choice takes slots / live slots draws on average. It keeps who owns which slot:
 * balancers that learn of changes in another order disagree. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/chooser.h"

/* Then the next live slot: only with hardly any alive is it ever needed. */
#define DRAWS_MAX 4096u

struct reroll {
	uint32_t n;	  /* a power of two */
	uint16_t *slots;  /* what is drawn: DIP indexes, DIP_NONE: marked; hugemem */
	uint16_t *owners; /* DIP indexes, of dead ones too; DIP_NONE: nobody's */
	uint32_t lack[DIP_INDEX_MAX + 1]; /* by index, slots that a DIP is still to get */
};

static size_t bytes(const void *c)
{
	const struct reroll *r = c;

	return r->n * sizeof(*r->slots);
}

/* Let go what is owned by those who are gone or hold more than their weight. Returns how many slots
 * the others lack. */
static uint64_t release(struct reroll *r, const struct dcode_dip *dips, unsigned n)
{
	uint64_t lack = 0;

	memset(r->lack, 0, sizeof(r->lack));
	for (unsigned i = 0; i < n; i++)
		r->lack[dips[i].index] = dips[i].weight;
	for (uint32_t s = 0; s < r->n; s++) {
		if (r->owners[s] == DIP_NONE)
			continue;
		if (r->lack[r->owners[s]])
			r->lack[r->owners[s]]--;
		else
			r->owners[s] = DIP_NONE;
	}
	for (unsigned i = 0; i < n; i++)
		lack += dips[i].up ? r->lack[dips[i].index] : 0;
	return lack;
}

static uint32_t count_free(const struct reroll *r)
{
	uint32_t n = 0;

	for (uint32_t s = 0; s < r->n; s++)
		n += r->owners[s] == DIP_NONE;
	return n;
}

static void resize(struct reroll *r, uint32_t n)
{
	uint16_t *owners = chooser_alloc(n, sizeof(*owners));

	if (r->n)
		memcpy(owners, r->owners, r->n * sizeof(*owners));
	free(r->owners);
	hugemem_free(r->slots, bytes(r));
	r->owners = owners;
	r->n = n;
	r->slots = peer_alloc(bytes(r));
}

/* Let each DIP take what it lacks, in the order of ids. */
static void claim(struct reroll *r, const struct dcode_dip *usable, unsigned n)
{
	uint32_t s = 0;

	for (unsigned i = 0; i < n; i++) {
		for (uint32_t *lack = &r->lack[usable[i].index]; *lack; (*lack)--) {
			while (r->owners[s] != DIP_NONE)
				s++;
			r->owners[s] = usable[i].index;
		}
	}
}

static void mark(struct reroll *r, const struct dcode_dip *usable, unsigned n)
{
	memset(r->lack, 0, sizeof(r->lack));
	for (unsigned i = 0; i < n; i++)
		r->lack[usable[i].index] = 1;
	for (uint32_t s = 0; s < r->n; s++)
		r->slots[s] = r->lack[r->owners[s]] ? r->owners[s] : DIP_NONE;
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct reroll *r = c;
	unsigned n_usable;
	struct dcode_dip *usable = chooser_usable(dips, n, &n_usable);

	const uint64_t lack = release(r, dips, n);
	uint32_t size = r->n ? r->n : 1;
	while (r->n ? count_free(r) + (size - r->n) < lack : (uint64_t)size * 3 / 4 < lack)
		size *= 2;
	if (size != r->n)
		resize(r, size);
	claim(r, usable, n_usable);
	mark(r, usable, n_usable);
	free(usable);
}

static void *build(const struct dcode_dip *dips, unsigned n)
{
	struct reroll *r = chooser_alloc(1, sizeof(*r));

	change(r, dips, n);
	return r;
}

static uint16_t draw_again(const struct reroll *r, uint64_t hash)
{
	uint32_t s = 0;

	for (uint32_t i = 1; i < DRAWS_MAX; i++) {
		s = (uint32_t)peer_mix(hash, i) & (r->n - 1);
		if (r->slots[s] != DIP_NONE)
			return r->slots[s];
	}
	while (r->slots[s] == DIP_NONE)
		s = (s + 1) & (r->n - 1);
	return r->slots[s];
}

static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct reroll *r = c;

	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = r->slots[(uint32_t)hashes[i] & (r->n - 1)];
	for (unsigned i = 0; i < PEER_BURST; i++) {
		if (dips[i] == DIP_NONE)
			dips[i] = draw_again(r, hashes[i]);
	}
}

static void shares(const void *c, double *out)
{
	const struct reroll *r = c;
	double live = 0;

	chooser_count_shares(r->slots, r->n, out);
	live = 1 - out[DIP_NONE];
	out[DIP_NONE] = 0;
	for (uint32_t i = 0; i <= DIP_INDEX_MAX; i++)
		out[i] /= live;
}

static void destroy(void *c)
{
	struct reroll *r = c;

	hugemem_free(r->slots, bytes(r));
	free(r->owners);
	free(r);
}

const struct chooser chooser_reroll = {"reroll", build, change, choose, shares, bytes, destroy};
