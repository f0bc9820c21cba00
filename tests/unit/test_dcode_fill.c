/* An empty Dcode table that many DIPs fill: by turns each takes what it ranks best of what is left,
 * which a naive oracle does one Dcode at a time. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "lookup/dcode_table.h"
#include "tests/unit/prng.h"

#define CLASSES DCODE_TABLE_MIN
#define TURNS 8
#define MANY 400

static uint64_t mix64(uint64_t x)
{
	for (int i = 0; i < 2; i++)
		x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

static uint32_t rank_class(uint64_t key, uint32_t class)
{
	uint32_t x = (class ^ key) % CLASSES;

	for (int i = 0; i < 3; i++) {
		key >>= 10;
		x = (uint32_t)(x * (key | 1) % CLASSES);
		x ^= x >> 5;
		key >>= 10;
		x = (uint32_t)((x + key) % CLASSES);
	}
	return x;
}

static int by_key(const void *x, const void *y)
{
	uint64_t a = mix64(((const struct dcode_dip *)x)->id);
	uint64_t b = mix64(((const struct dcode_dip *)y)->id);

	return a < b ? -1 : a > b;
}

/* The lowest free Dcode of the class that this DIP ranks best among those with one. */
static uint32_t best_free(const uint16_t *dcodes, uint32_t n, const uint32_t *left, uint64_t id)
{
	uint32_t best = 0, best_rank = CLASSES;

	for (uint32_t c = 0; c < CLASSES; c++) {
		uint32_t rank = left[c] ? rank_class(mix64(id), c) : CLASSES;
		if (rank < best_rank) {
			best_rank = rank;
			best = c;
		}
	}
	ck_assert_uint_lt(best_rank, CLASSES);
	while (dcodes[best] != DIP_NONE)
		best += CLASSES;
	ck_assert_uint_lt(best, n);
	return best;
}

static void fill(const struct dcode_dip *given, unsigned n_dips, uint32_t n, uint16_t *dcodes)
{
	static struct dcode_dip dips[MANY];
	static uint32_t left[CLASSES], quotas[MANY];

	memcpy(dips, given, n_dips * sizeof(*dips));
	qsort(dips, n_dips, sizeof(*dips), by_key);
	dcode_table_quotas(dips, n_dips, n, NULL, quotas);
	for (uint32_t c = 0; c < n; c++)
		dcodes[c] = DIP_NONE;
	for (uint32_t c = 0; c < CLASSES; c++)
		left[c] = n / CLASSES;
	for (uint32_t turns = TURNS; turns > 0; turns--) {
		for (unsigned i = 0; i < n_dips; i++) {
			uint32_t want = (quotas[i] + turns - 1) / turns;
			quotas[i] -= want;
			for (; want; want--) {
				uint32_t c = best_free(dcodes, n, left, dips[i].id);
				dcodes[c] = dips[i].index;
				left[c % CLASSES]--;
			}
		}
	}
}

START_TEST(many_dips_fill_it_by_turns)
{
	struct prng rng = prng_new("fill");
	static struct dcode_dip dips[MANY];
	struct dcode_table none = {0}, table;

	for (int t = 0; t < 6; t++) {
		unsigned n_dips = t ? 40 + prng_below(&rng, 40) : MANY;
		uint32_t n_moved;
		for (unsigned i = 0; i < n_dips; i++)
			dips[i] = (struct dcode_dip){.id = prng_u64(&rng),
						     .index = (uint16_t)(i + 1),
						     .weight = 1 + prng_below(&rng, t ? 5 : 1),
						     .up = true};
		ck_assert_int_eq(dcode_table_next(&none, dips, n_dips, &table, &n_moved), 0);
		ck_assert_uint_eq(n_moved, table.n);
		uint16_t *wanted = malloc(table.n * sizeof(*wanted));
		fill(dips, n_dips, table.n, wanted);
		ck_assert_mem_eq(table.dcodes, wanted, table.n * sizeof(*wanted));
		free(wanted);
		dcode_table_destroy(&table);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dcode_fill");
	TCase *t = tcase_create("dcode_fill");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, many_dips_fill_it_by_turns);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
