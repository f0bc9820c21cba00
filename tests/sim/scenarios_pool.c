/* Scenarios about pool changes and restarts. */
#include <stdio.h>

#include "io/port_mem.h"
#include "tests/sim/box.h"
#include "tests/sim/scene.h"

/* --- DIPs that leave ----------------------------------------------------------------------- */

static struct scene *landing;
static unsigned landing_flow;

static void land(struct world *w)
{
	const struct vip_runtime *v = control_find_vip(w->control, "v");

	if (v->flows.dip_flows[1] != 0)
		return;
	w->on_submit = NULL;
	landing->dips[landing_flow] = (uint8_t)world_tcp(w, 0, landing_flow, FRAMES_SYN, 0);
}

/* A DIP that drains has no flow left, and goes; while that is committed, a SYN follows a pin that
 * is not purged yet. */
void scenario_flow_lands_on_leaver(void)
{
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	world_delete_dip(s.w, "v", 1, false);
	for (unsigned i = 0; i < 200; i++) {
		if (s.dips[i] == 1 && i != f)
			world_tcp(s.w, 0, i, FRAMES_FIN | FRAMES_ACK, 0);
		control_step(s.w->control);
	}
	scene_wait_s(&s, 5);
	world_tcp(s.w, 0, f, FRAMES_FIN | FRAMES_ACK, 0); /* the last one, with the last pin */
	landing = &s;
	landing_flow = f;
	s.dips[f] = 0;
	s.w->on_submit = land;
	scene_wait_s(&s, 30);
	MUST(s.dips[f] == 1, "the SYN landed on the DIP that leaves");
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

/* D goes with its flows, N comes a second later; what was on D goes on, on N perhaps, and stays
 * there. */
void scenario_index_rests(void)
{
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	world_delete_dip(s.w, "v", 2, true);
	scene_wait_s(&s, 1); /* its flows are freed */
	world_put_dip(s.w, "v", 9, 100, CONTROL_CREATED);
	for (unsigned i = 0; i < 200; i++) {
		if (s.dips[i] == 2) {
			s.dips[i] = (uint8_t)world_tcp(s.w, 0, i, FRAMES_ACK, 10);
			MUST(s.dips[i] != 0 && s.dips[i] != 2, "a flow of a cut DIP goes on");
			world_advance_ms(1); /* refresh records are limited in time */
		}
		control_step(s.w->control);
	}
	scene_shake(&s, 9, 0);
	scene_must_stay(&s, 0, 200);
	scene_close(&s);
}

void scenario_leaver_and_newcomer(void)
{
	struct control_request gone = {.op = OP_DIP_DELETE, .vip = "v", .dip = "b2", .force = true};
	struct control_request come = {.op = OP_DIP_PUT, .vip = "v", .dip = "b9"};
	struct scene s;
	bool done[2];

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 100);
	struct vip_runtime *v = control_find_vip(s.w->control, "v");
	uint16_t index = vip_version_dip(v->now, "b2")->index;
	dip_conf_defaults(&come.dip_edit.conf);
	come.dip_edit.conf.address = frames_ip("10.9.0.9");
	come.dip_edit.members = DIP_M_ADDRESS;
	control_change_async(s.w->control, &gone, &done[0]);
	control_change_async(s.w->control, &come, &done[1]);
	for (int i = 0; i < 10; i++)
		control_step(s.w->control);
	MUST(done[0] && gone.status == CONTROL_OK, "the DIP is cut");
	MUST(done[1] && come.status == CONTROL_CREATED, "the other one is there");
	MUST(vip_version_dip(v->now, "b9")->index != index, "it has an index of its own");
	scene_close(&s);
}

/* --- DIPs that are down -------------------------------------------------------------------- */

void scenario_reroll_by_weight(void)
{
	unsigned n[5] = {0};
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 4);
	scene_shake(&s, 2, 0);
	scene_shake(&s, 4, 30);
	world_set_admin(s.w, "v", 1, ADMIN_DOWN);
	scene_connect(&s, 0, 1000);
	for (unsigned i = 0; i < 1000; i++)
		n[s.dips[i]]++;
	MUST(n[1] == 0, "none goes to the DIP that is down");
	MUST(n[2] == 0, "none goes to the DIP without weight");
	MUST(n[3] > 180 && n[3] < 320, "a quarter goes to the one with a quarter of the weight");
	scene_close(&s);
}

void scenario_false_alarm(void)
{
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	(void)scene_pin(&s, 1, 200);
	scene_shake(&s, 2, 5);
	for (unsigned alarm = 1; alarm <= 2; alarm++) {
		world_set_admin(s.w, "v", alarm, ADMIN_DOWN);
		scene_wait_s(&s, 2);
		world_set_admin(s.w, "v", alarm, ADMIN_UP);
		scene_wait_s(&s, 1);
	}
	scene_must_stay(&s, 0, 200);
	scene_close(&s);
}

/* --- a proxy that uses its ports again ----------------------------------------------------- */

enum { PROXY_PORTS = 2800, PROXY_PER_100MS = 10 };

