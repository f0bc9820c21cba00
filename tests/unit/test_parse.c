/* parse_packet against a second parser that is written to be obvious, against what the frame
 * builder was told, and against every shorter frame with an unmapped page right behind it. */
#include <check.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "packet/parse.h"
#include "tests/unit/frames.h"
#include "tests/unit/naive_parse.h"
#include "tests/unit/prng.h"

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

/* --- against the builder --- */

static void check_fields(const struct frames_spec *s, uint32_t len, const struct packet *p)
{
	ck_assert(ip_addr_equal(&p->src, &s->src) && ip_addr_equal(&p->dst, &s->dst));
	ck_assert_uint_eq(ntohs(p->sport_be), s->sport);
	ck_assert_uint_eq(ntohs(p->dport_be), s->dport);
	ck_assert_uint_eq(p->is_v6, !ip_addr_is_v4(&s->dst));
	ck_assert_uint_eq(p->proto, s->proto);
	ck_assert_uint_eq(p->tos, s->tos);
	ck_assert_uint_eq(p->n_vlans, s->n_vlans);
	ck_assert_uint_eq(ntohs(p->vlan_tci_be), s->n_vlans ? s->vlan_tci[0] : 0);
	ck_assert_uint_eq(p->l3_offset, 14 + 4 * s->n_vlans);
	ck_assert_uint_le((uint32_t)p->l3_offset + p->l3_len, len);
	ck_assert_uint_eq((p->segment & SEG_PAYLOAD) != 0,
			  s->proto == IPPROTO_TCP && s->payload_len > 0);
}

START_TEST(test_fields_of_random_frames)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < REPEATS(30000); i++) {
		struct frames_spec s;
		struct packet p;

		frames_random_spec(&state, &s);
		uint32_t len = frames_build(buf, &s);
		ck_assert_int_eq(check_against_oracle(buf, len), PARSE_OK);
		ck_assert_int_eq(parse_packet(buf, len, &p), PARSE_OK);
		check_fields(&s, len, &p);
	}
}
END_TEST

START_TEST(test_every_shorter_frame)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < 400; i++) {
		struct frames_spec s;
		struct packet whole, p;

		frames_random_spec(&state, &s);
		s.payload_len %= 60;
		uint32_t len = frames_build(buf, &s);
		ck_assert_int_eq(parse_packet(buf, len, &whole), PARSE_OK);
		for (uint32_t cut = 0; cut <= len; cut++) {
			enum parse_result r = parse_packet(frames_guarded(buf, cut), cut, &p);
			bool padding_only = cut >= (uint32_t)whole.l3_offset + whole.l3_len;

			ck_assert_msg(r == (padding_only ? PARSE_OK : PARSE_MALFORMED),
				      "%" PRIu32 " of %" PRIu32 " bytes: %d", cut, len, r);
		}
	}
}
END_TEST

/* The IP header tells a shorter length, so that the transport is cut but not the frame. */
START_TEST(test_every_shorter_ip_length)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < 400; i++) {
		struct frames_spec s;
		struct packet whole;
		unsigned n_ok = 0;

		frames_random_spec(&state, &s);
		s.payload_len = s.udp_surplus = 0;
		uint32_t len = frames_build(buf, &s);
		ck_assert_int_eq(parse_packet(buf, len, &whole), PARSE_OK);
		uint8_t *field = buf + whole.l3_offset + (whole.is_v6 ? 4 : 2);
		for (uint32_t l3_len = whole.is_v6 ? 40 : 0; l3_len <= whole.l3_len; l3_len++) {
			uint16_t be = htons((uint16_t)(l3_len - (whole.is_v6 ? 40 : 0)));

			memcpy(field, &be, 2);
			n_ok += check_against_oracle(buf, len) == PARSE_OK;
		}
		ck_assert_uint_eq(n_ok, 1);
	}
}
END_TEST

