/* What each way to choose a DIP is known for, good and bad: what its changes move, what it keeps of
 * its history, and where its shares are off. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "tests/unit/choosing.h"

#define CHOICES (1u << 14)

static uint16_t at_first[CHOICES], was[CHOICES], is[CHOICES];
static double shares[DIP_INDEX_MAX + 1];

static void change_to(const struct chooser *ch, void *c, const struct choosing_pool *p)
{
	choose_many(ch, c, CHOICES, was);
	ch->change(c, p->dips, p->n);
	choose_many(ch, c, CHOICES, is);
}

/* Moves over the least. */
static double moves_of_change(const struct chooser *ch, void *c, const struct choosing_pool *before,
			      const struct choosing_pool *after)
{
	change_to(ch, c, after);
	return count_moves(was, is, CHOICES) / (pool_least_moves(before, after) * CHOICES);
}

/* Of a build of n DIPs of weight 1 after a change by one DIP, removed or added. */
static double moves_of_one(const struct chooser *ch, unsigned n, bool add)
{
	struct choosing_pool p = {.n = 0}, before;

	pool_grow(&p, n, 1);
	void *c = ch->build(p.dips, p.n);
	before = p;
	if (add)
		pool_grow(&p, 1, 1);
	else
		pool_drop(&p, n / 2);
	const double moves = moves_of_change(ch, c, &before, &p);
	ch->destroy(c);
	return moves;
}

/* --- those that move the least -------------------------------------------------------------------
 */

static const struct chooser *const frugal[] = {&chooser_dcode, &chooser_ketama, &chooser_two_level,
					       &chooser_tournament, &chooser_reroll};

/* Who leaves takes no others' flows along, and who comes takes them only for itself. */
START_TEST(frugal_move_only_what_they_must)
{
	const struct chooser *ch = frugal[_i];
	struct choosing_pool p = {.n = 0};

	pool_grow(&p, 64, 1);
	void *c = ch->build(p.dips, p.n);
	const uint16_t left = p.dips[20].index;
	pool_drop(&p, 20);
	change_to(ch, c, &p);
	for (uint32_t i = 0; i < CHOICES; i++)
		expect(was[i] == is[i] || was[i] == left);
	ck_assert_uint_gt(count_moves(was, is, CHOICES), 0);
	pool_grow(&p, 1, 1);
	const uint16_t came = p.dips[p.n - 1].index;
	change_to(ch, c, &p);
	for (uint32_t i = 0; i < CHOICES; i++)
		expect(was[i] == is[i] || is[i] == came);
	ck_assert_uint_gt(count_moves(was, is, CHOICES), 0);
	ch->destroy(c);
}
END_TEST

/* How many flows are elsewhere after one of 64 DIPs has failed and returned. */
static uint32_t moved_by_return(const struct chooser *ch)
{
	struct choosing_pool p = {.n = 0};

	pool_grow(&p, 64, 3);
	void *c = ch->build(p.dips, p.n);
	p.dips[11].up = false;
	change_to(ch, c, &p);
	ck_assert_uint_gt(count_moves(was, is, CHOICES), 0);
	memcpy(at_first, was, sizeof(at_first));
	p.dips[11].up = true;
	change_to(ch, c, &p);
	ck_assert_uint_gt(count_moves(was, is, CHOICES), 0);
	ch->destroy(c);
	return count_moves(at_first, is, CHOICES);
}

/* Its own and nothing else: from memory, or because the same is built again. A new set knows only
 * that somebody came. */
START_TEST(who_fails_and_returns_gets_its_own_back)
{
	for (unsigned i = 0; i < N_CHOOSERS; i++) {
		if (choosers[i] == &chooser_old_new_set)
			ck_assert_uint_gt(moved_by_return(choosers[i]), 0);
		else
			ck_assert_uint_eq(moved_by_return(choosers[i]), 0);
	}
}
END_TEST

/* --- those that keep nothing ---------------------------------------------------------------------
 */

