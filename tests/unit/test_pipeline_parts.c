/* Frames in several buffers leave as the same frames in one do, by a second worker whose buffers
 * hold them whole. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/forwarding.h"
#include "tests/unit/frames.h"
#include "tests/unit/prng.h"

#define HEADROOM 128u
#define FRONT_MAX (2048u - HEADROOM)
#define WHOLE 16384u
#define N_VIPS 4u

static struct forwarding parts, whole;
static struct snapshot *snap;
static uint8_t buf[FRAMES_MAX], got[WHOLE], want[WHOLE];
static uint64_t rng;

static const char *const addresses[N_VIPS] = {"198.51.100.1", "2001:db8::1", "198.51.100.2",
					      "198.51.100.3"};

static uint32_t pick(uint32_t n)
{
	return (uint32_t)((frames_random(&rng) >> 32) % n);
}

/* l2, ipip, gue and nat; DIPs whose way is too narrow for some frames. */
static void set_up(void)
{
	rng = frames_seed();
	forwarding_init(&parts, 64, HEADROOM, 4096);
	forwarding_init_sized(&whole, 64, HEADROOM, 4096, WHOLE);
	snap = snapshot_new(42, 8);
	ck_assert_ptr_nonnull(snap);
	for (unsigned i = 0; i < N_VIPS; i++) {
		struct vip_view *v = forwarding_vip((uint16_t)i, addresses[i], 4);
		static const uint8_t modes[N_VIPS] = {VIP_L2, VIP_IPIP, VIP_GUE, VIP_NAT};

		v->mode = modes[i];
		v->gue_port = 6080;
		v->clamp_mss = true;
		for (unsigned d = 1; d <= 4; d++)
			vip_view_dips(v)[d].mtu = d == 1 ? 4000 : 9000;
		forwarding_add(snap, v);
	}
	worker_set_snapshot(parts.worker, snap);
	worker_set_snapshot(whole.worker, snap);
	parts.worker->too_big_limit.per_s = whole.worker->too_big_limit.per_s = 1u << 20;
	parts.worker->echo_limit.per_s = whole.worker->echo_limit.per_s = 1u << 20;
}

static void tear_down(void)
{
	ck_assert_uint_eq(port_mem_n_free(parts.port), FORWARDING_FRAMES);
	ck_assert_uint_eq(port_mem_n_free(whole.port), FORWARDING_FRAMES);
	forwarding_destroy(&parts);
	forwarding_destroy(&whole);
	snapshot_free(snap);
}

static uint32_t random_frame(void)
{
	static const enum frames_sum sums[] = {FRAMES_SUM_FULL, FRAMES_SUM_PARTIAL,
					       FRAMES_SUM_PARTIAL, FRAMES_SUM_WRONG};
	struct frames_spec s;

	frames_random_spec(&rng, &s);
	unsigned vip = pick(N_VIPS);
	s.dst = frames_ip(addresses[vip]);
	s.src = frames_ip(vip == 1 ? "2001:db8:1::9" : "192.0.2.9");
	s.final_dst = s.dst;
	s.segments_left = 0;
	s.n_exts = vip == 1 ? s.n_exts % 4 : 0;
	s.v4_options_len = vip == 1 ? 0 : s.v4_options_len;
	s.payload_len = 1500 + pick(7400);
	s.sum = sums[pick(ARRAY_LEN(sums))];
	s.padding = pick(4) ? 0 : pick(9);
	bool echo = pick(20) == 0;
	if (echo) {
		s.proto = vip == 1 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
		s.n_exts = s.v4_options_len = 0;
	}
	uint32_t len = frames_build(buf, &s);
	if (echo) {
		uint8_t *icmp = buf + 14 + 4 * s.n_vlans + (vip == 1 ? 40 : 20);
		icmp[0] = vip == 1 ? 128 : 8;
		icmp[1] = 0;
	}
	return len;
}

static void compare_counters(void)
{
	const struct worker_counters *a = parts.worker->counters, *b = whole.worker->counters;

	for (int i = 0; i < N_DROP_REASONS; i++)
		ck_assert_msg(counter_read(&a->drops[i]) == counter_read(&b->drops[i]), "%s",
			      drop_reason_name[i]);
	for (unsigned i = 0; i < FORWARDING_IFACES; i++) {
		ck_assert_uint_eq(counter_read(&a->rx[i].bytes), counter_read(&b->rx[i].bytes));
		ck_assert_uint_eq(counter_read(&a->tx[i].bytes), counter_read(&b->tx[i].bytes));
		ck_assert_uint_eq(counter_read(&a->tx[i].packets), counter_read(&b->tx[i].packets));
	}
	ck_assert_uint_eq(counter_read(&a->checksums_completed),
			  counter_read(&b->checksums_completed));
	ck_assert_uint_eq(counter_read(&a->too_big_replies), counter_read(&b->too_big_replies));
	ck_assert_uint_eq(counter_read(&a->echo_replies), counter_read(&b->echo_replies));
}

START_TEST(test_random)
{
	set_up();
	for (unsigned round = 0; round < REPEATS(3000); round++) {
		uint32_t len = random_frame();
		uint32_t front = PARSE_FRONT_MIN + pick(FRONT_MAX - PARSE_FRONT_MIN + 1);

		if (front > len)
			front = len;
		ck_assert_int_eq(port_mem_inject_more(parts.port, 0, 0, buf, len, front), 0);
		ck_assert_int_eq(port_mem_inject(whole.port, 0, 0, buf, len), 0);
		ck_assert_uint_eq(worker_round(parts.worker), 1);
		ck_assert_uint_eq(worker_round(whole.worker), 1);
		for (unsigned i = 0; i < FORWARDING_IFACES; i++) {
			uint32_t n = port_mem_take(whole.port, i, want, sizeof(want));
			ck_assert_uint_eq(port_mem_take(parts.port, i, got, sizeof(got)), n);
			ck_assert_mem_eq(got, want, n);
		}
		forwarding_drain(&parts);
		forwarding_drain(&whole);
	}
	compare_counters();
	const struct worker_counters *c = parts.worker->counters;
	ck_assert_uint_gt(counter_read(&c->checksums_completed), REPEATS(3000) / 8);
	ck_assert_uint_gt(counter_read(&c->too_big_replies), REPEATS(3000) / 50);
	ck_assert_uint_gt(counter_read(&c->echo_replies), REPEATS(3000) / 100);
	tear_down();
}
END_TEST

/* Extension headers that go on behind the first buffer. */
START_TEST(test_long_chain)
{
	struct frames_spec s = {.src = frames_ip("2001:db8:1::9"),
				.dst = frames_ip("2001:db8::1"),
				.sport = 1,
				.dport = 80,
				.n_exts = 1,
				.exts = {IPPROTO_DSTOPTS},
				.payload_len = 4000};

	set_up();
	uint32_t len = frames_build(buf, &s);
	buf[14 + 40 + 1] = 200; /* (200 + 1) x 8 bytes */
	ck_assert_int_eq(port_mem_inject_more(parts.port, 0, 0, buf, len, 1600), 0);
	buf[14 + 40 + 1] = 255;
	ck_assert_int_eq(port_mem_inject_more(parts.port, 0, 0, buf, len, 1600), 0);
	ck_assert_uint_eq(worker_round(parts.worker), 2);
	ck_assert_uint_eq(counter_read(&parts.worker->counters->drops[DROP_malformed]), 2);
	tear_down();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pipeline_parts");
	TCase *tc = tcase_create("core");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_random);
	tcase_add_test(tc, test_long_chain);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int n_failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