/* One to four bytes of a good frame's headers changed, often to values that mean something. */
START_TEST(test_mutations_against_oracle)
{
	static const uint8_t telling[] = {0,  1,  2,	4,    6,    17,	  43,  44,
					  51, 60, 0x45, 0x60, 0x81, 0x88, 0xff};
	uint64_t state = frames_seed();
	unsigned seen[PARSE_ECHO + 1] = {0};

	for (unsigned i = 0; i < REPEATS(200000); i++) {
		struct frames_spec s;

		frames_random_spec(&state, &s);
		s.payload_len %= 40;
		uint32_t len = frames_build(buf, &s);
		for (unsigned n = frames_random(&state) % 4 + 1; n > 0; n--) {
			uint64_t r = frames_random(&state);
			uint32_t at = 12 + mul_shift32((uint32_t)r, len - 12);

			buf[at] =
				r >> 63 ? (uint8_t)(r >> 32) : telling[(r >> 40) % sizeof(telling)];
		}
		if (frames_random(&state) % 4 == 0)
			len -= mul_shift32((uint32_t)frames_random(&state), len);
		seen[check_against_oracle(buf, len)]++;
	}
	for (unsigned r = 0; r <= PARSE_NOT_L4; r++)
		ck_assert_uint_gt(seen[r], REPEATS(500)); /* the mutations reach every exit */
}
END_TEST

/* --- one by one --- */

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

struct patch {
	const char *what;
	bool v6;
	uint8_t proto;
	uint32_t at; /* from the IP header */
	uint8_t byte;
	enum parse_result want;
};

START_TEST(test_bad_header_fields)
{
	static const struct patch patches[] = {
		{"v4 under version 5", false, IPPROTO_TCP, 0, 0x55, PARSE_MALFORMED},
		{"v4 ethertype, v6 version", false, IPPROTO_TCP, 0, 0x65, PARSE_MALFORMED},
		{"v6 ethertype, v4 version", true, IPPROTO_TCP, 0, 0x45, PARSE_MALFORMED},
		{"header length 0", false, IPPROTO_TCP, 0, 0x40, PARSE_MALFORMED},
		{"header length 16", false, IPPROTO_TCP, 0, 0x44, PARSE_MALFORMED},
		{"header longer than packet", false, IPPROTO_UDP, 0, 0x4f, PARSE_MALFORMED},
		{"total length below header", false, IPPROTO_TCP, 3, 19, PARSE_MALFORMED},
		{"total length above frame", false, IPPROTO_TCP, 2, 1, PARSE_MALFORMED},
		{"payload length above frame", true, IPPROTO_TCP, 4, 1, PARSE_MALFORMED},
		{"jumbogram", true, IPPROTO_TCP, 5, 0, PARSE_MALFORMED},
		{"data offset 0", false, IPPROTO_TCP, 20 + 12, 0x00, PARSE_MALFORMED},
		{"data offset 4", false, IPPROTO_TCP, 20 + 12, 0x40, PARSE_MALFORMED},
		{"data offset at the end", false, IPPROTO_TCP, 20 + 12, 0x60, PARSE_OK},
		{"data offset behind the end", false, IPPROTO_TCP, 20 + 12, 0x70, PARSE_MALFORMED},
		{"data offset, v6", true, IPPROTO_TCP, 40 + 12, 0xf0, PARSE_MALFORMED},
		{"UDP length 7", false, IPPROTO_UDP, 20 + 5, 7, PARSE_MALFORMED},
		{"UDP length 0", true, IPPROTO_UDP, 40 + 5, 0, PARSE_MALFORMED},
		{"UDP length 8, with surplus", false, IPPROTO_UDP, 20 + 5, 8, PARSE_OK},
		{"UDP length above packet", false, IPPROTO_UDP, 20 + 5, 13, PARSE_MALFORMED},
		{"reserved flag", false, IPPROTO_TCP, 6, 0x80, PARSE_OK},
		{"don't fragment", false, IPPROTO_TCP, 6, 0x40, PARSE_OK},
		{"more fragments", false, IPPROTO_TCP, 6, 0x20, PARSE_FRAGMENT},
		{"last fragment", false, IPPROTO_TCP, 7, 0x02, PARSE_FRAGMENT},
		{"over the TCP flags", false, IPPROTO_TCP, 7, 0x01, PARSE_MALFORMED},
		{"behind the UDP header", false, IPPROTO_UDP, 7, 0x01, PARSE_FRAGMENT},
		{"high offset", false, IPPROTO_TCP, 6, 0x10, PARSE_FRAGMENT},
		{"ICMP", false, IPPROTO_TCP, 9, IPPROTO_ICMP, PARSE_NOT_L4},
		{"SCTP", false, IPPROTO_TCP, 9, IPPROTO_SCTP, PARSE_NOT_L4},
		{"UDP-Lite", false, IPPROTO_UDP, 9, IPPROTO_UDPLITE, PARSE_NOT_L4},
		{"AH over IPv4", false, IPPROTO_TCP, 9, IPPROTO_AH, PARSE_NOT_L4},
		{"ICMPv6", true, IPPROTO_TCP, 6, IPPROTO_ICMPV6, PARSE_NOT_L4},
		{"ESP", true, IPPROTO_TCP, 6, IPPROTO_ESP, PARSE_NOT_L4},
		{"no next header", true, IPPROTO_TCP, 6, IPPROTO_NONE, PARSE_NOT_L4},
		{"6in6", true, IPPROTO_TCP, 6, IPPROTO_IPV6, PARSE_NOT_L4},
	};

	for (unsigned i = 0; i < ARRAY_LEN(patches); i++) {
		const struct patch *t = &patches[i];
		struct frames_spec s = t->v6 ? v6_spec() : v4_spec();

		s.proto = t->proto;
		for (s.n_vlans = 0; s.n_vlans <= 2; s.n_vlans++) {
			uint32_t len = frames_build(buf, &s);

			buf[14 + 4 * s.n_vlans + t->at] = t->byte;
			ck_assert_msg(check_against_oracle(buf, len) == t->want, "%s", t->what);
		}
	}
}
END_TEST

