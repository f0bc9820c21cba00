/* QUIC Initial packets: found in frames as a naive reader finds them, and openings to control. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/port_mem.h"
#include "packet/parse.h"
#include "packet/quic.h"
#include "tests/unit/naive_parse.h"
#include "tests/unit/world.h"

#define V4_PAYLOAD 42 /* Ethernet, IPv4, UDP */
#define V6_PAYLOAD 62

/* --- telling -------------------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	uint8_t first;
	uint32_t version;
	uint8_t cid_len;
	uint32_t len;
	bool initial;
} cases[] = {
	{"version 1", 0xc0, 1, 8, 1200, true},
	{"version 1, largest id", 0xcf, 1, 20, 1452, true},
	{"version 2", 0xd0, 0x6b3343cf, 8, 1200, true},
	{"a draft", 0xc3, 0xff00001d, 8, 1200, true},
	{"a version to be negotiated", 0xc3, 0x1a2a3a4a, 0, 1200, true},
	{"version negotiation", 0xc0, 0, 8, 1200, false},
	{"version 1, 0-RTT", 0xd0, 1, 8, 1200, false},
	{"version 1, handshake", 0xe0, 1, 8, 1200, false},
	{"version 1, retry", 0xf0, 1, 8, 1200, false},
	{"version 2, retry", 0xc0, 0x6b3343cf, 8, 1200, false},
	{"version 2, 0-RTT", 0xe0, 0x6b3343cf, 8, 1200, false},
	{"short header", 0x40, 1, 8, 1200, false},
	{"no fixed bit", 0x80, 1, 8, 1200, false},
	{"id too long", 0xc0, 1, 21, 1200, false},
	{"not padded", 0xc0, 1, 8, 1199, false},
	{"one byte", 0xc0, 1, 8, 1, false},
	{"empty", 0xc0, 1, 8, 0, false},
};

static void put_header(uint8_t *b, uint8_t first, uint32_t version, uint8_t cid_len)
{
	b[0] = first;
	b[1] = (uint8_t)(version >> 24);
	b[2] = (uint8_t)(version >> 16);
	b[3] = (uint8_t)(version >> 8);
	b[4] = (uint8_t)version;
	b[5] = cid_len;
}

START_TEST(initials_are_told)
{
	static uint8_t b[2048];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		put_header(b, cases[i].first, cases[i].version, cases[i].cid_len);
		ck_assert_msg(quic_is_initial(b, cases[i].len) == cases[i].initial, "%s",
			      cases[i].name);
	}
}
END_TEST

/* Frames that are nearly Initials, cut at any length: as the naive reader says, and nothing is read
 * behind them. */
START_TEST(frames_are_parsed_like_naively)
{
	enum { ROUNDS = 40000 };
	static uint8_t buf[FRAMES_MAX];
	uint64_t rng = frames_seed();
	unsigned n_initial = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		bool v6 = frames_random(&rng) % 2;
		struct frames_spec s = {.src = frames_ip(v6 ? "fd09::1" : "10.1.2.3"),
					.dst = frames_ip(v6 ? "fd09::100" : "10.9.0.100"),
					.sport = 4433,
					.dport = 443,
					.proto = IPPROTO_UDP,
					.udp_surplus = frames_random(&rng) % 4 ? 0 : 30,
					.payload_len = (uint32_t)(1195 + frames_random(&rng) % 10)};
		uint32_t len = frames_build(buf, &s);
		static const uint32_t versions[] = {0, 1, 2, 0x6b3343cf, 0xff00001d};
		put_header(buf + (v6 ? V6_PAYLOAD : V4_PAYLOAD),
			   (uint8_t)(0xc0 ^ (frames_random(&rng) % 4 ? 0 : frames_random(&rng))),
			   versions[frames_random(&rng) % 5], (uint8_t)(frames_random(&rng) % 24));
		if (frames_random(&rng) % 8 == 0)
			len -= (uint32_t)(frames_random(&rng) % len);
		const uint8_t *data = frames_guarded(buf, len);
		struct packet p, want;
		enum parse_result got = parse_packet(data, len, &p);
		ck_assert_int_eq(got, naive_parse(data, len, &want));
		ck_assert(naive_packet_equal(&p, &want, got));
		n_initial += got == PARSE_OK && p.segment == SEG_INITIAL;
	}
	ck_assert_uint_gt(n_initial, ROUNDS / 20);
	ck_assert_uint_lt(n_initial, ROUNDS / 2);
}
END_TEST

