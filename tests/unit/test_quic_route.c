/* QUIC by connection ID through a whole forwarder: what goes by ID, what by its flow, what is
 * learned, and how long a DIP that drains is kept. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/port_mem.h"
#include "tests/unit/edits.h"
#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define N_DIPS 4u
#define PAYLOAD 42 /* Ethernet, IPv4, UDP */
#define VERSION_2 0x6b3343cfu

enum form { SHORT, LONG };

struct quic_packet {
	enum form form;
	uint32_t version;
	uint8_t type;	 /* of a long header */
	unsigned server; /* whose ID it bears: 10.9.0.<server>; 0 = nobody's */
	uint8_t rotation;
	uint32_t len; /* of the payload; 0 = 1200 */
};

static struct world *w;

static void put_quic(uint8_t *b, const struct quic_packet *q)
{
	uint8_t *cid = b + 1;

	b[0] = q->form == LONG ? (uint8_t)(0xc0 | q->type << 4) : 0x40;
	if (q->form == LONG) {
		b[1] = (uint8_t)(q->version >> 24);
		b[2] = (uint8_t)(q->version >> 16);
		b[3] = (uint8_t)(q->version >> 8);
		b[4] = (uint8_t)q->version;
		b[5] = 8;
		cid = b + 6;
	}
	cid[0] = (uint8_t)(q->rotation << 5 | 7);
	cid[1] = 0x5a;
	cid[2] = (uint8_t)q->server;
}

/* Send one of client i; the DIP that it went to, 0 = dropped. */
static unsigned send_quic(uint32_t i, const struct quic_packet *q)
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

	put_quic(buf + PAYLOAD, q);
	int rc = port_mem_inject(w->ports[0], 0, 0, buf, len);
	ck_assert_int_eq(rc, 0);
	worker_round(w->workers[0]);
	return port_mem_take(w->ports[0], 0, out, sizeof(out)) ? out[5] : 0;
}

static unsigned send_short(uint32_t i, unsigned server)
{
	return send_quic(i, &(struct quic_packet){.form = SHORT, .server = server});
}

static unsigned send_initial(uint32_t i)
{
	return send_quic(i, &(struct quic_packet){.form = LONG, .version = 1, .server = 0});
}

static void set_quic(enum vip_quic quic, uint32_t rotation)
{
	struct control_request r = {.op = OP_VIP_PATCH, .vip = "web"};

	r.vip_edit.members = VIP_M_QUIC | VIP_M_QUIC_CONFIG_ROTATION;
	r.vip_edit.conf.quic = quic;
	r.vip_edit.conf.quic_config_rotation = rotation;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
}

/* id: NULL = none. */
static struct control_request *set_id(unsigned last, const char *id)
{
	static struct control_request r;

	r = (struct control_request){.op = OP_DIP_PATCH, .vip = "web"};
	snprintf(r.dip, sizeof(r.dip), "b%u", last);
	r.dip_edit.members = DIP_M_SERVER_ID;
	if (id)
		ck_assert_int_eq(dip_conf_parse_server_id(&r.dip_edit.conf, id), 0);
	return world_request(w, &r);
}

static void set_own_id(unsigned last)
{
	char id[8];

	snprintf(id, sizeof(id), "5a%02x", last);
	ck_assert_int_eq(set_id(last, id)->status, CONTROL_OK);
}

static void set_up(void)
{
	w = world_new(1, 65536);
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	for (unsigned d = 1; d <= N_DIPS; d++) {
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
		set_own_id(d);
	}
	set_quic(QUIC_SERVER_ID, 0);
}

static void tear_down(void)
{
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}

/* A client whose flow alone leads to another DIP than this one. */
static uint32_t client_elsewhere(uint32_t from, unsigned dip)
{
	set_quic(QUIC_FLOW, 0);
	while (send_short(from, dip) == dip)
		from++;
	set_quic(QUIC_SERVER_ID, 0);
	return from;
}

static unsigned long counted(const _Atomic uint64_t *c)
{
	return (unsigned long)counter_read(c);
}

static const struct explanation *explain(uint32_t i, const char *dip, uint8_t rotation)
{
	static struct explanation x;
	struct explain_question q = {.vip = "web", .sport = 4433, .cid_len = 8};

	q.src = ip_addr_v4((const uint8_t[]){10, 1, (uint8_t)(i >> 8), (uint8_t)i});
	q.cid[0] = (uint8_t)(rotation << 5);
	q.cid[1] = 0x5a;
	q.cid[2] = (uint8_t)atoi(dip + 1);
	control_explain(w->control, &q, &x);
	ck_assert(x.found);
	return &x;
}

