/* Fragments, first and later: parse_packet against a second parser that is written to be obvious,
 * and against what was cut up. */
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "packet/parse.h"
#include "tests/unit/frames.h"
#include "tests/unit/naive_parse.h"

static uint8_t buf[FRAMES_MAX];

static const char *hex(const uint8_t *data, uint32_t len)
{
	static char text[2 * 256 + 1];

	for (uint32_t i = 0; i < len && i < 256; i++)
		snprintf(text + 2 * i, 3, "%02x", data[i]);
	return text;
}

/* Both parsers say the same of the frame, in all that the result makes valid. */
static enum parse_result check_against_oracle(const uint8_t *data, uint32_t len)
{
	struct packet want, got;
	enum parse_result want_result = naive_parse(data, len, &want);
	enum parse_result result = parse_packet(frames_guarded(data, len), len, &got);

	ck_assert_msg(result == want_result, "%d, not %d, for %s", result, want_result,
		      hex(data, len));
	ck_assert_msg(naive_packet_equal(&got, &want, result), "result %d, fields differ for %s",
		      result, hex(data, len));
	return result;
}

static struct frames_spec v4_spec(void)
{
	return (struct frames_spec){.src = frames_ip("198.51.100.7"),
				    .dst = frames_ip("192.0.2.80"),
				    .sport = 1234,
				    .dport = 80,
				    .proto = IPPROTO_TCP,
				    .payload_len = 4};
}

static struct frames_spec v6_spec(void)
{
	struct frames_spec s = v4_spec();

	s.src = frames_ip("2001:db8::7");
	s.dst = frames_ip("2001:db8::80");
	return s;
}

static enum parse_result parse_spec(const struct frames_spec *s, struct packet *p)
{
	uint32_t len = frames_build(buf, s);

	check_against_oracle(buf, len);
	return parse_packet(buf, len, p);
}

/* A TCP or UDP packet cut in parts of n bytes: the first has all that a whole one has, others what
 * their header says, and a first without the whole transport header is none. */
static void check_parts(const struct frames_spec *s, uint32_t n)
{
	static uint8_t part[FRAMES_MAX];
	uint32_t header_len = s->proto == IPPROTO_TCP ? 20 : 8,
		 l4_len = header_len + s->payload_len;
	struct packet whole, p;

	ck_assert_int_eq(parse_spec(s, &whole), PARSE_OK);
	for (uint32_t at = 0; at < l4_len; at += n) {
		uint32_t len = frames_cut(part, buf, 77, at, n);
		enum parse_result r = check_against_oracle(part, len);
		bool bad = at == 0 ? n < header_len : at == 8 && s->proto == IPPROTO_TCP;

		ck_assert_int_eq(parse_packet(part, len, &p), r);
		if (at == 0 && n >= l4_len) { /* all of it: of IPv6 an atomic fragment */
			ck_assert(r == PARSE_OK && p.kind == PACKET_FLOW);
			continue;
		}
		ck_assert_int_eq(r, bad ? PARSE_MALFORMED : PARSE_FRAGMENT);
		if (bad)
			continue;
		ck_assert_int_eq(p.kind, at ? PACKET_LATER : PACKET_FIRST);
		ck_assert(p.fragment_id == 77 && p.proto == s->proto);
		ck_assert(ip_addr_equal(&p.src, &whole.src) && ip_addr_equal(&p.dst, &whole.dst));
		if (at == 0)
			ck_assert(p.sport_be == whole.sport_be && p.dport_be == whole.dport_be);
	}
}

START_TEST(test_fragments)
{
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP};

	for (unsigned v6 = 0; v6 < 2; v6++)
		for (unsigned k = 0; k < 2; k++)
			for (uint32_t n = 8; n <= 256; n += 8) {
				struct frames_spec s = v6 ? v6_spec() : v4_spec();

				s.proto = protos[k];
				s.payload_len = 150;
				check_parts(&s, n);
			}
}
END_TEST

/* Only the first fragment need say what it is a part of. */
START_TEST(test_later_v6_fragments)
{
	static const struct {
		uint8_t next;
		uint16_t at;
		enum parse_result want;
		uint8_t proto;
	} parts[] = {
		{IPPROTO_TCP, 8, PARSE_MALFORMED, 0},	 {IPPROTO_TCP, 16, PARSE_FRAGMENT, 6},
		{IPPROTO_UDP, 8, PARSE_FRAGMENT, 17},	 {IPPROTO_DSTOPTS, 8, PARSE_FRAGMENT, 0},
		{IPPROTO_HOPOPTS, 8, PARSE_FRAGMENT, 0}, {IPPROTO_AH, 65528, PARSE_FRAGMENT, 0},
		{IPPROTO_ICMPV6, 8, PARSE_NOT_L4, 0},	 {IPPROTO_NONE, 8, PARSE_NOT_L4, 0},
	};
	struct packet p;

	for (unsigned i = 0; i < ARRAY_LEN(parts); i++) {
		struct frames_spec s = v6_spec();

		s.n_exts = 2;
		s.exts[0] = IPPROTO_DSTOPTS;
		s.exts[1] = IPPROTO_FRAGMENT;
		s.v6_frag = parts[i].at;
		uint32_t len = frames_build(buf, &s);
		buf[14 + 40 + 8] = parts[i].next;
		ck_assert_msg(check_against_oracle(buf, len) == parts[i].want, "part %u", i);
		if (parts[i].want != PARSE_FRAGMENT)
			continue;
		ck_assert_int_eq(parse_packet(buf, len, &p), PARSE_FRAGMENT);
		ck_assert(p.kind == PACKET_LATER && p.proto == parts[i].proto);
		ck_assert_uint_eq(p.fragment_id, 0x12345678);
		ck_assert_uint_eq(p.segment, SEG_UNTOLD);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("parse_fragments");
	TCase *tc = tcase_create("parse_fragments");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_fragments);
	tcase_add_test(tc, test_later_v6_fragments);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
