/* The Dcode table against naive oracles: exact quotas, the fewest moves over long random histories,
 * doubling, what a DIP that returns regains, and the re-roll. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lookup/dcode_table.h"
#include "tests/unit/prng.h"
#include "tests/unit/scarce_space.h"

#define DIPS_MAX 300

/* --- a pool that changes at random ---------------------------------------------------------------
 */

struct pool {
	struct dcode_dip dips[DIPS_MAX];
	unsigned n;
	uint64_t next_id;
	bool index_used[DIPS_MAX * 4];
};

static uint32_t random_weight(struct prng *rng)
{
	static const uint32_t weights[] = {0, 1, 1, 1, 1, 2, 3, 7, 10, 100, 65535};

	return weights[prng_below(rng, prng_below(rng, 4) ? 8 : ARRAY_LEN(weights))];
}

static void pool_add(struct pool *p, struct prng *rng, uint32_t weight)
{
	uint16_t index;

	do {
		index = (uint16_t)(1 + prng_below(rng, ARRAY_LEN(p->index_used) - 1));
	} while (p->index_used[index]);
	p->index_used[index] = true;
	p->dips[p->n++] = (struct dcode_dip){
		.id = p->next_id++, .weight = weight, .index = index, .up = true};
}

static void pool_remove(struct pool *p, unsigned i)
{
	p->index_used[p->dips[i].index] = false;
	p->dips[i] = p->dips[--p->n];
}

static void pool_change(struct pool *p, struct prng *rng)
{
	uint32_t what = prng_below(rng, 4);

	if (p->n == 0 || (what < 2 && p->n < DIPS_MAX))
		pool_add(p, rng, random_weight(rng));
	else if (what == 2)
		pool_remove(p, prng_below(rng, p->n));
	else
		p->dips[prng_below(rng, p->n)].weight = random_weight(rng);
}

static uint64_t pool_weight(const struct pool *p)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < p->n; i++)
		sum += p->dips[i].weight;
	return sum;
}

static uint32_t holds(const struct dcode_table *t, uint16_t index)
{
	uint32_t count = 0;

	for (uint32_t c = 0; c < t->n; c++)
		count += t->dcodes[c] == index;
	return count;
}

/* --- quotas --------------------------------------------------------------------------------------
 */

/* The contract, one DIP at a time, by exact integers. */
static void check_quotas(const struct pool *p, uint32_t n, const uint32_t *held, const uint32_t *q)
{
	uint64_t weight = pool_weight(p), sum = 0;
	bool small = false;

	for (unsigned i = 0; i < p->n; i++) {
		sum += q[i];
		small |= p->dips[i].weight && n * (uint64_t)p->dips[i].weight < weight;
	}
	ck_assert_uint_eq(sum, weight ? n : 0);
	for (unsigned i = 0; i < p->n; i++) {
		uint64_t share = n * (uint64_t)p->dips[i].weight;
		if (!p->dips[i].weight)
			ck_assert_uint_eq(q[i], 0);
		else
			ck_assert_uint_ge(q[i], 1);
		if (small || !weight)
			continue;
		/* floor or ceiling */
		ck_assert(q[i] == share / weight || (q[i] == share / weight + 1 && share % weight));
		/* rounded up: nobody with a better claim was passed over */
		if (q[i] == share / weight)
			continue;
		bool mine = held[i] > share / weight;
		for (unsigned j = 0; j < p->n; j++) {
			uint64_t other = n * (uint64_t)p->dips[j].weight;
			bool theirs = held[j] > other / weight;
			if (q[j] != other / weight || !(other % weight))
				continue;
			ck_assert(mine >= theirs);
			if (mine == theirs)
				ck_assert_uint_ge(share % weight, other % weight);
		}
	}
}

