/* OthelloMap against a naive set: millions of random adds, deletes and changes, arrays that give
 * each key its value and depend on nothing but keys, values, seed and sizes, the cost in builds,
 * and every error. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lookup/othello_map.h"
#include "tests/unit/prng.h"
#include "tests/unit/scarce_space.h"

/* --- the oracle ----------------------------------------------------------------------------------
 */

#define UNIVERSE 30000u
#define N_OPERATIONS (SANITIZED ? 500000u : 10000000u)

static struct {
	uint64_t hash;
	uint32_t value;
	bool in;
} oracle[UNIVERSE];
static uint32_t oracle_count;

static void oracle_clear(struct prng *rng)
{
	for (uint32_t i = 0; i < UNIVERSE; i++) {
		oracle[i].hash = prng_u64(rng);
		oracle[i].in = false;
	}
	oracle_count = 0;
}

/* Write the arrays and hold them and the map against the oracle. */
static void compare_all(const struct othello_map *m)
{
	struct othello o;

	ck_assert_uint_eq(othello_map_count(m), oracle_count);
	ck_assert_int_eq(othello_map_write(m, &o), 0);
	ck_assert((o.n_a == 0) == (oracle_count == 0));
	for (uint32_t i = 0; i < UNIVERSE; i++) {
		uint32_t value = ~oracle[i].value;
		if (othello_map_find(m, oracle[i].hash, &value) != oracle[i].in)
			ck_abort_msg("key %u: in is %d", i, oracle[i].in);
		if (!oracle[i].in)
			continue;
		if (value != oracle[i].value || othello_get(&o, oracle[i].hash) != oracle[i].value)
			ck_abort_msg("key %u has value %08x, found %08x, read %08x", i,
				     oracle[i].value, value, othello_get(&o, oracle[i].hash));
	}
	othello_destroy(&o);
}

/* One random operation on one random key, which is in with about the given chance out of 256. */
static void random_operation(struct othello_map *m, struct prng *rng, uint32_t in_of_256)
{
	uint32_t i = prng_below(rng, UNIVERSE);
	uint32_t value = (uint32_t)prng_u64(rng);
	bool add = prng_below(rng, 256) < in_of_256;
	int rc;

	if (add) {
		rc = othello_map_add(m, oracle[i].hash, value);
		expect(rc == (oracle[i].in ? -EEXIST : 0));
		oracle_count += rc == 0;
	} else if (prng_below(rng, 8) == 0) {
		rc = othello_map_set(m, oracle[i].hash, value);
		expect(rc == (oracle[i].in ? 0 : -ENOENT));
	} else {
		rc = othello_map_delete(m, oracle[i].hash);
		expect(rc == (oracle[i].in ? 0 : -ENOENT));
		oracle_count -= rc == 0;
		oracle[i].in = oracle[i].in && rc != 0;
		return;
	}
	if (rc == 0) {
		oracle[i].in = true;
		oracle[i].value = value;
	}
}

START_TEST(test_random_operations)
{
	struct prng rng = prng_new("random_operations");
	struct othello_map *m = othello_map_new(0, prng_u64(&rng));
	const uint32_t phases[] = {200, 128, 240, 20, 160, 60, 8, 128};
	const uint32_t each = N_OPERATIONS / ARRAY_LEN(phases);

	oracle_clear(&rng);
	for (size_t phase = 0; phase < ARRAY_LEN(phases); phase++) {
		for (uint32_t op = 0; op < each; op++)
			random_operation(m, &rng, phases[phase]);
		compare_all(m);
	}
	othello_map_free(m);
}
END_TEST

