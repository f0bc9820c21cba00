/* ICMP and ICMPv6: whose flow an error is about, against the naive parser and against how the frame
 * was built; the answers, field by field. */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>

#include "packet/icmp.h"
#include "tests/unit/icmp_frames.h"
#include "tests/unit/naive_parse.h"

#define ROUNDS 20000

static uint8_t buf[FRAMES_MAX], before[FRAMES_MAX];

static void check_same(const uint8_t *data, uint32_t len)
{
	struct packet p, q;
	uint8_t *guarded = frames_guarded(data, len);
	enum parse_result r = parse_packet(guarded, len, &p);

	ck_assert_int_eq(r, naive_parse(data, len, &q));
	ck_assert(naive_packet_equal(&p, &q, r));
}

/* Whatever it is, and with any one byte changed or any end cut off. */
START_TEST(test_against_naive)
{
	uint64_t state = frames_seed();

	for (int i = 0; i < ROUNDS; i++) {
		struct icmp_spec s;
		icmp_frames_random(&state, &s);
		uint32_t len = icmp_frames_build(buf, &s);
		check_same(buf, len);
		uint64_t r = frames_random(&state);
		check_same(buf, (uint32_t)(r >> 32) % len);
		buf[(r & 0xffff) % (len < 120 ? len : 120)] ^= (uint8_t)(r >> 24 | 1);
		check_same(buf, len);
	}
}
END_TEST

/* An error is a packet of the flow that its quote answers. */
START_TEST(test_flow)
{
	uint64_t state = frames_seed();
	unsigned n = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct icmp_spec s;
		struct packet p;
		icmp_frames_random(&state, &s);
		bool v6 = !ip_addr_is_v4(&s.outer.dst);
		s.type = v6 ? (uint8_t)(1 + i % 4) : (uint8_t[]){3, 11, 12}[i % 3];
		s.no_quote = false;
		s.quoted_len = 0;
		s.quoted.v4_frag = 0;
		if (!ip_addr_equal(&s.outer.dst, &s.quoted.src) || s.quoted.segments_left)
			continue;
		uint32_t len = icmp_frames_build(buf, &s);
		ck_assert_int_eq(parse_packet(buf, len, &p), PARSE_OK);
		ck_assert_int_eq(p.kind, PACKET_ICMP_ERROR);
		ck_assert(ip_addr_equal(&p.src, &s.quoted.dst));
		ck_assert(ip_addr_equal(&p.dst, &s.quoted.src));
		ck_assert_uint_eq(ntohs(p.sport_be), s.quoted.dport);
		ck_assert_uint_eq(ntohs(p.dport_be), s.quoted.sport);
		ck_assert_uint_eq(p.proto, s.quoted.proto ? s.quoted.proto : IPPROTO_TCP);
		ck_assert_uint_eq(p.segment, SEG_UNTOLD); /* it is not the flow's own packet */
		ck_assert_uint_eq(buf[p.l4_offset], s.type);
		n++;
	}
	ck_assert_uint_gt(n, ROUNDS / 2);
}
END_TEST

static struct icmp_spec echo_spec(bool v6)
{
	return (struct icmp_spec){
		.outer = {.src = frames_ip(v6 ? "2001:db8:1::9" : "192.0.2.9"),
			  .dst = frames_ip(v6 ? "2001:db8::1" : "198.51.100.1"),
			  .n_vlans = 1,
			  .vlan_tci = {7},
			  .ttl = 3},
		.type = v6 ? 128 : 8,
		.rest = 0x12345678,
		.quoted_len = 37,
		.no_quote = true,
	};
}

