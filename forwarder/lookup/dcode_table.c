/* Which Dcode goes to which gainer decides what a DIP gets back when it returns. Every DIP ranks
 * the 1024 classes of Dcodes (a Dcode's low 10 bits) by a permutation of its own, drawn from its
 * id.
 *
 * - From an owner that only shrinks, a gainer takes those Dcodes first where it ranks the class
 * best in comparison with the owner. So a DIP that returns finds its own again: it ranks them
 * better than the owners who stood in for it, and what those held before, worse. (Taking the
 * gainer's best, whoever owns them, regains only the DIP's share of them once the table has a
 * history.)
 * - What a DIP that leaves leaves behind goes to those who rank it worst: they only stand in, and
 * what they rank worst is what the DIP that returns, or the next one that comes, takes from them
 * first.
 * - An empty table is filled as if the DIPs came one by one, so that it is like one that grew. That
 *   costs a change for each; many DIPs take what they rank best, by turns, instead.
 *
 * Ranks hang on the low bits alone so that doubling the table changes no comparison. Dcodes of one
 * class and one owner are alike, so the work is done on such groups: a change costs
 * O(n + gainers * groups), not a score for each Dcode and gainer. */
#include "lookup/dcode_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES DCODE_TABLE_MIN
#define ONE_BY_ONE_MAX 32u /* DIPs that fill a table one by one */
#define TURNS 8		   /* in which more of them do */

/* --- ranks ---------------------------------------------------------------------------------------
 */

static uint64_t mix64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

/* The rank, 0 the best, that the DIP with this mixed id gives to class c: a permutation of the
 * classes, by multiplication and xorshift on 10 bits under keys from the id. */
static uint32_t rank_class(uint64_t key, uint32_t c)
{
	const uint32_t mask = CLASSES - 1;
	uint32_t x = (c ^ (uint32_t)key) & mask;

	for (int i = 0; i < 3; i++) {
		key >>= 10;
		x = x * ((uint32_t)key | 1) & mask;
		x ^= x >> 5;
		key >>= 10;
		x = (x + (uint32_t)key) & mask;
	}
	return x;
}

/* What times k, an odd number, is 1 on 10 bits. */
static uint32_t inverse_of(uint32_t k)
{
	uint32_t x = k; /* right on 3 bits; each step doubles them */

	for (int i = 0; i < 2; i++)
		x *= 2 - k * x;
	return x;
}

/* rank_class the other way: the class that has this rank. */
static uint32_t class_of_rank(uint64_t key, uint32_t rank)
{
	const uint32_t mask = CLASSES - 1;
	uint32_t x = rank;

	for (int i = 2; i >= 0; i--) {
		x = (x - (uint32_t)(key >> (20 * i + 20))) & mask;
		x ^= x >> 5;
		x = x * inverse_of((uint32_t)(key >> (20 * i + 10)) | 1) & mask;
	}
	return (x ^ (uint32_t)key) & mask;
}

/* --- one change of a table -----------------------------------------------------------------------
 */

/* What a change knows of each owner of Dcodes: each DIP, and after them two that only give. */
struct party {
	uint64_t key;	  /* mixed id */
	uint32_t quota;	  /* Dcodes in the new table */
	uint32_t surplus; /* still to give */
	uint32_t deficit; /* still to get */
};

/* Dcodes of one class and one owner that may move: list[start .. start + n). */
struct group {
	uint32_t owner; /* party */
	uint16_t class;
	uint16_t rank; /* that the owner gives the class */
	uint32_t start;
	uint32_t n;
	uint32_t next; /* in its bucket, number + 1; 0 = last */
};

struct gainer {
	uint64_t key;
	unsigned party;
};

struct change {
	struct dcode_table table; /* the new table, at first the grown old one */
	const struct dcode_dip *dips;
	unsigned n_dips;
	bool filling; /* held Dcodes give no claim to be rounded up: the table was empty before */
	struct party *parties; /* n_dips + 2 */
	uint32_t nobody;       /* party that owns the Dcodes of no DIP */
	uint32_t gone;	       /* party that owns those of DIPs that are not in dips any more */
	uint32_t *party_of;    /* by DIP index */
	uint32_t *list;	       /* movable Dcodes, by group; from the front taken */
	struct group *groups;
	uint32_t n_groups;
	uint32_t n_moved;
};

