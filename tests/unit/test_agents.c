/* Agents and their reports, on a whole forwarder in one thread. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/internal.h"
#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define ME "00000000000000aa"

static const uint8_t hash_of_token[32] = {1, 2, 3};

static struct world *w;
static uint64_t sequence;
static struct agent_answer answer;

static void bind_agent(const char *id, const char *dip)
{
	struct error err;
	bool created;

	ck_assert_int_eq(
		control_agent_put(w->control, id, "web", dip, hash_of_token, &created, &err),
		CONTROL_OK);
	ck_assert(created);
}

/* Three DIPs of equal weight, an agent on each: a11, a12, a13. */
static void set_up(void)
{
	w = world_new(2, 65536);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned last = 11; last <= 13; last++)
		world_put_dip(w, "web", last, 1, CONTROL_CREATED);
	bind_agent("a11", "b11");
	bind_agent("a12", "b12");
	bind_agent("a13", "b13");
	sequence = 0;
}

static void tear_down(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}

/* The connection of world_tcp's flow i. */
static struct agent_entry entry(uint32_t i, bool ended, uint32_t age_ms)
{
	uint8_t src[4] = {10, 1, (uint8_t)(i >> 18), (uint8_t)(i >> 10)};

	return (struct agent_entry){.src = ip_addr_v4(src),
				    .sport = (uint16_t)(1024 + (i & 1023)),
				    .dport = 80,
				    .proto = IPPROTO_TCP,
				    .ended = ended,
				    .age_ms = age_ms};
}

static void send_report(unsigned last, struct agent_report r, const struct agent_entry *e,
			unsigned n)
{
	char id[16];

	snprintf(id, sizeof(id), "a%u", last);
	if (!r.instance[0])
		memcpy(r.instance, ME, sizeof(r.instance));
	r.entries = e;
	r.n = n;
	control_agent_report(w->control, id, &r, &answer);
	ck_assert(answer.found);
}

static void full(unsigned last, const struct agent_entry *e, unsigned n)
{
	send_report(last,
		    (struct agent_report){
			    .sequence = ++sequence, .full = true, .first = true, .last = true},
		    e, n);
	ck_assert_uint_eq(answer.ack, sequence);
	ck_assert(!answer.resync);
}

static void delta(unsigned last, const struct agent_entry *e, unsigned n)
{
	send_report(last, (struct agent_report){.sequence = ++sequence}, e, n);
	ck_assert_uint_eq(answer.ack, sequence);
	ck_assert(!answer.resync);
}

static struct flow_meta flow(uint32_t i, bool *known)
{
	struct vip_runtime *v = control_find_vip(w->control, "web");
	struct agent_entry e = entry(i, false, 0);
	struct flow_key key;

	flow_key_of(v->now->view, &e.src, htons(e.sport), htons(80), IPPROTO_TCP, &key);
	uint32_t slot =
		flow_table_find(&w->control->flows, &v->flows, &key, flow_key_hash(&key, v->seed));
	*known = slot != FLOW_NONE;
	return slot == FLOW_NONE ? (struct flow_meta){0}
				 : flow_meta_get(&w->control->flows.slots[slot]);
}

static uint8_t phase(uint32_t i)
{
	bool known;
	struct flow_meta m = flow(i, &known);

	return known ? m.phase : FLOW_FREE;
}

/* Where the published snapshot sends flow i. */
static unsigned goes_to(uint32_t i)
{
	struct agent_entry e = entry(i, false, 0);
	const struct explain_question q = {
		.vip = "web", .src = e.src, .sport = e.sport, .dport = 80, .proto = IPPROTO_TCP};
	struct explanation x;

	control_explain(w->control, &q, &x);
	return (unsigned)atoi(x.dip + 1);
}

static uint32_t flow_not_of(unsigned last, uint32_t from)
{
	while (goes_to(from) == last)
		from++;
	return from;
}

static unsigned open_flow(uint32_t i)
{
	unsigned last = world_tcp(w, i & 1, i, FRAMES_SYN, 0);

	ck_assert_uint_eq(world_tcp(w, i & 1, i, FRAMES_ACK, 0), last);
	return last;
}

