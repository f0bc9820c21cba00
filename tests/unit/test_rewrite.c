/* Rewrites of random frames, taken apart again byte by byte; every refusal, and that it leaves all
 * as it was. What the frames look like in full is in test_golden. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "packet/rewrite.h"
#include "tests/unit/frames.h"
#include "tests/unit/naive_parse.h"

#define HEADROOM 256

static const uint8_t egress_mac[6] = {2, 0, 0, 0, 1, 0}, next_hop_mac[6] = {2, 0, 0, 0, 1, 0x99};
static uint8_t buf[HEADROOM + FRAMES_MAX], before[HEADROOM + FRAMES_MAX];

struct work {
	uint8_t *data;
	uint32_t len, headroom;
	struct packet p;
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
	w->to = (struct rewrite_to){
		.address = frames_ip(w->p.is_v6 ? "2001:db8:d::40" : "10.20.30.40"),
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

static enum rewrite_result ipip(struct work *w)
{
	return rewrite_ipip(&w->data, &w->len, w->headroom, &w->p, &w->to);
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

static void check_outer_v4(const uint8_t *ip, const struct work *w, uint32_t inner_len)
{
	static const uint8_t dip[4] = {10, 20, 30, 40};

	ck_assert_uint_eq(ip[0], 0x45);
	ck_assert_uint_eq(ip[1], w->p.tos);
	ck_assert_uint_eq((uint32_t)ip[2] << 8 | ip[3], 20 + inner_len);
	ck_assert_uint_eq((uint32_t)ip[4] << 8 | ip[5], 0);
	ck_assert_uint_eq((uint32_t)ip[6] << 8 | ip[7], 0x4000);
	ck_assert_uint_eq(ip[8], 64);
	ck_assert_uint_eq(ip[9], 4);
	ck_assert_uint_eq(frames_sum16(ip, 20, 0), 0xffff);
	ck_assert_uint_eq((uint32_t)ip[12] << 8 | ip[13], 172 << 8 | 16);
	ck_assert_uint_eq((uint32_t)ip[14] << 8 | ip[15], w->to.hash >> 24 & 0xffff);
	ck_assert_mem_eq(ip + 16, dip, 4);
}

static void check_outer_v6(const uint8_t *ip, const struct work *w, uint32_t inner_len)
{
	struct {
		uint32_t first;
		uint16_t len;
		uint8_t next, hops, src[16], dst[16];
	} h;

	memcpy(&h, ip, 40);
	ck_assert_uint_eq(ntohl(h.first),
			  6u << 28 | (uint32_t)w->p.tos << 20 | (w->to.hash >> 24 & 0xfffff));
	ck_assert_uint_eq(ntohs(h.len), inner_len);
	ck_assert_uint_eq(h.next, 41);
	ck_assert_uint_eq(h.hops, 64);
	uint8_t src[16] = {1, [13] = (uint8_t)(w->to.hash >> 40), (uint8_t)(w->to.hash >> 32),
			   (uint8_t)(w->to.hash >> 24)};
	ck_assert_mem_eq(h.src, src, 16);
	ck_assert_mem_eq(h.dst, w->to.address.b, 16);
}

START_TEST(test_ipip_of_random_frames)
{
	uint64_t state = frames_seed();

	for (unsigned i = 0; i < 20000; i++) {
		struct frames_spec s;
		struct work w;
		struct packet out;

		frames_random_spec(&state, &s);
		prepare(&w, &s);
		w.to.hash = frames_random(&state);
		uint32_t outer = w.p.is_v6 ? 40 : 20, l3 = w.p.l3_offset;
		ck_assert_int_eq(ipip(&w), REWRITE_OK);
		ck_assert_ptr_eq(w.data, buf + HEADROOM - outer);
		ck_assert_uint_eq(w.len, l3 + outer + w.p.l3_len);
		ck_assert_mem_eq(w.data, next_hop_mac, 6);
		ck_assert_mem_eq(w.data + 6, egress_mac, 6);
		ck_assert_mem_eq(w.data + 12, before + HEADROOM + 12, l3 - 12);
		if (w.p.is_v6)
			check_outer_v6(w.data + l3, &w, w.p.l3_len);
		else
			check_outer_v4(w.data + l3, &w, w.p.l3_len);
		ck_assert_mem_eq(w.data + l3 + outer, before + HEADROOM + l3, w.p.l3_len);
		ck_assert_mem_eq(buf, before, HEADROOM - outer); /* nothing in front of the frame */
		ck_assert_int_eq(naive_parse(w.data, w.len, &out), PARSE_NOT_L4);
		ck_assert(ip_addr_equal(&out.dst, &w.to.address));
	}
}
END_TEST