/* The part of the flows on which two agree that learn of changes in another order. */
static double agreement(const struct chooser *ch)
{
	struct choosing_pool p = {.n = 0}, one, two;
	const struct dcode_dip *other;
	struct prng rng = {3};

	pool_grow(&p, 300, 2);
	void *a = ch->build(p.dips, p.n);
	pool_shuffle(&p, &rng);
	void *b = ch->build(p.dips, p.n);
	one = two = p;
	pool_grow(&one, 1, 2);
	other = &one.dips[p.n];
	ch->change(a, one.dips, one.n);
	pool_drop(&one, 5);
	ch->change(a, one.dips, one.n);
	pool_drop(&two, 5);
	ch->change(b, two.dips, two.n);
	two.dips[two.n++] = (struct dcode_dip){peer_mix(301, 11), 2, 301, true};
	ck_assert_uint_eq(other->index, 301);
	pool_shuffle(&two, &rng);
	ch->change(b, two.dips, two.n);
	choose_many(ch, a, CHOICES, was);
	choose_many(ch, b, CHOICES, is);
	ch->destroy(a);
	ch->destroy(b);
	return 1 - (double)count_moves(was, is, CHOICES) / CHOICES;
}

START_TEST(those_without_history_agree)
{
	const struct chooser *const all[] = {&chooser_maglev,	     &chooser_ketama,
					     &chooser_tournament,    &chooser_ticket,
					     &chooser_pow2_weights2, &chooser_pow2_weights3};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		ck_assert_double_eq(agreement(all[i]), 1);
}
END_TEST

START_TEST(those_with_history_do_not)
{
	const struct chooser *const all[] = {&chooser_dcode, &chooser_two_level, &chooser_reroll,
					     &chooser_old_new_set};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		ck_assert_double_lt(agreement(all[i]), 1);
		ck_assert_double_gt(agreement(all[i]), 0.9);
	}
}
END_TEST

/* --- what each is known for ----------------------------------------------------------------------
 */

START_TEST(maglev_moves_more_than_it_must)
{
	ck_assert_double_gt(moves_of_one(&chooser_maglev, 500, false), 1.5);
	ck_assert_double_lt(moves_of_one(&chooser_maglev, 500, false), 20);
	ck_assert_double_gt(moves_of_one(&chooser_maglev, 500, true), 1.5);
}
END_TEST

/* 65,537 entries while they are a hundred for each DIP; then twice as many, or the next prime. */
START_TEST(maglev_has_a_hundred_entries_a_dip)
{
	static struct choosing_pool p;

	for (unsigned n = 650; n <= 1310; n += 330) {
		p = (struct choosing_pool){.n = 0};
		pool_grow(&p, n, 1);
		void *c = chooser_maglev.build(p.dips, p.n);
		ck_assert_uint_eq(chooser_maglev.bytes(c), n == 650 ? 2 * 65537 : 2 * 131101);
		chooser_maglev.destroy(c);
	}
}
END_TEST

static double deviation(const struct chooser *ch, unsigned n, uint32_t weight)
{
	struct choosing_pool p = {.n = 0};
	double variance = 0;

	pool_grow(&p, n, weight);
	void *c = ch->build(p.dips, p.n);
	ch->shares(c, shares);
	for (unsigned i = 0; i < n; i++) {
		const double off = n * shares[p.dips[i].index] - 1;
		variance += off * off / n;
	}
	ch->destroy(c);
	return sqrt(variance);
}

/* As 160 arcs of random length are: by 1 / sqrt(160), or 7.9%. */
START_TEST(ketama_is_uneven)
{
	ck_assert_double_eq_tol(deviation(&chooser_ketama, 400, 1), 1 / sqrt(160), 0.01);
	ck_assert_double_eq_tol(deviation(&chooser_ketama, 400, 9), 1 / sqrt(9 * 160), 0.004);
	ck_assert_double_lt(deviation(&chooser_dcode, 400, 1), 0.01);
}
END_TEST

/* 256 servers in two partitions, of the same weight in all. Then one of them has ten times the
 * weight, and yet its partition has half of the flows as before. */
