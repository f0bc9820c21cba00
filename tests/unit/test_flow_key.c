/* The flow hash: avalanche, evenness of everything that is derived from it over the keys that real
 * clients send (sequential addresses and ports), independence of those, and no difference between
 * two keys that the hash turns into a predictable one. */
#include <check.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lookup/flow_key.h"
#include "lookup/othello.h"
#include "tests/unit/prng.h"
#include "tests/unit/statistics.h"

#define N_KEYS (1u << 20)
#define Z_LIMIT 6.5 /* about 1 in 10^10 for each of some hundred statistics */

static uint32_t counts[1 << 16];

static struct flow_key key_v4(uint32_t address, uint16_t sport, uint16_t dport)
{
	uint32_t be = __builtin_bswap32(address);

	return (struct flow_key){
		.src = ip_addr_v4(&be),
		.sport_be = __builtin_bswap16(sport),
		.dport_be = __builtin_bswap16(dport),
		.proto = 6,
	};
}

static struct flow_key key_words(struct prng *rng)
{
	uint64_t w[3] = {prng_u64(rng), prng_u64(rng), prng_u64(rng)};
	struct flow_key key;

	memcpy(&key, w, sizeof(key));
	return key;
}

static struct flow_key key_random_v4(struct prng *rng)
{
	uint64_t r = prng_u64(rng);
	struct flow_key key = key_v4((uint32_t)r, (uint16_t)(r >> 32), (uint16_t)(r >> 48));

	key.proto = prng_below(rng, 2) ? 6 : 17;
	return key;
}

/* The ways in which real keys count up. */
enum sequence { ADDRESSES, PORTS, BOTH, ADDRESSES_V6, SUBNETS_V6, N_SEQUENCES };

static struct flow_key key_of(enum sequence how, uint32_t i)
{
	struct flow_key key = key_v4(0x0a000000, 1024, 443);
	uint64_t be = __builtin_bswap64(i);

	switch (how) {
	case ADDRESSES:
		return key_v4(0x0a000000 + i, 40000, 443);
	case PORTS:
		return key_v4(0xc0a80001 + (i >> 16), (uint16_t)i, 80);
	case BOTH:
		return key_v4(0x0a000000 + (i >> 6), (uint16_t)(32768 + (i & 63)), 80);
	case ADDRESSES_V6:
		memcpy(&key.src.b[8], &be, sizeof(be));
		return key;
	case SUBNETS_V6:
		memcpy(&key.src.b[0], &be, sizeof(be));
		return key;
	default:
		abort();
	}
}

START_TEST(test_key_decides)
{
	struct prng rng = prng_new("key_decides");
	struct flow_key key = key_v4(0x0a000001, 1, 2);
	struct flow_key other = key_v4(0x0a000001, 2, 1);
	uint64_t seed = prng_u64(&rng);

	ck_assert(flow_key_equal(&key, &key));
	ck_assert(!flow_key_equal(&key, &other));
	ck_assert_uint_eq(flow_key_hash(&key, seed), flow_key_hash(&key, seed));
	ck_assert_uint_ne(flow_key_hash(&key, seed), flow_key_hash(&other, seed));
	ck_assert_uint_ne(flow_key_hash(&key, seed), flow_key_hash(&key, seed + 1));
	other = key;
	other.proto = 17;
	ck_assert_uint_ne(flow_key_hash(&key, seed), flow_key_hash(&other, seed));
	/* One address as the client of an IPv4 and of an IPv6 VIP. */
	other = key;
	other.src.b[0] = 1;
	ck_assert_uint_ne(flow_key_hash(&key, seed), flow_key_hash(&other, seed));
}
END_TEST

/* Each bit from first to before end, of the key (0 to 191) and the seed after it, turns each bit of
 * the hash half of the time. */
static void check_avalanche(struct prng *rng, struct flow_key (*draw)(struct prng *rng),
			    unsigned first, unsigned end)
{
	enum { TRIALS = 4096 };
	static uint32_t flips[4 * 64][64];
	double limit = Z_LIMIT * 32; /* sigma = sqrt(TRIALS) / 2 */

	memset(flips, 0, sizeof(flips));
	for (int t = 0; t < TRIALS; t++) {
		struct flow_key key = draw(rng);
		uint64_t seed = prng_u64(rng);
		uint64_t h = flow_key_hash(&key, seed);
		for (unsigned in = first; in < end; in++) {
			struct flow_key other = key;
			uint64_t other_seed = seed;
			if (in < 192)
				((uint8_t *)&other)[in / 8] ^= (uint8_t)(1u << in % 8);
			else
				other_seed ^= (uint64_t)1 << (in - 192);
			uint64_t diff = h ^ flow_key_hash(&other, other_seed);
			for (unsigned out = 0; out < 64; out++)
				flips[in][out] += diff >> out & 1;
		}
	}
	/* The seed's lowest bit is not in its multiplier, which is odd, but is in the first word.
	 */
	for (unsigned in = first; in < end; in++) {
		for (unsigned out = 0; out < 64; out++) {
			ck_assert_msg(abs((int)flips[in][out] - TRIALS / 2) < limit,
				      "bit %u turns bit %u %u times of %d", in, out, flips[in][out],
				      TRIALS);
		}
	}
}

