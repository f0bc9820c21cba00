/* How flows live and end, at the size of what really happens: spoofed segments against live flows,
 * a proxy that uses its ports again, alarms that were false, senders that never hear an answer. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)
#define FIN_ACK (FRAMES_FIN | FRAMES_ACK)

enum {
	DIPS = 4,
	LIVE = 2000,
	PORTS = 28000, /* of the proxy's address */
	PER_S = 1000,  /* its connections */
	SLICES = 20,   /* of a second */
};

static struct world *w;
static uint8_t home[LIVE];

static void start(enum vip_protocol protocol, uint64_t n_flows)
{
	w = world_new(2, n_flows);
	world_put_vip(w, "web", protocol, CONTROL_CREATED);
	for (unsigned d = 1; d <= DIPS; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

static void end(void)
{
	struct consistency c = world_consistency(w);

	ck_assert_uint_eq(c.violations_total + c.flows_forgotten_total + c.flows_unlearned_total,
			  0);
	world_free(w);
}

static void open_all(void)
{
	for (uint32_t i = 0; i < LIVE; i++) {
		home[i] = (uint8_t)world_tcp(w, i & 1, i, FRAMES_SYN, 0);
		expect(home[i] != 0);
		expect(world_tcp(w, i & 1, i, PSH_ACK, 10) == home[i]);
	}
	world_settle(w);
}

static void all_speak(uint8_t flags, uint32_t payload)
{
	for (uint32_t i = 0; i < LIVE; i++)
		if (world_tcp(w, i & 1, i, flags, payload) != home[i])
			ck_abort_msg("flow %u has left DIP %u", i, home[i]);
	world_settle(w);
}

static void wait_s(unsigned seconds)
{
	for (unsigned k = 0; k < seconds * 10; k++) {
		world_advance_ms(100);
		world_settle(w);
	}
}

/* Half of the homes change, back and forth: whatever has lost its place shows. */
static void shake(unsigned turn)
{
	for (unsigned d = 1; d <= DIPS; d++)
		world_set_weight(w, "web", d, (d + turn) & 1 ? 40 : 1);
}

/* _i: a SYN, a FIN or a RST that the client has not sent, by its own queue or (in odd turns) by
 * another interface's, whose worker has not seen the flow. The flow speaks again within
 * closing_pin_s. By a bare ACK first, in odd turns; then its own worker may find that there is
 * nothing new to tell, and the flow is still closing, so that it has to go on speaking. */
START_TEST(spoofed_segments_move_no_flow_that_speaks)
{
	static const uint8_t spoofed[] = {FRAMES_SYN, FIN_ACK, FRAMES_RST};

	start(VIP_TCP, 16384);
	open_all();
	for (unsigned turn = 0; turn < 4; turn++) {
		for (uint32_t i = 0; i < LIVE; i++)
			world_tcp(w, (i + turn) & 1, i, spoofed[_i], 0);
		world_settle(w);
		shake(turn);
		wait_s(14);
		shake(turn + 1);
		all_speak(turn & 1 ? FRAMES_ACK : PSH_ACK, turn & 1 ? 0 : 10);
		all_speak(PSH_ACK, 10);
		wait_s(turn & 1 ? 14 : 30);
		shake(turn);
		all_speak(PSH_ACK, 10);
	}
	ck_assert_uint_eq(world_consistency(w).flows_lost_total, 0);
	end();
}
END_TEST

static unsigned proxy_send(uint32_t connection, uint8_t flags, uint32_t payload)
{
	struct frames_spec s = {.src = frames_ip("10.1.2.3"),
				.dst = frames_ip(WORLD_VIP_ADDRESS),
				.sport = (uint16_t)(32768 + connection % PORTS),
				.dport = 80,
				.tcp_flags = flags,
				.payload_len = payload};

	return world_send(w, connection & 1, &s);
}

/* Connections that come and go for this long; of those of the last second, how many a DIP got. */
static unsigned proxy_run(uint32_t *connection, unsigned seconds, unsigned dip)
{
	unsigned got = 0;

	for (unsigned slice = 0; slice < seconds * SLICES; slice++) {
		for (unsigned k = 0; k < PER_S / SLICES; k++) {
			uint32_t c = (*connection)++;
			unsigned on = proxy_send(c, FRAMES_SYN, 0);
			expect(on != 0);
			expect(proxy_send(c, PSH_ACK, 10) == on);
			expect(proxy_send(c, FIN_ACK, 0) == on);
			got += on == dip && slice >= (seconds - 1) * SLICES;
		}
		world_advance_ms(1000 / SLICES);
		world_settle(w);
	}
	return got;
}

/* One address, 1,000 connections a second, so each of its ports again after 28 s. */
START_TEST(a_proxy_follows_the_weights_within_a_minute)
{
	uint32_t connection = 0;

	start(VIP_TCP, 131072);
	proxy_run(&connection, 30, 1);
	world_put_dip(w, "web", 9, 10, CONTROL_CREATED);
	unsigned got = proxy_run(&connection, 60, 9);
	printf("new DIP: %u of %u connections, its share is %u\n", got, PER_S, PER_S / (DIPS + 1));
	/* the share of one in five, give or take five standard deviations */
	ck_assert_uint_ge(got, PER_S / (DIPS + 1) - 63);
	ck_assert_uint_le(got, PER_S / (DIPS + 1) + 63);
	ck_assert_uint_gt(world_dip_flows(w, "web", 1), 1000);
	world_delete_dip(w, "web", 1, false);
	ck_assert_uint_eq(proxy_run(&connection, 60, 1), 0);
	uint64_t left = world_dip_flows(w, "web", 1);
	ck_assert_msg(left == 0 || left == UINT64_MAX, "%lu left", (unsigned long)left);
	end();
}
END_TEST

/* Each DIP is down for two seconds, in turn, while nobody speaks. */
START_TEST(a_false_alarm_moves_no_idle_flow)
{
	start(VIP_TCP, 16384);
	open_all();
	for (unsigned d = 1; d <= DIPS; d++) {
		shake(d);
		world_set_admin(w, "web", d, ADMIN_DOWN);
		wait_s(2);
		world_set_admin(w, "web", d, ADMIN_UP);
		wait_s(1);
	}
	all_speak(PSH_ACK, 10);
	ck_assert_uint_eq(world_consistency(w).flows_lost_total, 0);
	end();
}
END_TEST

/* Its backend is down and answers nothing, the sender goes on all the same. */
START_TEST(a_one_way_sender_is_rehomed_by_its_next_packet)
{
	unsigned n_lost = 0;

	start(VIP_UDP, 16384);
	for (uint32_t i = 0; i < LIVE; i++)
		home[i] = (uint8_t)world_udp(w, i & 1, i);
	world_settle(w);
	world_set_admin(w, "web", 2, ADMIN_DOWN);
	for (uint32_t i = 0; i < LIVE; i++) {
		unsigned on = world_udp(w, i & 1, i);
		expect(on != 0 && on != 2);
		expect(home[i] == 2 || on == home[i]);
		n_lost += home[i] == 2;
		home[i] = (uint8_t)on;
	}
	world_settle(w);
	ck_assert_uint_gt(n_lost, LIVE / 8);
	ck_assert_uint_eq(world_consistency(w).flows_lost_total, n_lost);
	/* For good: it stays there when its old one is back. */
	world_set_admin(w, "web", 2, ADMIN_UP);
	for (uint32_t i = 0; i < LIVE; i++)
		expect(world_udp(w, i & 1, i) == home[i]);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("flow_life");
	TCase *t = tcase_create("flow_life");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, spoofed_segments_move_no_flow_that_speaks, 0, 3);
	tcase_add_test(t, a_proxy_follows_the_weights_within_a_minute);
	tcase_add_test(t, a_false_alarm_moves_no_idle_flow);
	tcase_add_test(t, a_one_way_sender_is_rehomed_by_its_next_packet);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