/* Small maps: every operation is followed by a full comparison, over some thousand maps. */
START_TEST(test_small_maps)
{
	struct prng rng = prng_new("small_maps");
	uint64_t hashes[12];
	uint32_t values[12];

	for (int t = 0; t < 2000; t++) {
		struct othello_map *m = othello_map_new(0, prng_u64(&rng));
		uint32_t in = 0;
		for (int i = 0; i < 12; i++)
			hashes[i] = prng_u64(&rng);
		for (int op = 0; op < 40; op++) {
			struct othello o;
			uint32_t i = prng_below(&rng, 12);
			if (in >> i & 1) {
				expect(othello_map_delete(m, hashes[i]) == 0);
			} else {
				values[i] = (uint32_t)prng_u64(&rng);
				expect(othello_map_add(m, hashes[i], values[i]) == 0);
			}
			in ^= 1u << i;
			ck_assert_int_eq(othello_map_write(m, &o), 0);
			for (i = 0; i < 12; i++) {
				if (in >> i & 1)
					expect(othello_get(&o, hashes[i]) == values[i]);
			}
			othello_destroy(&o);
		}
		othello_map_free(m);
	}
}
END_TEST

/* --- sizes and builds ----------------------------------------------------------------------------
 */

static void random_keys(struct prng *rng, uint32_t n, uint64_t *hashes, uint32_t *values)
{
	for (uint32_t i = 0; i < n; i++) {
		hashes[i] = prng_u64(rng);
		values[i] = (uint32_t)prng_u64(rng);
	}
}

START_TEST(test_grows_and_shrinks)
{
	const uint32_t n = SANITIZED ? 30000 : 300000;
	struct prng rng = prng_new("grows_and_shrinks");
	struct othello_map *m = othello_map_new(0, prng_u64(&rng));
	uint64_t *hashes = malloc(n * sizeof(*hashes));
	uint32_t *values = malloc(n * sizeof(*values));
	struct othello o;

	random_keys(&rng, n, hashes, values);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < n; i++)
			expect(othello_map_add(m, hashes[i], values[i]) == 0);
		ck_assert_int_eq(othello_map_write(m, &o), 0);
		ck_assert_uint_ge(o.n_a, n + n / 2);
		ck_assert_uint_le(o.n_a, 3 * n);
		othello_destroy(&o);
		/* hysteresis: around one size, nothing is built anew */
		uint64_t builds = othello_map_builds(m);
		for (int swing = 0; swing < 100; swing++) {
			expect(othello_map_delete(m, hashes[n - 1]) == 0);
			expect(othello_map_add(m, hashes[n - 1], values[n - 1]) == 0);
		}
		ck_assert_uint_eq(othello_map_builds(m), builds);
		for (uint32_t i = n; i-- > 16;)
			expect(othello_map_delete(m, hashes[i]) == 0);
		ck_assert_int_eq(othello_map_write(m, &o), 0);
		ck_assert_uint_le(o.n_a, 1024);
		for (uint32_t i = 0; i < 16; i++) {
			expect(othello_get(&o, hashes[i]) == values[i]);
			expect(othello_map_delete(m, hashes[i]) == 0);
		}
		othello_destroy(&o);
		ck_assert_uint_eq(othello_map_count(m), 0);
	}
	othello_map_free(m);
	free(hashes);
	free(values);
}
END_TEST

/* With 1.5 n + 1.5 n cells a graph is acyclic with chance sqrt(1 - 1/2.25) = 0.745: 1.34 builds. */
START_TEST(test_expected_builds)
{
	enum { MAPS = 400, KEYS = 2000 };
	struct prng rng = prng_new("expected_builds");
	static uint64_t hashes[KEYS];
	static uint32_t values[KEYS];
	uint64_t at_once = 0, one_by_one = 0;

	for (int t = 0; t < MAPS; t++) {
		struct othello_map *m;
		random_keys(&rng, KEYS, hashes, values);
		ck_assert_int_eq(
			othello_map_build(&m, KEYS, hashes, values, prng_u64(&rng), NULL, NULL), 0);
		at_once += othello_map_builds(m);
		othello_map_free(m);
		m = othello_map_new(KEYS, prng_u64(&rng));
		for (int i = 0; i < KEYS; i++)
			expect(othello_map_add(m, hashes[i], values[i]) == 0);
		one_by_one += othello_map_builds(m);
		othello_map_free(m);
	}
	printf("builds: %.3f at once, %.3f one by one\n", (double)at_once / MAPS,
	       (double)one_by_one / MAPS);
	ck_assert(at_once < MAPS * 16 / 10);
	ck_assert(one_by_one < MAPS * 16 / 10);
}
END_TEST