START_TEST(test_other_ethertypes)
{
	static const uint16_t types[] = {0x0000, 0x002e, 0x0806, 0x0801,
					 0x9100, 0x8847, 0x88cc, 0xffff};
	struct frames_spec s = v4_spec();
	struct packet p;

	for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
		uint32_t len = frames_build(buf, &s);

		buf[12] = (uint8_t)(types[i] >> 8);
		buf[13] = (uint8_t)types[i];
		ck_assert_int_eq(check_against_oracle(buf, len), PARSE_NOT_IP);
	}
	for (unsigned tpids = 0; tpids < 4; tpids++) { /* every order of both tags */
		s.n_vlans = 2;
		s.vlan_tpid[0] = tpids & 1 ? 0x8100 : 0x88a8;
		s.vlan_tpid[1] = tpids & 2 ? 0x8100 : 0x88a8;
		ck_assert_int_eq(parse_spec(&s, &p), PARSE_OK);
	}
	s.n_vlans = 3;
	ck_assert_int_eq(parse_spec(&s, &p), PARSE_NOT_IP);
	s.n_vlans = 4;
	ck_assert_int_eq(parse_spec(&s, &p), PARSE_NOT_IP);
}
END_TEST

/* Nothing behind the IP header, neither payload nor padding. */
START_TEST(test_bare_headers)
{
	struct packet p;

	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct frames_spec s = v6 ? v6_spec() : v4_spec();

		s.proto = v6 ? IPPROTO_NONE : IPPROTO_ICMP;
		s.payload_len = 0;
		s.no_min = true;
		ck_assert_int_eq(parse_spec(&s, &p), PARSE_NOT_L4);
		ck_assert_uint_eq(p.l3_len, v6 ? 40 : 20);
		s.v4_frag = 1;
		ck_assert_int_eq(parse_spec(&s, &p), PARSE_NOT_L4);
	}
}
END_TEST