START_TEST(test_quotas)
{
	struct prng rng = prng_new("quotas");
	static struct pool p;
	uint32_t held[DIPS_MAX], quotas[DIPS_MAX];

	for (int t = 0; t < REPEATS(3000); t++) {
		uint32_t n = 1024u << prng_below(&rng, 8);
		p = (struct pool){.next_id = prng_u64(&rng)};
		for (uint32_t i = prng_below(&rng, 40); i > 0; i--)
			pool_add(&p, &rng, random_weight(&rng));
		for (unsigned i = 0; i < p.n; i++)
			held[i] = prng_below(&rng, 3) ? prng_below(&rng, 2 * n / p.n) : 0;
		dcode_table_quotas(p.dips, p.n, n, held, quotas);
		check_quotas(&p, n, held, quotas);
		memset(held, 0, sizeof(held));
		dcode_table_quotas(p.dips, p.n, n, NULL, quotas);
		check_quotas(&p, n, held, quotas);
	}
}
END_TEST

/* So many DIPs below one Dcode that they must be paid for by the others; and too few Dcodes. */
START_TEST(test_quotas_of_dwarfs)
{
	static struct dcode_dip dips[1024];
	static uint32_t quotas[1024];
	uint32_t sum = 0;

	for (unsigned i = 0; i < 1024; i++)
		dips[i] = (struct dcode_dip){.id = i, .weight = i < 2 ? 65535 : 1, .index = 1};
	dcode_table_quotas(dips, 1024, 1024, NULL, quotas);
	for (unsigned i = 0; i < 1024; i++)
		ck_assert_uint_eq(quotas[i], 1);
	dcode_table_quotas(dips, 1000, 1024, NULL, quotas);
	for (unsigned i = 2; i < 1000; i++)
		ck_assert_uint_eq(quotas[i], 1);
	ck_assert_uint_eq(quotas[0], 13);
	ck_assert_uint_eq(quotas[1], 13);
	dcode_table_quotas(dips, 1024, 100, NULL, quotas);
	for (unsigned i = 0; i < 1024; i++)
		sum += quotas[i];
	ck_assert_uint_eq(sum, 100);
}
END_TEST

START_TEST(test_size)
{
	static struct dcode_dip dips[2000];

	for (unsigned i = 0; i < 2000; i++)
		dips[i] = (struct dcode_dip){.id = i, .weight = 1};
	ck_assert_uint_eq(dcode_table_size(dips, 0, 0), 1024);
	ck_assert_uint_eq(dcode_table_size(dips, 16, 0), 1024);
	ck_assert_uint_eq(dcode_table_size(dips, 17, 0), 2048);
	ck_assert_uint_eq(dcode_table_size(dips, 17, 8192), 8192);
	ck_assert_uint_eq(dcode_table_size(dips, 1000, 0), 65536);
	dips[0].weight = 65535; /* capped */
	ck_assert_uint_eq(dcode_table_size(dips, 2, 0), 65536);
	ck_assert_uint_eq(dcode_table_size(dips, 1000, 0), 131072);
	ck_assert_uint_eq(dcode_table_size(dips, 2000, 0), 262144);
	dips[1].weight = 0; /* asks for nothing */
	ck_assert_uint_eq(dcode_table_size(dips, 2, 0), 1024);
}
END_TEST

/* --- changes -------------------------------------------------------------------------------------
 */

/* Compare a change with the contract. Returns the moves. */
static uint32_t check_change(const struct pool *p, const struct dcode_table *old,
			     const struct dcode_table *new, uint32_t n_moved)
{
	uint32_t held[DIPS_MAX], quotas[DIPS_MAX];
	static uint32_t had[ARRAY_LEN(p->index_used)], has[ARRAY_LEN(p->index_used)];
	uint32_t moved = 0, from_nobody = 0;
	uint64_t minimum = 0;

	ck_assert_uint_eq(new->n, dcode_table_size(p->dips, p->n, old->n));
	memset(had, 0, sizeof(had));
	memset(has, 0, sizeof(has));
	for (uint32_t c = 0; c < new->n; c++) {
		uint16_t was = old->n ? old->dcodes[c % old->n] : DIP_NONE;
		moved += was != new->dcodes[c];
		from_nobody += !p->index_used[was];
		had[was]++;
		has[new->dcodes[c]]++;
	}
	ck_assert_uint_eq(moved, n_moved);
	for (unsigned i = 0; i < p->n; i++)
		held[i] = had[p->dips[i].index];
	dcode_table_quotas(p->dips, p->n, new->n, held, quotas);
	for (unsigned i = 0; i < p->n; i++) {
		ck_assert_uint_eq(has[p->dips[i].index], quotas[i]);
		minimum += held[i] > quotas[i] ? held[i] - quotas[i] : 0;
	}
	if (pool_weight(p))
		ck_assert_uint_eq(moved, minimum + from_nobody);
	else
		ck_assert_uint_eq(has[DIP_NONE], new->n);
	return moved;
}

