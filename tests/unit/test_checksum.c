/* Sums against a byte-wise oracle; checksum_apply against what the frame builder says, and all
 * 65,536 values of a checksum field tried. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "packet/checksum.h"
#include "tests/unit/frames.h"
#include "tests/unit/prng.h"

static uint8_t buf[FRAMES_MAX], want[FRAMES_MAX];

/* --- sums --- */

static uint16_t fold_host(uint32_t sum)
{
	return ntohs(checksum_fold(sum));
}

START_TEST(test_add_random)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < REPEATS(20000); i++) {
		uint32_t len = (uint32_t)frames_random(&state) % (i % 10 ? 80 : 3000);
		uint32_t start = (uint32_t)frames_random(&state);

		for (uint32_t k = 0; k < len; k++)
			buf[k] = (uint8_t)(frames_random(&state) >> 32);
		const uint8_t *data = frames_guarded(buf, len);
		uint16_t oracle = frames_sum16(data, len, fold_host(start));

		ck_assert_uint_eq(fold_host(checksum_add(start, data, len)), oracle);
		uint32_t cut = len ? (uint32_t)frames_random(&state) % len & ~1u : 0;
		uint32_t first = checksum_add(start, data, cut);
		ck_assert_uint_eq(fold_host(checksum_add(first, data + cut, len - cut)), oracle);
	}
}
END_TEST

START_TEST(test_add_extremes)
{
	memset(buf, 0xff, 65536);
	ck_assert_uint_eq(checksum_fold(checksum_add(UINT32_MAX, buf, 65536)), 0xffff);
	ck_assert_uint_eq(checksum_fold(checksum_add(UINT32_MAX, buf, 65535)),
			  htons(frames_sum16(buf, 65535, 0xffff)));
	/* Carries that make another carry when they are added: 0xffffffff twice, and 1. */
	uint32_t words[2] = {UINT32_MAX, 1};
	ck_assert_uint_eq(checksum_add(UINT32_MAX, words, 8), 1);
	memset(buf, 0, 64);
	ck_assert_uint_eq(checksum_add(0, buf, 64), 0);
	ck_assert_uint_eq(checksum_add(1234, buf, 0), 1234);
	ck_assert_uint_eq(checksum_fold(0), 0);
	ck_assert_uint_eq(checksum_fold(0xffff), 0xffff);
	ck_assert_uint_eq(checksum_fold(0x10000), 1);
	ck_assert_uint_eq(checksum_fold(0xffff0000u), 0xffff);
	ck_assert_uint_eq(checksum_fold(UINT32_MAX), 0xffff);
}
END_TEST

/* RFC 1071, section 3, the numerical example. */
START_TEST(test_rfc_1071_example)
{
	static const uint8_t data[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

	ck_assert_uint_eq(fold_host(checksum_add(0, data, sizeof(data))), 0xddf2);
}
END_TEST

/* --- apply --- */

static uint32_t build(uint8_t *to, const struct frames_spec *s, enum frames_sum sum)
{
	struct frames_spec with = *s;

	with.sum = sum;
	return frames_build(to, &with);
}

/* Apply mode to buf; nothing outside the frame may be read. */
static bool apply(enum checksum_mode mode, uint32_t len)
{
	struct packet p;
	uint8_t *data = frames_guarded(buf, len);

	ck_assert_int_eq(parse_packet(data, len, &p), PARSE_OK);
	bool changed = checksum_apply(mode, data, &p);
	ck_assert_uint_eq(changed, memcmp(data, buf, len) != 0);
	memcpy(buf, data, len);
	return changed;
}

static void check_applied(enum checksum_mode mode, uint32_t len, bool want_changed)
{
	ck_assert_uint_eq(apply(mode, len), want_changed);
	ck_assert_mem_eq(buf, want, len);
}

static bool keeps_checksum(const uint8_t *frame, uint32_t len)
{
	struct packet p;

	return parse_packet(frame, len, &p) == PARSE_OK && p.keep_checksum;
}

START_TEST(test_apply_to_random_frames)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < REPEATS(20000); i++) {
		struct frames_spec s;
		uint32_t len;

		frames_random_spec(&state, &s);
		len = build(want, &s, FRAMES_SUM_FULL);
		bool keep = keeps_checksum(want, len);

		build(buf, &s, FRAMES_SUM_FULL);
		check_applied(CHECKSUM_AUTO, len, false);
		check_applied(CHECKSUM_COMPLETE, len, false);

		build(buf, &s, FRAMES_SUM_PARTIAL);
		if (keep)
			build(want, &s, FRAMES_SUM_PARTIAL);
		/* Once in 65,536 frames the partial checksum is the full one as well. */
		check_applied(CHECKSUM_AUTO, len, memcmp(buf, want, len) != 0);
		check_applied(CHECKSUM_AUTO, len, false);

		build(want, &s, keep ? FRAMES_SUM_WRONG : FRAMES_SUM_FULL);
		build(buf, &s, FRAMES_SUM_WRONG);
		check_applied(CHECKSUM_COMPLETE, len, !keep);

		build(want, &s, FRAMES_SUM_PARTIAL);
		build(buf, &s, FRAMES_SUM_PARTIAL);
		check_applied(CHECKSUM_KEEP, len, false);
	}
}
END_TEST

