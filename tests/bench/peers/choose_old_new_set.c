/* An old and a new set: the table as it was built (here Maglev's, peers/maglev.h), and the servers
 * added since; a first hash chooses between the two by their weights, and a tournament
 * (tournament.h) among the new ones. (Two sets of servers side by side while the pool changes:
 * Beamer, Olteanu et al., NSDI 2018, and Faild, Araujo et al., NSDI 2018, keep the set of before in
 * the same way.) Whatever is not an addition, and more than NEW_MAX of those, builds the table
 * anew.
 *
 * The first addition moves exactly what it must, a later one up to twice as much, the new set being
 * shared anew. But which servers are new is history: balancers that learn of changes in another
 * order disagree, and every other change moves as much as Maglev's, and the new set besides. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/chooser.h"
#include "tests/bench/peers/maglev.h"
#include "tests/bench/peers/tournament.h"

#define NEW_MAX 64u

struct old_new_set {
	uint16_t *entries; /* of the table; hugemem */
	uint32_t n;
	uint32_t n_new;
	struct contestant new[NEW_MAX];
	uint32_t threshold; /* first hashes below belong to the new set */
	double new_share;
	double new_weights;
	struct dcode_dip *known; /* all that are in table or set, by id */
	unsigned n_known;
};

static size_t table_bytes(const struct old_new_set *s)
{
	return s->n * sizeof(*s->entries);
}

static size_t bytes(const void *c)
{
	const struct old_new_set *s = c;

	return table_bytes(s) + s->n_new * sizeof(*s->new);
}

/* Copy to `added` what is in the list and not known. False unless all that is known is in it
 * unchanged and there is room for what is added. Both lists are by id. */
static bool only_adds(const struct old_new_set *s, const struct dcode_dip *dips, unsigned n,
		      struct dcode_dip *added)
{
	unsigned k = 0, n_added = 0;

	if (!s->n_known || n < s->n_known || n - s->n_known > NEW_MAX - s->n_new)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (k < s->n_known && dips[i].id == s->known[k].id) {
			if (dips[i].weight != s->known[k].weight ||
			    dips[i].index != s->known[k].index)
				return false;
			k++;
		} else if (n_added < n - s->n_known) {
			added[n_added++] = dips[i];
		} else {
			return false;
		}
	}
	return true;
}

static void rebuild(struct old_new_set *s, const struct dcode_dip *dips, unsigned n)
{
	hugemem_free(s->entries, table_bytes(s));
	s->n = maglev_size(n);
	s->entries = peer_alloc(table_bytes(s));
	maglev_fill_sized(dips, n, s->entries, s->n);
	s->n_new = 0;
	s->new_weights = 0;
}

static void change(void *c, const struct dcode_dip *dips, unsigned n)
{
	struct old_new_set *s = c;
	struct dcode_dip added[NEW_MAX] = {{0}};
	unsigned n_usable;
	struct dcode_dip *usable = chooser_usable(dips, n, &n_usable);

	if (only_adds(s, usable, n_usable, added)) {
		for (unsigned i = 0; i < n_usable - s->n_known; i++) {
			s->new[s->n_new++] = contestant_of(&added[i]);
			s->new_weights += added[i].weight;
		}
	} else {
		rebuild(s, usable, n_usable);
	}
	s->new_share = s->new_weights / chooser_weights(usable, n_usable);
	s->threshold = (uint32_t)(s->new_share * 0x1p32);
	free(s->known);
	s->known = usable;
	s->n_known = n_usable;
}

static void *build(const struct dcode_dip *dips, unsigned n)
{
	struct old_new_set *s = chooser_alloc(1, sizeof(*s));

	change(s, dips, n);
	return s;
}

static void choose(const void *c, const uint64_t *hashes, uint16_t *dips)
{
	const struct old_new_set *s = c;

	for (unsigned i = 0; i < PEER_BURST; i++)
		dips[i] = s->entries[mul_shift32((uint32_t)(hashes[i] >> 32), s->n)];
	if (!s->n_new)
		return;
	for (unsigned i = 0; i < PEER_BURST; i++) {
		if ((uint32_t)hashes[i] < s->threshold)
			dips[i] = tournament_weighted(s->new, s->n_new, peer_mix(hashes[i], 2));
	}
}

static void shares(const void *c, double *out)
{
	const struct old_new_set *s = c;

	chooser_count_shares(s->entries, s->n, out);
	for (uint32_t i = 0; i <= DIP_INDEX_MAX; i++)
		out[i] *= 1 - s->new_share;
	for (uint32_t i = 0; i < s->n_new; i++)
		out[s->new[i].index] += s->new_share / (double)s->new[i].inverse / s->new_weights;
}

static void destroy(void *c)
{
	struct old_new_set *s = c;

	hugemem_free(s->entries, table_bytes(s));
	free(s->known);
	free(s);
}

const struct chooser chooser_old_new_set = {"old_new_set", build, change, choose,
					    shares,	   bytes, destroy};