/* --- by ID or by flow ----------------------------------------------------------------------------
 */

START_TEST(goes_by_id_or_flow)
{
	static const struct {
		const char *what;
		struct quic_packet q;
		bool by_id;
	} cases[] = {
		{"short header", {SHORT, 0, 0, 1, 0, 0}, true},
		{"another rotation", {SHORT, 0, 0, 1, 1, 0}, false},
		{"unroutable", {SHORT, 0, 0, 1, 7, 0}, false},
		{"nobody's", {SHORT, 0, 0, 99, 0, 0}, false},
		{"version 1, Initial", {LONG, 1, 0, 1, 0, 0}, false},
		{"version 1, 0-RTT", {LONG, 1, 1, 1, 0, 0}, false},
		{"version 1, Handshake", {LONG, 1, 2, 1, 0, 0}, true},
		{"version 1, Retry", {LONG, 1, 3, 1, 0, 0}, false},
		{"version 2, Initial", {LONG, VERSION_2, 1, 1, 0, 0}, false},
		{"version 2, 0-RTT", {LONG, VERSION_2, 2, 1, 0, 0}, false},
		{"version 2, Handshake", {LONG, VERSION_2, 3, 1, 0, 0}, true},
		{"version 2, Retry", {LONG, VERSION_2, 0, 1, 0, 0}, false},
		{"unknown version", {LONG, 0x1a2a3a4a, 0, 1, 0, 0}, true},
		{"unknown version, nobody's", {LONG, 0x1a2a3a4a, 0, 98, 0, 0}, false},
		{"version negotiation", {LONG, 0, 0, 1, 0, 0}, false},
	};

	set_up();
	uint32_t i = client_elsewhere(0, 1);
	unsigned by_flow = send_initial(i);
	ck_assert_uint_ne(by_flow, 1);
	for (size_t k = 0; k < ARRAY_LEN(cases); k++)
		ck_assert_msg(send_quic(i, &cases[k].q) == (cases[k].by_id ? 1 : by_flow), "%s",
			      cases[k].what);
	/* counted; what bears no server's ID is neither */
	ck_assert_uint_eq(counted(&w->workers[0]->counters->quic_by_id), 4);
	ck_assert_uint_eq(counted(&w->workers[0]->counters->quic_by_flow), 4);
	set_quic(QUIC_SERVER_ID, 1);
	ck_assert_uint_eq(send_quic(i, &cases[0].q), by_flow);
	ck_assert_uint_eq(send_quic(i, &cases[1].q), 1);
	ck_assert_int_eq(set_id(1, NULL)->status, CONTROL_OK);
	ck_assert_uint_eq(send_quic(i, &cases[1].q), by_flow);
	tear_down();
}
END_TEST

/* TCP of the same VIP, and a datagram without a byte of payload. */
START_TEST(leaves_the_rest_alone)
{
	set_up();
	for (uint32_t i = 0; i < 64; i++) {
		unsigned dip = world_tcp(w, 0, i, FRAMES_SYN, 0);
		ck_assert_uint_ne(dip, 0);
		ck_assert_uint_eq(world_tcp(w, 0, i, FRAMES_ACK, 64), dip);
		ck_assert_uint_ne(world_udp(w, 0, i), 0);
	}
	ck_assert_uint_eq(counted(&w->workers[0]->counters->quic_by_id), 0);
	ck_assert_uint_eq(counted(&w->workers[0]->counters->quic_by_flow), 0);
	tear_down();
}
END_TEST

/* --- what is learned -----------------------------------------------------------------------------
 */

/* Connections whose clients change their addresses while the pool changes stay; with flows alone
 * they do not, which shows that the test can fail. */
static unsigned migrate(enum vip_quic quic)
{
	enum { N = 300 };
	static unsigned server[N];
	struct prng rng = prng_new("migrate");
	unsigned n_moved = 0;

	set_up();
	set_quic(quic, 0);
	for (uint32_t i = 0; i < N; i++)
		server[i] = send_initial(i);
	for (unsigned round = 1; round <= 6; round++) {
		world_set_weight(w, "web", 1 + round % N_DIPS, prng_below(&rng, 30));
		world_put_dip(w, "web", 20 + round, 10, CONTROL_CREATED);
		world_advance_ms(20000);
		for (uint32_t i = 0; i < N; i++) {
			uint32_t address = prng_below(&rng, 2) ? i : prng_below(&rng, 60000);
			n_moved += send_short(address, server[i]) != server[i];
		}
		world_settle(w);
	}
	tear_down();
	return n_moved;
}

