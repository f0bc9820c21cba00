/* Rewrites of random frames, taken apart again byte by byte; every refusal, and that it leaves all
 * as it was. What the frames look like in full is in test_golden. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "packet/ttl.h"
#include "tests/unit/frames.h"
#include "tests/unit/naive_parse.h"
#include "worker/modes.h"

#define HEADROOM 256

static const uint8_t egress_mac[6] = {2, 0, 0, 0, 1, 0}, next_hop_mac[6] = {2, 0, 0, 0, 1, 0x99};
static uint8_t buf[HEADROOM + FRAMES_MAX], before[HEADROOM + FRAMES_MAX];

struct work {
	uint8_t *data;
	uint32_t len, headroom;
	struct packet p;
	struct ip_addr dip;
	struct rewrite_to to;
};

/* Build s into buf behind the headroom, parse it, and aim it at a DIP of its family. */
static void prepare(struct work *w, const struct frames_spec *s)
{
	memset(buf, 0xcc, HEADROOM);
	w->data = buf + HEADROOM;
	w->len = frames_build(w->data, s);
	w->headroom = HEADROOM;
	memcpy(before, buf, HEADROOM + w->len);
	ck_assert_int_eq(parse_packet(w->data, w->len, &w->p), PARSE_OK);
	w->dip = frames_ip(w->p.is_v6 ? "2001:db8:d::40" : "10.20.30.40");
	w->to = (struct rewrite_to){
		.address = &w->dip,
		.dst_mac = next_hop_mac,
		.src_mac = egress_mac,
		.mtu = 65535,
		.hash = 0x0123456789abcdefu,
	};
}

static struct frames_spec plain_spec(bool v6)
{
	return (struct frames_spec){.src = frames_ip(v6 ? "2001:db8::7" : "198.51.100.7"),
				    .dst = frames_ip(v6 ? "2001:db8::80" : "192.0.2.80"),
				    .sport = 1234,
				    .dport = 80,
				    .payload_len = 100};
}

enum tunnel { IPIP, GUE, N_TUNNELS };

static const char *const dips[] = {"10.20.30.40", "2001:db8:d::40"};

static enum rewrite_result tunnel(struct work *w, enum tunnel t)
{
	return (t == GUE ? rewrite_gue : rewrite_ipip)(&w->data, &w->len, w->headroom, &w->p,
						       &w->to);
}

/* What the tunnel puts in front: counted here once more. */
static uint32_t outer_len(enum tunnel t, bool outer_v6)
{
	return (outer_v6 ? 40 : 20) + (t == GUE ? 8 + 4 : 0);
}

static void check_unchanged(const struct work *w, uint32_t len)
{
	ck_assert_ptr_eq(w->data, buf + HEADROOM);
	ck_assert_uint_eq(w->len, len);
	ck_assert_mem_eq(buf, before, HEADROOM + len);
}

START_TEST(test_l2_changes_macs_only)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < 5000; i++) {
		struct frames_spec s;
		struct work w;

		frames_random_spec(&state, &s);
		prepare(&w, &s);
		ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to), REWRITE_OK);
		ck_assert_mem_eq(w.data, next_hop_mac, 6);
		ck_assert_mem_eq(w.data + 6, egress_mac, 6);
		ck_assert_mem_eq(w.data + 12, before + HEADROOM + 12, w.len - 12);
		ck_assert_mem_eq(buf, before, HEADROOM);
	}
}
END_TEST

static void check_outer_v4(const uint8_t *ip, const struct work *w, uint32_t proto, uint32_t len)
{
	static const uint8_t dip[4] = {10, 20, 30, 40};

	ck_assert_uint_eq(ip[0], 0x45);
	ck_assert_uint_eq(ip[1], w->p.tos);
	ck_assert_uint_eq((uint32_t)ip[2] << 8 | ip[3], 20 + len);
	ck_assert_uint_eq((uint32_t)ip[4] << 8 | ip[5], 0);
	ck_assert_uint_eq((uint32_t)ip[6] << 8 | ip[7], 0x4000);
	ck_assert_uint_eq(ip[8], 64);
	ck_assert_uint_eq(ip[9], proto);
	ck_assert_uint_eq(frames_sum16(ip, 20, 0), 0xffff);
	ck_assert_uint_eq((uint32_t)ip[12] << 8 | ip[13], 172 << 8 | 16);
	ck_assert_uint_eq((uint32_t)ip[14] << 8 | ip[15], w->to.hash >> 24 & 0xffff);
	ck_assert_mem_eq(ip + 16, dip, 4);
}

