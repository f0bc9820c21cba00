/* Translations of random frames against a naive oracle: the same frame, built anew from its
 * description with the other address and port, all checksums computed in full. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "packet/checksum.h"
#include "packet/nat.h"
#include "tests/unit/frames.h"
#include "tests/unit/icmp_frames.h"
#include "tests/unit/prng.h"

static const uint8_t egress_mac[6] = {2, 0, 0, 0, 1, 0}, next_hop_mac[6] = {2, 0, 0, 0, 1, 0x99};
static uint8_t data[FRAMES_MAX], before[FRAMES_MAX], want[FRAMES_MAX];

static uint32_t build(const struct frames_spec *s, struct packet *p)
{
	uint32_t len = frames_build(data, s);

	memcpy(before, data, len);
	ck_assert_int_eq(parse_packet(data, len, p), PARSE_OK);
	return len;
}

static struct ip_addr random_address(uint64_t *state, bool v6)
{
	uint64_t bits[2] = {frames_random(state), frames_random(state)};
	struct ip_addr a = ip_addr_v4(bits);

	if (v6) {
		memcpy(a.b, bits, sizeof(a.b));
		a.b[0] = 0x20;
	}
	return a;
}

/* What the frame must be: whether the forwarder may touch it is told by its description. */
static bool is_translatable(const struct frames_spec *s)
{
	bool ah = false;

	for (unsigned i = 0; i < s->n_exts; i++)
		ah |= s->exts[i] == IPPROTO_AH;
	return !ah && !s->segments_left;
}

static struct rewrite_to to_dip(const struct ip_addr *address, uint16_t port)
{
	return (struct rewrite_to){.address = address,
				   .dst_mac = next_hop_mac,
				   .src_mac = egress_mac,
				   .mtu = 65535,
				   .nat_port_be = htons(port)};
}

START_TEST(test_to_the_dip)
{
	uint64_t state = frames_seed();
	unsigned n_done = 0;

	for (unsigned i = 0; i < REPEATS(20000); i++) {
		struct frames_spec s;
		struct packet p;

		frames_random_spec(&state, &s);
		if (s.proto == IPPROTO_UDP && frames_random(&state) % 4 == 0)
			s.sum = FRAMES_SUM_ZERO;
		uint32_t len = build(&s, &p);
		struct ip_addr dip = random_address(&state, p.is_v6);
		uint16_t port = frames_random(&state) % 4 ? (uint16_t)frames_random(&state) : 0;
		struct rewrite_to to = to_dip(&dip, port);
		enum rewrite_result r = rewrite_nat(data, &p, &to);
		if (!is_translatable(&s) || s.ttl == 1) {
			expect(r == (is_translatable(&s) ? REWRITE_TTL : REWRITE_UNTRANSLATABLE));
			expect(memcmp(data, before, len) == 0);
			continue;
		}
		expect(r == REWRITE_OK);
		s.dst = dip;
		s.dport = port ? port : s.dport;
		s.ttl = (uint8_t)((s.ttl ? s.ttl : 64) - 1);
		memcpy(s.dst_mac, next_hop_mac, 6);
		memcpy(s.src_mac, egress_mac, 6);
		expect(frames_build(want, &s) == len);
		expect(memcmp(data, want, len) == 0);
		n_done++;
	}
	ck_assert_uint_gt(n_done, REPEATS(20000) / 2);
}
END_TEST

START_TEST(test_back_from_the_dip)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < REPEATS(20000); i++) {
		struct frames_spec s;
		struct packet p;

		frames_random_spec(&state, &s);
		uint32_t len = build(&s, &p);
		struct ip_addr vip = random_address(&state, p.is_v6);
		uint16_t port = frames_random(&state) % 4 ? (uint16_t)frames_random(&state) : 0;
		expect(nat_fits(&p, &vip) == is_translatable(&s));
		if (!is_translatable(&s))
			continue;
		nat_set_source(data, &p, &vip, htons(port));
		s.src = vip;
		s.sport = port ? port : s.sport;
		expect(frames_build(want, &s) == len);
		expect(memcmp(data, want, len) == 0);
		expect(ip_addr_equal(&p.src, &vip) && p.sport_be == htons(s.sport));
	}
}
END_TEST