static void settle_ms(uint64_t ms)
{
	for (uint64_t t = 0; t < ms; t += 100) {
		world_advance_ms(100);
		world_settle(w);
	}
}

START_TEST(connections_never_seen_are_kept_where_they_are)
{
	struct agent_entry e[300];
	uint32_t i = 0;

	full(11, NULL, 0);
	for (unsigned n = 0; n < ARRAY_LEN(e); n++, i++) {
		i = flow_not_of(11, i);
		e[n] = entry(i, false, 5000);
	}
	delta(11, e, ARRAY_LEN(e));
	settle_ms(200);
	i = 0;
	for (unsigned n = 0; n < ARRAY_LEN(e); n++, i++) {
		while (phase(i) == FLOW_FREE)
			i++;
		ck_assert_uint_eq(goes_to(i), 11);
		ck_assert_uint_eq(world_tcp(w, 0, i, FRAMES_ACK, 100), 11);
	}
	ck_assert_uint_eq(world_consistency(w).flows_pinned, ARRAY_LEN(e));
	ck_assert_uint_eq(world_consistency(w).agents_refused_total, 0);
	world_set_weight(w, "web", 11, 0);
	ck_assert_uint_eq(world_dip_flows(w, "web", 11), ARRAY_LEN(e));
}
END_TEST

START_TEST(a_packet_before_the_publish_overrules_a_claim)
{
	uint32_t i = flow_not_of(11, 0);
	unsigned elsewhere = goes_to(i);
	struct agent_entry e = entry(i, false, 5000);
	bool known;

	full(11, &e, 1);
	ck_assert_uint_eq(world_dip_flows(w, "web", 11), 1);
	ck_assert_uint_eq(world_tcp(w, 0, i, FRAMES_ACK, 100), elsewhere);
	settle_ms(2000);
	ck_assert_uint_eq(world_dip_flows(w, "web", 11), 0);
	ck_assert_uint_eq(world_dip_flows(w, "web", elsewhere), 1);
	ck_assert_uint_eq(goes_to(i), elsewhere);
	ck_assert_uint_eq(world_consistency(w).agents_refused_total, 1);
	ck_assert_uint_eq(world_consistency(w).flows_lost_total, 0);
	ck_assert_uint_eq(flow(i, &known).flags & FLOW_CLAIMED, 0);
	/* Now it is known to live there, and the agent is not believed any more. */
	delta(11, &e, 1);
	ck_assert_uint_eq(answer.n_refused, 1);
}
END_TEST

START_TEST(ends_mark_flows_of_the_own_dip_only)
{
	uint32_t own = 0, other;

	while (open_flow(own) != 11)
		own++;
	for (other = own + 1; open_flow(other) == 11;)
		other++;
	world_settle(w);
	world_advance_ms(1500);
	struct agent_entry e[] = {entry(own, true, 100), entry(other, true, 100),
				  entry(99999, true, 100)};
	struct agent_entry open = entry(own, false, 0);
	full(11, &open, 1);
	delta(11, e, 3);
	ck_assert_uint_eq(answer.n_refused, 1);
	ck_assert_int_eq(phase(own), FLOW_CLOSING);
	ck_assert_int_eq(phase(other), FLOW_ESTABLISHED);
	ck_assert_int_eq(phase(99999), FLOW_FREE);
	/* A bare ACK revives it, when it gets to control: not sooner than the seen cache lets it.
	 */
	world_advance_ms(6000);
	world_tcp(w, own & 1, own, FRAMES_ACK, 0);
	world_settle(w);
	ck_assert_int_eq(phase(own), FLOW_ESTABLISHED);
	delta(11, e, 1);
	ck_assert_int_eq(phase(own), FLOW_CLOSING);
	world_advance_ms(6000);
	world_tcp(w, own & 1, own, FRAMES_ACK, 10);
	world_settle(w);
	ck_assert_int_eq(phase(own), FLOW_ESTABLISHED);
	/* Without a word it is forgotten, long before its idle time-out. */
	delta(11, e, 1);
	settle_ms(70000);
	ck_assert_int_eq(phase(own), FLOW_FREE);
	ck_assert_int_eq(phase(other), FLOW_ESTABLISHED);
}
END_TEST