static void change_free(struct change *ch)
{
	free(ch->parties);
	free(ch->party_of);
	free(ch->list);
	free(ch->groups);
}

static int change_alloc(struct change *ch, uint32_t n)
{
	ch->table.n = n;
	ch->gone = ch->n_dips;
	ch->nobody = ch->n_dips + 1;
	ch->table.dcodes = malloc((size_t)n * sizeof(*ch->table.dcodes));
	ch->parties = calloc((size_t)ch->n_dips + 2, sizeof(*ch->parties));
	ch->party_of = malloc((DIP_INDEX_MAX + 1) * sizeof(*ch->party_of));
	ch->list = malloc((size_t)n * sizeof(*ch->list));
	ch->groups = malloc((size_t)n * sizeof(*ch->groups));
	if (ch->table.dcodes && ch->parties && ch->party_of && ch->list && ch->groups)
		return 0;
	free(ch->table.dcodes);
	change_free(ch);
	return -ENOMEM;
}

static void grow_table(const struct dcode_table *old, struct dcode_table *table)
{
	for (uint32_t c = 0; c < table->n; c++)
		table->dcodes[c] = old->n ? old->dcodes[c & (old->n - 1)] : DIP_NONE;
}

static void map_indexes(struct change *ch)
{
	for (unsigned i = 0; i <= DIP_INDEX_MAX; i++)
		ch->party_of[i] = ch->gone;
	ch->party_of[DIP_NONE] = ch->nobody;
	for (unsigned i = 0; i < ch->n_dips; i++) {
		assert(ch->party_of[ch->dips[i].index] == ch->gone);
		ch->party_of[ch->dips[i].index] = i;
	}
}

static uint32_t owner_of(const struct change *ch, uint32_t dcode)
{
	return ch->party_of[ch->table.dcodes[dcode]];
}

/* Count what each party holds, compute quotas, and who gives or gets how many. */
static int settle_quotas(struct change *ch)
{
	const unsigned n_parties = ch->n_dips + 2;
	uint32_t *held = calloc(2 * (size_t)n_parties, sizeof(*held));

	if (!held)
		return -ENOMEM;
	uint32_t *quotas = held + n_parties;
	for (uint32_t c = 0; c < ch->table.n; c++)
		held[owner_of(ch, c)]++;
	dcode_table_quotas(ch->dips, ch->n_dips, ch->table.n, ch->filling ? NULL : held, quotas);
	for (unsigned i = 0; i < n_parties; i++) {
		ch->parties[i] = (struct party){
			.key = i < ch->n_dips ? mix64(ch->dips[i].id) : 0,
			.quota = quotas[i],
			.surplus = held[i] > quotas[i] ? held[i] - quotas[i] : 0,
			.deficit = quotas[i] > held[i] ? quotas[i] - held[i] : 0,
		};
	}
	free(held);
	return 0;
}

/* Make the groups of one class. mine[], by party, is the group that was made last for it, number
 * + 1. n_list: entries of list used so far. */
static void group_class(struct change *ch, uint32_t class, uint32_t *mine, uint32_t *n_list)
{
	const uint32_t first = ch->n_groups;

	for (uint32_t c = class; c < ch->table.n; c += CLASSES) {
		uint32_t owner = owner_of(ch, c);
		if (!ch->parties[owner].surplus)
			continue;
		if (mine[owner] <= first) {
			ch->groups[ch->n_groups++] = (struct group){
				.owner = owner,
				.class = (uint16_t) class,
				.rank = (uint16_t)rank_class(ch->parties[owner].key, class),
			};
			mine[owner] = ch->n_groups;
		}
		ch->groups[mine[owner] - 1].n++;
	}
	for (uint32_t g = first; g < ch->n_groups; g++) {
		ch->groups[g].start = *n_list;
		*n_list += ch->groups[g].n;
		ch->groups[g].n = 0;
	}
	for (uint32_t c = class; c < ch->table.n; c += CLASSES) {
		uint32_t owner = owner_of(ch, c);
		if (ch->parties[owner].surplus) {
			struct group *g = &ch->groups[mine[owner] - 1];
			ch->list[g->start + g->n++] = c;
		}
	}
}