START_TEST(test_size_is_a_function_of_n)
{
	uint32_t n_a, n_b, again_a, again_b;

	for (uint32_t n = 1000; n < 1u << 30; n += n / 3) {
		othello_map_size(n, &n_a, &n_b);
		othello_map_size(n, &again_a, &again_b);
		ck_assert(n_a == again_a && n_b == again_b);
		ck_assert_uint_le(n_a, (uint64_t)n * 8 / 5);
		ck_assert_uint_ge(n_a, (uint64_t)n * 7 / 5);
	}
	othello_map_size(0, &n_a, &n_b);
	ck_assert(n_a > 0 && n_b > 0);
	othello_map_size(UINT32_MAX, &n_a, &n_b);
	ck_assert_uint_eq(n_a, UINT32_MAX);
}
END_TEST

/* --- canonical arrays ----------------------------------------------------------------------------
 */

static bool same_arrays(const struct othello *x, const struct othello *y)
{
	return x->n_a == y->n_a && x->n_b == y->n_b && x->seed == y->seed &&
	       memcmp(x->a, y->a, x->n_a * sizeof(*x->a)) == 0 &&
	       memcmp(x->b, y->b, x->n_b * sizeof(*x->b)) == 0;
}

static void shuffle(struct prng *rng, uint32_t n, uint64_t *hashes, uint32_t *values)
{
	for (uint32_t i = n; i-- > 1;) {
		uint32_t j = prng_below(rng, i + 1);
		uint64_t h = hashes[i];
		uint32_t v = values[i];
		hashes[i] = hashes[j];
		values[i] = values[j];
		hashes[j] = h;
		values[j] = v;
	}
}

/* The same keys in any order, built at once, built one by one with others coming and going, or
 * built after a restart: the same arrays. */
START_TEST(test_canonical)
{
	enum { KEYS = 3000 };
	struct prng rng = prng_new("canonical");
	static uint64_t hashes[KEYS + 500];
	static uint32_t values[KEYS + 500];

	for (int t = 0; t < 50; t++) {
		struct othello_map *built, *again, *added;
		struct othello o, p;
		random_keys(&rng, KEYS + 500, hashes, values);
		ck_assert_int_eq(
			othello_map_build(&built, KEYS, hashes, values, prng_u64(&rng), NULL, NULL),
			0);
		ck_assert_int_eq(othello_map_write(built, &o), 0);

		added = othello_map_new(KEYS, o.seed);
		for (int i = 0; i < KEYS - 500; i++)
			expect(othello_map_add(added, hashes[i], values[i]) == 0);
		for (int i = KEYS; i < KEYS + 500; i++)
			expect(othello_map_add(added, hashes[i], values[i]) == 0);
		for (int i = KEYS + 500; i-- > KEYS;)
			expect(othello_map_delete(added, hashes[i]) == 0);
		for (int i = KEYS; i-- > KEYS - 500;)
			expect(othello_map_add(added, hashes[i], values[i]) == 0);
		ck_assert_int_eq(othello_map_write(added, &p), 0);
		if (p.seed == o.seed) /* else one of the 500 closed a cycle */
			ck_assert(same_arrays(&o, &p));
		othello_destroy(&p);

		shuffle(&rng, KEYS, hashes, values);
		ck_assert_int_eq(
			othello_map_rebuild(&again, KEYS, hashes, values, o.seed, o.n_a, o.n_b), 0);
		ck_assert_int_eq(othello_map_write(again, &p), 0);
		ck_assert(same_arrays(&o, &p));
		othello_destroy(&p);
		othello_destroy(&o);
		othello_map_free(built);
		othello_map_free(again);
		othello_map_free(added);
	}
}
END_TEST

