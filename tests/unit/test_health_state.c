/* From results to verdicts: against a model that keeps the whole history and counts by hand. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/health_state.h"
#include "tests/unit/prng.h"

/* --- the model ------------------------------------------------------------------------------ */

#define HISTORY_MAX 4000

struct model {
	enum health_verdict verdict;
	unsigned n;
	bool ok[HISTORY_MAX]; /* since the last time that results were forgotten */
	unsigned n_falls;
	uint64_t fall_ms[HISTORY_MAX];
	double capped; /* what the cap has taken off, as of the last fall */
	bool damped;
};

static unsigned run_length(const struct model *m)
{
	unsigned n = 0;

	while (n < m->n && m->ok[m->n - 1 - n] == m->ok[m->n - 1])
		n++;
	return n;
}

/* Every fall's own part, summed anew; the cap is applied at each fall. */
static double penalty(const struct model *m, double half_life_ms, uint64_t now_ms)
{
	double sum = 0;
	uint64_t at = 0;

	for (unsigned i = 0; i < m->n_falls; i++) {
		sum *= pow(2, -(double)(m->fall_ms[i] - at) / half_life_ms);
		sum = sum + 1000 > 5000 ? 5000 : sum + 1000;
		at = m->fall_ms[i];
	}
	return m->n_falls ? sum * pow(2, -(double)(now_ms - at) / half_life_ms) : 0;
}

static void model_result(struct model *m, const struct health_rules *r, bool ok, uint64_t now_ms)
{
	double half_life_ms = r->half_life_s * 1000.0;

	expect(m->n < HISTORY_MAX);
	m->ok[m->n++] = ok;
	if (!r->half_life_s || penalty(m, half_life_ms, now_ms) < 1250)
		m->damped = false;
	if (m->verdict == VERDICT_UNKNOWN) {
		m->verdict = ok ? VERDICT_UP : VERDICT_DOWN;
	} else if (m->verdict == VERDICT_UP && !ok && run_length(m) >= r->fall) {
		m->verdict = VERDICT_DOWN;
		if (!r->half_life_s)
			return;
		m->fall_ms[m->n_falls++] = now_ms;
		if (penalty(m, half_life_ms, now_ms) > 2500)
			m->damped = true;
	} else if (m->verdict == VERDICT_DOWN && ok && run_length(m) >= r->rise && !m->damped) {
		m->verdict = VERDICT_UP;
	}
}

START_TEST(random_results_agree_with_the_model)
{
	static struct model m;
	struct prng p = prng_new("health_state");
	unsigned n_changes = 0, n_damped = 0;

	for (unsigned round = 0; round < 300; round++) {
		struct health_rules r = {.rise = 1 + (uint32_t)prng_below(&p, 4),
					 .fall = 1 + (uint32_t)prng_below(&p, 4),
					 .half_life_s = (uint32_t)prng_below(&p, 60)};
		enum health_verdict from = (enum health_verdict)prng_below(&p, 3);
		/* In some rounds results are alike for long, in others they flap. */
		unsigned turn = 1 + (unsigned)prng_below(&p, 12);
		uint64_t now_ms = 1000000;
		struct health_state s;
		bool ok = true;

		memset(&m, 0, sizeof(m));
		m.verdict = from;
		health_state_begin(&s, from);
		for (unsigned i = 0; i < 400; i++) {
			enum health_verdict was = s.verdict;
			if (prng_below(&p, turn) == 0)
				ok = !ok;
			if (prng_below(&p, 100) == 0) {
				health_state_forget_results(&s);
				m.n = 0;
			}
			now_ms += 100 + prng_below(&p, 3000);
			bool changed = health_state_result(&s, &r, ok, now_ms);
			model_result(&m, &r, ok, now_ms);
			ck_assert_msg(s.verdict == m.verdict, "round %u, result %u: %d, not %d",
				      round, i, s.verdict, m.verdict);
			expect(changed == (s.verdict != was));
			expect(s.damped == m.damped);
			expect(s.consecutive == run_length(&m));
			n_changes += changed;
			n_damped += s.damped;
		}
	}
	printf("%u changes, damped at %u results\n", n_changes, n_damped);
	ck_assert_uint_gt(n_changes, 1000);
	ck_assert_uint_gt(n_damped, 1000);
}
END_TEST

