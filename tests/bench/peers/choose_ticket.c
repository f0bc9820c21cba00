/* Tickets (as IPVS and others deal weights out; lottery scheduling, Waldspurger and Weihl, OSDI
 * 1994): an array with an entry of 2 bytes for each unit of weight, and the hash draws one. Nothing
 * is smaller, faster to build or more exact; but with another number of tickets every draw means
 * another ticket: a full re-deal. */
#include <stdlib.h>

#include "tests/bench/peers/chooser.h"

struct tickets {
	uint16_t *tickets; /* hugemem */
	uint32_t n;
};

static size_t bytes(const void *c)
{
	const struct tickets *t = c;

	return t->n * sizeof(*t->tickets);
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct tickets *t = c;
	unsigned n_usable;
	struct dcode_dip *usable = chooser_usable(dips, n, &n_usable);
	uint32_t k = 0;

	hugemem_free(t->tickets, bytes(t));
	t->n = chooser_weights(usable, n_usable);
	t->tickets = peer_alloc(bytes(t));
	for (unsigned i = 0; i < n_usable; i++) {
		for (uint32_t w = 0; w < usable[i].weight; w++)
			t->tickets[k++] = usable[i].index;
	}
	free(usable);
}

static void *build(const struct dcode_dip *dips, unsigned n)
{
	struct tickets *t = chooser_alloc(1, sizeof(*t));

	change(t, dips, n);
	return t;
}

static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct tickets *t = c;

	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = t->tickets[mul_shift32((uint32_t)(hashes[i] >> 32), t->n)];
}

static void shares(const void *c, double *out)
{
	const struct tickets *t = c;

	chooser_count_shares(t->tickets, t->n, out);
}

static void destroy(void *c)
{
	struct tickets *t = c;

	hugemem_free(t->tickets, bytes(t));
	free(t);
}

const struct chooser chooser_ticket = {"ticket", build, change, choose, shares, bytes, destroy};
