/* What is true of every way to choose a DIP: it answers only DIPs that have weight and are up, the
 * same hash the same DIP, as often as it says itself, through all changes; and of its first build,
 * that shares are what weights ask, as near as the way is known to come. */
#include <check.h>
#include <math.h>

#include "tests/unit/choosing.h"

#define CHOICES 4096u

static uint16_t first[CHOICES_MAX], second[CHOICES_MAX];
static double shares[DIP_INDEX_MAX + 1];

/* --- through changes -----------------------------------------------------------------------------
 */

static unsigned count_usable(const struct choosing_pool *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += p->dips[i].up && p->dips[i].weight;
	return n;
}

static void change_pool(struct choosing_pool *p, struct prng *rng)
{
	struct dcode_dip *d = &p->dips[prng_below(rng, p->n)];

	switch (prng_below(rng, 5)) {
	case 0:
		pool_grow(p, 1 + prng_below(rng, 40), 1 + prng_below(rng, 9));
		break;
	case 1:
		d->up = !d->up;
		break;
	case 2:
		d->weight = prng_below(rng, 12);
		break;
	case 3:
		pool_shuffle(p, rng);
		break;
	default:
		for (unsigned n = 1 + prng_below(rng, 20); n > 0 && p->n > 1; n--)
			pool_drop(p, prng_below(rng, p->n));
	}
	if (!count_usable(p))
		pool_grow(p, 1, 1);
}

static const struct dcode_dip *find(const struct choosing_pool *p, uint16_t index)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (p->dips[i].index == index)
			return &p->dips[i];
	}
	return NULL;
}

static void check_answers(const struct chooser *ch, const void *c, const struct choosing_pool *p)
{
	double sum = 0;

	ch->shares(c, shares);
	for (uint32_t i = 0; i <= DIP_INDEX_MAX; i++) {
		expect(shares[i] >= 0);
		sum += shares[i];
		if (shares[i] > 0) {
			const struct dcode_dip *d = find(p, (uint16_t)i);
			expect(d && d->up && d->weight);
		}
	}
	ck_assert_double_eq_tol(sum, 1, 1e-6);
	choose_many(ch, c, CHOICES, first);
	for (uint32_t i = 0; i < CHOICES; i++)
		expect(shares[first[i]] > 0);
	choose_many(ch, c, CHOICES, second);
	ck_assert_mem_eq(first, second, CHOICES * sizeof(*first));
	ck_assert_double_lt(choices_z(first, CHOICES, shares), 6);
	ck_assert_uint_gt(ch->bytes(c), 0);
}

START_TEST(answers_only_usable_dips)
{
	const struct chooser *ch = choosers[_i];
	struct choosing_pool p = {.n = 0};
	struct prng rng = {(uint64_t)_i + 1};

	pool_grow(&p, 3, 2);
	void *c = ch->build(p.dips, p.n);
	check_answers(ch, c, &p);
	for (int k = 0; k < REPEATS(40); k++) {
		change_pool(&p, &rng);
		ch->change(c, p.dips, p.n);
		check_answers(ch, c, &p);
	}
	ch->destroy(c);
}
END_TEST

START_TEST(one_dip_gets_all)
{
	const struct chooser *ch = choosers[_i];
	struct choosing_pool p = {.n = 0};

	pool_grow(&p, 3, 5);
	p.dips[0].up = false;
	p.dips[2].weight = 0;
	void *c = ch->build(p.dips, p.n);
	choose_many(ch, c, CHOICES, first);
	for (uint32_t i = 0; i < CHOICES; i++)
		expect(first[i] == p.dips[1].index);
	ch->destroy(c);
}
END_TEST