START_TEST(test_every_length)
{
	for (unsigned kind = 0; kind < 4; kind++)
		for (uint32_t n = 0; n <= 1500; n++) {
			struct frames_spec s = {
				.src = frames_ip(kind & 1 ? "2001:db8::7" : "198.51.100.7"),
				.dst = frames_ip(kind & 1 ? "2001:db8::80" : "192.0.2.80"),
				.proto = kind & 2 ? IPPROTO_TCP : IPPROTO_UDP,
				.payload_len = n,
				.payload_seed = n,
				.no_min = true,
			};
			uint32_t len = build(want, &s, FRAMES_SUM_FULL);

			build(buf, &s, FRAMES_SUM_PARTIAL);
			check_applied(CHECKSUM_AUTO, len, true);
		}
}
END_TEST

static struct frames_spec small_spec(uint8_t proto, const char *src, const char *dst)
{
	return (struct frames_spec){.src = frames_ip(src),
				    .dst = frames_ip(dst),
				    .sport = 1234,
				    .dport = 80,
				    .proto = proto,
				    .payload_len = 10,
				    .payload_seed = 3};
}

/* Of all values that the field can have, auto mode touches the partial one alone. */
START_TEST(test_every_field_value)
{
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP};

	for (unsigned kind = 0; kind < 4; kind++) {
		struct frames_spec s =
			small_spec(protos[kind & 1], kind & 2 ? "2001:db8::7" : "192.0.2.7",
				   kind & 2 ? "2001:db8::80" : "192.0.2.80");
		uint32_t len = build(buf, &s, FRAMES_SUM_PARTIAL);
		uint8_t *field =
			buf + 14 + (kind & 2 ? 40 : 20) + (s.proto == IPPROTO_TCP ? 16 : 6);
		unsigned partial = (unsigned)field[0] << 8 | field[1], n_changed = 0;

		for (unsigned v = 0; v < 65536; v++) {
			field[0] = (uint8_t)(v >> 8);
			field[1] = (uint8_t)v;
			if (apply(CHECKSUM_AUTO, len)) {
				ck_assert_uint_eq(v, partial);
				n_changed++;
			}
		}
		ck_assert_uint_eq(n_changed, 1);
	}
}
END_TEST

/* Choose the last two payload bytes so that the whole segment, with `field` in its checksum field,
 * sums up to `total` with the pseudo-header. */
static void steer_sum(uint8_t *frame, uint32_t l4_at, uint32_t l4_len, uint16_t pseudo,
		      uint16_t total)
{
	uint8_t *last = frame + l4_at + l4_len - 2;

	last[0] = last[1] = 0;
	uint16_t sum = frames_sum16(frame + l4_at, l4_len, pseudo);
	uint16_t missing = frames_sum16(NULL, 0, (uint32_t)total + (uint16_t)~sum);
	last[0] = (uint8_t)(missing >> 8);
	last[1] = (uint8_t)missing;
	ck_assert_uint_eq(frames_sum16(frame + l4_at, l4_len, pseudo), total);
}

static uint16_t pseudo_of(const struct frames_spec *s, uint32_t at)
{
	build(want, s, FRAMES_SUM_PARTIAL);
	return (uint16_t)(want[at] << 8 | want[at + 1]);
}

/* A correct checksum that happens to look partial is left alone. */
START_TEST(test_full_that_looks_partial)
{
	struct frames_spec s = small_spec(IPPROTO_TCP, "198.51.100.7", "192.0.2.80");
	uint16_t pseudo = pseudo_of(&s, 34 + 16);
	uint32_t len = build(buf, &s, FRAMES_SUM_PARTIAL);

	steer_sum(buf, 34, 30, pseudo, 0xffff);
	memcpy(want, buf, len);
	check_applied(CHECKSUM_AUTO, len, false);
	buf[34 + 25] ^= 1; /* but not once it is invalid */
	ck_assert(apply(CHECKSUM_AUTO, len));
	ck_assert_uint_eq(frames_sum16(buf + 34, 30, pseudo), 0xffff);
}
END_TEST

/* A sum of 0xffff makes a checksum of 0, which UDP says as 0xffff, and TCP as 0. */
START_TEST(test_zero_checksum)
{
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP};

	for (unsigned i = 0; i < 2; i++) {
		struct frames_spec s = small_spec(protos[i], "198.51.100.7", "192.0.2.80");
		uint32_t at = 34 + (i ? 6 : 16), l4_len = (i ? 8 : 20) + s.payload_len;
		uint16_t pseudo = pseudo_of(&s, at);
		uint32_t len = build(buf, &s, FRAMES_SUM_ZERO);

		steer_sum(buf, 34, l4_len, pseudo, 0xffff);
		memcpy(want, buf, len);
		want[at] = want[at + 1] = i ? 0xff : 0;
		buf[at] = (uint8_t)(pseudo >> 8);
		buf[at + 1] = (uint8_t)pseudo;
		check_applied(CHECKSUM_AUTO, len, true);
	}
}
END_TEST