START_TEST(test_random_history)
{
	struct prng rng = prng_new("random_history");
	static struct pool p;

	for (int t = 0; t < REPEATS(12); t++) {
		struct dcode_table table = {0}, next, again;
		p = (struct pool){.next_id = prng_u64(&rng)};
		for (int step = 0; step < (SANITIZED ? 60 : 120); step++) {
			uint32_t n_moved = 0;
			for (uint32_t k = prng_below(&rng, 3) ? 1 : 10; k > 0; k--)
				pool_change(&p, &rng);
			ck_assert_int_eq(dcode_table_next(&table, p.dips, p.n, &next, &n_moved), 0);
			check_change(&p, &table, &next, n_moved);
			/* the order of the DIPs does not matter */
			for (unsigned i = p.n; i-- > 1;) {
				unsigned j = prng_below(&rng, i + 1);
				struct dcode_dip d = p.dips[i];
				p.dips[i] = p.dips[j];
				p.dips[j] = d;
			}
			ck_assert_int_eq(dcode_table_next(&table, p.dips, p.n, &again, NULL), 0);
			ck_assert_mem_eq(again.dcodes, next.dcodes, next.n * sizeof(uint16_t));
			dcode_table_destroy(&again);
			/* and what is in order stays */
			ck_assert_int_eq(dcode_table_next(&next, p.dips, p.n, &again, &n_moved), 0);
			ck_assert_uint_eq(n_moved, 0);
			dcode_table_destroy(&again);
			dcode_table_destroy(&table);
			table = next;
		}
		dcode_table_destroy(&table);
		ck_assert_ptr_null(table.dcodes);
	}
}
END_TEST

/* A DIP so light that the table must double: its Dcodes are all that move. */
START_TEST(test_doubling_moves_nothing)
{
	struct dcode_dip dips[3] = {{.id = 1, .weight = 100, .index = 1},
				    {.id = 2, .weight = 100, .index = 2},
				    {.id = 3, .weight = 1, .index = 3}};
	struct dcode_table none = {0}, small, large;
	uint32_t n_moved, n_changed = 0;

	ck_assert_int_eq(dcode_table_next(&none, dips, 2, &small, &n_moved), 0);
	ck_assert_uint_eq(small.n, 1024);
	ck_assert_uint_eq(n_moved, 1024);
	ck_assert_int_eq(dcode_table_next(&small, dips, 3, &large, &n_moved), 0);
	ck_assert_uint_eq(large.n, 16384);
	for (uint32_t c = 0; c < large.n; c++) {
		n_changed += large.dcodes[c] != small.dcodes[c % small.n];
		if (large.dcodes[c] != 3)
			expect(large.dcodes[c] == small.dcodes[c % small.n]);
	}
	ck_assert_uint_eq(n_changed, n_moved);
	ck_assert_uint_eq(n_moved, holds(&large, 3));
	dcode_table_destroy(&small);
	dcode_table_destroy(&large);
}
END_TEST