START_TEST(connections_migrate)
{
	ck_assert_uint_eq(migrate(QUIC_SERVER_ID), 0);
	ck_assert_uint_gt(migrate(QUIC_FLOW), 100);
}
END_TEST

/* A tuple that is known at one DIP, and whose packets bear another one's ID: nothing is learned of
 * them, so no pin is made and none moves. */
START_TEST(a_flow_is_not_moved_by_ids)
{
	set_up();
	uint32_t i = client_elsewhere(0, 1);
	unsigned home = send_initial(i);
	world_settle(w);
	struct consistency before = world_consistency(w);
	for (unsigned round = 0; round < 20; round++) {
		world_advance_ms(3000);
		ck_assert_uint_eq(send_short(i, 1), 1);
		ck_assert_uint_eq(send_short(i, home), home);
		world_settle(w);
		world_set_weight(w, "web", 2, 5 + round % 2);
	}
	struct consistency after = world_consistency(w);
	ck_assert_uint_eq(after.flows_known, before.flows_known);
	ck_assert_uint_eq(after.flows_opened_total, before.flows_opened_total);
	ck_assert_uint_eq(after.flows_lost_total, 0);
	/* strangers' packets with an ID make no flows, unless it is where they would go anyway */
	for (uint32_t k = 1000; k < 1400; k++)
		ck_assert_uint_eq(send_short(k, 1), 1);
	world_settle(w);
	uint64_t learned = world_consistency(w).flows_known - before.flows_known;
	ck_assert_uint_gt(learned, 20);
	ck_assert_uint_lt(learned, 250);
	struct audit a = {.done = false};
	control_audit_async(w->control, &a);
	world_settle(w);
	ck_assert(a.done);
	ck_assert_uint_eq(a.flows_misplaced, 0);
	tear_down();
}
END_TEST

/* A DIP that is down is not reached by ID; when it is back, it is. */
START_TEST(a_dip_that_is_down_falls_back)
{
	set_up();
	uint32_t i = client_elsewhere(0, 1);
	ck_assert_uint_eq(send_short(i, 1), 1);
	world_set_admin(w, "web", 1, ADMIN_DOWN);
	unsigned other = send_short(i, 1);
	ck_assert_uint_ne(other, 1);
	ck_assert_uint_ne(other, 0);
	ck_assert_uint_eq(send_short(i, 1), other);
	world_set_admin(w, "web", 1, ADMIN_UP);
	ck_assert_uint_eq(send_short(i, 1), 1);
	world_set_weight(w, "web", 1, 0); /* draining: no new flow, but its own */
	ck_assert_uint_eq(send_short(i, 1), 1);
	for (uint32_t k = 0; k < 64; k++)
		ck_assert_uint_ne(send_initial(2000 + k), 1);
	for (unsigned d = 1; d <= N_DIPS; d++)
		world_set_admin(w, "web", d, ADMIN_DOWN);
	ck_assert_uint_eq(send_short(i, 1), 0);
	tear_down();
}
END_TEST

/* --- draining ------------------------------------------------------------------------------------
 */

static bool dip_is_there(unsigned last)
{
	return world_dip_flows(w, "web", last) != UINT64_MAX;
}

/* Connections without a known flow keep what drains, until they have been silent for as long as a
 * datagram flow may be. */