static void check_outer_v6(const uint8_t *ip, const struct work *w, uint32_t proto, uint32_t len)
{
	struct {
		uint32_t first;
		uint16_t len;
		uint8_t next, hops, src[16], dst[16];
	} h;

	memcpy(&h, ip, 40);
	ck_assert_uint_eq(ntohl(h.first),
			  6u << 28 | (uint32_t)w->p.tos << 20 | (w->to.hash >> 24 & 0xfffff));
	ck_assert_uint_eq(ntohs(h.len), len);
	ck_assert_uint_eq(h.next, proto);
	ck_assert_uint_eq(h.hops, 64);
	uint8_t src[16] = {1, [13] = (uint8_t)(w->to.hash >> 40), (uint8_t)(w->to.hash >> 32),
			   (uint8_t)(w->to.hash >> 24)};
	ck_assert_mem_eq(h.src, src, 16);
	ck_assert_mem_eq(h.dst, w->dip.b, 16);
}

static void check_gue(const uint8_t *udp, const struct work *w, uint32_t proto, uint32_t len)
{
	ck_assert_uint_eq((uint32_t)udp[0] << 8 | udp[1], 49152 + (w->to.hash >> 24) % 16384);
	ck_assert_uint_eq((uint32_t)udp[2] << 8 | udp[3], w->to.gue_port);
	ck_assert_uint_eq((uint32_t)udp[4] << 8 | udp[5], 8 + 4 + len);
	ck_assert_uint_eq((uint32_t)udp[6] << 8 | udp[7], 0);
	ck_assert_uint_eq(udp[8], 0); /* variant 0, a data packet, no options */
	ck_assert_uint_eq(udp[9], proto);
	ck_assert_uint_eq((uint32_t)udp[10] << 8 | udp[11], 0); /* flags */
}

/* The packet inside: one hop less, and an IPv4 header that sums up as before; else the same. */
static void check_inner(const uint8_t *ip, const struct work *w)
{
	uint8_t *was = before + HEADROOM + w->p.l3_offset;
	uint32_t header_len = (was[0] & 15u) * 4;

	if (w->p.is_v6) {
		ck_assert_uint_eq(ip[7], was[7] - 1u);
		was[7]--;
	} else {
		ck_assert_uint_eq(ip[8], was[8] - 1u);
		ck_assert_uint_eq(frames_sum16(ip, header_len, 0),
				  frames_sum16(was, header_len, 0));
		was[8]--;
		memcpy(was + 10, ip + 10, 2);
	}
	ck_assert_mem_eq(ip, was, w->p.l3_len);
}

static void check_tunnelled(const struct work *w, enum tunnel t, bool outer_v6)
{
	uint32_t outer = outer_len(t, outer_v6), l3 = w->p.l3_offset;
	uint32_t inner_proto = w->p.is_v6 ? 41 : 4;
	uint32_t proto = t == GUE ? 17 : inner_proto;
	uint32_t ip_payload = w->p.l3_len + (t == GUE ? 8 + 4 : 0);
	struct packet out;

	ck_assert_ptr_eq(w->data, buf + HEADROOM - outer);
	ck_assert_uint_eq(w->len, l3 + outer + w->p.l3_len);
	ck_assert_mem_eq(w->data, next_hop_mac, 6);
	ck_assert_mem_eq(w->data + 6, egress_mac, 6);
	ck_assert_mem_eq(w->data + 12, before + HEADROOM + 12, l3 - 14); /* the tags */
	ck_assert_uint_eq((uint32_t)w->data[l3 - 2] << 8 | w->data[l3 - 1],
			  outer_v6 ? 0x86dd : 0x0800);
	(outer_v6 ? check_outer_v6 : check_outer_v4)(w->data + l3, w, proto, ip_payload);
	if (t == GUE)
		check_gue(w->data + l3 + outer - 12, w, inner_proto, w->p.l3_len);
	ck_assert_mem_eq(buf, before, HEADROOM - outer); /* nothing in front of the frame */
	ck_assert_int_eq(naive_parse(w->data, w->len, &out), t == GUE ? PARSE_OK : PARSE_NOT_L4);
	ck_assert(ip_addr_equal(&out.dst, &w->dip));
	check_inner(w->data + l3 + outer, w);
}