/* Connections come and go for this long; how many the DIP got of the last 500. */
static unsigned proxy_run(struct scene *s, unsigned *next, unsigned seconds, unsigned dip)
{
	unsigned got = 0, last = seconds * 10 * PROXY_PER_100MS - 500;

	for (unsigned i = 0; i < seconds * 10; i++) {
		for (unsigned k = 0; k < PROXY_PER_100MS; k++) {
			unsigned f = (*next)++ % PROXY_PORTS;
			unsigned on = world_tcp(s->w, 0, f, FRAMES_SYN, 0);
			MUST(world_tcp(s->w, 0, f, FRAMES_ACK, 10) == on, "payload follows");
			MUST(world_tcp(s->w, 0, f, FRAMES_FIN | FRAMES_ACK, 0) == on,
			     "the end follows");
			got += on == dip && i * PROXY_PER_100MS + k >= last;
			control_step(s->w->control);
		}
		world_advance_ms(100);
		control_step(s->w->control);
	}
	return got;
}

/* A tenth of the real thing: 100 connections a second over 2,800 ports, so each comes again after
 * 28 s. */
void scenario_proxy_with_few_ports(void)
{
	unsigned next = 0;
	struct scene s;

	scene_open(&s, 1, 16384, VIP_TCP, NULL, 3);
	proxy_run(&s, &next, 35, 1);
	world_put_dip(s.w, "v", 9, 10, CONTROL_CREATED);
	unsigned got = proxy_run(&s, &next, 60, 9);
	printf("  the new DIP has %u of the last 500 connections within a minute\n", got);
	MUST(got > 90 && got < 160, "a new DIP has its share (125 of 500) within a minute");
	world_delete_dip(s.w, "v", 1, false);
	proxy_run(&s, &next, 60, 1);
	uint64_t left = world_dip_flows(s.w, "v", 1);
	/* The fingerprint has 4 bits here: now and then one lands on it by accident. */
	MUST(left == UINT64_MAX || left < 20, "a drained DIP, which had 900 flows, goes empty");
	scene_close(&s);
}

/* --- a crash ------------------------------------------------------------------------------- */

static unsigned box_send(struct box *b, unsigned i, uint8_t flags)
{
	static uint8_t buf[FRAMES_MAX];
	uint8_t out[512];
	struct frames_spec spec = {.src = frames_ip("10.1.0.7"),
				   .dst = frames_ip(WORLD_VIP_ADDRESS),
				   .sport = (uint16_t)(2000 + i),
				   .dport = 80,
				   .tcp_flags = flags,
				   .payload_len = flags == FRAMES_ACK ? 10 : 0};
	uint32_t len = frames_build(buf, &spec);

	MUST(port_mem_inject(b->ports[0], 0, 0, buf, len) == 0, "a frame goes in");
	for (int n = 0; n < 10; n++) {
		box_run_worker(b, 0, 1000);
		if (port_mem_take(b->ports[0], 0, out, sizeof(out)) != 0)
			return out[5];
	}
	return 0;
}

static void box_request(struct box *b, enum control_op op, const char *dip, uint32_t weight)
{
	static struct control_request r;
	static bool done;

	r = (struct control_request){.op = op, .vip = "v", .override_hold = true};
	if (op == OP_VIP_PUT) {
		vip_conf_defaults(&r.vip_edit.conf);
		r.vip_edit.conf.match = (struct vip_match){
			.address = frames_ip(WORLD_VIP_ADDRESS), .port = 80, .protocol = VIP_TCP};
		r.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	} else {
		snprintf(r.dip, sizeof(r.dip), "%s", dip);
		dip_conf_defaults(&r.dip_edit.conf);
		r.dip_edit.conf.address = frames_ip("10.9.0.0");
		r.dip_edit.conf.address.b[15] = (uint8_t)(dip[1] - '0');
		r.dip_edit.conf.weight = weight;
		r.dip_edit.members = DIP_M_WEIGHT | (op == OP_DIP_PUT ? DIP_M_ADDRESS : 0);
	}
	control_change_async(b->control, &r, &done);
}

/* The change is on disk; flows open while it waits to be published; the process dies. */
void scenario_crash_before_swap(void)
{
	struct box *b = box_new(1);
	unsigned on[60];

	box_start(b);
	box_settle(b);
	box_request(b, OP_VIP_PUT, NULL, 0);
	box_settle(b);
	for (const char *const *dip = (const char *const[]){"b1", "b2", "b3", NULL}; *dip; dip++) {
		box_request(b, OP_DIP_PUT, *dip, 10);
		box_settle(b);
	}
	for (unsigned i = 0; i < 30; i++) {
		on[i] = box_send(b, i, FRAMES_SYN);
		MUST(box_send(b, i, FRAMES_ACK) == on[i], "payload follows its SYN");
		box_settle(b);
	}
	unsigned n_commits = b->n_commits;
	uint64_t generation = b->control->generation;
	b->polls_max = 0;
	box_request(b, OP_DIP_PATCH, "b1", 0);
	while (b->n_commits == n_commits || b->txn)
		box_run_control(b, 0); /* from point to point, until it is on disk */
	MUST(b->control->generation == generation, "it is not published");
	for (unsigned i = 30; i < 60; i++)
		on[i] = box_send(b, i, FRAMES_SYN);
	box_kill(b, false);
	box_start(b);
	box_settle(b);
	for (unsigned i = 0; i < 60; i++) {
		MUST(box_send(b, i, FRAMES_ACK) == on[i], "a flow stays over the crash");
		box_settle(b);
	}
	box_free(b);
}