/* A map rebuilt with odd sizes goes on like any other. */
START_TEST(test_rebuilt_map_goes_on)
{
	enum { KEYS = 1000 };
	struct prng rng = prng_new("rebuilt_map_goes_on");
	static uint64_t hashes[10 * KEYS];
	static uint32_t values[10 * KEYS];
	struct othello_map *m;
	struct othello o;
	int rc;

	random_keys(&rng, 10 * KEYS, hashes, values);
	do {
		rc = othello_map_rebuild(&m, KEYS, hashes, values, prng_u64(&rng), 1337, 1999);
	} while (rc == -ENOSPC);
	ck_assert_int_eq(rc, 0);
	for (int i = KEYS; i < 10 * KEYS; i++)
		expect(othello_map_add(m, hashes[i], values[i]) == 0);
	ck_assert_int_eq(othello_map_write(m, &o), 0);
	for (int i = 0; i < 10 * KEYS; i++)
		expect(othello_get(&o, hashes[i]) == values[i]);
	othello_destroy(&o);
	othello_map_free(m);
}
END_TEST

/* --- equal hashes --------------------------------------------------------------------------------
 */

START_TEST(test_clashes)
{
	enum { KEYS = 5000 };
	struct prng rng = prng_new("clashes");
	static uint64_t hashes[KEYS];
	static uint32_t values[KEYS];
	static uint32_t clashes[KEYS];
	uint32_t expected = 0, n_clashes = 99, n_equal = 0;
	struct othello_map *m;
	struct othello o;

	random_keys(&rng, KEYS, hashes, values);
	for (int i = 1; i < KEYS; i++) {
		if (prng_below(&rng, 10))
			continue;
		int from = i - 1;
		hashes[i] = hashes[from];
		if (prng_below(&rng, 2))
			values[i] = values[from];
		n_equal++;
	}
	uint64_t seed = prng_u64(&rng);
	ck_assert_int_eq(othello_map_build(&m, KEYS, hashes, values, seed, clashes, &n_clashes), 0);
	ck_assert_uint_eq(othello_map_count(m), KEYS - n_equal);
	ck_assert_int_eq(othello_map_write(m, &o), 0);
	for (int i = 0, first = 0; i < KEYS; i++) {
		first = i && hashes[i] == hashes[i - 1] ? first : i;
		ck_assert_uint_eq(othello_get(&o, hashes[i]), values[first]);
		if (values[i] != values[first])
			ck_assert_uint_eq(clashes[expected++], i);
	}
	ck_assert_uint_eq(n_clashes, expected);
	ck_assert_uint_gt(expected, 0);
	othello_destroy(&o);
	othello_map_free(m);
	ck_assert_int_eq(othello_map_build(&m, KEYS, hashes, values, seed, NULL, NULL), -ENOSPC);
	othello_map_size(KEYS, &o.n_a, &o.n_b);
	ck_assert_int_eq(othello_map_rebuild(&m, KEYS, hashes, values, seed, o.n_a, o.n_b),
			 -ENOSPC);
}
END_TEST

/* Equal hash and value is no clash, and the given seed gets its chance in spite of it. */
START_TEST(test_equal_keys_keep_the_seed)
{
	struct prng rng = prng_new("equal_keys_keep_the_seed");
	int kept = 0;

	for (int t = 0; t < 200; t++) {
		uint64_t hashes[20];
		uint32_t values[20];
		uint64_t seed = prng_u64(&rng);
		struct othello_map *m;
		struct othello o;
		random_keys(&rng, 20, hashes, values);
		hashes[19] = hashes[3];
		values[19] = values[3];
		ck_assert_int_eq(othello_map_build(&m, 20, hashes, values, seed, NULL, NULL), 0);
		ck_assert_uint_eq(othello_map_count(m), 19);
		ck_assert_int_eq(othello_map_write(m, &o), 0);
		kept += o.seed == seed;
		othello_destroy(&o);
		othello_map_free(m);
	}
	ck_assert_int_gt(kept, 150); /* 19 edges among 96 + 96 cells: nearly always acyclic */
}
END_TEST