START_TEST(two_level_weighs_within_a_partition)
{
	const struct chooser *ch = &chooser_two_level;
	struct choosing_pool p = {.n = 0};

	pool_grow(&p, 256, 1);
	void *c = ch->build(p.dips, p.n);
	ck_assert_double_lt(deviation(ch, 256, 1), 1e-6);
	p.dips[100].weight = 128;
	ch->change(c, p.dips, p.n);
	ch->shares(c, shares);
	ck_assert_double_eq_tol(shares[p.dips[100].index], 128.0 / 255 / 2, 1e-6);
	ck_assert_double_eq_tol(pool_share(&p, 100), 128.0 / 383, 1e-6);
	ch->destroy(c);
}
END_TEST

/* Beyond 256 servers a partition all is dealt anew. */
START_TEST(two_level_grows_by_a_re_deal)
{
	ck_assert_double_lt(moves_of_one(&chooser_two_level, 255, true), 1.5);
	struct choosing_pool p = {.n = 0}, before;

	pool_grow(&p, 128, 1);
	void *c = chooser_two_level.build(p.dips, p.n);
	before = p;
	pool_grow(&p, 128, 1);
	ck_assert_double_lt(moves_of_change(&chooser_two_level, c, &before, &p), 1.1);
	before = p;
	pool_grow(&p, 1, 1);
	ck_assert_double_gt(moves_of_change(&chooser_two_level, c, &before, &p), 50);
	chooser_two_level.destroy(c);
}
END_TEST

/* Another number of tickets is a re-deal; as many, some of them another's, is not. */
START_TEST(tickets_are_dealt_anew)
{
	const struct chooser *const all[] = {&chooser_ticket, &chooser_pow2_weights2};
	struct choosing_pool p = {.n = 0}, before;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		ck_assert_double_gt(moves_of_one(all[i], 64, true), 10);
		ck_assert_double_gt(moves_of_one(all[i], 64, false), 10);
	}
	pool_grow(&p, 64, 10);
	void *c = chooser_ticket.build(p.dips, p.n);
	ck_assert_uint_eq(chooser_ticket.bytes(c), 64 * 10 * 2);
	before = p;
	struct dcode_dip last = {.id = UINT64_MAX, .weight = 10, .index = 999, .up = true};
	unsigned highest = 0;
	for (unsigned i = 1; i < p.n; i++)
		highest = p.dips[i].id > p.dips[highest].id ? i : highest;
	p.dips[highest] = last;
	ck_assert_double_lt(moves_of_change(&chooser_ticket, c, &before, &p), 1.2);
	chooser_ticket.destroy(c);
}
END_TEST

/* The weight that the rounding makes of w, from its share beside a DIP of weight 1. */
static double rounded(const struct chooser *ch, uint32_t w)
{
	struct choosing_pool p = {.n = 0};

	pool_grow(&p, 1, w);
	pool_grow(&p, 1, 1);
	void *c = ch->build(p.dips, p.n);
	ch->shares(c, shares);
	const double share = shares[p.dips[0].index];
	ch->destroy(c);
	return share / (1 - share);
}

static double nearest(uint32_t w, int bits)
{
	double best = 0;

	for (uint32_t r = 1; r < 4 * w; r++) {
		if (__builtin_popcount(r) <= bits && fabs((double)r - w) <= fabs(best - w))
			best = r;
	}
	return best;
}

START_TEST(pow2_weights_round)
{
	for (uint32_t w = 1; w < 300; w++) {
		ck_assert_double_eq_tol(rounded(&chooser_pow2_weights2, w), nearest(w, 2), 1e-6);
		ck_assert_double_eq_tol(rounded(&chooser_pow2_weights3, w), nearest(w, 3), 1e-6);
	}
	ck_assert_double_eq_tol(rounded(&chooser_pow2_weights2, 7), 8, 1e-6);
	ck_assert_double_eq_tol(rounded(&chooser_pow2_weights3, 7), 7, 1e-6);
}
END_TEST