/* Connection 1 ends at the server only, a SYN uses its tuple again, the end of 1 comes late,
 * connection 2 pauses, pins are purged, the pool changes: connection 2 stays. */
START_TEST(a_late_end_ends_nothing)
{
	uint32_t i = 0;
	static const bool dated[] = {false, true};

	for (unsigned round = 0; round < ARRAY_LEN(dated); round++, i++) {
		while (open_flow(i) != 11)
			i++;
		world_settle(w);
		world_advance_ms(2000);
		struct agent_entry known = entry(i, false, 0);
		full(11, &known, 1);
		world_advance_ms(1000);
		uint64_t clock_ms = world_now_ms(); /* as the agent knows it */
		uint64_t end_ms = clock_ms - 500;   /* the server ends connection 1 */
		world_advance_ms(3000);		    /* the report lies in a buffer */
		ck_assert_uint_eq(world_tcp(w, i & 1, i, FRAMES_SYN, 0), 11);
		ck_assert_uint_eq(world_tcp(w, i & 1, i, FRAMES_ACK, 10), 11);
		world_settle(w);
		struct agent_report r = {.sequence = ++sequence};
		world_advance_ms(1000);
		if (dated[round])
			r.clock_ms = clock_ms; /* the age is of the time when it was made */
		struct agent_entry e = entry(
			i, true, (uint32_t)((dated[round] ? clock_ms : world_now_ms()) - end_ms));
		send_report(11, r, &e, 1);
		ck_assert_uint_eq(answer.ack, sequence);
		ck_assert_int_eq(phase(i), FLOW_ESTABLISHED);
		settle_ms(30000);
		world_set_weight(w, "web", 11, 0);
		settle_ms(30000);
		ck_assert_uint_eq(world_tcp(w, i & 1, i, FRAMES_ACK, 10), 11);
		world_set_weight(w, "web", 11, 1);
	}
	/* An undated report that is as late does end it: why the clock is in the answers. */
}
END_TEST

START_TEST(sequence_numbers)
{
	struct agent_entry e = entry(0, false, 0);
	struct agent_report r = {.sequence = 5};

	/* Before a full report nothing is applied. */
	send_report(11, r, &e, 1);
	ck_assert(answer.ack == 0 && answer.resync);
	ck_assert_int_eq(phase(0), FLOW_FREE);
	/* The middle of a full report that has no beginning. */
	r.full = true;
	send_report(11, r, &e, 1);
	ck_assert(answer.ack == 0 && answer.resync);
	r.first = true;
	send_report(11, r, NULL, 0);
	ck_assert(answer.ack == 5 && !answer.resync);
	/* Its part again, and one that leaves a part out, and a delta in its midst. */
	send_report(11, r, &e, 1);
	ck_assert(answer.ack == 5 && !answer.resync);
	r.first = false;
	r.sequence = 7;
	send_report(11, r, &e, 1);
	ck_assert(answer.ack == 5 && answer.resync);
	r.full = false;
	r.sequence = 6;
	send_report(11, r, &e, 1);
	ck_assert(answer.ack == 5);
	ck_assert_int_eq(phase(0), FLOW_FREE);
	r.full = r.last = true;
	send_report(11, r, &e, 1);
	ck_assert(answer.ack == 6 && !answer.resync);
	ck_assert_int_eq(phase(0), FLOW_ESTABLISHED);
	/* Old ones in any order change nothing. */
	struct agent_entry end = entry(0, true, 0);
	for (r.sequence = 6; r.sequence; r.sequence--) {
		r.full = r.first = r.sequence & 1;
		send_report(11, r, &end, 1);
		ck_assert(answer.ack == 6 && !answer.resync);
	}
	ck_assert_int_eq(phase(0), FLOW_ESTABLISHED);
	/* Another instance begins with a full report. */
	struct agent_report other = {.instance = "00000000000000bb", .sequence = 1};
	send_report(11, other, &end, 1);
	ck_assert(answer.ack == 0 && answer.resync);
	other.full = other.first = other.last = true;
	send_report(11, other, &e, 1);
	ck_assert(answer.ack == 1 && !answer.resync);
	/* The old one, late, is not heard. */
	r = (struct agent_report){.sequence = 7};
	send_report(11, r, &end, 1);
	ck_assert(answer.ack == 0 && answer.resync);
	ck_assert_int_eq(phase(0), FLOW_ESTABLISHED);
	ck_assert_uint_eq(world_consistency(w).agents_reports_total, 3);
}
END_TEST

