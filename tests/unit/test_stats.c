/* The benches' tests of goodness of fit: p values from tables, and over many samples p is uniform
 * where the hypothesis is true and vanishes where it is not. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "tests/bench/stats.h"
#include "tests/unit/prng.h"

#define BINS 4096u

/* Percentage points of the chi-squared distribution, from printed tables (1: its square root is a
 * normal's). */
START_TEST(chi2_p_is_as_in_tables)
{
	static const struct {
		double chi2, degrees, p;
	} rows[] = {
		{3.841459, 1, 0.05},	 {6.634897, 1, 0.01},	 {5.991465, 2, 0.05},
		{18.307038, 10, 0.05},	 {2.558212, 10, 0.99},	 {9.341818, 10, 0.5},
		{124.342113, 100, 0.05}, {70.064895, 100, 0.99}, {1106.969, 1000, 0.01},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_double_eq_tol(stats_chi2_p(rows[i].chi2, rows[i].degrees), rows[i].p,
					1e-5);
	ck_assert_double_eq(stats_chi2_p(0, 5), 1);
	ck_assert_double_lt(stats_chi2_p(20000, 16383), 1e-70);
	ck_assert_double_eq_tol(stats_chi2_p(16383 - 2.0 / 3, 16383), 0.5, 1e-3);
}
END_TEST

START_TEST(ks_p_is_as_in_tables)
{
	/* Large n: 1.3581 and 1.6276 over its root. */
	ck_assert_double_eq_tol(stats_ks_p(1.3581 / 1000, 1e6), 0.05, 1e-3);
	ck_assert_double_eq_tol(stats_ks_p(1.6276 / 1000, 1e6), 0.01, 1e-3);
	/* n = 20 and 10: 0.29408 and 0.40925 are the points of 5%. */
	ck_assert_double_eq_tol(stats_ks_p(0.29408, 20), 0.05, 2e-3);
	ck_assert_double_eq_tol(stats_ks_p(0.40925, 10), 0.05, 2e-3);
	ck_assert_double_eq(stats_ks_p(0, 100), 1);
	ck_assert_double_lt(stats_ks_p(0.5, 1000), 1e-50);
}
END_TEST

static void draw(struct prng *rng, uint32_t *counts, uint32_t n, uint32_t among)
{
	memset(counts, 0, BINS * sizeof(*counts));
	for (uint32_t i = 0; i < n; i++)
		counts[prng_below(rng, among)]++;
}

START_TEST(p_is_uniform_for_uniform_counts)
{
	static uint32_t counts[BINS];
	double chi2[100], ks[100];
	struct prng rng = {12};

	for (int i = 0; i < 100; i++) {
		draw(&rng, counts, 8 * BINS, BINS);
		chi2[i] = stats_chi2_p(stats_chi2(counts, BINS), BINS - 1);
		ks[i] = stats_ks_p(stats_ks(counts, BINS), 8 * BINS);
	}
	ck_assert_double_gt(stats_ks_p(stats_ks_uniform(chi2, 100), 100), 0.01);
	ck_assert_double_gt(stats_ks_p(stats_ks_uniform(ks, 100), 100), 0.01);
}
END_TEST

/* One bin in a hundred is never met. */
START_TEST(p_vanishes_for_others)
{
	static uint32_t counts[BINS];
	struct prng rng = {13};

	draw(&rng, counts, 64 * BINS, BINS - BINS / 100);
	ck_assert_double_lt(stats_chi2_p(stats_chi2(counts, BINS), BINS - 1), 1e-9);
	ck_assert_double_lt(stats_ks_p(stats_ks(counts, BINS), 64 * BINS), 1e-9);
}
END_TEST

START_TEST(distance_of_values)
{
	double values[] = {0.9, 0.1, 0.3, 0.5, 0.7}, low[] = {0.2, 0.1, 0.1};

	ck_assert_double_eq_tol(stats_ks_uniform(values, 5), 0.1, 1e-9);
	ck_assert_double_eq_tol(stats_ks_uniform(low, 3), 0.8, 1e-9);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("stats");
	TCase *t = tcase_create("stats");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, chi2_p_is_as_in_tables);
	tcase_add_test(t, ks_p_is_as_in_tables);
	tcase_add_test(t, p_is_uniform_for_uniform_counts);
	tcase_add_test(t, p_vanishes_for_others);
	tcase_add_test(t, distance_of_values);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
