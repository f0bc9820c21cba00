/* Scenarios about the life of flows. */
#include <arpa/inet.h>

#include "base/log.h"
#include "control/agents.h"
#include "tests/sim/scene.h"
#include "tests/sim/wire.h"

/* --- learning ------------------------------------------------------------------------------ */

/* Control is away; the flow's entry was pushed out, so its ACK went by another ring than what came
 * 16 s later: FIN, and a second connection on the tuple. */
void scenario_records_in_order(void)
{
	struct vip_conf conf;
	struct scene s;

	/* Two rules hold here: that an older record turns no clock back would do, too. */
	fault_on[FAULT_older_record_counts] = fault_on[FAULT_merge_by_ring];
	vip_conf_defaults(&conf);
	conf.idle_established_s = conf.idle_half_open_s = 20;
	scene_open(&s, 1, 4096, VIP_TCP, &conf, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	scene_evict(&s);
	world_tcp(s.w, 0, f, FRAMES_ACK, 0);
	world_advance_ms(16000);
	world_tcp(s.w, 0, f, FRAMES_FIN | FRAMES_ACK, 0);
	world_tcp(s.w, 0, f, FRAMES_SYN, 0);
	world_tcp(s.w, 0, f, FRAMES_ACK, 0);
	MUST(world_tcp(s.w, 0, f, FRAMES_ACK, 10) == 1, "the new connection follows the pin");
	scene_wait_s(&s, 15);
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

static unsigned pinned_datagrams(struct scene *s, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		s->dips[i] = (uint8_t)world_udp(s->w, 0, i);
		control_step(s->w->control);
	}
	return scene_pin(s, 1, n);
}

void scenario_suppressed_datagram(void)
{
	struct vip_conf conf;
	struct scene s;

	vip_conf_defaults(&conf);
	conf.idle_udp_s = 20;
	scene_open(&s, 1, 4096, VIP_UDP, &conf, 3);
	unsigned f = pinned_datagrams(&s, 200);
	scene_wait_s(&s, 6);
	world_udp(s.w, 0, f); /* told */
	scene_wait_s(&s, 3);
	world_udp(s.w, 0, f); /* not told: its entry is fresh */
	scene_wait_s(&s, 18);
	MUST(world_udp(s.w, 0, f) == 1, "a datagram 18 s after the last stays");
	scene_close(&s);
}

void scenario_lost_refresh(void)
{
	struct vip_conf conf;
	struct scene s;

	vip_conf_defaults(&conf);
	conf.idle_established_s = 60;
	scene_open(&s, 1, 4096, VIP_TCP, &conf, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	scene_wait_s(&s, 55);
	for (unsigned i = 2000; i < 2100; i++) /* strangers fill the ring, and take the tokens */
		world_tcp(s.w, 0, i, FRAMES_ACK, 0);
	uint64_t lost = counter_read(&s.w->workers[0]->counters->lost_refreshes);
	scene_evict(&s);
	world_tcp(s.w, 0, f, FRAMES_ACK, 10);
	MUST(counter_read(&s.w->workers[0]->counters->lost_refreshes) == lost + 1,
	     "the refresh is lost");
	scene_evict(&s);
	scene_wait_s(&s, 15);
	scene_shake(&s, 2, 20);
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

/* --- restarts ------------------------------------------------------------------------------ */

void scenario_long_absence(void)
{
	struct vip_conf conf;
	struct scene s;

	vip_conf_defaults(&conf);
	conf.idle_established_s = 60;
	scene_open(&s, 1, 4096, VIP_TCP, &conf, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	world_advance_ms(300000);
	world_restart(s.w, WORLD_KILL);
	scene_wait_s(&s, 1);
	scene_shake(&s, 2, 20);
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

void scenario_pins_over_reboot(void)
{
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	world_delete_dip(s.w, "v", 1, false); /* drains, for the flow that it has */
	world_restart(s.w, WORLD_REBOOT);
	scene_wait_s(&s, 6); /* the hold of voluntary changes */
	world_set_admin(s.w, "v", 2, ADMIN_DOWN);
	scene_wait_s(&s, 2);
	MUST(world_dip_flows(s.w, "v", 1) != UINT64_MAX, "a draining DIP with pins is not cut");
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

/* A machine reboots, and its first process dies before the flows have spoken again: still nobody
 * knows them, so a change waits. */
void scenario_kill_after_reboot(void)
{
	struct control_request r = {.op = OP_DIP_PATCH, .vip = "v", .dip = "b1"};
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	world_restart(s.w, WORLD_REBOOT);
	scene_wait_s(&s, 1);
	world_restart(s.w, WORLD_KILL);
	scene_wait_s(&s, 1);
	r.dip_edit.members = DIP_M_WEIGHT;
	world_request(s.w, &r);
	scene_must_stay(&s, 0, 200);
	scene_wait_s(&s, 5);
	world_restart(s.w, WORLD_KILL);
	scene_shake(&s, 1, 0);
	scene_must_stay(&s, 0, 200);
	scene_close(&s);
}

static unsigned client_sends(struct scene *s, unsigned worker, unsigned client, uint8_t flags)
{
	struct frames_spec spec = {.src = frames_ip("10.1.2.0"),
				   .dst = frames_ip(WORLD_VIP_ADDRESS),
				   .sport = 4000,
				   .dport = 80,
				   .tcp_flags = flags,
				   .payload_len = flags == FRAMES_ACK ? 10 : 0};

	spec.src.b[15] = (uint8_t)client;
	return world_send(s->w, worker, &spec);
}

/* A client's connections come in by two workers. Control is away for half a minute; then it reads
 * what the one told after what the other told later. */
void scenario_two_workers_tell(void)
{
	struct vip_conf conf;
	struct scene s;

	vip_conf_defaults(&conf);
	conf.affinity = AFFINITY_CLIENT;
	conf.idle_established_s = 60;
	scene_open(&s, 2, 4096, VIP_TCP, &conf, 3);
	for (unsigned i = 0; i < 50; i++) {
		s.dips[i] = (uint8_t)client_sends(&s, 0, i, FRAMES_SYN);
		control_step(s.w->control);
	}
	scene_wait_s(&s, 10);
	for (unsigned i = 0; i < 50; i++)
		MUST(client_sends(&s, 1, i, FRAMES_ACK) == s.dips[i], "a client stays");
	world_advance_ms(30000);
	for (unsigned i = 0; i < 50; i++)
		MUST(client_sends(&s, 0, i, FRAMES_ACK) == s.dips[i], "a client stays");
	scene_wait_s(&s, 45);
	scene_shake(&s, 1, 1);
	for (unsigned i = 0; i < 50; i++)
		MUST(client_sends(&s, 0, i, FRAMES_ACK) == s.dips[i],
		     "a client that was heard of 45 s ago stays");
	scene_close(&s);
}

/* A client's DIP goes down and another worker tells of its new one; then that one is down and the
 * first is up again. What this worker told before is just seconds old. */
void scenario_client_comes_back(void)
{
	struct vip_conf conf;
	struct scene s;

	vip_conf_defaults(&conf);
	conf.affinity = AFFINITY_CLIENT;
	scene_open(&s, 2, 4096, VIP_TCP, &conf, 2);
	for (unsigned i = 0; i < 50; i++)
		s.dips[i] = (uint8_t)client_sends(&s, 0, i, FRAMES_SYN);
	world_advance_ms(1);
	world_set_admin(s.w, "v", 1, ADMIN_DOWN);
	for (unsigned i = 0; i < 50; i++)
		MUST(client_sends(&s, 1, i, FRAMES_ACK) == 2, "all clients go to the other DIP");
	world_advance_ms(1);
	world_set_admin(s.w, "v", 1, ADMIN_UP);
	world_set_admin(s.w, "v", 2, ADMIN_DOWN);
	for (unsigned i = 0; i < 50; i++)
		MUST(client_sends(&s, 0, i, FRAMES_ACK) == 1, "... and back");
	world_set_admin(s.w, "v", 2, ADMIN_UP);
	for (unsigned i = 0; i < 50; i++)
		MUST(client_sends(&s, 0, i, FRAMES_ACK) == 1, "... and stay");
	scene_close(&s);
}

/* --- ends ---------------------------------------------------------------------------------- */

void scenario_stale_entry_drops(void)
{
	struct vip_conf conf;
	struct scene s;

	vip_conf_defaults(&conf);
	conf.idle_udp_s = 8;
	conf.on_learn_overflow = OVERFLOW_DROP;
	scene_open(&s, 1, 4096, VIP_UDP, &conf, 2);
	MUST(world_udp(s.w, 0, 7) != 0, "a datagram is carried");
	scene_wait_s(&s, 30);
	MUST(world_consistency(s.w).flows_known == 0, "the flow has timed out");
	for (unsigned i = 1000; i < 1000 + STATE_DATAGRAM_RECORDS; i++)
		world_udp(s.w, 0, i);
	struct vip_runtime *v = control_find_vip(s.w->control, "v");
	struct frames_spec again = {.src = frames_ip("10.1.0.0"), .proto = IPPROTO_UDP};
	struct flow_key key = {.src = again.src,
			       .sport_be = htons(1031),
			       .dport_be = htons(80),
			       .proto = IPPROTO_UDP};
	uint64_t hash = flow_key_hash(&key, v->seed);
	/* still in the cache, as it is when it is not pushed out */
	s.w->workers[0]->learn.seen[seen_index(hash)] =
		(struct seen_entry){.hash = hash,
				    .time_ms = (uint32_t)world_now_ms() - 30000,
				    .dip = vip_view_lookup(v->now->view, hash),
				    .phase = SEEN_ESTABLISHED};
	MUST(world_udp(s.w, 0, 7) == 0, "what cannot be told is dropped");
	scene_close(&s);
}

void scenario_late_end_of_agent(void)
{
	static const uint8_t token[32];
	struct agent_entry end = {
		.src = frames_ip("10.1.0.0"), .dport = 80, .proto = IPPROTO_TCP, .ended = true};
	struct agent_report r = {.instance = "0123456789abcdef",
				 .sequence = 1,
				 .full = true,
				 .first = true,
				 .last = true};
	struct agent_answer answer;
	struct error err;
	struct scene s;
	bool created;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	MUST(control_agent_put(s.w->control, "a", "v", "b1", token, &created, &err) == CONTROL_OK,
	     "an agent is bound to the DIP");
	control_agent_report(s.w->control, "a", &r, &answer);
	/* Connection 1 ends at the backend only; the tuple is used again 5 s later. */
	scene_wait_s(&s, 5);
	world_tcp(s.w, 0, f, FRAMES_SYN, 0);
	MUST(world_tcp(s.w, 0, f, FRAMES_ACK, 10) == 1, "the new connection stays on the DIP");
	scene_wait_s(&s, 3);
	end.sport = (uint16_t)(1024 + f);
	end.age_ms = 8000;
	r = (struct agent_report){
		.instance = "0123456789abcdef", .sequence = 2, .n = 1, .entries = &end};
	control_agent_report(s.w->control, "a", &r, &answer);
	MUST(answer.ack == 2 && answer.n_refused == 0, "the report is taken");
	scene_wait_s(&s, 30);
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

static void no_look(void *ctx)
{
	(void)ctx; /* the backend has no connection */
}

/* An agent speaks once; lost: nothing of it arrives. */
static void agent_speaks(struct scene *s, struct agent_talk *t, bool lost)
{
	struct agent_entry entries[AGENT_NEWS_MAX];
	struct agent_reply reply = {.status = 0, .error = "lost"};
	struct agent_answer answer;
	struct agent_report r;

	wire_report(agent_talk_next(t), &t->state, &r, entries);
	if (!lost) {
		control_agent_report(s->w->control, "a", &r, &answer);
		MUST(answer.found, "the agent is known");
		wire_reply(&answer, &reply);
	}
	agent_talk_reply(t, &reply, world_now_ms());
}

/* An agent's list of all connections is lost. A connection opens; then the list is sent again. */
void scenario_list_sent_again(void)
{
	static const uint8_t token[32];
	static struct agent_talk t;
	struct agent_options o = {.url = "b1", .interval_ms = 1000};
	struct error err;
	struct scene s;
	bool created;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	MUST(control_agent_put(s.w->control, "a", "v", "b1", token, &created, &err) == CONTROL_OK,
	     "an agent is bound to the DIP");
	MUST(agent_talk_init(&t, &o, no_look, NULL) == 0, "there is memory");
	log_set_level(LOG_ERROR);    /* that a report is lost is no news */
	agent_speaks(&s, &t, false); /* the greeting */
	agent_speaks(&s, &t, true);
	world_tcp(s.w, 0, f, FRAMES_SYN, 0);
	MUST(world_tcp(s.w, 0, f, FRAMES_ACK, 10) == 1, "the new connection is on the DIP");
	scene_wait_s(&s, 5);
	agent_speaks(&s, &t, false);
	MUST(t.mode == AGENT_IN_STEP, "the list has arrived");
	agent_talk_destroy(&t);
	scene_wait_s(&s, 30);
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

void scenario_payload_revives(void)
{
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	world_tcp(s.w, 0, f, FRAMES_FIN | FRAMES_ACK, 0); /* spoofed */
	control_step(s.w->control);
	world_tcp(s.w, 0, f, FRAMES_ACK, 0);
	scene_wait_s(&s, 1);
	scene_must_stay(&s, f, 1);
	scene_wait_s(&s, 40);
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

void scenario_spoofed_reset(void)
{
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	scene_connect(&s, 0, 200);
	unsigned f = scene_pin(&s, 1, 200);
	scene_wait_s(&s, 60);
	world_tcp(s.w, 0, f, FRAMES_RST, 0);
	scene_wait_s(&s, 14);
	scene_must_stay(&s, f, 1);
	scene_close(&s);
}

/* --- what a flow is ------------------------------------------------------------------------ */

void scenario_ports_are_flows(void)
{
	struct frames_spec spec = {.src = frames_ip("10.1.2.3"),
				   .dst = frames_ip(WORLD_VIP_ADDRESS),
				   .sport = 4000,
				   .tcp_flags = FRAMES_SYN};
	struct vip_conf conf;
	struct scene s;

	vip_conf_defaults(&conf);
	conf.match.protocol = VIP_ANY; /* keep port 0 */
	scene_open(&s, 1, 4096, VIP_TCP, &conf, 3);
	for (unsigned port = 80; port <= 443; port += 363) {
		spec.dport = (uint16_t)port;
		MUST(world_send(s.w, 0, &spec) != 0, "a SYN is carried");
	}
	world_settle(s.w);
	MUST(world_consistency(s.w).flows_known == 2, "two ports are two flows");
	spec.tcp_flags = FRAMES_FIN | FRAMES_ACK;
	world_send(s.w, 0, &spec);
	world_settle(s.w);
	MUST(control_find_vip(s.w->control, "v")->flows.lists[LIST_HALF_OPEN].n == 1,
	     "the end of one is not the end of the other");
	scene_close(&s);
}

/* --- capacity ------------------------------------------------------------------------------ */

void scenario_flood_of_strangers(void)
{
	struct scene s;

	scene_open(&s, 1, 1024, VIP_ANY, NULL, 3);
	scene_connect(&s, 0, 200);
	scene_shake(&s, 1, 3);
	for (unsigned i = 2000; i < 6000; i++) {
		if (i % 3 == 0)
			world_udp(s.w, 0, i);
		else
			world_tcp(s.w, 0, i, i % 3 == 1 ? FRAMES_ACK : FRAMES_SYN, 0);
		control_step(s.w->control);
		if (i % 16 == 0)
			world_advance_ms(1);
	}
	MUST(world_consistency(s.w).flows_forgotten_total > 1000, "the flood is more than fits");
	scene_shake(&s, 2, 3);
	scene_must_stay(&s, 0, 200);
	scene_close(&s);
}