static const struct health_rules usual = {.rise = 2, .fall = 3, .half_life_s = 30};

static bool give(struct health_state *s, bool ok, uint64_t now_ms)
{
	return health_state_result(s, &usual, ok, now_ms);
}

START_TEST(three_failures_take_it_down_and_two_successes_bring_it_back)
{
	struct health_state s;

	health_state_begin(&s, VERDICT_UP);
	ck_assert(!give(&s, false, 1000));
	ck_assert(!give(&s, false, 2000));
	ck_assert(!give(&s, true, 3000)); /* begins anew */
	ck_assert(!give(&s, false, 4000));
	ck_assert(!give(&s, false, 5000));
	ck_assert(give(&s, false, 6000));
	ck_assert_int_eq(s.verdict, VERDICT_DOWN);
	ck_assert(!give(&s, true, 7000));
	ck_assert(give(&s, true, 8000));
	ck_assert_int_eq(s.verdict, VERDICT_UP);
}
END_TEST

START_TEST(the_first_check_of_a_new_dip_decides)
{
	struct health_state s;

	health_state_begin(&s, VERDICT_UNKNOWN);
	ck_assert(give(&s, true, 1000));
	ck_assert_int_eq(s.verdict, VERDICT_UP);
	health_state_begin(&s, VERDICT_UNKNOWN);
	ck_assert(give(&s, false, 1000));
	ck_assert_int_eq(s.verdict, VERDICT_DOWN);
	ck_assert(!s.damped);
}
END_TEST

/* Down, and up again as soon as it may be: three times within 15 s. Then it must stay down for
 * log2(penalty / 1250) half-lives. */
START_TEST(a_flapping_dip_is_damped_and_comes_back)
{
	struct health_state s;
	uint64_t now_ms = 1000, damped_ms = 0;
	unsigned n_up = 0;

	health_state_begin(&s, VERDICT_UP);
	for (unsigned cycle = 0; cycle < 3; cycle++) {
		for (unsigned i = 0; i < 3; i++)
			give(&s, false, now_ms += 500);
		ck_assert_int_eq(s.verdict, VERDICT_DOWN);
		ck_assert_int_eq(s.damped, cycle == 2);
		for (unsigned i = 0; i < 2; i++)
			n_up += give(&s, true, now_ms += 500);
	}
	ck_assert_uint_eq(n_up, 2);
	damped_ms = now_ms;
	while (!give(&s, true, now_ms += 500))
		ck_assert_uint_lt(now_ms, damped_ms + 60000);
	ck_assert_uint_gt(now_ms, damped_ms + 25000);
	ck_assert(!s.damped);
	ck_assert_int_eq(s.verdict, VERDICT_UP);
}
END_TEST

/* However long it flaps, two half-lives of good behaviour are enough. */
START_TEST(damping_ends_after_two_half_lives_at_most)
{
	struct health_rules hasty = {.rise = 1, .fall = 1, .half_life_s = 30};
	struct health_state s;
	uint64_t now_ms = 1000;

	health_state_begin(&s, VERDICT_UP);
	for (unsigned i = 0; i < 1000; i++)
		health_state_result(&s, &hasty, i & 1, now_ms += 10);
	s.verdict = VERDICT_UP;
	health_state_result(&s, &hasty, false, now_ms += 10);
	ck_assert(s.damped);
	ck_assert(!health_state_result(&s, &hasty, true, now_ms + 10));
	ck_assert(health_state_result(&s, &hasty, true, now_ms + 60010));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("health_state");
	TCase *tc = tcase_create("health_state");
	SRunner *runner = srunner_create(suite);

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, random_results_agree_with_the_model);
	tcase_add_test(tc, three_failures_take_it_down_and_two_successes_bring_it_back);
	tcase_add_test(tc, the_first_check_of_a_new_dip_decides);
	tcase_add_test(tc, a_flapping_dip_is_damped_and_comes_back);
	tcase_add_test(tc, damping_ends_after_two_half_lives_at_most);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
