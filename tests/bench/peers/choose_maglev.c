/* Maglev (Eisenbud et al., NSDI 2016, 3.4; peers/maglev.h): a table of prime size that DIPs fill by
 * turns, 65,537 entries, the paper's small size, or, for more DIPs than 655, more. It keeps
 * nothing, so balancers agree; a change moves more than it must. */
#include <stdlib.h>

#include "tests/bench/peers/chooser.h"
#include "tests/bench/peers/maglev.h"

struct maglev_chooser {
	uint16_t *entries; /* hugemem */
	uint32_t n;
};

static size_t bytes(const void *c)
{
	const struct maglev_chooser *m = c;

	return m->n * sizeof(*m->entries);
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct maglev_chooser *m = c;
	unsigned n_usable;
	struct dcode_dip *usable = chooser_usable(dips, n, &n_usable);

	hugemem_free(m->entries, bytes(m));
	m->n = maglev_size(n_usable);
	m->entries = peer_alloc(bytes(m));
	maglev_fill_sized(usable, n_usable, m->entries, m->n);
	free(usable);
}

static void *build(const struct dcode_dip *dips, unsigned n)
{
	struct maglev_chooser *m = chooser_alloc(1, sizeof(*m));

	change(m, dips, n);
	return m;
}

static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct maglev_chooser *m = c;

	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = m->entries[mul_shift32((uint32_t)(hashes[i] >> 32), m->n)];
}

static void shares(const void *c, double *out)
{
	const struct maglev_chooser *m = c;

	chooser_count_shares(m->entries, m->n, out);
}

static void destroy(void *c)
{
	struct maglev_chooser *m = c;

	hugemem_free(m->entries, bytes(m));
	free(m);
}

const struct chooser chooser_maglev = {"maglev", build, change, choose, shares, bytes, destroy};
