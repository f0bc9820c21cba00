/* The MSS option of random TCP headers, found by another walk over the options; malformed ones, and
 * what must not be touched. Whole frames are in test_golden. */
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "packet/checksum.h"
#include "packet/mss.h"
#include "tests/unit/frames.h"
#include "tests/unit/prng.h"

#define ROOM 40 /* bytes of options, at most */

static uint8_t frame[FRAMES_MAX], before[FRAMES_MAX];
static uint32_t len;
static struct packet p;

/* A SYN with these options, of which n is a multiple of 4, and a right checksum. */
static void build(bool v6, const uint8_t *options, unsigned n)
{
	const struct frames_spec spec = {.src = frames_ip(v6 ? "2001:db8::7" : "198.51.100.7"),
					 .dst = frames_ip(v6 ? "2001:db8::80" : "192.0.2.80"),
					 .sport = 1234,
					 .dport = 80,
					 .proto = IPPROTO_TCP,
					 .tcp_flags = FRAMES_SYN,
					 .tcp_options = (uint8_t)n,
					 .payload_len = 3};

	len = frames_build(frame, &spec);
	ck_assert_int_eq(parse_packet(frame, len, &p), PARSE_OK);
	memcpy(frame + p.l4_offset + 20, options, n);
	checksum_apply(CHECKSUM_COMPLETE, frame, &p);
	memcpy(before, frame, len);
}

/* Where in the options the value is, -1: there is none that can be told. */
static int naive_find(const uint8_t *o, int n)
{
	int at = 0;

	while (at < n) {
		int kind = o[at], left = n - at;
		int size = kind < 2 ? 1 : left < 2 ? 0 : o[at + 1];

		if (kind == 0 || size < 1 || size > left || (kind > 1 && size < 2))
			return -1;
		if (kind == 2)
			return size == 4 ? at + 2 : -1;
		at += size;
	}
	return -1;
}

/* Whatever was done, it was this. */
static void check(bool changed, int at, unsigned most)
{
	uint8_t *value = frame + p.l4_offset + 20 + at, *was = before + p.l4_offset + 20 + at;
	unsigned offered = at < 0 ? 0 : was[0] * 256u + was[1];

	ck_assert_int_eq(changed, at >= 0 && offered > most);
	if (changed) {
		ck_assert_uint_eq(value[0] * 256u + value[1], most);
		value[0] = was[0];
		value[1] = was[1];
		/* what the new value's checksum is, the old frame's tells */
		memcpy(before + p.l4_offset + 16, frame + p.l4_offset + 16, 2);
		was[0] = (uint8_t)(most >> 8);
		was[1] = (uint8_t)most;
		uint8_t sum[2];
		memcpy(sum, before + p.l4_offset + 16, 2);
		checksum_apply(CHECKSUM_COMPLETE, before, &p);
		ck_assert_mem_eq(sum, before + p.l4_offset + 16, 2);
		memcpy(before + p.l4_offset + 20 + at, value, 2);
	}
	ck_assert_mem_eq(frame, before, len);
}

/* Bytes that are often kinds and lengths; among them, half of the time, an option as it should be,
 * which what is in front of it may reach into. */
static void draw_options(struct prng *rng, uint8_t *o, unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		o[k] = (uint8_t)(prng_below(rng, 4) ? prng_below(rng, 6) : prng_below(rng, 256));
	if (n < 4 || prng_below(rng, 2))
		return;
	unsigned at = prng_below(rng, n - 3);

	if (prng_below(rng, 2))
		memset(o, 1, at); /* NOPs */
	o[at] = 2;
	o[at + 1] = 4;
}

START_TEST(random_options)
{
	struct prng rng = prng_new("mss");
	unsigned n_changed = 0, n_odd = 0;

	for (int i = 0; i < 100000; i++) {
		uint8_t o[ROOM];
		unsigned n = 4 * prng_below(&rng, ROOM / 4 + 1);
		bool v6 = prng_below(&rng, 2);
		unsigned most = 1 + prng_below(&rng, 65535 - 60);

		draw_options(&rng, o, n);
		build(v6, o, n);
		int at = naive_find(o, (int)n);
		bool changed = mss_clamp(frame, &p, most + (v6 ? 60 : 40));
		n_changed += changed;
		n_odd += changed && at % 2;
		check(changed, at, most);
	}
	ck_assert_uint_gt(n_changed, 2000);
	ck_assert_uint_gt(n_odd, 500);
}
END_TEST

START_TEST(what_stays)
{
	static const uint8_t offer[] = {2, 4, 0x05, 0xb4}; /* 1460 */

	build(false, offer, sizeof(offer));
	ck_assert(!mss_clamp(frame, &p, 1500)); /* it fits */
	ck_assert(!mss_clamp(frame, &p, 40));	/* no room for the headers */
	ck_assert(!mss_clamp(frame, &p, 0));
	p.keep_checksum = true;
	ck_assert(!mss_clamp(frame, &p, 1480));
	ck_assert_mem_eq(frame, before, len);
	p.keep_checksum = false;
	frame[p.l4_offset + 16] ^= 0x10; /* what is wrong stays wrong */
	ck_assert(mss_clamp(frame, &p, 1480));
	uint8_t was[2];
	memcpy(was, frame + p.l4_offset + 16, sizeof(was));
	checksum_apply(CHECKSUM_COMPLETE, frame, &p);
	ck_assert_mem_ne(was, frame + p.l4_offset + 16, sizeof(was));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mss");
	TCase *tc = tcase_create("mss");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, random_options);
	tcase_add_test(tc, what_stays);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