START_TEST(a_drain_waits_for_connections)
{
	set_up();
	uint32_t i = client_elsewhere(0, 1);
	world_advance_ms(120000);
	world_settle(w);
	ck_assert_uint_eq(send_short(i, 1), 1);
	ck_assert_uint_eq(world_dip_flows(w, "web", 1), 0);
	ck_assert_int_eq(world_delete_dip(w, "web", 1, false)->status, CONTROL_ACCEPTED);
	for (unsigned round = 0; round < 10; round++) {
		world_advance_ms(50000);
		world_settle(w);
		ck_assert_uint_eq(send_short(i, 1), 1);
		world_settle(w);
	}
	world_restart(w, WORLD_KILL);
	world_advance_ms(50000);
	world_settle(w);
	ck_assert_uint_eq(send_short(i, 1), 1);
	world_advance_ms(1000); /* when it is listened again */
	world_settle(w);
	world_advance_ms(62000);
	world_settle(w);
	ck_assert(dip_is_there(1));
	world_advance_ms(4000);
	world_settle(w);
	ck_assert(!dip_is_there(1));
	ck_assert_uint_ne(send_short(i, 1), 1);
	world_advance_ms(1000);
	world_settle(w);
	/* one that nothing was sent to for long goes at once */
	world_advance_ms(100000);
	world_settle(w);
	ck_assert_int_eq(world_delete_dip(w, "web", 2, false)->status, CONTROL_OK);
	tear_down();
}
END_TEST

START_TEST(a_vip_waits_for_connections)
{
	struct control_request r = {.op = OP_VIP_DELETE, .vip = "web"};

	set_up();
	uint32_t i = client_elsewhere(0, 1);
	world_advance_ms(120000);
	world_settle(w);
	ck_assert_uint_eq(send_short(i, 1), 1);
	ck_assert_uint_eq(world_consistency(w).flows_known, 0);
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_ACCEPTED);
	for (unsigned round = 0; round < 3; round++) {
		world_advance_ms(50000);
		world_settle(w);
		ck_assert_uint_eq(send_short(i, 1), 1);
		world_advance_ms(1000);
		world_settle(w);
	}
	world_advance_ms(70000);
	world_settle(w);
	ck_assert_uint_eq(send_short(i, 1), 0);
	tear_down();
}
END_TEST

/* --- edits ---------------------------------------------------------------------------------------
 */

static void check_refused(const struct control_request *r, const char *code, const char *detail)
{
	ck_assert_int_eq(r->status, CONTROL_CONFLICT);
	ck_assert_uint_eq(r->errors.n, 1);
	ck_assert_str_eq(r->errors.list[0].pointer, "/server_id");
	ck_assert_str_eq(r->errors.list[0].code, code);
	ck_assert_msg(strstr(r->errors.list[0].detail, detail), "%s", r->errors.list[0].detail);
}

static struct control_request *put_dip_like(unsigned last, const char *name, const char *id)
{
	static struct control_request r;

	r = (struct control_request){.op = OP_DIP_PUT, .vip = "web"};
	snprintf(r.dip, sizeof(r.dip), "%s", name);
	r.dip_edit.members = DIP_M_ADDRESS | DIP_M_SERVER_ID;
	r.dip_edit.conf.address = ip_addr_v4((const uint8_t[]){10, 9, 0, (uint8_t)last});
	ck_assert_int_eq(dip_conf_parse_server_id(&r.dip_edit.conf, id), 0);
	return world_request(w, &r);
}

START_TEST(ids_must_go_together)
{
	set_up();
	check_refused(set_id(2, "5a01"), "duplicate", "\"b1\"");
	check_refused(set_id(2, "5a"), "conflict", "2 octets");
	check_refused(put_dip_like(9, "b9", "5a0203"), "conflict", "2 octets");
	check_refused(put_dip_like(9, "b9", "5a03"), "duplicate", "\"b3\"");
	ck_assert_int_eq(set_id(2, "5a02")->status, CONTROL_OK); /* its own */
	/* Another server may not have the ID of one that drains; the same under another name may.
	 */
	uint32_t i = 0;
	while (send_initial(i) != 3)
		i++;
	world_settle(w);
	ck_assert_int_eq(world_delete_dip(w, "web", 3, false)->status, CONTROL_ACCEPTED);
	check_refused(put_dip_like(9, "b9", "5a03"), "duplicate", "while it drains");
	ck_assert_int_eq(put_dip_like(3, "b3-again", "5a03")->status, CONTROL_CREATED);
	ck_assert_uint_eq(send_short(5000, 3), 3);
	world_advance_ms(200000);
	world_settle(w);
	ck_assert(!dip_is_there(3));
	ck_assert_uint_eq(send_short(5000, 3), 3);
	/* other lengths when nobody has one any more */
	for (unsigned d = 1; d <= N_DIPS; d++)
		if (d != 3)
			ck_assert_int_eq(set_id(d, NULL)->status, CONTROL_OK);
	check_refused(set_id(1, "01"), "conflict", "b3-again");
	tear_down();
}
END_TEST