static int make_groups(struct change *ch)
{
	uint32_t *mine = calloc((size_t)ch->n_dips + 2, sizeof(*mine));
	uint32_t n_list = 0;

	if (!mine)
		return -ENOMEM;
	for (uint32_t class = 0; class < CLASSES; class ++)
		group_class(ch, class, mine, &n_list);
	free(mine);
	return 0;
}

/* In which bucket, the first the best, a gainer that ranks the group's class so puts the group. */
static uint32_t bucket_of(const struct change *ch, const struct group *g, uint32_t rank)
{
	if (g->owner == ch->nobody)
		return rank;
	if (!ch->parties[g->owner].quota)
		return CLASSES - 1 - rank;
	return CLASSES + rank - g->rank;
}

/* Give party p (DIP index `index`) Dcodes of group g: at most *want, what the group has, and what
 * its owner can spare. */
static void take(struct change *ch, struct party *p, uint16_t index, struct group *g,
		 uint32_t *want)
{
	struct party *owner = &ch->parties[g->owner];
	uint32_t n = g->n < *want ? g->n : *want;

	if (n > owner->surplus)
		n = owner->surplus;
	for (uint32_t i = 0; i < n; i++)
		ch->table.dcodes[ch->list[g->start + i]] = index;
	g->start += n;
	g->n -= n;
	owner->surplus -= n;
	p->deficit -= n;
	*want -= n;
	ch->n_moved += n;
}

/* Let party i take n Dcodes, the best buckets first. Groups that are used up or whose owner has
 * nothing left to give are dropped. */
static void serve(struct change *ch, unsigned i, uint32_t want)
{
	struct party *p = &ch->parties[i];
	uint32_t buckets[2 * CLASSES] = {0};
	uint32_t ranks[CLASSES];
	uint32_t kept = 0;

	for (uint32_t c = 0; c < CLASSES; c++)
		ranks[c] = rank_class(p->key, c);
	for (uint32_t g = 0; g < ch->n_groups; g++) {
		struct group group = ch->groups[g];
		if (!group.n || !ch->parties[group.owner].surplus)
			continue;
		uint32_t *b = &buckets[bucket_of(ch, &group, ranks[group.class])];
		group.next = *b;
		ch->groups[kept] = group;
		*b = ++kept;
	}
	ch->n_groups = kept;
	for (uint32_t b = 0; b < ARRAY_LEN(buckets) && want; b++) {
		for (uint32_t g = buckets[b]; g && want; g = ch->groups[g - 1].next)
			take(ch, p, ch->dips[i].index, &ch->groups[g - 1], &want);
	}
	assert(!want);
}

/* The same where all is nobody's: each rank's bucket holds the one group of its class. */
static void serve_of_nobody(struct change *ch, unsigned i, uint32_t want)
{
	struct party *p = &ch->parties[i];

	for (uint32_t rank = 0; rank < CLASSES && want; rank++)
		take(ch, p, ch->dips[i].index, &ch->groups[class_of_rank(p->key, rank)], &want);
	assert(!want);
}

static int compare_gainers(const void *x, const void *y)
{
	const struct gainer *a = x;
	const struct gainer *b = y;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->party < b->party ? -1 : a->party > b->party;
}

/* Serve all gainers, in an order that does not hang on the caller's. 0 or -ENOMEM. */
static int serve_all(struct change *ch)
{
	struct gainer *gainers = malloc(((size_t)ch->n_dips + 1) * sizeof(*gainers));
	bool empty = ch->parties[ch->nobody].surplus == ch->table.n;
	unsigned n = 0;

	if (!gainers)
		return -ENOMEM;
	assert(!empty || ch->n_groups == CLASSES);
	for (unsigned i = 0; i < ch->n_dips; i++) {
		if (ch->parties[i].deficit)
			gainers[n++] = (struct gainer){.key = ch->parties[i].key, .party = i};
	}
	qsort(gainers, n, sizeof(*gainers), compare_gainers);
	for (unsigned turns = ch->parties[ch->nobody].surplus ? TURNS : 1; turns > 0; turns--) {
		for (unsigned i = 0; i < n; i++) {
			uint32_t deficit = ch->parties[gainers[i].party].deficit;
			uint32_t want = (deficit + turns - 1) / turns;
			if (want && empty)
				serve_of_nobody(ch, gainers[i].party, want);
			else if (want)
				serve(ch, gainers[i].party, want);
		}
	}
	free(gainers);
	return 0;
}

