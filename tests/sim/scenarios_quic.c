/* Scenarios about QUIC packets that go where their connection ID says. */
#include <stdio.h>

#include "io/port_mem.h"
#include "tests/sim/scene.h"
#include "worker/worker.h"

#define PAYLOAD 42 /* behind Ethernet, IPv4, UDP */
#define SERVER_ID_LEN 2

static void write_id(uint8_t id[SERVER_ID_LEN], unsigned dip)
{
	id[0] = 0x5a;
	id[1] = (uint8_t)dip;
}

static void open_by_ids(struct scene *s, unsigned n_dips)
{
	struct vip_conf conf;

	vip_conf_defaults(&conf);
	conf.quic = QUIC_SERVER_ID;
	scene_open(s, 1, 4096, VIP_UDP, &conf, n_dips);
	for (unsigned d = 1; d <= n_dips; d++) {
		struct control_request r = {.op = OP_DIP_PATCH, .vip = "v"};
		snprintf(r.dip, sizeof(r.dip), "b%u", d);
		r.dip_edit.members = DIP_M_SERVER_ID;
		r.dip_edit.conf.server_id_len = SERVER_ID_LEN;
		write_id(r.dip_edit.conf.server_id, d);
		world_request(s->w, &r);
		MUST(r.status == CONTROL_OK, r.detail);
	}
}

/* A short header with an ID of this DIP's, 0 = of nobody, from client i. */
static unsigned send_short(struct scene *s, unsigned i, unsigned dip)
{
	static uint8_t frame[FRAMES_MAX];
	uint8_t out[256];
	struct frames_spec spec = {.src = frames_ip("10.1.0.0"),
				   .dst = frames_ip(WORLD_VIP_ADDRESS),
				   .sport = (uint16_t)(1024 + i),
				   .dport = 80,
				   .proto = IPPROTO_UDP,
				   .payload_len = 32};
	uint32_t len = frames_build(frame, &spec);

	frame[PAYLOAD] = 0x40;
	frame[PAYLOAD + 1] = 0;
	write_id(frame + PAYLOAD + 2, dip);
	MUST(port_mem_inject(s->w->ports[0], 0, 0, frame, len) == 0, "there is room for it");
	worker_round(s->w->workers[0]);
	return port_mem_take(s->w->ports[0], 0, out, sizeof(out)) ? out[5] : 0;
}

/* A client whose flow is another DIP's, which so nothing is known of. */
static unsigned client_elsewhere(struct scene *s, unsigned dip)
{
	for (unsigned i = 0; i < SCENE_FLOWS; i++)
		if (send_short(s, i, 0) != dip) {
			scene_wait_s(s, 120); /* what was asked is forgotten */
			MUST(world_consistency(s->w).flows_known == 0, "no flow is known");
			return i;
		}
	MUST(false, "some flow is another DIP's");
	return 0;
}

/* A client has moved to an address whose flow is another DIP's; its DIP is deleted. */
void scenario_connection_without_flow(void)
{
	struct scene s;

	open_by_ids(&s, 3);
	unsigned i = client_elsewhere(&s, 1);
	MUST(send_short(&s, i, 1) == 1, "its ID names its DIP");
	MUST(world_dip_flows(s.w, "v", 1) == 0, "no flow is known there");
	world_delete_dip(s.w, "v", 1, false);
	for (unsigned round = 0; round < 4; round++) {
		scene_wait_s(&s, 40);
		MUST(send_short(&s, i, 1) == 1, "a DIP that drains waits for the connection");
	}
	scene_close(&s);
}

/* Packets on the tuple of a known flow that bear another DIP's ID, as of a second connection or a
 * forgery. */
void scenario_foreign_ids(void)
{
	struct scene s;

	open_by_ids(&s, 3);
	for (unsigned i = 0; i < 30; i++) {
		unsigned home = send_short(&s, i, 0);
		control_step(s.w->control);
		for (unsigned d = 1; d <= 3; d++)
			MUST(send_short(&s, i, d) == d, "an ID names its DIP");
		control_step(s.w->control);
		MUST(send_short(&s, i, 0) == home, "the flow stays");
	}
	MUST(world_consistency(s.w).flows_known == 30, "no flow comes of an ID");
	scene_shake(&s, 1, 0);
	scene_close(&s);
}