START_TEST(test_tunnels_of_random_frames)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < 40000; i++) {
		enum tunnel t = (enum tunnel)(i % N_TUNNELS);
		bool outer_v6 = i / N_TUNNELS % 2;
		struct frames_spec s;
		struct work w;

		frames_random_spec(&state, &s);
		if (s.ttl == 1)
			s.ttl = 2; /* see test_ttl */
		prepare(&w, &s);
		w.to.hash = frames_random(&state);
		w.to.gue_port = (uint16_t)frames_random(&state);
		w.dip = frames_ip(dips[outer_v6]);
		ck_assert_int_eq(tunnel(&w, t), REWRITE_OK);
		check_tunnelled(&w, t, outer_v6);
	}
}
END_TEST

static void put_check(uint8_t ip[20])
{
	ip[10] = ip[11] = 0;
	uint16_t check = (uint16_t)~frames_sum16(ip, 20, 0);
	ip[10] = (uint8_t)(check >> 8);
	ip[11] = (uint8_t)check;
}

/* Every checksum that an IPv4 header can have, against one made anew. */
START_TEST(test_ttl_lower)
{
	for (uint32_t id = 0; id < 65536; id++) {
		uint8_t ip[20] = {[0] = 0x45,
				  [3] = 40,
				  [4] = (uint8_t)(id >> 8),
				  [5] = (uint8_t)id,
				  [8] = (uint8_t)(2 + id % 254),
				  [9] = 6,
				  [12] = 198,
				  [16] = 192};
		uint8_t want[20];

		memcpy(want, ip, sizeof(ip));
		want[8]--;
		put_check(want);
		put_check(ip);
		ck_assert(!ttl_ends(ip, false));
		ttl_lower(ip, false);
		ck_assert_mem_eq(ip, want, sizeof(ip));
	}
}
END_TEST

/* A tunnel takes a hop and so needs one; the backends' segment is none. */
START_TEST(test_ttl)
{
	for (unsigned v6 = 0; v6 < 2; v6++)
		for (unsigned ttl = 0; ttl < 2; ttl++)
			for (enum tunnel t = IPIP; t < N_TUNNELS; t++) {
				struct frames_spec s = plain_spec(v6);
				struct work w;

				prepare(&w, &s);
				w.data[14 + (v6 ? 7 : 8)] = (uint8_t)ttl;
				memcpy(before, buf, HEADROOM + w.len);
				uint32_t len = w.len;
				w.to.mtu = 0; /* it is not told that it is too long for its last hop
					       */
				ck_assert_int_eq(tunnel(&w, t), REWRITE_TTL);
				check_unchanged(&w, len);
				w.to.mtu = 1500;
				ck_assert_int_eq(tunnel(&w, t), REWRITE_TTL);
				check_unchanged(&w, len);
				ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to),
						 REWRITE_OK);
				ck_assert_uint_eq(w.data[14 + (v6 ? 7 : 8)], ttl);
			}
}
END_TEST

/* One frame of each family over each tunnel to a DIP of each. */
static void each_tunnel(void (*check)(struct frames_spec *s, enum tunnel t, const char *dip,
				      uint32_t outer))
{
	for (unsigned v6 = 0; v6 < 2; v6++)
		for (unsigned outer_v6 = 0; outer_v6 < 2; outer_v6++)
			for (enum tunnel t = IPIP; t < N_TUNNELS; t++) {
				struct frames_spec s = plain_spec(v6);
				check(&s, t, dips[outer_v6], outer_len(t, outer_v6));
			}
}

static void prepare_to(struct work *w, const struct frames_spec *s, const char *dip)
{
	prepare(w, s);
	w->dip = frames_ip(dip);
}

static void check_mtu(struct frames_spec *s, enum tunnel t, const char *dip, uint32_t outer)
{
	/* Tags and padding are no part of what the MTU limits. */
	for (s->n_vlans = 0, s->padding = 30; s->n_vlans <= 2; s->n_vlans++) {
		struct work w;

		prepare_to(&w, s, dip);
		uint32_t len = w.len;
		w.to.mtu = w.p.l3_len - 1u;
		ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to), REWRITE_TOO_BIG);
		check_unchanged(&w, len);
		w.to.mtu = w.p.l3_len + outer - 1;
		ck_assert_int_eq(tunnel(&w, t), REWRITE_TOO_BIG);
		check_unchanged(&w, len);
		w.to.mtu = 0;
		ck_assert_int_eq(tunnel(&w, t), REWRITE_TOO_BIG);
		ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to), REWRITE_TOO_BIG);
		check_unchanged(&w, len);
		w.to.mtu = w.p.l3_len;
		ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to), REWRITE_OK);
		prepare_to(&w, s, dip);
		w.to.mtu = w.p.l3_len + outer;
		ck_assert_int_eq(tunnel(&w, t), REWRITE_OK);
	}
}