static void edits_server_id(struct edits *s, const char *dip, const char *id)
{
	edits_add(s, OP_DIP_PATCH, "web", dip);
	s->dips[s->n - 1].members = DIP_M_SERVER_ID;
	ck_assert_int_eq(dip_conf_parse_server_id(&s->dips[s->n - 1].conf, id), 0);
}

/* In one piece they may change places, or their length. */
START_TEST(ids_of_several_edits)
{
	struct edits *s = edits_new();

	set_up();
	edits_server_id(s, "b1", "5a02");
	edits_server_id(s, "b2", "5a01");
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	edits_free(s);
	ck_assert_uint_eq(send_short(1, 1), 2);
	ck_assert_uint_eq(send_short(1, 2), 1);
	s = edits_new();
	edits_server_id(s, "b1", "01");
	edits_server_id(s, "b2", "02");
	edits_server_id(s, "b3", "03");
	ck_assert_int_eq(edits_run(s, w), CONTROL_CONFLICT);
	ck_assert_uint_eq(s->r.errors.n, 1);
	ck_assert_str_eq(s->r.errors.list[0].pointer, "/operations/0/body/server_id");
	edits_server_id(s, "b4", "04");
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	edits_free(s);
	for (unsigned d = 1; d <= N_DIPS; d++) {
		char dip[8];
		snprintf(dip, sizeof(dip), "b%u", d);
		ck_assert_str_ne(explain(2, dip, 0)->reason, "server_id");
	}
	tear_down();
}
END_TEST

/* What the disk says is what the next process does. */
START_TEST(ids_outlive_a_reboot)
{
	set_up();
	set_quic(QUIC_SERVER_ID, 3);
	world_restart(w, WORLD_REBOOT);
	for (uint32_t i = 0; i < 40; i++)
		for (unsigned d = 1; d <= N_DIPS; d++)
			ck_assert_uint_eq(send_quic(i, &(struct quic_packet){.form = SHORT,
									     .server = d,
									     .rotation = 3}),
					  d);
	tear_down();
}
END_TEST

START_TEST(explains)
{
	char name[8];

	set_up();
	uint32_t i = client_elsewhere(0, 1);
	snprintf(name, sizeof(name), "b%u", send_initial(i));
	world_settle(w);
	ck_assert_str_eq(explain(i, "b1", 0)->dip, "b1");
	ck_assert_str_eq(explain(i, "b1", 0)->reason, "server_id");
	ck_assert(explain(i, "b1", 0)->known);
	ck_assert_str_eq(explain(i, "b1", 7)->dip, name);
	ck_assert_str_eq(explain(i, "b1", 7)->reason, "home");
	ck_assert_str_eq(explain(i, "b99", 0)->dip, name);
	world_set_admin(w, "web", 1, ADMIN_DOWN);
	ck_assert_str_eq(explain(i, "b1", 0)->dip, name);
	set_quic(QUIC_FLOW, 0);
	ck_assert_str_eq(explain(i, "b2", 0)->dip, name);
	tear_down();
}
END_TEST

START_TEST(a_trace_says_why)
{
	static const struct trace_filter all = {.snap = 64};

	set_up();
	uint32_t i = client_elsewhere(0, 1);
	ck_assert_int_eq(workers_trace_start(w->workers, 1, &all), 0);
	ck_assert_uint_eq(send_short(i, 1), 1);
	const struct trace_record *r = worker_trace_peek(w->workers[0]);
	ck_assert_ptr_nonnull(r);
	ck_assert_int_eq(r->reason, LOOKUP_SERVER_ID);
	ck_assert_int_eq(r->verdict, TRACE_FORWARDED);
	workers_trace_stop(w->workers, 1);
	tear_down();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("quic_route");
	TCase *t = tcase_create("quic_route");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, goes_by_id_or_flow);
	tcase_add_test(t, leaves_the_rest_alone);
	tcase_add_test(t, connections_migrate);
	tcase_add_test(t, a_flow_is_not_moved_by_ids);
	tcase_add_test(t, a_dip_that_is_down_falls_back);
	tcase_add_test(t, a_drain_waits_for_connections);
	tcase_add_test(t, a_vip_waits_for_connections);
	tcase_add_test(t, ids_must_go_together);
	tcase_add_test(t, ids_of_several_edits);
	tcase_add_test(t, ids_outlive_a_reboot);
	tcase_add_test(t, explains);
	tcase_add_test(t, a_trace_says_why);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