/* Over all ports every checksum comes up, among them the 0 that UDP must write as 0xffff. */
START_TEST(test_every_checksum)
{
	for (int k = 0; k < 4; k++) {
		bool v6 = k & 1, udp = k & 2;
		struct frames_spec s = {.src = frames_ip(v6 ? "2001:db8::7" : "198.51.100.7"),
					.dst = frames_ip(v6 ? "2001:db8::80" : "192.0.2.80"),
					.proto = udp ? IPPROTO_UDP : IPPROTO_TCP,
					.sport = 1234,
					.dport = 80,
					.payload_len = 7};
		struct ip_addr dip = frames_ip(v6 ? "2001:db8:d::40" : "10.20.30.40");
		unsigned n_edges = 0;
		struct packet p;

		for (uint32_t port = 1; port <= UINT16_MAX; port++) {
			uint32_t len = build(&s, &p);
			nat_set_destination(data, &p, &dip, htons((uint16_t)port));
			struct frames_spec t = s;
			t.dst = dip;
			t.dport = (uint16_t)port;
			expect(frames_build(want, &t) == len);
			expect(memcmp(data, want, len) == 0);
			const uint8_t *check = data + p.l4_offset + (udp ? 6 : 16);
			expect(!udp || check[0] || check[1]);
			n_edges += check[0] == check[1] && check[0] == (udp ? 0xff : 0);
		}
		ck_assert_uint_ge(n_edges, 1);
	}
}
END_TEST

/* A load balancer does not bless what a link has spoilt. */
START_TEST(test_wrong_stays_wrong)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < REPEATS(5000); i++) {
		struct frames_spec s;
		struct packet p;

		frames_random_spec(&state, &s);
		s.sum = FRAMES_SUM_WRONG;
		build(&s, &p);
		struct ip_addr to = random_address(&state, p.is_v6);
		if (!nat_fits(&p, &to))
			continue;
		nat_set_destination(data, &p, &to, (uint16_t)frames_random(&state));
		nat_set_source(data, &p, &to, (uint16_t)frames_random(&state));
		uint8_t *field = data + p.l4_offset + (s.proto == IPPROTO_UDP ? 6 : 16);
		uint16_t was;
		memcpy(&was, field, 2);
		expect(checksum_apply(CHECKSUM_COMPLETE, data,
				      &p)); /* it differs from the right one */
		expect(memcmp(&was, field, 2) != 0);
	}
}
END_TEST

/* As the pipeline does it: first completed, then translated. */
START_TEST(test_partial)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < REPEATS(5000); i++) {
		struct frames_spec s;
		struct packet p;

		frames_random_spec(&state, &s);
		s.sum = FRAMES_SUM_PARTIAL;
		uint32_t len = build(&s, &p);
		struct ip_addr vip = random_address(&state, p.is_v6);
		if (!nat_fits(&p, &vip))
			continue;
		checksum_apply(CHECKSUM_AUTO, data, &p);
		nat_set_source(data, &p, &vip, htons(80));
		s.src = vip;
		s.sport = 80;
		s.sum = FRAMES_SUM_FULL;
		expect(frames_build(want, &s) == len);
		expect(memcmp(data, want, len) == 0);
	}
}
END_TEST

/* A random error about a flow's packet, with its parse. */
static uint32_t build_error(uint64_t *state, struct icmp_spec *s, struct packet *p)
{
	for (;;) {
		icmp_frames_random(state, s);
		if (!is_translatable(&s->quoted))
			continue; /* it would not have been sent */
		if (s->quoted.proto == IPPROTO_UDP && frames_random(state) % 4 == 0)
			s->quoted.sum = FRAMES_SUM_ZERO;
		s->quoted_len &= ~1u; /* half a checksum stays as it is */
		s->outer.ttl = (uint8_t)(2 + frames_random(state) % 250);
		if (frames_random(state) % 2) /* by the one that the packet was sent to */
			s->outer.src = s->quoted.dst;
		uint32_t len = icmp_frames_build(data, s);
		memcpy(before, data, len);
		if (parse_packet(data, len, p) == PARSE_OK && p->kind == PACKET_ICMP_ERROR)
			return len;
	}
}

/* To the DIP, about what it has sent; of it: address and port that it has sent it from. */
START_TEST(test_error_to_the_dip)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < REPEATS(10000); i++) {
		struct icmp_spec s;
		struct packet p;
		uint32_t len = build_error(&state, &s, &p);
		struct ip_addr dip = random_address(&state, p.is_v6);
		uint16_t port = frames_random(&state) % 4 ? (uint16_t)frames_random(&state) : 0;
		struct rewrite_to to = to_dip(&dip, port);

		expect(rewrite_nat(data, &p, &to) == REWRITE_OK);
		s.outer.dst = s.quoted.src = dip;
		s.quoted.sport = port ? port : s.quoted.sport;
		s.outer.ttl--;
		memcpy(s.outer.dst_mac, next_hop_mac, 6);
		memcpy(s.outer.src_mac, egress_mac, 6);
		expect(icmp_frames_build(want, &s) == len);
		expect(memcmp(data, want, len) == 0);
	}
}
END_TEST