/* One DIP after the other leaves (by weight 0, or wholly) and returns. */
static void check_regain(struct pool *p, const struct dcode_table *t, uint32_t each,
			 const char *how)
{
	for (unsigned i = 0; i < p->n; i += each) {
		struct dcode_dip dip = p->dips[i];
		struct dcode_table without, back;
		uint32_t had = holds(t, dip.index), regained = 0;
		if (!dip.weight)
			continue;
		p->dips[i].weight = 0;
		if (i % 2) {
			p->dips[i] = p->dips[p->n - 1];
			p->n--;
		}
		ck_assert_int_eq(dcode_table_next(t, p->dips, p->n, &without, NULL), 0);
		if (i % 2)
			p->dips[p->n++] = p->dips[i];
		p->dips[i] = dip;
		ck_assert_int_eq(dcode_table_next(&without, p->dips, p->n, &back, NULL), 0);
		for (uint32_t c = 0; c < t->n && t->n == back.n; c++)
			regained += t->dcodes[c] == dip.index && back.dcodes[c] == dip.index;
		ck_assert_msg(regained * 100 >= had * 85, "%s: DIP %u of %u regains %u of %u", how,
			      i, p->n, regained, had);
		dcode_table_destroy(&without);
		dcode_table_destroy(&back);
	}
}

START_TEST(test_returning_dip)
{
	const unsigned pools[] = {2, 4, 10, 30, 100, 300};
	struct prng rng = prng_new("returning_dip");
	static struct pool p;

	/* the large pools cost most, and run the same code */
	for (size_t k = 0; k < ARRAY_LEN(pools) - (SANITIZED ? 2 : 0); k++) {
		struct dcode_table none = {0}, table, next;
		p = (struct pool){.next_id = prng_u64(&rng)};
		for (unsigned i = 0; i < pools[k]; i++)
			pool_add(&p, &rng, 1 + i % 5);
		ck_assert_int_eq(dcode_table_next(&none, p.dips, p.n, &table, NULL), 0);
		check_regain(&p, &table, 1 + p.n / 20, "filled at once");
		dcode_table_destroy(&table);
		table = none;
		for (unsigned i = 1; i <= p.n; i++) {
			ck_assert_int_eq(dcode_table_next(&table, p.dips, i, &next, NULL), 0);
			dcode_table_destroy(&table);
			table = next;
		}
		check_regain(&p, &table, 1 + p.n / 20, "one by one");
		dcode_table_destroy(&table);
	}
}
END_TEST

/* --- re-roll -------------------------------------------------------------------------------------
 */

START_TEST(test_reroll)
{
	struct prng rng = prng_new("reroll");
	static struct pool p;

	for (int t = 0; t < (SANITIZED ? 4 : 15); t++) {
		struct dcode_table none = {0}, table;
		p = (struct pool){.next_id = prng_u64(&rng)};
		for (uint32_t i = 1 + prng_below(&rng, 30); i > 0; i--)
			pool_add(&p, &rng, random_weight(&rng));
		ck_assert_int_eq(dcode_table_next(&none, p.dips, p.n, &table, NULL), 0);
		uint16_t *out = malloc(table.n * sizeof(*out));
		uint16_t *before = malloc(table.n * sizeof(*out));
		const struct dcode_dip *by_index[ARRAY_LEN(p.index_used)] = {NULL};
		for (unsigned i = 0; i < p.n; i++)
			by_index[p.dips[i].index] = &p.dips[i];
		dcode_table_reroll(&table, p.dips, p.n, before);
		ck_assert_mem_eq(before, table.dcodes, table.n * sizeof(*out)); /* all up */
		for (unsigned down = 0; down < p.n; down++) {
			p.dips[down].up = false; /* one after the other */
			bool any = false;
			for (unsigned i = 0; i < p.n; i++)
				any |= p.dips[i].up && p.dips[i].weight;
			dcode_table_reroll(&table, p.dips, p.n, out);
			for (uint32_t c = 0; c < table.n; c++) {
				const struct dcode_dip *d = by_index[out[c]];
				if (d) /* up and with weight, and whoever had it and is up keeps it
					*/
					expect(d->up && d->weight);
				else
					expect(!any && out[c] == DIP_NONE);
				d = by_index[before[c]];
				if (d && d->up)
					expect(out[c] == before[c]);
			}
			memcpy(before, out, table.n * sizeof(*out));
		}
		for (unsigned i = 0; i < p.n; i++)
			p.dips[i].up = true;
		dcode_table_reroll(&table, p.dips, p.n, out);
		ck_assert_mem_eq(out, table.dcodes, table.n * sizeof(*out)); /* exactly its own */
		free(out);
		free(before);
		dcode_table_destroy(&table);
	}
}
END_TEST