START_TEST(test_udp_without_checksum)
{
	struct frames_spec s = small_spec(IPPROTO_UDP, "198.51.100.7", "192.0.2.80");
	uint32_t len = build(buf, &s, FRAMES_SUM_ZERO);

	build(want, &s, FRAMES_SUM_ZERO);
	check_applied(CHECKSUM_AUTO, len, false);
	check_applied(CHECKSUM_COMPLETE, len, false);

	/* IPv6 knows no such thing (RFC 8200 8.1): complete computes one, auto leaves it to the
	 * DIP. */
	s = small_spec(IPPROTO_UDP, "2001:db8::7", "2001:db8::80");
	len = build(buf, &s, FRAMES_SUM_ZERO);
	build(want, &s, FRAMES_SUM_ZERO);
	check_applied(CHECKSUM_AUTO, len, false);
	build(want, &s, FRAMES_SUM_FULL);
	check_applied(CHECKSUM_COMPLETE, len, true);
}
END_TEST

/* Whatever bits a link flips in a packet with a full checksum, auto mode makes it valid only where
 * the field was hit in the one way that looks partial; that is 1 in 65,536, and the oracle says
 * when. */
START_TEST(test_corruption_stays)
{
	uint64_t state = frames_seed();
	unsigned n_kept = 0;

	for (unsigned i = 0; i < REPEATS(30000); i++) {
		struct frames_spec s =
			small_spec(i & 1 ? IPPROTO_TCP : IPPROTO_UDP, "198.51.100.7", "192.0.2.80");
		uint32_t at = 34 + (i & 1 ? 16 : 6), l4_len = (i & 1 ? 20 : 8) + s.payload_len;
		uint16_t pseudo = pseudo_of(&s, at);
		uint32_t len = build(buf, &s, FRAMES_SUM_FULL);

		for (unsigned flips = frames_random(&state) % 4 + 1; flips > 0; flips--) {
			uint64_t r = frames_random(&state);
			uint32_t byte = (uint32_t)(r >> 32) % l4_len;

			if (byte == 4 || byte == 5 || byte == 12)
				continue; /* lengths, whose damage the parser sees */
			buf[34 + byte] ^= (uint8_t)(1u << (r & 7));
		}
		bool looks_partial = (buf[at] << 8 | buf[at + 1]) == pseudo;
		memcpy(want, buf, len);
		if (looks_partial)
			continue;
		check_applied(CHECKSUM_AUTO, len, false);
		n_kept++;
	}
	ck_assert_uint_gt(n_kept, REPEATS(29000));
}
END_TEST

/* However a frame is cut up, also at odd places. */
START_TEST(test_pieces)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < REPEATS(3000); i++) {
		static const enum checksum_mode modes[] = {CHECKSUM_AUTO, CHECKSUM_KEEP,
							   CHECKSUM_COMPLETE};
		enum checksum_mode mode = modes[i % 3];
		struct checksum_piece pieces[8];
		struct frames_spec s;
		struct packet p;
		unsigned n = 0;

		frames_random_spec(&state, &s);
		s.payload_len = (uint32_t)(frames_random(&state) >> 40) % 3000;
		uint32_t len = build(buf, &s, i & 1 ? FRAMES_SUM_PARTIAL : FRAMES_SUM_FULL);
		if (parse_packet(buf, len, &p) != PARSE_OK)
			continue;
		memcpy(want, buf, len);
		uint32_t front = p.l4_offset + 20u, at = front < len ? front : len;
		front = at;
		for (; n < 8 && at < len; at += pieces[n++].len) {
			uint32_t some = 1 + (uint32_t)(frames_random(&state) >> 40) % (len - at);
			pieces[n] = (struct checksum_piece){buf + at, n == 7 ? len - at : some};
		}
		bool changed = checksum_apply(mode, want, &p);
		ck_assert(checksum_apply_pieces(mode, buf, front, pieces, n, &p) == changed);
		ck_assert_mem_eq(buf, want, len);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("checksum");
	TCase *tc = tcase_create("checksum");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_add_random);
	tcase_add_test(tc, test_add_extremes);
	tcase_add_test(tc, test_rfc_1071_example);
	tcase_add_test(tc, test_pieces);
	tcase_add_test(tc, test_apply_to_random_frames);
	tcase_add_test(tc, test_every_length);
	tcase_add_test(tc, test_every_field_value);
	tcase_add_test(tc, test_full_that_looks_partial);
	tcase_add_test(tc, test_zero_checksum);
	tcase_add_test(tc, test_udp_without_checksum);
	tcase_add_test(tc, test_corruption_stays);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
