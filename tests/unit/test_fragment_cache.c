/* What is remembered of fragments: against a naive memory of everything, and by threads at once. */
#include <check.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/unit/frames.h"
#include "tests/unit/prng.h"
#include "worker/fragment_cache.h"

/* Packet number i: no two have all in common that makes a tag. */
static struct packet packet_of(uint32_t i)
{
	static const struct ip_addr addresses[][2] = {
		{{{[10] = 0xff, 0xff, 192, 0, 2, 1}}, {{[10] = 0xff, 0xff, 198, 51, 100, 1}}},
		{{{0x20, 0x01, 0x0d, 0xb8, [15] = 1}}, {{0x20, 0x01, 0x0d, 0xb8, [15] = 128}}},
	};
	bool v6 = i & 1;
	struct packet p = {
		.src = addresses[v6][0],
		.dst = addresses[v6][1],
		.is_v6 = v6,
		.proto = i & 2 ? IPPROTO_TCP : IPPROTO_UDP,
		.fragment_id = i >> 4,
	};

	p.src.b[15] ^= (uint8_t)(i >> 2 & 1);
	p.dst.b[15] ^= (uint8_t)(i >> 3 & 1);
	if (v6) /* whose next header does not count */
		p.src.b[14] ^= (uint8_t)(i >> 1 & 1);
	p.sport_be = (uint16_t)(i * 7);
	p.dport_be = (uint16_t)(i * 13);
	return p;
}

static uint64_t tag_of(const struct fragment_cache *c, uint32_t i)
{
	struct packet p = packet_of(i);

	return fragment_cache_tag(c, &p);
}

static void put(struct fragment_cache *c, uint32_t i, uint32_t now_ms)
{
	struct packet p = packet_of(i);

	fragment_cache_put(c, tag_of(c, i), &p, now_ms);
}

/* It says what was put in, if anything. */
static bool find(const struct fragment_cache *c, uint32_t i, uint32_t now_ms)
{
	struct packet want = packet_of(i), p = {0};

	if (!fragment_cache_find(c, tag_of(c, i), now_ms, &p))
		return false;
	ck_assert(p.sport_be == want.sport_be && p.dport_be == want.dport_be);
	ck_assert_uint_eq(p.proto, want.proto);
	return true;
}

START_TEST(test_tags)
{
	struct fragment_cache *c = fragment_cache_new(), *other = fragment_cache_new();
	struct packet p = packet_of(5), q = p;
	uint64_t tags[512];

	ck_assert(c && other);
	for (uint32_t i = 0; i < 512; i++) {
		tags[i] = tag_of(c, i);
		for (uint32_t k = 0; k < i; k++)
			ck_assert(tags[i] != tags[k]);
	}
	ck_assert(tag_of(c, 1) != tag_of(other, 1)); /* secret */
	q.proto = 0; /* a later IPv6 fragment whose next header is another one */
	q.sport_be = q.dport_be = 0;
	ck_assert(fragment_cache_tag(c, &p) == fragment_cache_tag(c, &q));
	fragment_cache_free(c);
	fragment_cache_free(other);
}
END_TEST

START_TEST(test_without_a_cache)
{
	struct packet p = packet_of(1);

	fragment_cache_put(NULL, 1, &p, 0);
	ck_assert(!fragment_cache_find(NULL, 1, 0, &p));
	ck_assert_uint_eq(fragment_cache_puts(NULL), 0);
	ck_assert_uint_ne(fragment_cache_tag(NULL, &p), 0);
	fragment_cache_free(NULL);
}
END_TEST

START_TEST(test_life)
{
	static const uint32_t starts[] = {0, 1, 5000, 0x7fffff00, 0x80000000, 0xffffff00};
	struct fragment_cache *c = fragment_cache_new();

	for (unsigned i = 0; i < ARRAY_LEN(starts); i++) {
		uint32_t t = starts[i];

		ck_assert(!find(c, i, t));
		put(c, i, t);
		ck_assert(find(c, i, t) && find(c, i, t + FRAGMENT_LIFE_MS));
		ck_assert(find(c, i, t - 2)); /* by another worker's clock */
		ck_assert(!find(c, i, t + FRAGMENT_LIFE_MS + 1));
		put(c, i, t + 900); /* renewed */
		ck_assert(find(c, i, t + FRAGMENT_LIFE_MS + 900));
		ck_assert_uint_eq(fragment_cache_puts(c), 2 * i + 2);
	}
	fragment_cache_free(c);
}
END_TEST

/* Whatever is found was put in no longer ago than an entry lives; the newest are all there, and of
 * as many as fit, nearly all. */
START_TEST(test_against_all_that_was_put)
{
	enum { N = 50000, NEWEST = 4, FITS = 4000 };
	static uint32_t put_ms[N];
	struct fragment_cache *c = fragment_cache_new();
	uint64_t state = frames_seed();
	uint32_t now_ms = 1, n_found = 0;

	for (uint32_t i = 0; i < N; i++) {
		now_ms += frames_random(&state) % 16 == 0;
		put(c, i, now_ms);
		put_ms[i] = now_ms;
		for (uint32_t k = 0; k < NEWEST && k <= i; k++)
			ck_assert(find(c, i - k, now_ms));
		uint32_t k = (uint32_t)(frames_random(&state) % (i + 1));
		if (find(c, k, now_ms))
			ck_assert_uint_le(now_ms - put_ms[k], FRAGMENT_LIFE_MS);
	}
	for (uint32_t i = N - FITS; i < N; i++)
		n_found += find(c, i, now_ms);
	ck_assert_uint_gt(n_found, FITS * 98 / 100);
	fragment_cache_free(c);
}
END_TEST

/* --- threads: no entry is ever made of two -------------------------------------------------------
 */

enum { THREADS = 3, PACKETS = 64, ROUNDS = 30000 };
static struct fragment_cache *shared;
static _Atomic unsigned n_wrong, n_right;

static void *hammer(void *arg)
{
	uint64_t state = (uint64_t)(uintptr_t)arg + 1;

	for (unsigned r = 0; r < REPEATS(ROUNDS); r++) {
		uint32_t i = (uint32_t)(frames_random(&state) % PACKETS);
		struct packet want = packet_of(i), p = {0};
		uint64_t tag = fragment_cache_tag(shared, &want);

		if (r % 2)
			fragment_cache_put(shared, tag, &want, r / 1024);
		else if (fragment_cache_find(shared, tag, r / 1024, &p))
			*(p.sport_be == want.sport_be && p.dport_be == want.dport_be &&
					  p.proto == want.proto
				  ? &n_right
				  : &n_wrong) += 1;
	}
	return NULL;
}

START_TEST(test_threads)
{
	pthread_t threads[THREADS];

	shared = fragment_cache_new();
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, hammer, (void *)(i * 77)), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(atomic_load(&n_wrong), 0);
	ck_assert_uint_gt(atomic_load(&n_right), REPEATS(ROUNDS) / 2);
	fragment_cache_free(shared);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fragment_cache");
	TCase *tc = tcase_create("fragment_cache");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_tags);
	tcase_add_test(tc, test_without_a_cache);
	tcase_add_test(tc, test_life);
	tcase_add_test(tc, test_against_all_that_was_put);
	tcase_add_test(tc, test_threads);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
