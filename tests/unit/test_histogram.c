/* The histogram against counting by hand. */
#include <check.h>
#include <stdlib.h>

#include "base/histogram.h"
#include "tests/unit/frames.h"

START_TEST(edges_fall_where_they_belong)
{
	for (unsigned i = 1; i < HISTOGRAM_BUCKETS; i++) {
		struct histogram h = {0};

		histogram_add(&h, histogram_limit(i));
		histogram_add(&h, histogram_limit(i) + 1);
		ck_assert_uint_eq(histogram_up_to(&h, i - 1), 0);
		ck_assert_uint_eq(histogram_up_to(&h, i), 1);
		if (i + 1 < HISTOGRAM_BUCKETS)
			ck_assert_uint_eq(histogram_up_to(&h, i + 1), 2);
	}
}
END_TEST

START_TEST(nothing_is_lost_at_the_ends)
{
	struct histogram h = {0};

	histogram_add(&h, 0);
	histogram_add(&h, 1);
	histogram_add(&h, UINT64_MAX / 2);
	ck_assert_uint_eq(histogram_up_to(&h, 0), 2);
	ck_assert_uint_eq(histogram_up_to(&h, HISTOGRAM_BUCKETS - 1), 2);
	ck_assert_uint_eq(h.count, 3);
	ck_assert_uint_eq(h.sum, UINT64_MAX / 2 + 1);
}
END_TEST

START_TEST(random_values_are_counted_right)
{
	enum { N = 20000 };
	uint64_t rng = frames_seed();
	uint64_t at_most[HISTOGRAM_BUCKETS] = {0};
	struct histogram h = {0};
	uint64_t sum = 0;

	for (unsigned k = 0; k < N; k++) {
		uint64_t value = frames_random(&rng) >> (30 + frames_random(&rng) % 34);
		histogram_add(&h, value);
		sum += value;
		for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
			at_most[i] += value <= (uint64_t)1 << i;
	}
	ck_assert_uint_eq(h.count, N);
	ck_assert_uint_eq(h.sum, sum);
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		ck_assert_uint_eq(histogram_up_to(&h, i), at_most[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("histogram");
	TCase *t = tcase_create("histogram");

	tcase_add_test(t, edges_fall_where_they_belong);
	tcase_add_test(t, nothing_is_lost_at_the_ends);
	tcase_add_test(t, random_values_are_counted_right);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