START_TEST(test_segments)
{
	struct frames_spec s = v4_spec();
	struct packet p;

	s.no_tcp_flags = true;
	for (unsigned flags = 0; flags < 256; flags++)
		for (s.payload_len = 0; s.payload_len < 2; s.payload_len++) {
			s.tcp_flags = (uint8_t)flags;
			ck_assert_int_eq(parse_spec(&s, &p), PARSE_OK);
			ck_assert_uint_eq((p.segment & SEG_SYN) != 0, (flags & 0x17) == FRAMES_SYN);
			ck_assert_uint_eq((p.segment & SEG_FIN) != 0, (flags & FRAMES_FIN) != 0);
			ck_assert_uint_eq((p.segment & SEG_RST) != 0, (flags & FRAMES_RST) != 0);
			ck_assert_uint_eq((p.segment & SEG_PAYLOAD) != 0, s.payload_len);
		}
	s.payload_len = 0;
	s.tcp_flags = FRAMES_SYN;
	s.tcp_options = 40; /* options are no payload, padding is none either */
	s.padding = 7;
	ck_assert_int_eq(parse_spec(&s, &p), PARSE_OK);
	ck_assert_uint_eq(p.segment, SEG_SYN);
}
END_TEST

START_TEST(test_extension_headers)
{
	static const struct {
		unsigned n;
		uint8_t exts[FRAMES_EXTS_MAX];
		enum parse_result want;
		bool keep_checksum;
	} chains[] = {
		{1, {IPPROTO_HOPOPTS}, PARSE_OK, false},
		{1, {IPPROTO_ROUTING}, PARSE_OK, false},
		{1, {IPPROTO_DSTOPTS}, PARSE_OK, false},
		{1, {IPPROTO_AH}, PARSE_OK, true},
		{1, {IPPROTO_FRAGMENT}, PARSE_FRAGMENT, false},
		{5, {0, 60, 43, 51, 60}, PARSE_OK, true},
		{4, {0, 60, 43, 44}, PARSE_FRAGMENT, false},
		{2, {44, 44}, PARSE_MALFORMED, false},
		{4, {0, 60, 44, 60}, PARSE_FRAGMENT, false},
		{3, {44, 51, 60}, PARSE_FRAGMENT, true},
		{8, {0, 60, 60, 60, 60, 60, 60, 44}, PARSE_FRAGMENT, false},
		{2, {60, 0}, PARSE_MALFORMED, false},
		{2, {0, 0}, PARSE_MALFORMED, false},
		{8, {0, 60, 60, 60, 60, 60, 60, 60}, PARSE_OK, false},
		{9, {0, 60, 60, 60, 60, 60, 60, 60, 60}, PARSE_MALFORMED, false},
		{9, {60, 60, 60, 60, 60, 60, 60, 60, 44}, PARSE_MALFORMED, false},
		{12, {60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60}, PARSE_MALFORMED, false},
	};
	struct packet p;

	for (unsigned i = 0; i < ARRAY_LEN(chains); i++) {
		struct frames_spec s = v6_spec();

		s.n_exts = chains[i].n;
		memcpy(s.exts, chains[i].exts, sizeof(s.exts));
		ck_assert_msg(parse_spec(&s, &p) == chains[i].want, "chain %u", i);
		if (chains[i].want == PARSE_MALFORMED)
			continue;
		ck_assert(ip_addr_equal(&p.src, &s.src) && ip_addr_equal(&p.dst, &s.dst));
		ck_assert(p.is_v6 && p.l3_offset == 14);
		if (chains[i].want == PARSE_FRAGMENT)
			ck_assert(p.kind == PACKET_FIRST && p.fragment_id == 0x12345678);
		if (chains[i].want == PARSE_OK || p.kind == PACKET_FIRST)
			ck_assert_msg(p.keep_checksum == chains[i].keep_checksum, "chain %u", i);
	}
}
END_TEST

/* Lengths inside extension headers that lead out of the packet, or nowhere. */
START_TEST(test_extension_lengths)
{
	struct frames_spec s = v6_spec();

	for (unsigned kind = 0; kind < 3; kind++)
		for (unsigned n = 0; n < 256; n++) {
			s.n_exts = 1;
			s.exts[0] = (uint8_t[]){IPPROTO_DSTOPTS, IPPROTO_ROUTING, IPPROTO_AH}[kind];
			uint32_t len = frames_build(buf, &s);
			buf[14 + 40 + 1] = (uint8_t)n;
			check_against_oracle(buf, len);
			if (n > 4)
				ck_assert_int_eq(check_against_oracle(buf, len), PARSE_MALFORMED);
		}
	s.exts[0] = IPPROTO_FRAGMENT; /* a fragment header that is cut off is no fragment */
	frames_build(buf, &s);
	buf[14 + 4] = 0;
	buf[14 + 5] = 7;
	ck_assert_int_eq(check_against_oracle(buf, 14 + 40 + 7), PARSE_MALFORMED);
}
END_TEST