/* --- to control ----------------------------------------------------------------------------------
 */

static struct world *w;

/* A datagram of flow i, an Initial or not; the DIP it went to. */
static unsigned send_quic(uint32_t i, bool initial)
{
	static uint8_t buf[FRAMES_MAX];
	uint8_t src[4] = {10, 1, (uint8_t)(i >> 8), (uint8_t)i}, out[2048];
	struct frames_spec s = {.src = ip_addr_v4(src),
				.dst = frames_ip(WORLD_VIP_ADDRESS),
				.sport = 4433,
				.dport = 80,
				.proto = IPPROTO_UDP,
				.payload_len = 1200};
	uint32_t len = frames_build(buf, &s);

	put_header(buf + V4_PAYLOAD, initial ? 0xc0 : 0x40, 1, 8);
	int rc = port_mem_inject(w->ports[0], 0, 0, buf, len);
	ck_assert_int_eq(rc, 0);
	worker_round(w->workers[0]);
	return port_mem_take(w->ports[0], 0, out, sizeof(out)) ? out[5] : 0;
}

static uint64_t oldest_age_s(void)
{
	size_t n;
	struct vip_info *v = control_read_vips(w->control, "web", false, &n);
	uint64_t age = v->drain.oldest_age_s;

	ck_assert(v->drain.on);
	vip_infos_free(v, n);
	return age;
}

/* A new connection on a tuple that is known dates the flow's opening anew; other datagrams do not.
 */
START_TEST(an_initial_opens)
{
	w = world_new(1, 65536);
	world_put_vip(w, "web", VIP_UDP, CONTROL_CREATED);
	world_put_dip(w, "web", 1, 1, CONTROL_CREATED);
	ck_assert_uint_eq(send_quic(1, true), 1);
	ck_assert_uint_eq(learn_ring_count(w->workers[0]->learn.rings[RING_OPENING]), 1);
	ck_assert_uint_eq(send_quic(2, false), 1);
	ck_assert_uint_eq(learn_ring_count(w->workers[0]->learn.rings[RING_DATAGRAM]), 1);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, 2);
	ck_assert_uint_eq(world_consistency(w).flows_unproven, 2);
	struct control_request r = {.op = OP_VIP_DELETE, .vip = "web"};
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_ACCEPTED);
	for (unsigned k = 0; k < 3; k++) {
		world_advance_ms(10000);
		send_quic(1, false);
		send_quic(2, false);
		world_settle(w);
	}
	ck_assert_uint_eq(world_consistency(w).flows_established, 2);
	ck_assert_uint_eq(oldest_age_s(), 30);
	send_quic(1, true);
	world_settle(w);
	ck_assert_uint_eq(oldest_age_s(), 30); /* flow 2 */
	send_quic(2, true);
	world_settle(w);
	ck_assert_uint_eq(oldest_age_s(), 0);
	ck_assert_uint_eq(world_consistency(w).flows_opened_total, 2);
	world_free(w);
}
END_TEST

/* Connections stay while the pool changes, whichever way they were learned. */
START_TEST(connections_stay)
{
	enum { N = 2000 };
	static unsigned first[N];

	w = world_new(1, 65536);
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	for (unsigned d = 1; d <= 4; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
	for (uint32_t i = 0; i < N; i++)
		first[i] = send_quic(i, i % 4 != 0);
	for (unsigned d = 1; d <= 4; d++) {
		world_set_weight(w, "web", d, d * 5 - 5);
		world_put_dip(w, "web", 10 + d, 20, CONTROL_CREATED);
		world_advance_ms(3000);
		for (uint32_t i = 0; i < N; i++)
			ck_assert_uint_eq(send_quic(i, i % 16 == d), first[i]);
	}
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("quic");
	TCase *t = tcase_create("quic");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, initials_are_told);
	tcase_add_test(t, frames_are_parsed_like_naively);
	tcase_add_test(t, an_initial_opens);
	tcase_add_test(t, connections_stay);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