/* Dcodes of no DIP when nobody has weight. */
static void clear_table(struct change *ch)
{
	for (uint32_t c = 0; c < ch->table.n; c++) {
		ch->n_moved += ch->table.dcodes[c] != DIP_NONE;
		ch->table.dcodes[c] = DIP_NONE;
	}
}

static unsigned count_weighted(const struct dcode_dip *dips, unsigned n_dips)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_dips; i++)
		n += dips[i].weight > 0;
	return n;
}

/* Make ch->table, of n Dcodes, from old. 0 or -ENOMEM. */
static int change_run(struct change *ch, const struct dcode_table *old, uint32_t n)
{
	int rc = change_alloc(ch, n);

	if (rc)
		return rc;
	grow_table(old, &ch->table);
	map_indexes(ch);
	if (!count_weighted(ch->dips, ch->n_dips))
		clear_table(ch);
	else if ((rc = settle_quotas(ch)) || (rc = make_groups(ch)) || (rc = serve_all(ch)))
		free(ch->table.dcodes);
	change_free(ch);
	return rc;
}

/* Only Dcodes of no DIP, and few enough DIPs with weight to take them one by one? */
static bool fills_one_by_one(const struct dcode_table *old, unsigned n_weighted)
{
	if (!n_weighted || n_weighted > ONE_BY_ONE_MAX)
		return false;
	for (uint32_t c = 0; c < old->n; c++) {
		if (old->dcodes[c] != DIP_NONE)
			return false;
	}
	return true;
}

static int compare_dips(const void *x, const void *y)
{
	uint64_t a = mix64(((const struct dcode_dip *)x)->id);
	uint64_t b = mix64(((const struct dcode_dip *)y)->id);

	return a < b ? -1 : a > b;
}

static int fill_one_by_one(const struct dcode_dip *dips, unsigned n_dips, uint32_t n,
			   struct dcode_table *out)
{
	struct dcode_dip weighted[ONE_BY_ONE_MAX] = {{0}};
	struct dcode_table table = {0};
	unsigned n_weighted = 0;

	for (unsigned i = 0; i < n_dips; i++) {
		if (dips[i].weight)
			weighted[n_weighted++] = dips[i];
	}
	qsort(weighted, n_weighted, sizeof(*weighted), compare_dips);
	for (unsigned i = 1; i <= n_weighted; i++) {
		struct change ch = {.dips = weighted, .n_dips = i, .filling = true};
		int rc = change_run(&ch, &table, n);
		dcode_table_destroy(&table);
		if (rc)
			return rc;
		table = ch.table;
	}
	*out = table;
	return 0;
}

int dcode_table_next(const struct dcode_table *old, const struct dcode_dip *dips, unsigned n_dips,
		     struct dcode_table *out, uint32_t *n_moved)
{
	struct change ch = {.dips = dips, .n_dips = n_dips};
	uint32_t n = dcode_table_size(dips, n_dips, old->n);
	int rc;

	if (fills_one_by_one(old, count_weighted(dips, n_dips))) {
		rc = fill_one_by_one(dips, n_dips, n, &ch.table);
		ch.n_moved = n;
	} else {
		rc = change_run(&ch, old, n);
	}
	if (rc)
		return rc;
	*out = ch.table;
	if (n_moved)
		*n_moved = ch.n_moved;
	return 0;
}

void dcode_table_count(const uint16_t *dcodes, uint32_t n, uint32_t *counts, uint32_t n_counts)
{
	memset(counts, 0, n_counts * sizeof(*counts));
	for (uint32_t c = 0; c < n; c++) {
		if (dcodes[c] < n_counts)
			counts[dcodes[c]]++;
	}
}

void dcode_table_destroy(struct dcode_table *t)
{
	free(t->dcodes);
	*t = (struct dcode_table){0};
}