/* The same hash the same DIP, wherever in a burst it is and whatever else is in it. */
START_TEST(place_in_the_burst_does_not_matter)
{
	const struct chooser *ch = choosers[_i];
	struct choosing_pool p = {.n = 0};
	struct prng rng = {5};
	uint64_t hashes[PEER_BURST], others[PEER_BURST];
	uint16_t dips[PEER_BURST], again[PEER_BURST];

	pool_grow(&p, 150, 3);
	void *c = ch->build(p.dips, p.n);
	for (unsigned i = 0; i < PEER_BURST; i++)
		hashes[i] = prng_u64(&rng);
	ch->choose(c, hashes, dips);
	for (unsigned i = 0; i < PEER_BURST; i++) {
		for (unsigned k = 0; k < PEER_BURST; k++)
			others[k] = prng_u64(&rng);
		const unsigned at = prng_below(&rng, PEER_BURST);
		others[at] = hashes[i];
		ch->choose(c, others, again);
		ck_assert_uint_eq(again[at], dips[i]);
	}
	ch->destroy(c);
}
END_TEST

/* --- shares --------------------------------------------------------------------------------------
 */

/* How far from its weight's a DIP's share may be, of 50 DIPs with weights from 1 to 15, and how far
 * the worst one must be: those with an uneven way are. */
static const struct {
	const struct chooser *chooser;
	double most;
	double worst_at_least;
} errors[] = {
	{&chooser_dcode, 1.0 / 64, 0},	     {&chooser_maglev, 1.0 / 64, 0},
	{&chooser_ketama, 0.4, 0.1},	     {&chooser_two_level, 1e-6, 0},
	{&chooser_tournament, 1e-6, 0},	     {&chooser_ticket, 1e-6, 0},
	{&chooser_pow2_weights2, 0.2, 0.05}, {&chooser_pow2_weights3, 0.08, 0.02},
	{&chooser_reroll, 1e-6, 0},	     {&chooser_old_new_set, 1.0 / 64, 0},
};
_Static_assert(ARRAY_LEN(errors) == N_CHOOSERS, "each of them");

START_TEST(shares_follow_weights)
{
	const struct chooser *ch = errors[_i].chooser;
	struct choosing_pool p = {.n = 0};
	double worst = 0;

	for (unsigned i = 0; i < 50; i++)
		pool_grow(&p, 1, 1 + i % 15);
	void *c = ch->build(p.dips, p.n);
	ch->shares(c, shares);
	for (unsigned i = 0; i < p.n; i++)
		worst = fmax(worst, fabs(shares[p.dips[i].index] / pool_share(&p, i) - 1));
	ck_assert_double_le(worst, errors[_i].most);
	ck_assert_double_ge(worst, errors[_i].worst_at_least);
	choose_many(ch, c, CHOICES_MAX, first);
	const double z = choices_z(first, CHOICES_MAX, shares);
	ck_assert_double_lt(z, 5);
	ck_assert_double_gt(z, -5);
	ch->destroy(c);
}
END_TEST

START_TEST(equal_weights_get_equal_shares)
{
	const struct chooser *ch = errors[_i].chooser;
	struct choosing_pool p = {.n = 0};

	pool_grow(&p, 128, 1);
	void *c = ch->build(p.dips, p.n);
	ch->shares(c, shares);
	for (unsigned i = 0; i < p.n; i++)
		ck_assert_double_eq_tol(128 * shares[p.dips[i].index], 1,
					ch == &chooser_ketama ? 0.4 : 1.0 / 100);
	choose_many(ch, c, CHOICES_MAX, first);
	ck_assert_double_lt(fabs(choices_z(first, CHOICES_MAX, shares)), 5);
	ch->destroy(c);
}
END_TEST

START_TEST(each_is_listed_once)
{
	for (unsigned i = 0; i < N_CHOOSERS; i++) {
		ck_assert_ptr_eq(choosers[i], errors[i].chooser);
		for (unsigned k = 0; k < i; k++)
			ck_assert_str_ne(choosers[i]->name, choosers[k]->name);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("chooser");
	TCase *t = tcase_create("chooser");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, each_is_listed_once);
	tcase_add_loop_test(t, answers_only_usable_dips, 0, N_CHOOSERS);
	tcase_add_loop_test(t, one_dip_gets_all, 0, N_CHOOSERS);
	tcase_add_loop_test(t, place_in_the_burst_does_not_matter, 0, N_CHOOSERS);
	tcase_add_loop_test(t, shares_follow_weights, 0, N_CHOOSERS);
	tcase_add_loop_test(t, equal_weights_get_equal_shares, 0, N_CHOOSERS);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