START_TEST(a_full_report_ends_what_the_backend_does_not_have)
{
	enum { N = 3000 };
	unsigned home[N];
	struct agent_entry e[N];
	unsigned n = 0, n_ended = 0;

	for (uint32_t i = 0; i < N; i++)
		home[i] = open_flow(i);
	world_settle(w);
	world_advance_ms(10000);
	for (uint32_t i = 0; i < N; i++)
		if (home[i] == 11 && i % 3)
			e[n++] = entry(i, false, 10000);
	/* These have spoken since, or are just opening: the list may not know them yet. */
	for (uint32_t i = 0; i < N; i += 30)
		world_tcp(w, i & 1, i, FRAMES_ACK, 10);
	open_flow(N);
	world_settle(w);
	struct agent_report r = {.full = true, .first = true, .sequence = 1};
	send_report(11, r, e, n / 2);
	settle_ms(1000);
	r = (struct agent_report){.full = true, .last = true, .sequence = 2};
	send_report(11, r, e + n / 2, n - n / 2);
	settle_ms(1000);
	for (uint32_t i = 0; i < N; i++) {
		bool ended = home[i] == 11 && i % 3 == 0 && i % 30;
		ck_assert_msg(phase(i) == (ended ? FLOW_CLOSING : FLOW_ESTABLISHED),
			      "flow %u of %u", i, home[i]);
		n_ended += ended;
	}
	ck_assert_uint_gt(n_ended, 200);
	ck_assert_int_eq(phase(N), FLOW_ESTABLISHED);
}
END_TEST

/* Flows that fell silent just before the list was made are judged by another one, asked for once.
 */
START_TEST(a_full_report_is_asked_for_again)
{
	uint32_t i = 0;

	while (open_flow(i) != 11)
		i++;
	world_settle(w);
	world_advance_ms(100);
	full(11, NULL, 0);
	settle_ms(100);
	ck_assert_int_eq(phase(i), FLOW_ESTABLISHED);
	delta(11, NULL, 0);
	settle_ms(200);
	send_report(11, (struct agent_report){.sequence = ++sequence}, NULL, 0);
	ck_assert(answer.ack == sequence && answer.resync);
	world_tcp(w, i & 1, i, FRAMES_ACK | FRAMES_PSH, 1); /* (the seen cache keeps it back) */
	full(11, NULL, 0);
	settle_ms(300);
	ck_assert_int_eq(phase(i), FLOW_CLOSING);
	/* One that never falls silent does not make it ask for ever. */
	while (open_flow(++i) != 11)
		;
	world_settle(w);
	world_advance_ms(100);
	full(11, NULL, 0);
	settle_ms(400);
	open_flow(i);
	world_settle(w);
	world_advance_ms(100);
	full(11, NULL, 0);
	settle_ms(3000);
	delta(11, NULL, 0);
	ck_assert_int_eq(phase(i), FLOW_ESTABLISHED);
}
END_TEST

