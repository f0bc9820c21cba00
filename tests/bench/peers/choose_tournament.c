/* A tournament of all servers for each flow (tournament.h). It keeps nothing, balancers agree, and
 * a change moves exactly what it must; but a choice costs a draw of every server. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/chooser.h"
#include "tests/bench/peers/tournament.h"

struct tournament {
	uint32_t n;
	bool equal;		    /* all weights are */
	double weights;		    /* of all */
	struct contestant *servers; /* hugemem */
};

static size_t bytes(const void *c)
{
	const struct tournament *t = c;

	return t->n * sizeof(*t->servers);
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct tournament *t = c;
	unsigned n_usable;
	struct dcode_dip *usable = chooser_usable(dips, n, &n_usable);

	hugemem_free(t->servers, bytes(t));
	t->n = n_usable;
	t->weights = chooser_weights(usable, n_usable);
	t->servers = peer_alloc(bytes(t));
	for (unsigned i = 0; i < n_usable; i++)
		t->servers[i] = contestant_of(&usable[i]);
	t->equal = tournament_is_equal(t->servers, t->n);
	free(usable);
}

static void *build(const struct dcode_dip *dips, unsigned n)
{
	struct tournament *t = chooser_alloc(1, sizeof(*t));

	change(t, dips, n);
	return t;
}

static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct tournament *t = c;

	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = t->equal ? tournament_equal(t->servers, t->n, hashes[i])
				   : tournament_weighted(t->servers, t->n, hashes[i]);
}

static void shares(const void *c, double *out)
{
	const struct tournament *t = c;

	memset(out, 0, (DIP_INDEX_MAX + 1) * sizeof(*out));
	for (uint32_t i = 0; i < t->n; i++)
		out[t->servers[i].index] = 1 / (double)t->servers[i].inverse / t->weights;
}

static void destroy(void *c)
{
	struct tournament *t = c;

	hugemem_free(t->servers, bytes(t));
	free(t);
}

const struct chooser chooser_tournament = {"tournament", build, change, choose,
					   shares,	 bytes, destroy};