START_TEST(test_source_routes)
{
	static const struct {
		uint8_t options[12];
		bool keep_checksum;
	} routes[] = {
		{{131, 11, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0}, true},   /* loose, at its first hop */
		{{137, 11, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0}, true},   /* strict */
		{{131, 11, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0}, true},   /* at its last */
		{{131, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 0}, false}, /* at its end */
		{{7, 11, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0}, false},	   /* record route */
		{{1, 1, 1, 131, 7, 4, 9, 9, 9, 9, 1, 1}, true},
		{{148, 4, 0, 0, 137, 7, 4, 9, 9, 9, 9, 0}, true},  /* behind a router alert */
		{{0, 131, 7, 4, 9, 9, 9, 9, 0, 0, 0, 0}, false},   /* behind the end of the list */
		{{7, 0, 131, 7, 4, 9, 9, 9, 9, 0, 0, 0}, false},   /* option length 0 */
		{{131, 200, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false}, /* option behind the header */
		{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 131, 3}, false},   /* cut off */
		{{0, 2, 131, 7, 4, 9, 9, 9, 9, 0, 0, 0}, false},
		{{1, 131, 11, 4, 2, 3, 4, 5, 6, 7, 8, 9}, true},  /* up to the header's end */
		{{1, 1, 1, 1, 1, 1, 1, 1, 1, 131, 3, 3}, true},	  /* shortest, at its end */
		{{131, 11, 11, 1, 2, 3, 4, 5, 6, 7, 8, 0}, true}, /* a crooked pointer */
		{{131, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false},  /* too short for a pointer */
	};
	struct packet p;

	for (unsigned i = 0; i < ARRAY_LEN(routes); i++) {
		struct frames_spec s = v4_spec();

		s.v4_options_len = sizeof(routes[i].options);
		memcpy(s.v4_options, routes[i].options, sizeof(routes[i].options));
		ck_assert_int_eq(parse_spec(&s, &p), PARSE_OK);
		ck_assert_msg(p.keep_checksum == routes[i].keep_checksum, "route %u", i);
	}
	struct frames_spec s = v6_spec();
	s.n_exts = 2;
	s.exts[0] = IPPROTO_DSTOPTS;
	s.exts[1] = IPPROTO_ROUTING;
	s.segments_left = 1;
	ck_assert_int_eq(parse_spec(&s, &p), PARSE_OK);
	ck_assert(p.keep_checksum);
}
END_TEST

/* 65,535 bytes of IPv6 payload do not fit l3_len; 65,495 do. */
START_TEST(test_largest_packets)
{
	struct frames_spec s = v6_spec();
	struct packet p;

	s.proto = IPPROTO_UDP;
	s.payload_len = 65535 - 40 - 8;
	ck_assert_int_eq(parse_spec(&s, &p), PARSE_OK);
	ck_assert_uint_eq(p.l3_len, 65535);
	s.payload_len++;
	ck_assert_int_eq(parse_spec(&s, &p), PARSE_MALFORMED);
	s = v4_spec();
	s.payload_len = 65535 - 20 - 20;
	ck_assert_int_eq(parse_spec(&s, &p), PARSE_OK);
	ck_assert_uint_eq(p.l3_len, 65535);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("parse");
	TCase *tc = tcase_create("parse");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_fields_of_random_frames);
	tcase_add_test(tc, test_every_shorter_frame);
	tcase_add_test(tc, test_every_shorter_ip_length);
	tcase_add_test(tc, test_mutations_against_oracle);
	tcase_add_test(tc, test_bad_header_fields);
	tcase_add_test(tc, test_other_ethertypes);
	tcase_add_test(tc, test_bare_headers);
	tcase_add_test(tc, test_segments);
	tcase_add_test(tc, test_extension_headers);
	tcase_add_test(tc, test_extension_lengths);
	tcase_add_test(tc, test_source_routes);
	tcase_add_test(tc, test_largest_packets);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