/* 48 of 64 slots are taken. 16 DIPs more fill them all; the next one doubles the array, and half of
 * all flows draw elsewhere. */
START_TEST(reroll_doubles_when_it_is_full)
{
	const struct chooser *ch = &chooser_reroll;
	struct choosing_pool p = {.n = 0}, before;

	pool_grow(&p, 48, 1);
	void *c = ch->build(p.dips, p.n);
	ck_assert_uint_eq(ch->bytes(c), 64 * 2);
	before = p;
	pool_grow(&p, 16, 1);
	ck_assert_double_lt(moves_of_change(ch, c, &before, &p), 1.1);
	ck_assert_uint_eq(ch->bytes(c), 64 * 2);
	before = p;
	pool_grow(&p, 1, 1);
	ck_assert_double_gt(moves_of_change(ch, c, &before, &p), 20);
	ck_assert_uint_eq(ch->bytes(c), 128 * 2);
	ch->destroy(c);
}
END_TEST

/* With 3 of 256 slots alive a hash draws 85 times on average, and chooses evenly all the same. */
START_TEST(reroll_draws_until_it_meets_a_live_one)
{
	const struct chooser *ch = &chooser_reroll;
	struct choosing_pool p = {.n = 0};

	pool_grow(&p, 192, 1);
	void *c = ch->build(p.dips, p.n);
	ck_assert_uint_eq(ch->bytes(c), 256 * 2);
	for (unsigned i = 3; i < p.n; i++)
		p.dips[i].up = false;
	change_to(ch, c, &p);
	ch->shares(c, shares);
	ck_assert_double_eq_tol(shares[p.dips[0].index], 1.0 / 3, 1e-6);
	ck_assert_double_lt(fabs(choices_z(is, CHOICES, shares)), 5);
	ch->destroy(c);
}
END_TEST

START_TEST(old_new_set_is_frugal_only_in_additions)
{
	const struct chooser *ch = &chooser_old_new_set;
	struct choosing_pool p = {.n = 0}, before;

	pool_grow(&p, 200, 1);
	void *c = ch->build(p.dips, p.n);
	for (int i = 0; i < 3; i++) {
		before = p;
		pool_grow(&p, 8, 1);
		const double moves = moves_of_change(ch, c, &before, &p);
		ck_assert_double_gt(moves, i ? 1.2 : 0.85);
		ck_assert_double_lt(moves, i ? 2.1 : 1.15);
	}
	before = p;
	pool_drop(&p, 0);
	ck_assert_double_gt(moves_of_change(ch, c, &before, &p), 5);
	/* Too many for a new set. */
	const size_t bytes = ch->bytes(c);
	pool_grow(&p, 65, 1);
	ch->change(c, p.dips, p.n);
	ck_assert_uint_eq(ch->bytes(c), bytes);
	pool_grow(&p, 64, 1);
	ch->change(c, p.dips, p.n);
	ck_assert_uint_gt(ch->bytes(c), bytes);
	ch->destroy(c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("chooser_traits");
	TCase *t = tcase_create("chooser_traits");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, frugal_move_only_what_they_must, 0, (int)ARRAY_LEN(frugal));
	tcase_add_test(t, who_fails_and_returns_gets_its_own_back);
	tcase_add_test(t, those_without_history_agree);
	tcase_add_test(t, those_with_history_do_not);
	tcase_add_test(t, maglev_moves_more_than_it_must);
	tcase_add_test(t, maglev_has_a_hundred_entries_a_dip);
	tcase_add_test(t, ketama_is_uneven);
	tcase_add_test(t, two_level_weighs_within_a_partition);
	tcase_add_test(t, two_level_grows_by_a_re_deal);
	tcase_add_test(t, tickets_are_dealt_anew);
	tcase_add_test(t, pow2_weights_round);
	tcase_add_test(t, reroll_doubles_when_it_is_full);
	tcase_add_test(t, reroll_draws_until_it_meets_a_live_one);
	tcase_add_test(t, old_new_set_is_frugal_only_in_additions);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