START_TEST(test_mtu)
{
	for (unsigned v6 = 0; v6 < 2; v6++)
		for (unsigned n_vlans = 0; n_vlans <= 2; n_vlans++) {
			struct frames_spec s = plain_spec(v6);
			uint32_t outer = v6 ? 40 : 20;
			struct work w;

			s.n_vlans =
				n_vlans; /* tags and padding are no part of what the MTU limits */
			s.padding = 30;
			prepare(&w, &s);
			uint32_t len = w.len;
			w.to.mtu = w.p.l3_len - 1u;
			ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to), REWRITE_TOO_BIG);
			check_unchanged(&w, len);
			w.to.mtu = w.p.l3_len + outer - 1;
			ck_assert_int_eq(ipip(&w), REWRITE_TOO_BIG);
			check_unchanged(&w, len);
			w.to.mtu = 0;
			ck_assert_int_eq(ipip(&w), REWRITE_TOO_BIG);
			ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to), REWRITE_TOO_BIG);
			check_unchanged(&w, len);
			w.to.mtu = w.p.l3_len;
			ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to), REWRITE_OK);
			prepare(&w, &s);
			w.to.mtu = w.p.l3_len + outer;
			ck_assert_int_eq(ipip(&w), REWRITE_OK);
		}
}
END_TEST

/* No outer header can say more than 65,535 bytes, whatever the interface carries. */
START_TEST(test_longest_packet)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct frames_spec s = plain_spec(v6);
		uint32_t outer = v6 ? 40 : 20;
		struct work w;

		s.payload_len =
			65535 - outer - outer - 20; /* outer: as long as the inner IP header */
		prepare(&w, &s);
		w.to.mtu = UINT32_MAX;
		ck_assert_int_eq(ipip(&w), REWRITE_OK);
		s.payload_len++;
		prepare(&w, &s);
		uint32_t len = w.len;
		w.to.mtu = UINT32_MAX;
		ck_assert_int_eq(ipip(&w), REWRITE_TOO_BIG);
		check_unchanged(&w, len);
	}
}
END_TEST

START_TEST(test_headroom)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct frames_spec s = plain_spec(v6);
		struct work w;

		prepare(&w, &s);
		uint32_t len = w.len;
		for (w.headroom = 0; w.headroom < (v6 ? 40 : 20); w.headroom++) {
			ck_assert_int_eq(ipip(&w), REWRITE_NO_HEADROOM);
			check_unchanged(&w, len);
		}
		ck_assert_int_eq(ipip(&w), REWRITE_OK);
	}
}
END_TEST

START_TEST(test_family)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct frames_spec s = plain_spec(v6);
		struct work w;

		prepare(&w, &s);
		uint32_t len = w.len;
		w.to.address = frames_ip(v6 ? "10.20.30.40" : "2001:db8:d::40");
		ck_assert_int_eq(ipip(&w), REWRITE_FAMILY);
		check_unchanged(&w, len);
		/* l2 goes by MAC address: the DIP's own family does not matter. */
		ck_assert_int_eq(rewrite_l2(w.data, w.len, &w.p, &w.to), REWRITE_OK);
	}
}
END_TEST

/* Flows of one Dcode (equal low bits) and one fingerprint (equal high bits) still spread. */
START_TEST(test_outer_sources_spread)
{
	static bool seen[65536];
	unsigned n = 0;

	for (unsigned v6 = 0; v6 < 2; v6++, n = 0) {
		struct frames_spec s = plain_spec(v6);
		struct work w;

		memset(seen, 0, sizeof(seen));
		for (uint64_t k = 0; k < 65536; k++) {
			prepare(&w, &s);
			w.to.hash = 0xfeed000000c0ffeeu | k << 24;
			ck_assert_int_eq(ipip(&w), REWRITE_OK);
			const uint8_t *src_end = w.data + 14 + (v6 ? 24 : 16);
			unsigned low = (unsigned)src_end[-2] << 8 | src_end[-1];
			n += !seen[low];
			seen[low] = true;
		}
		ck_assert_uint_eq(n, 65536);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rewrite");
	TCase *tc = tcase_create("rewrite");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_l2_changes_macs_only);
	tcase_add_test(tc, test_ipip_of_random_frames);
	tcase_add_test(tc, test_mtu);
	tcase_add_test(tc, test_longest_packet);
	tcase_add_test(tc, test_headroom);
	tcase_add_test(tc, test_family);
	tcase_add_test(tc, test_outer_sources_spread);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