START_TEST(test_mtu)
{
	each_tunnel(check_mtu);
}
END_TEST

static void check_longest(struct frames_spec *s, enum tunnel t, const char *dip, uint32_t outer)
{
	struct work w;

	s->payload_len = 65535 - outer - (ip_addr_is_v4(&s->dst) ? 20 : 40) - 20;
	prepare_to(&w, s, dip);
	w.to.mtu = UINT32_MAX;
	ck_assert_int_eq(tunnel(&w, t), REWRITE_OK);
	s->payload_len++;
	prepare_to(&w, s, dip);
	uint32_t len = w.len;
	w.to.mtu = UINT32_MAX;
	ck_assert_int_eq(tunnel(&w, t), REWRITE_TOO_BIG);
	check_unchanged(&w, len);
}

/* No outer header can say more than 65,535 bytes, whatever the interface carries. */
START_TEST(test_longest_packet)
{
	each_tunnel(check_longest);
}
END_TEST

static void check_headroom(struct frames_spec *s, enum tunnel t, const char *dip, uint32_t outer)
{
	struct work w;

	prepare_to(&w, s, dip);
	uint32_t len = w.len;
	for (w.headroom = 0; w.headroom < outer; w.headroom++) {
		ck_assert_int_eq(tunnel(&w, t), REWRITE_NO_HEADROOM);
		check_unchanged(&w, len);
	}
	ck_assert_int_eq(tunnel(&w, t), REWRITE_OK);
}

START_TEST(test_headroom)
{
	each_tunnel(check_headroom);
}
END_TEST

static void check_overhead(struct frames_spec *s, enum tunnel t, const char *dip, uint32_t outer)
{
	struct ip_addr a = frames_ip(dip);

	(void)s;
	ck_assert_uint_eq(modes_overhead(t == GUE ? VIP_GUE : VIP_IPIP, &a), outer);
	ck_assert_uint_eq(modes_overhead(VIP_L2, &a), 0);
	ck_assert_uint_le(outer, REWRITE_OUTER_MAX);
}

START_TEST(test_overhead)
{
	each_tunnel(check_overhead);
}
END_TEST

/* Flows of one Dcode (equal low bits) and one fingerprint (equal high bits) still spread. */
START_TEST(test_outer_sources_spread)
{
	static bool seen[65536], seen_port[65536];
	unsigned n = 0, n_ports = 0;

	for (unsigned v6 = 0; v6 < 2; v6++, n = n_ports = 0) {
		struct frames_spec s = plain_spec(v6);
		struct work w;

		memset(seen, 0, sizeof(seen));
		memset(seen_port, 0, sizeof(seen_port));
		for (uint64_t k = 0; k < 65536; k++) {
			prepare(&w, &s);
			w.to.hash = 0xfeed000000c0ffeeu | k << 24;
			ck_assert_int_eq(tunnel(&w, GUE), REWRITE_OK);
			const uint8_t *src_end = w.data + 14 + (v6 ? 24 : 16);
			const uint8_t *udp = w.data + 14 + (v6 ? 40 : 20);
			unsigned low = (unsigned)src_end[-2] << 8 | src_end[-1];
			unsigned port = (unsigned)udp[0] << 8 | udp[1];
			n += !seen[low];
			n_ports += !seen_port[port];
			seen[low] = seen_port[port] = true;
		}
		ck_assert_uint_eq(n, 65536);
		ck_assert_uint_eq(n_ports, 65536 - 49152);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rewrite");
	TCase *tc = tcase_create("rewrite");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_l2_changes_macs_only);
	tcase_add_test(tc, test_tunnels_of_random_frames);
	tcase_add_test(tc, test_ttl_lower);
	tcase_add_test(tc, test_ttl);
	tcase_add_test(tc, test_mtu);
	tcase_add_test(tc, test_longest_packet);
	tcase_add_test(tc, test_headroom);
	tcase_add_test(tc, test_overhead);
	tcase_add_test(tc, test_outer_sources_spread);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
