/* Two levels: the hash names a partition of some 128 servers, and within it there is a tournament
 * (tournament.h). The hierarchy is that of Wang and Ravishankar's rendezvous over a tree
 * (Hash-based virtual hierarchies for scalable location service, 2003), with one level above the
 * servers.
 *
 * The number of partitions stays until they hold 64 or 256 servers on average; a server that comes
 * joins the partition of the least weight and stays there, which is what this way keeps of its
 * history. So weights count within a partition only: what a partition's weights have grown apart
 * from the others' is shares that are off, and a change of a weight moves nothing between
 * partitions. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/chooser.h"
#include "tests/bench/peers/tournament.h"

#define SERVERS 128u
#define PARTITIONS_MAX (2 * (DIP_INDEX_MAX + 1) / SERVERS)
#define NONE UINT16_MAX

struct two_level {
	uint32_t n; /* partitions */
	uint32_t n_servers;
	bool equal;			     /* all weights are */
	struct contestant *servers;	     /* by partition; hugemem */
	uint32_t first[PARTITIONS_MAX + 1];  /* server of each partition */
	uint16_t home_of[DIP_INDEX_MAX + 1]; /* partition by DIP index, or NONE */
};

static size_t servers_bytes(const struct two_level *t)
{
	return t->n_servers * sizeof(*t->servers);
}

static size_t bytes(const void *c)
{
	const struct two_level *t = c;

	return servers_bytes(t) + (t->n + 1) * sizeof(*t->first);
}

static uint32_t lightest(const uint64_t *weights, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t p = 1; p < n; p++)
		best = weights[p] < weights[best] ? p : best;
	return best;
}

/* Forget the homes of DIPs that are not in the list any more; those that are down keep theirs. */
static void forget_gone(struct two_level *t, const struct dcode_dip *dips, unsigned n)
{
	uint16_t *listed = chooser_alloc(DIP_INDEX_MAX + 1, sizeof(*listed));

	memset(listed, 0xff, (DIP_INDEX_MAX + 1) * sizeof(*listed));
	for (unsigned i = 0; i < n; i++)
		listed[dips[i].index] = t->home_of[dips[i].index];
	memcpy(t->home_of, listed, sizeof(t->home_of));
	free(listed);
}

/* Find a home for those that have none. False if a partition is left without servers. */
static bool settle(struct two_level *t, const struct dcode_dip *usable, unsigned n)
{
	uint64_t weights[PARTITIONS_MAX] = {0};

	for (unsigned i = 0; i < n; i++) {
		if (t->home_of[usable[i].index] != NONE)
			weights[t->home_of[usable[i].index]] += usable[i].weight;
	}
	for (unsigned i = 0; i < n; i++) {
		uint16_t *home = &t->home_of[usable[i].index];
		if (*home == NONE) {
			*home = (uint16_t)lightest(weights, t->n);
			weights[*home] += usable[i].weight;
		}
	}
	return weights[lightest(weights, t->n)] > 0;
}

static void deal_anew(struct two_level *t, const struct dcode_dip *usable, unsigned n)
{
	t->n = (n + SERVERS - 1) / SERVERS;
	memset(t->home_of, 0xff, sizeof(t->home_of));
	const bool settled = settle(t, usable, n);
	assert(settled);
}

static void place_servers(struct two_level *t, const struct dcode_dip *usable, unsigned n)
{
	uint32_t next[PARTITIONS_MAX];

	memset(t->first, 0, sizeof(t->first));
	for (unsigned i = 0; i < n; i++)
		t->first[t->home_of[usable[i].index] + 1]++;
	for (uint32_t p = 0; p < t->n; p++) {
		t->first[p + 1] += t->first[p];
		next[p] = t->first[p];
	}
	t->n_servers = n;
	t->servers = peer_alloc(servers_bytes(t));
	for (unsigned i = 0; i < n; i++)
		t->servers[next[t->home_of[usable[i].index]]++] = contestant_of(&usable[i]);
	t->equal = tournament_is_equal(t->servers, n);
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct two_level *t = c;
	unsigned n_usable;
	struct dcode_dip *usable = chooser_usable(dips, n, &n_usable);

	hugemem_free(t->servers, servers_bytes(t));
	forget_gone(t, dips, n);
	const bool fits = t->n && n_usable <= 2 * SERVERS * t->n &&
			  (t->n == 1 || n_usable >= SERVERS / 2 * t->n);
	if (!fits || !settle(t, usable, n_usable))
		deal_anew(t, usable, n_usable);
	place_servers(t, usable, n_usable);
	free(usable);
}

static void *build(const struct dcode_dip *dips, unsigned n)
{
	struct two_level *t = chooser_alloc(1, sizeof(*t));

	memset(t->home_of, 0xff, sizeof(t->home_of));
	change(t, dips, n);
	return t;
}

/* The level above takes the hash as it is, so the one below needs a mix of its own. */
static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct two_level *t = c;

	for (unsigned i = 0; i < PEER_BURST; i++) {
		const uint32_t p = mul_shift32((uint32_t)(hashes[i] >> 32), t->n);
		const struct contestant *servers = &t->servers[t->first[p]];
		const uint32_t n = t->first[p + 1] - t->first[p];
		const uint64_t hash = peer_mix(hashes[i], 2);
		dips[i] = t->equal ? tournament_equal(servers, n, hash)
				   : tournament_weighted(servers, n, hash);
	}
}

static void shares(const void *c, double *out)
{
	const struct two_level *t = c;

	memset(out, 0, (DIP_INDEX_MAX + 1) * sizeof(*out));
	for (uint32_t p = 0; p < t->n; p++) {
		double weights = 0;
		for (uint32_t i = t->first[p]; i < t->first[p + 1]; i++)
			weights += 1 / (double)t->servers[i].inverse;
		for (uint32_t i = t->first[p]; i < t->first[p + 1]; i++)
			out[t->servers[i].index] =
				1 / (double)t->servers[i].inverse / weights / t->n;
	}
}

static void destroy(void *c)
{
	struct two_level *t = c;

	hugemem_free(t->servers, servers_bytes(t));
	free(t);
}

const struct chooser chooser_two_level = {"two_level", build, change, choose,
					  shares,      bytes, destroy};
