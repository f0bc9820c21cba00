/* affinity: client. All connections of one client address, TCP and UDP, to any port, are on one
 * DIP, whatever becomes of the pool and of the single connections. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

static struct world *w;

static void start(unsigned n_dips)
{
	struct control_request r = {.op = OP_VIP_PUT, .vip = "web"};

	w = world_new(2, 65536);
	vip_conf_defaults(&r.vip_edit.conf);
	r.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL | VIP_M_AFFINITY;
	r.vip_edit.conf.match =
		(struct vip_match){.address = frames_ip(WORLD_VIP_ADDRESS), .protocol = VIP_ANY};
	r.vip_edit.conf.affinity = AFFINITY_CLIENT;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

static void end(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}

/* A packet of the client by one of its connections. */
static unsigned send_by(uint32_t client, uint16_t connection, uint8_t tcp_flags)
{
	uint8_t src[4] = {10, 2, (uint8_t)(client >> 8), (uint8_t)client};
	struct frames_spec s = {.src = ip_addr_v4(src),
				.dst = frames_ip(WORLD_VIP_ADDRESS),
				.sport = (uint16_t)(1024 + connection),
				.dport = (uint16_t)(80 + connection % 7)};

	if (tcp_flags)
		s.tcp_flags = tcp_flags;
	else
		s.proto = IPPROTO_UDP;
	return world_send(w, connection & 1, &s);
}

static uint8_t any_kind(uint64_t *rng)
{
	static const uint8_t kinds[] = {FRAMES_SYN, FRAMES_ACK, PSH_ACK, FRAMES_FIN | FRAMES_ACK,
					FRAMES_RST, 0,		0};

	return kinds[frames_random(rng) % ARRAY_LEN(kinds)];
}

START_TEST(a_client_stays_through_pool_changes)
{
	enum { CLIENTS = 3000, CHANGES = 120 };
	static unsigned first[CLIENTS];
	bool exists[20] = {false};
	uint64_t rng = frames_seed();

	start(4);
	for (unsigned d = 1; d <= 4; d++)
		exists[d] = true;
	for (unsigned change = 0; change < CHANGES; change++) {
		for (unsigned k = 0; k < 1000; k++) {
			uint32_t c = (uint32_t)(frames_random(&rng) % CLIENTS);
			unsigned dip =
				send_by(c, (uint16_t)(frames_random(&rng) % 500), any_kind(&rng));
			ck_assert_uint_ne(dip, 0);
			if (!first[c])
				first[c] = dip;
			ck_assert_msg(dip == first[c], "change %u: client %u went from %u to %u",
				      change, c, first[c], dip);
		}
		unsigned d = 1 + (unsigned)(frames_random(&rng) % 19);
		if (!exists[d]) {
			world_put_dip(w, "web", d, 10, CONTROL_CREATED);
			exists[d] = true;
		} else if (d > 1 && frames_random(&rng) % 3 == 0) {
			world_delete_dip(w, "web", d, false);
			exists[d] = world_dip_flows(w, "web", d) != UINT64_MAX;
		} else {
			world_set_weight(w, "web", d,
					 (uint32_t)(frames_random(&rng) % 30) + (d == 1));
		}
		world_advance_ms(frames_random(&rng) % 3000);
		world_settle(w);
	}
	struct consistency c = world_consistency(w);
	ck_assert_uint_gt(c.flows_pinned, 100);
	ck_assert_uint_le(c.flows_known, CLIENTS); /* clients, not connections */
	ck_assert_uint_eq(c.flows_lost_total, 0);
	end();
}
END_TEST

/* The end of a connection says nothing about its client; only silence does. */
START_TEST(only_silence_ends_a_client)
{
	start(2);
	uint32_t client = 0;
	while (send_by(client, 0, FRAMES_SYN) != 1)
		client++;
	world_settle(w);
	world_set_weight(w, "web", 1, 0);
	send_by(client, 0, FRAMES_FIN | FRAMES_ACK);
	send_by(client, 1, FRAMES_RST);
	for (unsigned s = 0; s < 7200 * 2; s += 3600) { /* far beyond closing_pin_s */
		world_settle(w);
		world_advance_ms(3600 * 1000);
		ck_assert_uint_eq(send_by(client, (uint16_t)(2 + s), s % 7200 ? 0 : FRAMES_SYN), 1);
	}
	world_settle(w);
	world_advance_ms((7200 + 6) * 1000);
	world_settle(w);
	world_advance_ms(1100);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_pinned, 0);
	ck_assert_uint_eq(send_by(client, 0, PSH_ACK), 2);
	end();
}
END_TEST

/* All of a client goes together when its DIP is down, and stays where it went. */
START_TEST(a_client_is_rehomed_whole)
{
	enum { CLIENTS = 500 };
	static unsigned first[CLIENTS], second[CLIENTS];

	start(4);
	for (uint32_t c = 0; c < CLIENTS; c++)
		first[c] = send_by(c, 0, FRAMES_SYN);
	world_settle(w);
	world_set_admin(w, "web", 2, ADMIN_DOWN);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		second[c] = send_by(c, 1, c % 2 ? PSH_ACK : 0);
		ck_assert(first[c] == 2 ? second[c] != 2 : second[c] == first[c]);
		ck_assert_uint_eq(send_by(c, 2, FRAMES_SYN), second[c]);
	}
	world_settle(w);
	world_set_admin(w, "web", 2, ADMIN_UP);
	for (uint32_t c = 0; c < CLIENTS; c++)
		for (uint16_t k = 0; k < 4; k++)
			ck_assert_uint_eq(send_by(c, k, k % 2 ? PSH_ACK : 0), second[c]);
	end();
}
END_TEST

START_TEST(clients_survive_a_kill)
{
	enum { CLIENTS = 2000 };
	static unsigned first[CLIENTS];

	start(4);
	for (uint32_t c = 0; c < CLIENTS; c++)
		first[c] = send_by(c, (uint16_t)c, c % 2 ? FRAMES_SYN : 0);
	world_restart(w, WORLD_KILL);
	world_set_weight(w, "web", 1, 0);
	world_put_dip(w, "web", 9, 40, CONTROL_CREATED);
	for (uint32_t c = 0; c < CLIENTS; c++)
		ck_assert_uint_eq(send_by(c, (uint16_t)(c + 1), c % 2 ? 0 : PSH_ACK), first[c]);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("affinity");
	TCase *t = tcase_create("affinity");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_client_stays_through_pool_changes);
	tcase_add_test(t, only_silence_ends_a_client);
	tcase_add_test(t, a_client_is_rehomed_whole);
	tcase_add_test(t, clients_survive_a_kill);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
