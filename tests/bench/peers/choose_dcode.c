/* Concury's own (lookup/dcode_table.h): a table of a power of two of Dcodes, changed by the fewest
 * moves; the Dcodes of a DIP that is down are re-rolled, and are its own again when it is up. It
 * keeps the table, so what it chooses hangs on the order of changes: balancers that are to agree
 * share the table. */
#include <stdlib.h>

#include "lookup/flow_key.h"
#include "tests/bench/peers/chooser.h"

struct dcode_chooser {
	const uint16_t *homes; /* after the re-roll; hugemem */
	uint32_t n;
	struct dcode_table table;
};

static size_t bytes(const void *c)
{
	const struct dcode_chooser *d = c;

	return d->n * sizeof(*d->homes);
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct dcode_chooser *d = c;
	struct dcode_table next;

	if (dcode_table_next(&d->table, dips, n, &next, NULL))
		exit(EXIT_FAILURE);
	dcode_table_destroy(&d->table);
	hugemem_free((void *)d->homes, bytes(d));
	d->table = next;
	d->n = next.n;
	uint16_t *homes = peer_alloc(bytes(d));
	dcode_table_reroll(&next, dips, n, homes);
	d->homes = homes;
}

static void *build(const struct dcode_dip *dips, unsigned n)
{
	struct dcode_chooser *d = chooser_alloc(1, sizeof(*d));

	change(d, dips, n);
	return d;
}

static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct dcode_chooser *d = c;

	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = d->homes[flow_home(hashes[i], d->n)];
}

static void shares(const void *c, double *out)
{
	const struct dcode_chooser *d = c;

	chooser_count_shares(d->homes, d->n, out);
}

static void destroy(void *c)
{
	struct dcode_chooser *d = c;

	hugemem_free((void *)d->homes, bytes(d));
	dcode_table_destroy(&d->table);
	free(d);
}

const struct chooser chooser_dcode = {"dcode", build, change, choose, shares, bytes, destroy};