/* After a reboot the agents know what the forwarder has forgotten. */
START_TEST(flows_survive_a_reboot_by_what_agents_tell)
{
	enum { N = 4000 };
	static unsigned home[N];
	static struct agent_entry e[N];

	for (uint32_t i = 0; i < N; i++)
		home[i] = open_flow(i);
	world_set_weight(w, "web", 12, 7);
	/* As if the pins were gone, too. */
	for (unsigned v = 0; v < w->disk.n_vips; v++)
		w->disk.vips[v].n_pins = 0;
	world_restart(w, WORLD_REBOOT);
	ck_assert_uint_eq(world_consistency(w).flows_known, 0);
	for (unsigned last = 11; last <= 13; last++) {
		char id[16], dip[16];
		unsigned n = 0;
		snprintf(id, sizeof(id), "a%u", last);
		snprintf(dip, sizeof(dip), "b%u", last);
		bind_agent(id, dip);
		for (uint32_t i = 0; i < N; i++)
			if (home[i] == last)
				e[n++] = entry(i, false, 60000);
		sequence = 0;
		full(last, e, n);
		delta(last, NULL, 0);
	}
	settle_ms(1500);
	ck_assert_uint_eq(world_consistency(w).flows_known, N);
	ck_assert_uint_gt(world_consistency(w).flows_pinned, N / 10);
	for (uint32_t i = 0; i < N; i += 2)
		ck_assert_uint_eq(world_tcp(w, i & 1, i, FRAMES_ACK, 1), home[i]);
	settle_ms(6000);
	world_set_weight(w, "web", 11, 9);
	world_put_dip(w, "web", 14, 5, CONTROL_CREATED);
	world_set_weight(w, "web", 13, 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(world_tcp(w, i & 1, i, FRAMES_ACK, 1), home[i]);
	ck_assert_uint_eq(world_consistency(w).agents_refused_total, 0);
}
END_TEST

START_TEST(a_killed_forwarder_asks_for_everything)
{
	struct agent_entry e[2];
	struct agent_answer before;
	uint32_t i = flow_not_of(11, 0);

	e[0] = entry(i, false, 0);
	full(11, e, 1);
	before = answer;
	/* Killed before the claim was published: the slot is in the state file, so it is. */
	world_restart(w, WORLD_KILL);
	ck_assert_uint_eq(goes_to(i), 11);
	bind_agent("a11", "b11"); /* (the world's store keeps no agents) */
	send_report(11, (struct agent_report){.sequence = ++sequence}, NULL, 0);
	ck_assert(answer.ack == 0 && answer.resync);
	ck_assert_str_ne(answer.instance, before.instance);
	full(11, e, 1);
	ck_assert_uint_eq(world_tcp(w, 0, i, FRAMES_ACK, 1), 11);
}
END_TEST

/* Whatever an agent says, flows of other DIPs stay as they are. */
START_TEST(a_lying_agent)
{
	enum { N = 2000 };
	struct prng rng = prng_new("lying agent");
	unsigned home[N];
	struct agent_entry e[64];

	for (uint32_t i = 0; i < N; i++)
		home[i] = open_flow(i);
	world_settle(w);
	full(11, NULL, 0); /* "I have nothing": its own flows are closing */
	for (int round = 0; round < 300; round++) {
		for (unsigned k = 0; k < ARRAY_LEN(e); k++) {
			e[k] = entry((uint32_t)prng_below(&rng, N), prng_below(&rng, 2),
				     (uint32_t)prng_below(&rng, 100000));
			if (prng_below(&rng, 8) == 0)
				e[k].dport = (uint16_t)prng_u64(&rng);
			if (prng_below(&rng, 8) == 0)
				e[k].proto = IPPROTO_UDP;
			if (prng_below(&rng, 8) == 0)
				e[k].src.b[10] = 0;
		}
		send_report(11, (struct agent_report){.sequence = ++sequence}, e, ARRAY_LEN(e));
		if (round % 10 == 0)
			settle_ms(100);
	}
	for (uint32_t i = 0; i < N; i++) {
		if (home[i] == 11)
			continue;
		ck_assert_int_eq(phase(i), FLOW_ESTABLISHED);
		ck_assert_uint_eq(goes_to(i), home[i]);
	}
	ck_assert_uint_gt(world_consistency(w).agents_refused_total, 5000);
	ck_assert_uint_eq(world_consistency(w).flows_forgotten_total, 0);
}
END_TEST

START_TEST(clients_as_a_whole_do_not_end)
{
	struct control_request r = {.op = OP_VIP_PUT, .vip = "all"};
	struct agent_entry e = entry(5, false, 0);
	struct error err;
	bool created;

	vip_conf_defaults(&r.vip_edit.conf);
	r.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL | VIP_M_AFFINITY;
	r.vip_edit.conf.affinity = AFFINITY_CLIENT;
	r.vip_edit.conf.match = (struct vip_match){
		.address = frames_ip("10.9.0.101"), .port = 0, .protocol = VIP_ANY};
	ck_assert_int_eq(world_request(w, &r)->status, CONTROL_CREATED);
	world_put_dip(w, "all", 11, 1, CONTROL_CREATED);
	ck_assert_int_eq(
		control_agent_put(w->control, "c11", "all", "b11", hash_of_token, &created, &err),
		CONTROL_OK);
	struct agent_report report = {
		.instance = ME, .sequence = 1, .full = true, .first = true, .last = true};
	report.entries = &e;
	report.n = 1;
	control_agent_report(w->control, "c11", &report, &answer);
	ck_assert_uint_eq(world_dip_flows(w, "all", 11), 1);
	e.ended = true;
	e.proto = IPPROTO_UDP;
	report = (struct agent_report){.instance = ME, .sequence = 2, .n = 1, .entries = &e};
	control_agent_report(w->control, "c11", &report, &answer);
	ck_assert(answer.ack == 2 && answer.n_refused == 0);
	settle_ms(100000);
	ck_assert_uint_eq(world_dip_flows(w, "all", 11), 1);
}
END_TEST

START_TEST(orphans_are_counted_once)
{
	struct agent_report r = {.sequence = 9, .full = true, .first = true, .last = true};

	r.orphans = 1000; /* counted before it spoke to this process */
	send_report(11, r, NULL, 0);
	ck_assert_uint_eq(world_consistency(w).orphans_total, 0);
	r = (struct agent_report){.sequence = 10, .orphans = 1005, .load = {3, 2, 50}};
	send_report(11, r, NULL, 0);
	send_report(11, r, NULL, 0);
	ck_assert_uint_eq(world_consistency(w).orphans_total, 5);
	r = (struct agent_report){.instance = "00000000000000cc",
				  .sequence = 1,
				  .full = true,
				  .first = true,
				  .last = true,
				  .orphans = 2};
	send_report(11, r, NULL, 0);
	ck_assert_uint_eq(world_consistency(w).orphans_total, 7);
	size_t n;
	world_advance_ms(1234);
	struct agent_info *a = control_read_agents(w->control, NULL, &n);
	ck_assert_uint_eq(n, 3);
	ck_assert_str_eq(a[0].id, "a11");
	ck_assert_str_eq(a[0].vip, "web");
	ck_assert_str_eq(a[0].dip, "b11");
	ck_assert_uint_eq(a[0].last_report_age_ms, 1234);
	ck_assert_uint_eq(a[0].orphans_total, 7);
	ck_assert_uint_eq(a[0].reports_total, 3);
	ck_assert(a[0].synced);
	ck_assert(!a[1].synced && !a[1].instance[0]);
	free(a);
}
END_TEST

/* --- bindings ------------------------------------------------------------------------------------
 */

static int store_answer;
static unsigned n_stored;

static int store_put(void *ctx, const struct persist_agent *a, struct error *err)
{
	(void)ctx;
	ck_assert_uint_gt(a->dip_uid, 0);
	n_stored += store_answer == 0;
	return store_answer ? error_set(err, store_answer, "told to fail") : 0;
}

static int store_delete(void *ctx, const char *id, struct error *err)
{
	(void)ctx;
	ck_assert_str_eq(id, "a11");
	return store_answer ? error_set(err, store_answer, "told to fail") : 0;
}

static enum control_status put(const char *id, const char *vip, const char *dip, struct error *err)
{
	bool created;

	return control_agent_put(w->control, id, vip, dip, hash_of_token, &created, err);
}

START_TEST(bindings)
{
	struct persist *p = &w->control->conf.persist;
	uint8_t hash[32];
	struct error err;
	size_t n;

	ck_assert_int_eq(put("x", "none", "b11", &err), CONTROL_NOT_FOUND);
	ck_assert_str_eq(err.message, "no VIP has the id 'none'");
	ck_assert_int_eq(put("x", "web", "b99", &err), CONTROL_NOT_FOUND);
	ck_assert_str_eq(err.message, "the VIP 'web' has no DIP 'b99'");
	ck_assert_int_eq(put("x", "web", "b11", &err), CONTROL_CONFLICT);
	ck_assert_str_eq(err.message, "the agent 'a11' has this DIP already");
	p->put_agent = store_put;
	p->delete_agent = store_delete;
	static const struct {
		int rc;
		enum control_status status;
	} failures[] = {{-ENOSPC, CONTROL_NO_STORAGE},
			{-EROFS, CONTROL_NO_STORAGE},
			{-ENOENT, CONTROL_NOT_FOUND},
			{-EIO, CONTROL_FAILED}};
	world_put_dip(w, "web", 14, 1, CONTROL_CREATED);
	for (unsigned i = 0; i < ARRAY_LEN(failures); i++) {
		store_answer = failures[i].rc;
		ck_assert_int_eq(put("a14", "web", "b14", &err), failures[i].status);
		ck_assert_str_eq(err.message, "told to fail");
		ck_assert(!control_agent_token(w->control, "a14", hash));
		ck_assert_int_eq(control_agent_delete(w->control, "a11", &err), failures[i].status);
		ck_assert(control_agent_token(w->control, "a11", hash));
	}
	store_answer = 0;
	ck_assert_int_eq(put("a14", "web", "b14", &err), CONTROL_OK);
	ck_assert_uint_eq(n_stored, 1);
	ck_assert(control_agent_token(w->control, "a14", hash));
	ck_assert_mem_eq(hash, hash_of_token, 32);
	ck_assert_int_eq(control_agent_delete(w->control, "a11", &err), CONTROL_OK);
	ck_assert_int_eq(control_agent_delete(w->control, "a11", &err), CONTROL_NOT_FOUND);

	/* An agent goes with its DIP, and one of the same name is another DIP. */
	ck_assert_int_eq(world_delete_dip(w, "web", 14, true)->status, CONTROL_OK);
	world_put_dip(w, "web", 14, 1, CONTROL_CREATED);
	free(control_read_agents(w->control, "a14", &n));
	ck_assert_uint_eq(n, 0);
	ck_assert(!control_agent_token(w->control, "a14", hash));
	struct agent_report r = {.instance = ME, .sequence = 1};
	control_agent_report(w->control, "a14", &r, &answer);
	ck_assert(!answer.found);
	ck_assert_int_eq(put("z14", "web", "b14", &err), CONTROL_OK);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agents");
	TCase *tc = tcase_create("agents");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, connections_never_seen_are_kept_where_they_are);
	tcase_add_test(tc, a_packet_before_the_publish_overrules_a_claim);
	tcase_add_test(tc, ends_mark_flows_of_the_own_dip_only);
	tcase_add_test(tc, a_late_end_ends_nothing);
	tcase_add_test(tc, sequence_numbers);
	tcase_add_test(tc, a_full_report_ends_what_the_backend_does_not_have);
	tcase_add_test(tc, a_full_report_is_asked_for_again);
	tcase_add_test(tc, flows_survive_a_reboot_by_what_agents_tell);
	tcase_add_test(tc, a_killed_forwarder_asks_for_everything);
	tcase_add_test(tc, a_lying_agent);
	tcase_add_test(tc, clients_as_a_whole_do_not_end);
	tcase_add_test(tc, orphans_are_counted_once);
	tcase_add_test(tc, bindings);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
