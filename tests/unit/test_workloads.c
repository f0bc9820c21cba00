/* The benches' flow sizes and gaps have the means and the points that were published. */
#include <check.h>
#include <math.h>

#include "tests/bench/workloads.h"
#include "tests/unit/prng.h"

#define STEPS 2000000

static double mean(double (*of)(double u))
{
	double sum = 0;

	for (int i = 0; i < STEPS; i++)
		sum += of((i + 0.5) / STEPS) / STEPS;
	return sum;
}

/* The part of all bytes that flows of more than `above` have. */
static double bytes_above(double (*size)(double u), double above)
{
	double all = 0, large = 0;

	for (int i = 0; i < STEPS; i++) {
		const double bytes = size((i + 0.5) / STEPS);
		all += bytes;
		large += bytes > above ? bytes : 0;
	}
	return large / all;
}

/* pFabric's evaluation gives 1,138 and 5,117 packets as means. */
START_TEST(means_are_as_published)
{
	ck_assert_double_eq_tol(mean(workloads[0].size) / 1460, 1138, 5);
	ck_assert_double_eq_tol(mean(workloads[1].size) / 1460, 5117, 5);
	for (unsigned i = 0; i < N_WORKLOADS; i++)
		ck_assert_double_eq_tol(mean(workloads[i].gap) * workloads[i].flows_per_s, 1, 0.01);
}
END_TEST

START_TEST(points_are_as_published)
{
	double (*web)(double u) = workloads[0].size;
	double (*mining)(double u) = workloads[1].size;
	double (*cache)(double u) = workloads[2].size;

	ck_assert_double_eq(web(0), 1460);
	ck_assert_double_eq_tol(web(0.7), 667 * 1460.0, 1);
	ck_assert_double_eq_tol(web(1 - 1e-12), 20000 * 1460.0, 1);
	ck_assert_double_eq_tol(bytes_above(web, 1e6), 0.95, 0.01);
	ck_assert_double_eq_tol(mining(0.25), 1460, 1e-6);
	ck_assert_double_lt(mining(0.79), 10e3);
	ck_assert_double_eq_tol(bytes_above(mining, 35e6), 0.95, 0.01);
	/* 44.155% of the values have less than 15 bytes; 2 bytes is the most frequent size. */
	ck_assert_double_eq(cache(0.1), 42);
	ck_assert_double_eq(cache(0.44154), 54);
	ck_assert_double_eq_tol(cache(0.44156), 55, 0.1);
}
END_TEST

START_TEST(sizes_and_gaps_rise)
{
	for (unsigned w = 0; w < N_WORKLOADS; w++) {
		for (int i = 1; i < 10000; i++) {
			expect(workloads[w].size(i / 1e4) >= workloads[w].size((i - 1) / 1e4));
			expect(workloads[w].gap(i / 1e4) > workloads[w].gap((i - 1) / 1e4));
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("workloads");
	TCase *t = tcase_create("workloads");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, means_are_as_published);
	tcase_add_test(t, points_are_as_published);
	tcase_add_test(t, sizes_and_gaps_rise);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
