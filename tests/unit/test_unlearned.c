/* Learning where no SYN helps: openings lost to a full ring, connections met in mid-stream, UDP. A
 * flow is held from its first record on, by whichever packet; what is carried before is counted, or
 * dropped if the VIP says so. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

static struct world *w;

static void start(enum learn_overflow overflow)
{
	struct control_request r = {.op = OP_VIP_PATCH, .vip = "web"};

	w = world_new(1, 1 << 18);
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	vip_conf_defaults(&r.vip_edit.conf);
	r.vip_edit.members = VIP_M_ON_LEARN_OVERFLOW;
	r.vip_edit.conf.on_learn_overflow = overflow;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
	for (unsigned d = 1; d <= 4; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

static void end(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}

/* Move most Dcodes. */
static void change_pool(void)
{
	world_set_weight(w, "web", 1, 0);
	world_set_weight(w, "web", 2, 1);
	world_put_dip(w, "web", 9, 40, CONTROL_CREATED);
}

static uint64_t dropped(void)
{
	return counter_read(&w->workers[0]->counters->drops[DROP_learn_overflow]);
}

/* Fill a ring with other flows, from number `from` on, while control does not look. */
static void fill(enum learn_ring_id ring, uint32_t from)
{
	const struct learn_ring *r = w->workers[0]->learn.rings[ring];

	while (learn_ring_count(r) < r->n) {
		if (ring == RING_OPENING)
			world_tcp(w, 0, from++, FRAMES_SYN, 0);
		else
			world_udp(w, 0, from++);
	}
}

enum { N = 1000, OTHERS = 100000 };

/* A SYN whose record is lost is carried; the ACK that follows makes the flow known. */
START_TEST(a_lost_opening_is_made_good)
{
	static unsigned first[N];

	start(OVERFLOW_FORWARD);
	fill(RING_OPENING, OTHERS);
	for (uint32_t i = 0; i < N; i++) {
		first[i] = world_tcp(w, 0, i, FRAMES_SYN, 0);
		ck_assert_uint_ne(first[i], 0);
	}
	ck_assert_uint_eq(world_consistency(w).flows_unlearned_total, N);
	world_settle(w);
	uint64_t others = world_consistency(w).flows_known;
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, FRAMES_ACK, 0), first[i]);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, others + N);
	change_pool();
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 10), first[i]);
	ck_assert_uint_eq(world_consistency(w).flows_unlearned_total, N);
	ck_assert_uint_eq(dropped(), 0);
	end();
}
END_TEST

/* Strict: nothing is carried that is not known, and the client's next try is held like any other.
 */
START_TEST(a_lost_opening_is_dropped)
{
	static unsigned first[N];

	start(OVERFLOW_DROP);
	fill(RING_OPENING, OTHERS);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, FRAMES_SYN, 0), 0);
	ck_assert_uint_eq(dropped(), N);
	world_settle(w);
	for (uint32_t i = 0; i < N; i++)
		first[i] = world_tcp(w, 0, i, FRAMES_SYN, 0);
	change_pool();
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 10), first[i]);
	ck_assert_uint_eq(dropped(), N);
	ck_assert_uint_eq(world_consistency(w).flows_unlearned_total, 0);
	end();
}
END_TEST

START_TEST(datagrams_fare_alike)
{
	static unsigned first[N];

	for (int overflow = OVERFLOW_FORWARD; overflow <= OVERFLOW_DROP; overflow++) {
		start(overflow);
		fill(RING_DATAGRAM, OTHERS);
		uint64_t unlearned = world_consistency(w).flows_unlearned_total;
		for (uint32_t i = 0; i < N; i++)
			ck_assert_int_eq(world_udp(w, 0, i) == 0, overflow == OVERFLOW_DROP);
		ck_assert_uint_eq(world_consistency(w).flows_unlearned_total - unlearned,
				  overflow == OVERFLOW_DROP ? 0 : N);
		ck_assert_uint_eq(dropped(), overflow == OVERFLOW_DROP ? N : 0);
		world_settle(w);
		for (uint32_t i = 0; i < N; i++)
			first[i] = world_udp(w, 0, i);
		change_pool();
		for (uint32_t i = 0; i < N; i++)
			ck_assert_uint_eq(world_udp(w, 0, i), first[i]);
		/* TCP's ring was not touched by it. */
		ck_assert_uint_ne(world_tcp(w, 0, N, FRAMES_SYN, 0), 0);
		end();
	}
}
END_TEST

/* After a reboot without pool changes every flow is where it was; met again, it is held there. */
START_TEST(flows_met_in_mid_stream_are_held)
{
	static unsigned first[2 * N];

	start(OVERFLOW_FORWARD);
	for (uint32_t i = 0; i < 2 * N; i++)
		first[i] = i % 2 ? world_udp(w, 0, i) : world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	world_restart(w, WORLD_REBOOT);
	ck_assert_uint_eq(world_consistency(w).flows_known, 0);
	for (uint32_t i = 0; i < 2 * N; i++)
		ck_assert_uint_eq(i % 2 ? world_udp(w, 0, i) : world_tcp(w, 0, i, PSH_ACK, 1),
				  first[i]);
	world_settle(w);
	struct consistency c = world_consistency(w);
	ck_assert_uint_eq(c.flows_known, 2 * N);
	ck_assert_uint_eq(c.flows_unproven, 2 * N);
	world_advance_ms(6000); /* the hold is over */
	change_pool();
	for (uint32_t i = 0; i < 2 * N; i++)
		ck_assert_uint_eq(i % 2 ? world_udp(w, 0, i) : world_tcp(w, 0, i, PSH_ACK, 1),
				  first[i]);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_established, 2 * N); /* proven by now */
	end();
}
END_TEST

/* A UDP flow lasts as long as it speaks more often than its time-out says, and no longer. */
START_TEST(datagram_flows_live_by_their_time_out)
{
	uint32_t i = 0;

	start(OVERFLOW_FORWARD);
	while (world_udp(w, 0, i) != 1)
		i++;
	world_settle(w);
	change_pool();
	for (unsigned k = 0; k < 10; k++) {
		world_advance_ms(59000);
		world_settle(w);
		ck_assert_uint_eq(world_udp(w, 0, i), 1);
		world_settle(w);
	}
	world_advance_ms(66000); /* 60 s and a refresh interval */
	world_settle(w);
	world_advance_ms(1100);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, 0);
	ck_assert_uint_ne(world_udp(w, 0, i), 1); /* b1 has no weight any more */
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("unlearned");
	TCase *t = tcase_create("unlearned");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_lost_opening_is_made_good);
	tcase_add_test(t, a_lost_opening_is_dropped);
	tcase_add_test(t, datagrams_fare_alike);
	tcase_add_test(t, flows_met_in_mid_stream_are_held);
	tcase_add_test(t, datagram_flows_live_by_their_time_out);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
