/* Failed log-ins against a bucket that leaks a drop each millisecond. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/rate_limit.h"
#include "base/clock.h"
#include "tests/unit/prng.h"

static uint64_t now_ms = 1000000;
static struct rate_limit limit;

static uint64_t fake_ns(void)
{
	return now_ms * 1000000;
}

static int64_t fake_wall(void)
{
	return (int64_t)(now_ms / 1000);
}

static void set_up(void)
{
	clock_set_source(fake_ns, fake_wall);
	rate_limit_init(&limit);
}

static void tear_down(void)
{
	rate_limit_free(&limit);
	clock_set_source(NULL, NULL);
}

static struct rate_key key_of(const char *text)
{
	struct ip_addr a;

	ck_assert_int_eq(ip_addr_parse(text, &a), 0);
	return rate_key_of(&a);
}

START_TEST(keys_of_addresses)
{
	static const struct {
		const char *x, *y;
		bool same;
	} pairs[] = {
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"::1", "10.0.0.1", false},
	};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		struct rate_key x = key_of(pairs[i].x), y = key_of(pairs[i].y);
		ck_assert_msg(!memcmp(&x, &y, sizeof(x)) == pairs[i].same, "%s, %s", pairs[i].x,
			      pairs[i].y);
	}
}
END_TEST

START_TEST(ten_then_one_in_six_seconds)
{
	struct rate_key k = key_of("10.0.0.1");

	for (unsigned i = 0; i < RATE_BURST; i++) {
		ck_assert_uint_eq(rate_limit_wait_s(&limit, &k), 0);
		ck_assert(rate_limit_fail(&limit, &k) == (i == RATE_BURST - 1));
	}
	ck_assert_uint_eq(rate_limit_wait_s(&limit, &k), 6);
	now_ms += 5999;
	ck_assert_uint_eq(rate_limit_wait_s(&limit, &k), 1);
	now_ms += 1;
	ck_assert_uint_eq(rate_limit_wait_s(&limit, &k), 0);
	ck_assert(rate_limit_fail(&limit, &k));
	ck_assert_uint_eq(rate_limit_wait_s(&limit, &k), 6);
	now_ms += RATE_BURST * RATE_MS;
	ck_assert_uint_eq(rate_limit_wait_s(&limit, &k), 0);
	ck_assert(!rate_limit_fail(&limit, &k));
}
END_TEST

#define N_KEYS 5

START_TEST(like_a_leaking_bucket)
{
	uint64_t level[N_KEYS] = {0};
	struct rate_key keys[N_KEYS];
	struct prng rng = prng_new("like_a_leaking_bucket");

	for (unsigned i = 0; i < N_KEYS; i++) {
		char text[32];
		snprintf(text, sizeof(text), i % 2 ? "2001:db8:%u::5" : "10.0.0.%u", i);
		keys[i] = key_of(text);
	}
	for (unsigned step = 0; step < 20000; step++) {
		unsigned k = prng_below(&rng, N_KEYS);
		for (uint64_t ms = prng_below(&rng, 3000); ms; ms--) {
			now_ms++;
			for (unsigned i = 0; i < N_KEYS; i++)
				level[i] -= level[i] > 0;
		}
		uint64_t most = (RATE_BURST - 1) * RATE_MS;
		uint64_t wait_s = level[k] > most ? (level[k] - most + 999) / 1000 : 0;
		ck_assert_msg(rate_limit_wait_s(&limit, &keys[k]) == wait_s, "step %u", step);
		if (wait_s)
			continue; /* it is not let in to fail */
		level[k] += RATE_MS;
		ck_assert_msg(rate_limit_fail(&limit, &keys[k]) == (level[k] > most), "step %u",
			      step);
	}
}
END_TEST

/* Whoever has more addresses than there is room for pushes out his own like first. */
START_TEST(a_crowd_frees_nobody)
{
	struct rate_key bad = key_of("10.0.0.1");
	char text[32];

	for (unsigned i = 0; i < RATE_BURST; i++)
		(void)rate_limit_fail(&limit, &bad);
	for (unsigned i = 0; i < 3 * RATE_ADDRESSES; i++) {
		snprintf(text, sizeof(text), "10.1.%u.%u", i / 256, i % 256);
		struct rate_key k = key_of(text);
		(void)rate_limit_fail(&limit, &k);
		ck_assert_uint_eq(rate_limit_wait_s(&limit, &k), 0);
	}
	ck_assert_uint_gt(rate_limit_wait_s(&limit, &bad), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rate_limit");
	TCase *tc = tcase_create("rate_limit");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, keys_of_addresses);
	tcase_add_test(tc, ten_then_one_in_six_seconds);
	tcase_add_test(tc, like_a_leaking_bucket);
	tcase_add_test(tc, a_crowd_frees_nobody);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
