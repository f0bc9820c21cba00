/* Othello's read side: its memory, its cells and its reads. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lookup/othello.h"
#include "tests/unit/prng.h"
#include "tests/unit/scarce_space.h"
#include "tests/unit/statistics.h"

START_TEST(test_arrays)
{
	const uint32_t sizes[][2] = {{1, 1}, {15, 17}, {16, 16}, {1000, 3}, {300000, 400001}};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct othello o;
		ck_assert_int_eq(othello_init(&o, sizes[i][0], sizes[i][1], 7), 0);
		ck_assert_uint_eq(o.n_a, sizes[i][0]);
		ck_assert_uint_eq(o.n_b, sizes[i][1]);
		ck_assert_uint_eq(o.seed, 7);
		ck_assert_uint_eq((uintptr_t)o.a % CACHE_LINE, 0);
		ck_assert_uint_eq((uintptr_t)o.b % CACHE_LINE, 0);
		ck_assert(o.b >= o.a + o.n_a);
		ck_assert_uint_ge(othello_bytes(&o), 4 * ((size_t)o.n_a + o.n_b));
		ck_assert_uint_lt(othello_bytes(&o), 4 * ((size_t)o.n_a + o.n_b) + CACHE_LINE);
		for (uint32_t c = 0; c < o.n_a; c++)
			expect(o.a[c] == 0);
		for (uint32_t c = 0; c < o.n_b; c++)
			expect(o.b[c] == 0);
		o.b[o.n_b - 1] = 1; /* writable to the end */
		othello_destroy(&o);
		ck_assert_uint_eq(o.n_a, 0);
		ck_assert_uint_eq(othello_bytes(&o), 0);
		othello_destroy(&o);
	}
}
END_TEST

START_TEST(test_get_is_xor_of_the_cells)
{
	struct prng rng = prng_new("get_is_xor_of_the_cells");
	struct othello o;

	ck_assert_int_eq(othello_init(&o, 777, 1234, prng_u64(&rng)), 0);
	for (uint32_t c = 0; c < o.n_a; c++)
		o.a[c] = (uint32_t)prng_u64(&rng);
	for (uint32_t c = 0; c < o.n_b; c++)
		o.b[c] = (uint32_t)prng_u64(&rng);
	for (int t = 0; t < 100000; t++) {
		uint64_t h = prng_u64(&rng);
		uint32_t ia, ib;
		othello_cells(&o, h, &ia, &ib);
		expect(ia < o.n_a);
		expect(ib < o.n_b);
		expect(othello_get(&o, h) == (o.a[ia] ^ o.b[ib]));
	}
	othello_destroy(&o);
}
END_TEST

/* Under one seed, and from one seed to another, also for hashes that share their lower bits, as
 * those of pins do that share a home Dcode. */
START_TEST(test_cells_are_independent)
{
	enum { SIDE = 150 };
	static uint32_t counts[SIDE * SIDE];
	struct prng rng = prng_new("cells_are_independent");
	struct othello o = {.n_a = SIDE, .n_b = SIDE, .seed = prng_u64(&rng)};
	struct othello next = {.n_a = SIDE, .n_b = SIDE, .seed = prng_u64(&rng)};

	for (int what = 0; what < 6; what++) {
		memset(counts, 0, sizeof(counts));
		for (int t = 0; t < 1 << 20; t++) {
			uint64_t h = prng_u64(&rng);
			uint32_t ia, ib, ja, jb;
			if (what >= 3)
				h = h << 16 | 0x1234;
			othello_cells(&o, h, &ia, &ib);
			othello_cells(&next, h, &ja, &jb);
			counts[what % 3 == 0   ? ia * SIDE + ib
			       : what % 3 == 1 ? ia * SIDE + ja
					       : ib * SIDE + jb]++;
		}
		double z = chi_squared_z(counts, SIDE * SIDE);
		ck_assert_msg(fabs(z) < 6.5, "pair %d: z = %.2f", what, z);
	}
}
END_TEST

START_TEST(test_remix_is_a_bijection)
{
	struct prng rng = prng_new("remix_is_a_bijection");

	/* It inverts: each step does. */
	for (int t = 0; t < 100000; t++) {
		uint64_t h = prng_u64(&rng), seed = prng_u64(&rng);
		uint64_t inverse = 1;
		for (int i = 0; i < 6; i++) /* Newton: 1/c modulo 2^64 */
			inverse *= 2 - (seed | 1) * inverse;
		uint64_t x = othello_remix(h, seed) * inverse;
		expect((x ^ x >> 32) == h);
	}
}
END_TEST

START_TEST(test_no_memory)
{
	struct othello o = {.n_a = 42};

	if (SANITIZED)
		return;
	space_limit(1 << 20);
	int rc = othello_init(&o, 1 << 26, 1 << 26, 1);
	space_unlimit();
	ck_assert_int_eq(rc, -ENOMEM);
	ck_assert_uint_eq(o.n_a, 42); /* not written */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("othello");
	TCase *tc = tcase_create("read side");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_arrays);
	tcase_add_test(tc, test_get_is_xor_of_the_cells);
	tcase_add_test(tc, test_cells_are_independent);
	tcase_add_test(tc, test_remix_is_a_bijection);
	tcase_add_test(tc, test_no_memory);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