/* Back to the client, about what it has sent, by the DIP or a router on the DIP's side. */
START_TEST(test_error_from_the_dip)
{
	uint64_t state = frames_seed();
	unsigned n_routers = 0;

	for (unsigned i = 0; i < REPEATS(10000); i++) {
		struct icmp_spec s;
		struct packet p;
		uint32_t len = build_error(&state, &s, &p);
		struct ip_addr vip = random_address(&state, p.is_v6);
		uint16_t port = frames_random(&state) % 4 ? (uint16_t)frames_random(&state) : 0;
		bool own = ip_addr_equal(&s.outer.src, &s.quoted.dst);

		n_routers += !own;
		expect(nat_fits(&p, &vip));
		expect(ip_addr_equal(&p.src, &s.quoted.dst) && p.sport_be == htons(s.quoted.dport));
		nat_set_source(data, &p, &vip, htons(port));
		s.quoted.dst = vip;
		s.quoted.dport = port ? port : s.quoted.dport;
		if (own)
			s.outer.src = vip;
		expect(icmp_frames_build(want, &s) == len);
		expect(memcmp(data, want, len) == 0);
		expect(ip_addr_equal(&p.src, &vip) && p.sport_be == htons(s.quoted.dport));
		/* and to and fro it is the same again */
		struct ip_addr dip = random_address(&state, p.is_v6);
		expect(parse_packet(data, len, &p) == PARSE_OK);
		nat_set_destination(data, &p, &dip, htons(7));
		expect(ip_addr_equal(&p.dst, &dip) && p.dport_be == htons(7));
	}
	ck_assert_uint_gt(n_routers, REPEATS(10000) / 4);
}
END_TEST

/* As short as an error may be: what is not there is not written to. */
START_TEST(test_short_quotes)
{
	for (unsigned k = 0; k < 4; k++) {
		bool v6 = k & 1, udp = k & 2;
		struct icmp_spec s = {
			.quoted = {.src = frames_ip(v6 ? "2001:db8::7" : "192.0.2.7"),
				   .dst = frames_ip(v6 ? "2001:db8:d::1" : "10.9.0.1"),
				   .sport = 40000,
				   .dport = 8080,
				   .proto = udp ? IPPROTO_UDP : IPPROTO_TCP,
				   .payload_len = 9},
			.type = v6 ? 1 : 3,
			.code = 3};
		struct ip_addr vip = frames_ip(v6 ? "2001:db8::100" : "198.51.100.1");
		uint32_t header = v6 ? 40 : 20;

		s.outer.src = s.quoted.dst;
		s.outer.dst = s.quoted.src;
		for (uint32_t n = header + 4; n < header + 30; n++) {
			struct icmp_spec t = s;
			struct packet p;

			if (n == header + (udp ? 7 : 17))
				continue; /* half a checksum stays as it is */
			t.quoted_len = n;
			uint32_t len = icmp_frames_build(data, &t);
			ck_assert_int_eq(parse_packet(data, len, &p), PARSE_OK);
			nat_set_source(data, &p, &vip, htons(80));
			t.outer.src = t.quoted.dst = vip;
			t.quoted.dport = 80;
			ck_assert_uint_eq(icmp_frames_build(want, &t), len);
			ck_assert_mem_eq(data, want, len);
		}
	}
}
END_TEST

START_TEST(test_refused)
{
	struct frames_spec s = {.src = frames_ip("198.51.100.7"),
				.dst = frames_ip("192.0.2.80"),
				.payload_len = 100,
				.dport = 80};
	struct ip_addr dip4 = frames_ip("10.20.30.40"), dip6 = frames_ip("2001:db8:d::40");
	struct packet p;
	uint32_t len = build(&s, &p);
	struct rewrite_to to = to_dip(&dip6, 80);

	ck_assert_int_eq(rewrite_nat(data, &p, &to), REWRITE_FAMILY);
	to = to_dip(&dip4, 80);
	to.mtu = p.l3_len - 1u;
	ck_assert_int_eq(rewrite_nat(data, &p, &to), REWRITE_TOO_BIG);
	ck_assert_mem_eq(data, before, len);
	to.mtu++;
	ck_assert_int_eq(rewrite_nat(data, &p, &to), REWRITE_OK);

	s.ttl = 1;
	len = build(&s, &p);
	ck_assert_int_eq(rewrite_nat(data, &p, &to), REWRITE_TTL);
	ck_assert_mem_eq(data, before, len);

	s.src = s.dst = frames_ip("2001:db8::7");
	s.ttl = 64;
	to = to_dip(&dip4, 80);
	len = build(&s, &p);
	ck_assert_int_eq(rewrite_nat(data, &p, &to), REWRITE_FAMILY);
	ck_assert_mem_eq(data, before, len);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("nat");
	TCase *tc = tcase_create("nat");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_to_the_dip);
	tcase_add_test(tc, test_back_from_the_dip);
	tcase_add_test(tc, test_every_checksum);
	tcase_add_test(tc, test_wrong_stays_wrong);
	tcase_add_test(tc, test_partial);
	tcase_add_test(tc, test_error_to_the_dip);
	tcase_add_test(tc, test_error_from_the_dip);
	tcase_add_test(tc, test_short_quotes);
	tcase_add_test(tc, test_refused);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