/* By weight: also where nearly all is down and the sequence of probes seldom finds anyone. */
START_TEST(test_reroll_by_weight)
{
	const unsigned downs[] = {1, 20, 36};
	struct dcode_dip dips[40];
	struct dcode_table none = {0}, table;
	static uint32_t counts[41];

	for (unsigned i = 0; i < 40; i++)
		dips[i] = (struct dcode_dip){.id = i * 77,
					     .weight = i >= 36 ? 1 + i % 2 : 40,
					     .index = (uint16_t)(i + 1),
					     .up = true};
	ck_assert_int_eq(dcode_table_next(&none, dips, 40, &table, NULL), 0);
	uint16_t *out = malloc(table.n * sizeof(*out));
	for (size_t k = 0; k < ARRAY_LEN(downs); k++) {
		uint64_t weight = 0;
		for (unsigned i = 0; i < 40; i++) {
			dips[i].up = i >= downs[k];
			weight += dips[i].up ? dips[i].weight : 0;
		}
		dcode_table_reroll(&table, dips, 40, out);
		dcode_table_count(out, table.n, counts, 41);
		ck_assert_uint_eq(counts[DIP_NONE], 0);
		for (unsigned i = downs[k]; i < 40; i++) {
			double expected = (double)table.n * dips[i].weight / (double)weight;
			ck_assert_msg(counts[i + 1] > expected * 0.6 &&
					      counts[i + 1] < expected * 1.5,
				      "%u down: DIP %u has %u, expected %.0f", downs[k], i,
				      counts[i + 1], expected);
		}
	}
	free(out);
	dcode_table_destroy(&table);
}
END_TEST

/* --- the rest ------------------------------------------------------------------------------------
 */

START_TEST(test_count)
{
	const uint16_t dcodes[] = {0, 3, 3, 9, 65535};
	uint32_t counts[4] = {7, 7, 7, 7};

	dcode_table_count(dcodes, 5, counts, 4);
	ck_assert_uint_eq(counts[0], 1);
	ck_assert_uint_eq(counts[1], 0);
	ck_assert_uint_eq(counts[2], 0);
	ck_assert_uint_eq(counts[3], 2);
}
END_TEST

START_TEST(test_no_memory)
{
	static struct dcode_dip dips[1000];
	struct dcode_table none = {0}, out = {.n = 42};
	int failures = 0, rc = -ENOMEM;

	if (SANITIZED)
		return;
	for (unsigned i = 0; i < 1000; i++)
		dips[i] = (struct dcode_dip){.id = i, .weight = 1, .index = (uint16_t)(i + 1)};
	for (size_t space = 0; rc && space < (size_t)256 << 20; space += 256 << 10) {
		space_limit(space);
		rc = dcode_table_next(&none, dips, 1000, &out, NULL);
		space_unlimit();
		ck_assert(rc == 0 || (rc == -ENOMEM && out.n == 42));
		failures += rc != 0;
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_int_gt(failures, 5);
	dcode_table_destroy(&out);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dcode_table");
	TCase *tc = tcase_create("table");

	tcase_set_timeout(tc, 240);
	tcase_add_test(tc, test_quotas);
	tcase_add_test(tc, test_quotas_of_dwarfs);
	tcase_add_test(tc, test_size);
	tcase_add_test(tc, test_random_history);
	tcase_add_test(tc, test_doubling_moves_nothing);
	tcase_add_test(tc, test_returning_dip);
	tcase_add_test(tc, test_reroll);
	tcase_add_test(tc, test_reroll_by_weight);
	tcase_add_test(tc, test_count);
	tcase_add_test(tc, test_no_memory);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