/* --- errors --------------------------------------------------------------------------------------
 */

START_TEST(test_empty)
{
	struct othello_map *m = othello_map_new(0, 1);
	struct othello o = {.n_a = 7};
	uint32_t value = 7, n_clashes = 7;

	ck_assert_int_eq(othello_map_write(m, &o), 0);
	ck_assert_uint_eq(o.n_a, 0);
	ck_assert(!othello_map_find(m, 1, &value));
	ck_assert_uint_eq(value, 7);
	ck_assert_int_eq(othello_map_delete(m, 1), -ENOENT);
	ck_assert_int_eq(othello_map_set(m, 1, 1), -ENOENT);
	othello_map_free(m);
	ck_assert_int_eq(othello_map_build(&m, 0, NULL, NULL, 1, NULL, &n_clashes), 0);
	ck_assert_uint_eq(n_clashes, 0);
	expect(othello_map_add(m, 5, 6) == 0);
	ck_assert_int_eq(othello_map_add(m, 5, 7), -EEXIST);
	ck_assert(othello_map_find(m, 5, &value) && value == 6);
	othello_map_free(m);
	ck_assert_int_eq(othello_map_rebuild(&m, 0, NULL, NULL, 1, 0, 0), 0);
	othello_map_free(m);
	othello_map_free(NULL);
}
END_TEST

START_TEST(test_rebuild_refuses)
{
	const uint64_t hashes[] = {1, 2};
	const uint32_t values[] = {3, 4};
	struct othello_map *m = NULL;

	ck_assert_int_eq(othello_map_rebuild(&m, 2, hashes, values, 1, 1, 1), -ENOSPC);
	ck_assert_int_eq(othello_map_rebuild(&m, 2, hashes, values, 1, 0, 5), -ENOSPC);
	ck_assert_int_eq(othello_map_rebuild(&m, 2, hashes, values, 1, 5, 0), -ENOSPC);
	ck_assert_int_eq(othello_map_rebuild(&m, (1u << 30) + 1, hashes, values, 1, 5, 5), -ENOMEM);
	ck_assert_ptr_null(m);
}
END_TEST

static uint64_t stuck_seed;

static void stuck_entropy(void *buf, size_t n)
{
	memcpy(buf, &stuck_seed, n < sizeof(stuck_seed) ? n : sizeof(stuck_seed));
}

/* No seed without a cycle: nothing changes, and the key goes in once there is one. */
START_TEST(test_no_seed)
{
	enum { KEYS = 64 };
	struct prng rng = prng_new("no_seed");
	uint64_t hashes[KEYS + 1];
	uint32_t values[KEYS + 1], value;
	struct othello_map *m = NULL;

	random_keys(&rng, KEYS, hashes, values);
	uint64_t seed = prng_u64(&rng);
	while (othello_map_build(&m, KEYS, hashes, values, seed, NULL, NULL) == 0 &&
	       othello_map_builds(m) > 1) {
		othello_map_free(m);
		seed = prng_u64(&rng);
	}
	expect(othello_map_delete(m, hashes[KEYS - 1]) == 0);
	/* a key in the same two cells as hashes[0] under this seed, 1 in 9216 */
	struct othello shape = {.n_a = KEYS * 3 / 2, .n_b = KEYS * 3 / 2, .seed = seed};
	uint32_t ia, ib, ja, jb;
	othello_cells(&shape, hashes[0], &ia, &ib);
	do {
		hashes[KEYS] = prng_u64(&rng);
		othello_cells(&shape, hashes[KEYS], &ja, &jb);
	} while (ia != ja || ib != jb);
	stuck_seed = seed;
	entropy_set_source(stuck_entropy);
	int rc = othello_map_add(m, hashes[KEYS], 9);
	hashes[KEYS - 1] = hashes[KEYS];
	struct othello_map *none = NULL;
	int rc_build = othello_map_build(&none, KEYS, hashes, values, seed, NULL, NULL);
	entropy_set_source(NULL);
	ck_assert_int_eq(rc, -ENOSPC);
	ck_assert_int_eq(rc_build, -ENOSPC);
	ck_assert_ptr_null(none);
	ck_assert_uint_eq(othello_map_count(m), KEYS - 1);
	ck_assert(!othello_map_find(m, hashes[KEYS], &value));
	for (int i = 0; i < KEYS - 1; i++)
		ck_assert(othello_map_find(m, hashes[i], &value) && value == values[i]);
	expect(othello_map_add(m, hashes[KEYS], 9) == 0);
	ck_assert(othello_map_find(m, hashes[KEYS], &value) && value == 9);
	othello_map_free(m);
}
END_TEST

