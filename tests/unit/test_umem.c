/* Who holds which frame, against a list that remembers. */
#include <check.h>
#include <stdlib.h>

#include "frames.h"
#include "io/umem.h"

enum { N = 500, N_HOLDERS = 7, IN_HAND = N_HOLDERS, STEPS = 50000 };

static struct umem u;
static unsigned owner[N]; /* a holder, or IN_HAND */
static bool out[N];	  /* not in the pool */

static void setup(void)
{
	ck_assert_int_eq(umem_init(&u, N, 2048, false), 0);
	memset(out, 0, sizeof(out));
}

static void teardown(void)
{
	umem_destroy(&u);
	umem_destroy(&u); /* of a zeroed one */
}

static unsigned count_out(unsigned who)
{
	unsigned n = 0;

	for (unsigned i = 0; i < N; i++)
		n += out[i] && owner[i] == who;
	return n;
}

static void check_pool(void)
{
	unsigned n = 0;
	bool seen[N] = {false};

	for (unsigned i = 0; i < N; i++)
		n += !out[i];
	ck_assert_uint_eq(u.n_free, n);
	for (uint32_t i = 0; i < u.n_free; i++) {
		uint64_t frame = u.free[i] / u.chunk;

		ck_assert_uint_eq(u.free[i] % u.chunk, 0);
		ck_assert(!out[frame] && !seen[frame]);
		seen[frame] = true;
	}
}

static void take(void)
{
	uint64_t frame = umem_get(&u) / u.chunk;

	ck_assert(!out[frame]);
	out[frame] = true;
	owner[frame] = IN_HAND;
}

/* A frame moves on: from a worker's hands to a socket, or from one socket to another by them, at
 * any address within its chunk. */
static void move(uint64_t *rnd)
{
	unsigned frame = (unsigned)(frames_random(rnd) % N);
	unsigned to = (unsigned)(frames_random(rnd) % N_HOLDERS);

	if (!out[frame])
		return;
	umem_hold(&u, frame * 2048u + frames_random(rnd) % 2048, (uint8_t)to);
	owner[frame] = to;
}

static void put(uint64_t *rnd)
{
	unsigned frame = (unsigned)(frames_random(rnd) % N);

	if (!out[frame])
		return;
	umem_put(&u, frame * 2048u + frames_random(rnd) % 2048);
	out[frame] = false;
}

static void reclaim(unsigned who)
{
	unsigned n = count_out(who);

	ck_assert_uint_eq(umem_reclaim(&u, (uint8_t)who), n);
	for (unsigned i = 0; i < N; i++)
		out[i] &= owner[i] != who;
	check_pool();
	ck_assert_uint_eq(umem_reclaim(&u, (uint8_t)who), 0);
}

/* What is in hand is not to be reclaimed then, so it goes to a socket before. */
static void empty_hands(uint64_t *rnd)
{
	for (unsigned i = 0; i < N; i++)
		if (out[i] && owner[i] == IN_HAND) {
			owner[i] = (unsigned)(frames_random(rnd) % N_HOLDERS);
			umem_hold(&u, i * 2048u, (uint8_t)owner[i]);
		}
}

START_TEST(reclaims_what_a_holder_has)
{
	uint64_t rnd = frames_seed();
	unsigned n_reclaims = 0;

	for (unsigned i = 0; i < STEPS; i++) {
		unsigned what = (unsigned)(frames_random(&rnd) % 1000);

		if (what < 400 && u.n_free)
			take();
		else if (what < 700)
			move(&rnd);
		else if (what < 995)
			put(&rnd);
		else {
			empty_hands(&rnd);
			reclaim((unsigned)(frames_random(&rnd) % N_HOLDERS));
			n_reclaims++;
		}
	}
	ck_assert_uint_gt(n_reclaims, 100);
	empty_hands(&rnd);
	for (unsigned who = 0; who < N_HOLDERS; who++)
		reclaim(who);
	ck_assert_uint_eq(u.n_free, N);
}
END_TEST

/* Every id that a byte can be, and the last frame. */
START_TEST(all_ids)
{
	for (unsigned id = 0; id <= UINT8_MAX; id++) {
		while (u.n_free)
			umem_hold(&u, umem_get(&u), (uint8_t)(id + 1));
		umem_hold(&u, (N - 1) * 2048u, (uint8_t)id);
		ck_assert_uint_eq(umem_reclaim(&u, (uint8_t)id), 1);
		ck_assert_uint_eq(u.free[0], (N - 1) * 2048u);
		ck_assert_uint_eq(umem_reclaim(&u, (uint8_t)(id + 1)), N - 1);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("umem");
	TCase *t = tcase_create("umem");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, reclaims_what_a_holder_has);
	tcase_add_test(t, all_ids);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