START_TEST(test_avalanche)
{
	struct prng rng = prng_new("avalanche");

	check_avalanche(&rng, key_words, 0, 256);
	/* Not the seed's bits: one round turns some by a quarter only. Seeds are drawn whole. */
	check_avalanche(&rng, key_random_v4, 8 * offsetof(struct flow_key, src.b[12]),
			8 * sizeof(struct flow_key));
}
END_TEST

/* What a hash is used for, each as a bin below n. */
enum use {
	HOME_1024,
	HOME_65536,
	FINGERPRINT,
	CELL_A,
	CELL_B,
	HOME_AND_FINGERPRINT,
	BOTH_CELLS,
	HOME_AND_CELL,
	FINGERPRINT_AND_CELL,
	N_USES
};
static const char *const use_names[] = {
	"home of 1024",	 "home of 65536", "fingerprint",
	"cell a",	 "cell b",	  "home and fingerprint",
	"cells a and b", "home and cell", "fingerprint and cell",
};

static uint32_t bin_of(enum use use, uint64_t h, uint64_t remix_seed, uint32_t *n_bins)
{
	struct othello o = {.n_a = 1500, .n_b = 1500, .seed = remix_seed};
	struct othello small = {.n_a = 200, .n_b = 200, .seed = remix_seed};
	uint32_t ia, ib, sa, sb;

	othello_cells(&o, h, &ia, &ib);
	othello_cells(&small, h, &sa, &sb);
	switch (use) {
	case HOME_1024:
		*n_bins = 1024;
		return flow_home(h, 1024);
	case HOME_65536:
		*n_bins = 65536;
		return flow_home(h, 65536);
	case FINGERPRINT:
		*n_bins = 65536;
		return flow_fingerprint(h);
	case CELL_A:
		*n_bins = 1500;
		return ia;
	case CELL_B:
		*n_bins = 1500;
		return ib;
	case HOME_AND_FINGERPRINT:
		*n_bins = 65536;
		return flow_home(h, 256) << 8 | (flow_fingerprint(h) & 0xff);
	case BOTH_CELLS:
		*n_bins = 40000;
		return sa * 200 + sb;
	case HOME_AND_CELL:
		*n_bins = 200 * 256;
		return flow_home(h, 256) * 200 + sa;
	case FINGERPRINT_AND_CELL:
		*n_bins = 200 * 256;
		return (flow_fingerprint(h) & 0xff) * 200 + sb;
	default:
		abort();
	}
}

START_TEST(test_even_and_independent)
{
	struct prng rng = prng_new("even_and_independent");

	for (int how = 0; how < N_SEQUENCES; how++) {
		uint64_t seed = prng_u64(&rng);
		uint64_t remix_seed = prng_u64(&rng);
		for (int use = 0; use < N_USES; use++) {
			uint32_t n_bins = 0;
			memset(counts, 0, sizeof(counts));
			for (uint32_t i = 0; i < N_KEYS; i++) {
				struct flow_key key = key_of(how, i);
				uint64_t h = flow_key_hash(&key, seed);
				counts[bin_of(use, h, remix_seed, &n_bins)]++;
			}
			double z = chi_squared_z(counts, n_bins);
			ck_assert_msg(fabs(z) < Z_LIMIT, "sequence %d, %s: z = %.2f", how,
				      use_names[use], z);
		}
	}
}
END_TEST

static int compare_u64(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return a < b ? -1 : a > b;
}

/* How often the most frequent value occurs. */
static uint32_t most_frequent(uint64_t *values, uint32_t n)
{
	uint32_t best = 0, run = 0;

	qsort(values, n, sizeof(*values), compare_u64);
	for (uint32_t i = 0; i < n; i++) {
		run = i && values[i] == values[i - 1] ? run + 1 : 1;
		if (run > best)
			best = run;
	}
	return best;
}