/* Memory ends at every place where some is taken. */
START_TEST(test_no_memory)
{
	const uint32_t n = 300000;
	struct prng rng = prng_new("no_memory");
	uint64_t *hashes = malloc(n * sizeof(*hashes));
	uint32_t *values = malloc(n * sizeof(*values));
	struct othello_map *m;
	struct othello o = {0};
	uint32_t value;
	int failures = 0, rc = 0;

	if (SANITIZED)
		goto out;
	random_keys(&rng, n, hashes, values);
	hashes[5] = hashes[4]; /* so that leftovers are looked through too */
	values[5] = values[4];
	for (size_t space = 0; space < (size_t)256 << 20; space += 512 << 10) {
		space_limit(space);
		rc = othello_map_build(&m, n, hashes, values, 1, NULL, NULL);
		if (rc == 0) {
			rc = othello_map_write(m, &o);
			othello_map_free(m);
		}
		space_unlimit();
		if (rc == 0)
			break;
		ck_assert_int_eq(rc, -ENOMEM);
		failures++;
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_int_gt(failures, 10);
	othello_destroy(&o);

	/* adds: at one of them the map must grow and cannot */
	space_limit(0);
	m = othello_map_new(1u << 28, 1);
	space_unlimit();
	ck_assert_ptr_null(m);
	m = othello_map_new(0, 1);
	space_limit(4 << 20);
	uint32_t i = 0;
	for (rc = 0; i < n && (rc == 0 || rc == -EEXIST); i++)
		rc = othello_map_add(m, hashes[i], values[i]);
	space_unlimit();
	ck_assert_int_eq(rc, -ENOMEM);
	i--;
	ck_assert(!othello_map_find(m, hashes[i], &value));
	for (uint32_t j = 0; j < i; j++)
		expect(othello_map_find(m, hashes[j], &value) && value == values[j]);
	expect(othello_map_add(m, hashes[i], values[i]) == 0);
	othello_map_free(m);
out:
	free(hashes);
	free(values);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("othello_map");
	TCase *tc = tcase_create("map");

	tcase_set_timeout(tc, 240);
	tcase_add_test(tc, test_random_operations);
	tcase_add_test(tc, test_small_maps);
	tcase_add_test(tc, test_grows_and_shrinks);
	tcase_add_test(tc, test_expected_builds);
	tcase_add_test(tc, test_size_is_a_function_of_n);
	tcase_add_test(tc, test_canonical);
	tcase_add_test(tc, test_rebuilt_map_goes_on);
	tcase_add_test(tc, test_clashes);
	tcase_add_test(tc, test_equal_keys_keep_the_seed);
	tcase_add_test(tc, test_empty);
	tcase_add_test(tc, test_rebuild_refuses);
	tcase_add_test(tc, test_no_seed);
	tcase_add_test(tc, test_no_memory);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