/* The answer is the very frame that one would build. */
START_TEST(test_echo)
{
	for (int v6 = 0; v6 < 2; v6++) {
		struct icmp_spec s = echo_spec(v6), answer = s;
		struct packet p;
		uint32_t len = icmp_frames_build(buf, &s);

		ck_assert_int_eq(parse_packet(buf, len, &p), PARSE_ECHO);
		ck_assert(icmp_answer_echo(buf, &p));
		answer.outer.src = s.outer.dst;
		answer.outer.dst = s.outer.src;
		answer.outer.ttl = 64;
		memcpy(answer.outer.dst_mac, (uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
		memcpy(answer.outer.src_mac, (uint8_t[]){2, 0, 0, 0, 0, 2}, 6);
		answer.type = v6 ? 129 : 0;
		ck_assert_uint_eq(len, icmp_frames_build(before, &answer));
		ck_assert_mem_eq(buf, before, len);
	}
}
END_TEST

/* Of zeros but for the type: the answer's checksum is not 0, which would be wrong. */
START_TEST(test_echo_zeros)
{
	struct icmp_spec s = echo_spec(false);
	struct packet p;

	s.rest = 0;
	s.quoted_len = 0;
	uint32_t len = icmp_frames_build(buf, &s);
	ck_assert_int_eq(parse_packet(buf, len, &p), PARSE_ECHO);
	ck_assert(icmp_answer_echo(buf, &p));
	ck_assert_uint_eq(frames_sum16(buf + p.l4_offset, 8, 0), 0xffff);
}
END_TEST

static const char *const nobodies[] = {"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255",
				       "::",	  "::1",       "ff02::1"};

START_TEST(test_echo_unanswered)
{
	for (unsigned i = 0; i < 10; i++) {
		struct icmp_spec s = echo_spec(i < 7 ? strchr(nobodies[i], ':') != NULL : i == 8);
		struct packet p;

		if (i < 7)
			s.outer.src = frames_ip(nobodies[i]);
		else if (i == 7)
			s.outer.v4_options_len = 4;
		else if (i == 8)
			s.outer.exts[s.outer.n_exts++] = 60;
		else
			s.outer.src_mac[0] = 3; /* a group's */
		uint32_t len = icmp_frames_build(buf, &s);
		memcpy(before, buf, len);
		ck_assert_int_eq(parse_packet(buf, len, &p), PARSE_ECHO);
		ck_assert_msg(!icmp_answer_echo(buf, &p), "case %u", i);
		ck_assert_mem_eq(buf, before, len);
	}
}
END_TEST

static struct frames_spec big_spec(bool v6, uint32_t payload_len)
{
	return (struct frames_spec){
		.src = frames_ip(v6 ? "2001:db8:1::9" : "192.0.2.9"),
		.dst = frames_ip(v6 ? "2001:db8::1" : "198.51.100.1"),
		.sport = 4711,
		.dport = 80,
		.n_vlans = 2,
		.vlan_tci = {5, 6},
		.payload_len = payload_len,
		.padding = 3,
	};
}

START_TEST(test_too_big)
{
	static uint8_t room[FRAMES_MAX + ICMP_TOO_BIG_HEADROOM];

	for (unsigned i = 0; i < 4; i++) {
		bool v6 = i & 1;
		struct frames_spec spec = big_spec(v6, i < 2 ? 1400 : 10);
		uint8_t *data = room + ICMP_TOO_BIG_HEADROOM;
		uint32_t len = frames_build(data, &spec), mtu = v6 ? 1300 : 1476;
		uint32_t quoted = i >= 2 ? (v6 ? 70 : 50) : v6 ? 1280 - 48 : 576 - 28;
		struct packet p;

		memcpy(before, data, len);
		ck_assert_int_eq(parse_packet(data, len, &p), PARSE_OK);
		ck_assert(icmp_answer_too_big(&data, &len, ICMP_TOO_BIG_HEADROOM, &p, mtu));
		struct icmp_spec want = {
			.outer = {.src = spec.dst,
				  .dst = spec.src,
				  .n_vlans = 2,
				  .vlan_tci = {5, 6},
				  .tos = v6 ? 0 : 0xc0,
				  .v4_frag = 0x4000,
				  .dst_mac = {2, 0, 0, 0, 0, 1},
				  .src_mac = {2, 0, 0, 0, 0, 2}},
			.quoted = spec,
			.quoted_len = quoted,
			.type = v6 ? 2 : 3,
			.code = v6 ? 0 : 4,
			.rest = mtu,
		};
		ck_assert_uint_eq(len, icmp_frames_build(buf, &want));
		ck_assert_mem_eq(data, buf, len);
	}
}
END_TEST

/* IPv6 promises 1280 to everyone. */
START_TEST(test_too_big_floor)
{
	static uint8_t room[2048];
	struct frames_spec spec = big_spec(true, 1300);
	uint8_t *data = room + 64;
	uint32_t len = frames_build(data, &spec);
	struct packet p;

	ck_assert_int_eq(parse_packet(data, len, &p), PARSE_OK);
	ck_assert(icmp_answer_too_big(&data, &len, 64, &p, 1200));
	ck_assert_uint_eq(data[22 + 40 + 6] << 8 | data[22 + 40 + 7], 1280);
}
END_TEST

START_TEST(test_too_big_unanswered)
{
	for (unsigned i = 0; i < 10; i++) {
		bool v6 = i < 7 ? strchr(nobodies[i], ':') != NULL : i & 1;
		struct frames_spec spec = big_spec(v6, 1000);
		uint32_t headroom = 64;
		struct packet p;

		if (i < 7)
			spec.src = frames_ip(nobodies[i]);
		if (i == 7)
			spec.src_mac[0] = 1;
		uint32_t len = frames_build(buf + 64, &spec), was = len;
		uint8_t *data = buf + 64;
		memcpy(before, data, len);
		ck_assert_int_eq(parse_packet(data, len, &p), PARSE_OK);
		if (i == 8)
			headroom = 27;
		if (i == 9)
			p.kind = PACKET_ICMP_ERROR;
		ck_assert_msg(!icmp_answer_too_big(&data, &len, headroom, &p, 1400), "case %u", i);
		ck_assert(data == buf + 64 && len == was);
		ck_assert_mem_eq(data, before, len);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("icmp");
	TCase *tc = tcase_create("icmp");
	SRunner *r = srunner_create(s);

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_against_naive);
	tcase_add_test(tc, test_flow);
	tcase_add_test(tc, test_echo);
	tcase_add_test(tc, test_echo_zeros);
	tcase_add_test(tc, test_echo_unanswered);
	tcase_add_test(tc, test_too_big);
	tcase_add_test(tc, test_too_big_floor);
	tcase_add_test(tc, test_too_big_unanswered);
	suite_add_tcase(s, tc);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