START_TEST(test_no_equal_hashes)
{
	uint64_t *hashes = malloc(N_KEYS * sizeof(*hashes));
	struct prng rng = prng_new("no_equal_hashes");

	for (int how = 0; how < N_SEQUENCES; how++) {
		uint64_t seed = prng_u64(&rng);
		for (uint32_t i = 0; i < N_KEYS; i++) {
			struct flow_key key = key_of(how, i);
			hashes[i] = flow_key_hash(&key, seed);
		}
		ck_assert_uint_eq(most_frequent(hashes, N_KEYS), 1);
	}
	free(hashes);
}
END_TEST

/* Words 1 and 2 of an IPv4 key from the word that is hashed. */
static void flip_v4(struct flow_key *key, uint64_t delta)
{
	uint64_t w[3];

	memcpy(w, key, sizeof(w));
	w[1] ^= delta << 32;
	w[2] ^= delta >> 32;
	memcpy(key, w, sizeof(w));
}

static void flip_last_word(struct flow_key *key, uint64_t delta)
{
	uint64_t w[3];

	memcpy(w, key, sizeof(w));
	w[2] ^= delta;
	memcpy(key, w, sizeof(w));
}

static void check_no_predictable_difference(struct prng *rng,
					    struct flow_key (*draw)(struct prng *rng),
					    void (*flip)(struct flow_key *key, uint64_t delta))
{
	enum { TRIALS = 1 << 15 };
	uint64_t *diffs = malloc(TRIALS * sizeof(*diffs));

	for (unsigned bit = 0; bit < 64 + 32; bit++) {
		uint64_t delta =
			bit < 64 ? (uint64_t)1 << bit : (uint64_t)0x100000001 << (bit - 64);
		for (int t = 0; t < TRIALS; t++) {
			struct flow_key key = draw(rng), other = key;
			uint64_t seed = prng_u64(rng);
			flip(&other, delta);
			diffs[t] = flow_key_hash(&key, seed) ^ flow_key_hash(&other, seed);
		}
		uint32_t worst = most_frequent(diffs, TRIALS);
		ck_assert_msg(worst <= 3, "difference %016lx leads to one of %u in %d times",
			      (unsigned long)delta, worst, TRIALS);
	}
	free(diffs);
}

/* One bit, or a bit and the one 32 below it (which xorshift makes one bit, and a top bit survives
 * any multiplication by an odd number), in a word: no difference between the two hashes comes up
 * again and again over random seeds and keys. A difference of a round that could be guessed could
 * be cancelled by the next word, or lead to flows on one Dcode. The last word's round is seen best
 * from outside. */
START_TEST(test_no_predictable_difference)
{
	struct prng rng = prng_new("no_predictable_difference");

	check_no_predictable_difference(&rng, key_words, flip_last_word);
	check_no_predictable_difference(&rng, key_random_v4, flip_v4);
}
END_TEST

/* The difference between two protocols cannot be made up for by address and ports without the seed.
 */
START_TEST(test_protocols_differ_unpredictably)
{
	enum { TRIALS = 1 << 15 };
	struct prng rng = prng_new("protocols_differ_unpredictably");
	uint64_t *diffs = malloc(TRIALS * sizeof(*diffs));

	for (int t = 0; t < TRIALS; t++) {
		struct flow_key tcp = key_random_v4(&rng), udp = tcp;
		uint64_t seed = prng_u64(&rng);
		tcp.proto = 6;
		udp.proto = 17;
		diffs[t] = flow_key_hash(&tcp, seed) ^ flow_key_hash(&udp, seed);
	}
	ck_assert_uint_eq(most_frequent(diffs, TRIALS), 1);
	free(diffs);
}
END_TEST

START_TEST(test_home_survives_doubling)
{
	struct prng rng = prng_new("home_survives_doubling");

	for (int t = 0; t < 10000; t++) {
		uint64_t h = prng_u64(&rng);
		for (uint32_t n = 1024; n < 1u << 23; n *= 2)
			expect((flow_home(h, 2 * n) & (n - 1)) == flow_home(h, n));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("flow_key");
	TCase *tc = tcase_create("hash");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_key_decides);
	tcase_add_test(tc, test_avalanche);
	tcase_add_test(tc, test_even_and_independent);
	tcase_add_test(tc, test_no_equal_hashes);
	tcase_add_test(tc, test_no_predictable_difference);
	tcase_add_test(tc, test_protocols_differ_unpredictably);
	tcase_add_test(tc, test_home_survives_doubling);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
