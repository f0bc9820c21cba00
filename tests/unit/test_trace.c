/* Traces: what is in the file is what came in and went out, with the verdict that the counters say;
 * a full ring loses copies and never packets; and a worker that forwards at full speed beside them.
 */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "api/server/resources.h"
#include "base/clock.h"
#include "control/internal.h"
#include "io/port_mem.h"
#include "tests/bench/endless_port.h"
#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

static struct world *w;
static struct api_live live;
static struct api_context api;

static void read_traffic(void *ctx, struct api_traffic *out)
{
	(void)ctx;
	memset(out, 0, sizeof(*out));
	out->n_ifaces = 1;
	strcpy(out->ifaces[0].name, "eth7");
}

static void start(unsigned n_dips)
{
	w = world_new(1, 4096);
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
	live = (struct api_live){.control = w->control, .workers = w->workers, .n_workers = 1};
	memset(&api, 0, sizeof(api));
	api_backend_live(&api.backend, &live);
	api.backend.ctx = &live;
	api.backend.read_traffic = read_traffic;
	atomic_store(&api.ready, true);
}

/* --- asking, and reading the file ----------------------------------------------------------------
 */

#define Q(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct api_response ask(const char *const *query, unsigned want)
{
	struct api_request req = {.api = &api, .method = "GET", .target = "/v1/trace"};
	struct api_response resp = {.status = 0};

	for (; query && *query; query += 2) {
		req.query[req.n_query].name = query[0];
		req.query[req.n_query++].value = query[1];
	}
	trace_get(&req, &resp);
	ck_assert_uint_eq(resp.status, want);
	ck_assert((want == 200) == (resp.stream.read != NULL));
	return resp;
}

static void expect_refused(const char *const *query, unsigned want, const char *parameter)
{
	struct api_response resp = ask(query, want);
	json_t *e = json_array_get(json_object_get(resp.body, "errors"), 0);

	if (parameter)
		ck_assert_str_eq(json_string_value(json_object_get(e, "parameter")), parameter);
	json_decref(resp.body);
}

#define FILE_MAX (8u << 20)
static uint8_t file[FILE_MAX];
static size_t file_len;
static unsigned step_ms = 5000; /* the clock moves so far when there is nothing to read */

/* Read on, to the end (or, without `end`, until there is nothing for now). */
static void read_file(struct api_response *resp, bool end)
{
	ssize_t n;

	while ((n = resp->stream.read(resp->stream.state, (char *)file + file_len,
				      FILE_MAX - file_len)) > 0 ||
	       (n == 0 && end)) {
		file_len += (size_t)n;
		if (n == 0)
			world_advance_ms(step_ms);
	}
	if (end)
		ck_assert_int_lt(n, 0);
}

static void close_trace(struct api_response *resp)
{
	resp->stream.close(resp->stream.state);
	ck_assert(!atomic_load(&api.traces));
}

struct block {
	uint32_t type;
	uint32_t iface;
	uint64_t time_ns;
	uint32_t kept, len;
	const uint8_t *data;
	char comment[512];
	uint64_t received, dropped;
};

static uint32_t word(size_t at)
{
	uint32_t x;

	ck_assert_uint_le(at + 4, file_len);
	memcpy(&x, file + at, 4);
	return x;
}

static void read_options(struct block *b, size_t at, size_t end)
{
	for (;;) {
		uint16_t code = (uint16_t)word(at), len = (uint16_t)(word(at) >> 16);
		at += 4;
		ck_assert_uint_le(at + len, end);
		if (code == 0)
			break;
		if (code == 1)
			snprintf(b->comment, sizeof(b->comment), "%.*s", (int)len, file + at);
		if (b->type == 5 && code == 4)
			memcpy(&b->received, file + at, 8);
		if (b->type == 5 && code == 5)
			memcpy(&b->dropped, file + at, 8);
		at += (len + 3u) & ~3u;
	}
	ck_assert_uint_eq(at, end);
}

/* The block at *at, which is moved behind it; false at the end. */
static bool next_block(size_t *at, struct block *b)
{
	if (*at == file_len)
		return false;
	size_t len = word(*at + 4), body = *at + 8, options = body;

	*b = (struct block){.type = word(*at)};
	ck_assert_uint_ge(len, 12);
	ck_assert_uint_eq(len % 4, 0);
	ck_assert_uint_eq(word(*at + len - 4), len);
	if (b->type == 0x0a0d0d0a) {
		ck_assert_uint_eq(word(body), 0x1a2b3c4d);
		ck_assert_uint_eq(word(body + 4), 1); /* version 1.0 */
		options = body + 16;
	} else if (b->type == 1) {
		ck_assert_uint_eq(word(body), 1); /* Ethernet */
		options = body + 8;
	} else {
		b->iface = word(body);
		b->time_ns = (uint64_t)word(body + 4) << 32 | word(body + 8);
		options = body + 12;
	}
	if (b->type == 6) {
		b->kept = word(body + 12);
		b->len = word(body + 16);
		b->data = file + body + 20;
		options = body + 20 + ((b->kept + 3u) & ~3u);
	}
	read_options(b, options, *at + len - 4);
	*at += len;
	return true;
}

/* All packets of the file, whose frame is checked. */
static unsigned read_packets(struct block *packets, unsigned most, struct block statistics[2])
{
	size_t at = 0;
	unsigned n = 0;
	struct block b;

	for (unsigned i = 0; i < 3; i++) {
		ck_assert(next_block(&at, &b));
		ck_assert_uint_eq(b.type, i == 0 ? 0x0a0d0d0a : 1);
	}
	while (next_block(&at, &b) && b.type == 6) {
		ck_assert_uint_lt(n, most);
		packets[n++] = b;
	}
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(b.type, 5);
		ck_assert_uint_eq(b.iface, i);
		statistics[i] = b;
		ck_assert(next_block(&at, &b) == (i == 0));
	}
	return n;
}

static void expect_comment(const struct block *b, const char *text)
{
	ck_assert_msg(strstr(b->comment, text) != NULL, "\"%s\": no \"%s\"", b->comment, text);
}

static struct frames_spec spec_of(const char *src, uint16_t sport)
{
	return (struct frames_spec){.src = frames_ip(src),
				    .dst = frames_ip(WORLD_VIP_ADDRESS),
				    .sport = sport,
				    .dport = 80,
				    .tcp_flags = FRAMES_SYN};
}

static unsigned send_from(const char *src, uint16_t sport)
{
	struct frames_spec s = spec_of(src, sport);

	return world_send(w, 0, &s);
}

/* --- tests ---------------------------------------------------------------------------------------
 */

static struct block packets[12000];
static struct block statistics[2];

START_TEST(a_packet_comes_in_and_goes_out)
{
	uint8_t frame[FRAMES_MAX];
	struct frames_spec s = spec_of("192.0.2.9", 4711);

	start(1);
	file_len = 0;
	s.payload_len = 700;
	s.tcp_flags = PSH_ACK;
	uint32_t len = frames_build(frame, &s);
	struct api_response resp = ask(Q("vip", "web", "packets", "1", "snap", "100"), 200);
	ck_assert_str_eq(resp.text_type, "application/x-pcapng");
	ck_assert_uint_eq(world_send(w, 0, &s), 1);
	world_send(w, 0, &s); /* one too many */
	read_file(&resp, true);
	close_trace(&resp);
	ck_assert_uint_eq(read_packets(packets, 10, statistics), 2);
	ck_assert_uint_eq(packets[0].iface, 0);
	ck_assert_uint_eq(packets[1].iface, 1);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(packets[i].len, len);
		ck_assert_uint_eq(packets[i].kept, 100);
		expect_comment(&packets[i], "VIP web: forwarded to DIP b1 (home, Dcode ");
		expect_comment(&packets[i], " eth7");
		ck_assert_int_eq((int)(packets[i].time_ns / 1000000000u), (int)clock_wall_s());
	}
	ck_assert_int_eq(memcmp(packets[0].data, frame, 100), 0);
	static const uint8_t to_b1[] = {2, 0xd1, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
	ck_assert_int_eq(memcmp(packets[1].data, to_b1, sizeof(to_b1)), 0);
	ck_assert_int_eq(memcmp(packets[1].data + 14, frame + 14, 86), 0);
	ck_assert_uint_eq(statistics[0].received, 1);
	ck_assert_uint_eq(statistics[0].dropped, 0);
	ck_assert_uint_eq(statistics[1].received, 1);
	world_free(w);
}
END_TEST

START_TEST(the_reason_is_said)
{
	unsigned dip[200];

	start(2);
	for (unsigned i = 0; i < 200; i++) {
		dip[i] = send_from("192.0.2.9", (uint16_t)(1000 + i));
		world_settle(w);
	}
	world_set_weight(w, "web", 1, 0);
	file_len = 0;
	struct api_response resp = ask(Q("packets", "2000"), 200);
	for (unsigned i = 0; i < 200; i++)
		ck_assert_uint_eq(send_from("192.0.2.9", (uint16_t)(1000 + i)), dip[i]);
	world_set_weight(w, "web", 1, 10);
	world_set_admin(w, "web", 2, ADMIN_DOWN);
	for (unsigned i = 0; i < 200; i++)
		ck_assert_uint_eq(send_from("192.0.2.77", (uint16_t)(1000 + i)), 1);
	read_file(&resp, true);
	close_trace(&resp);
	unsigned n = read_packets(packets, 2000, statistics);
	ck_assert_uint_eq(n, 800);
	unsigned pins = 0, rerolls = 0;
	for (unsigned i = 0; i < n; i++) {
		pins += strstr(packets[i].comment, "(pin, ") != NULL;
		rerolls += strstr(packets[i].comment, "(reroll, ") != NULL;
	}
	unsigned on_1 = 0;
	for (unsigned i = 0; i < 200; i++)
		on_1 += dip[i] == 1;
	ck_assert_uint_eq(pins, 2 * on_1);
	ck_assert_uint_gt(rerolls, 100);
	ck_assert_uint_lt(rerolls, 300);
	world_free(w);
}
END_TEST

static unsigned send_nothing(struct port *p, unsigned iface, const struct frame *f, unsigned n)
{
	(void)p;
	(void)iface;
	(void)f;
	(void)n;
	return 0;
}

START_TEST(drops_are_shown_with_their_reason)
{
	struct frames_spec s = spec_of("192.0.2.9", 4711);

	start(1);
	file_len = 0;
	struct api_response resp = ask(NULL, 200);
	world_set_admin(w, "web", 1, ADMIN_DOWN);
	ck_assert_uint_eq(world_send(w, 0, &s), 0);
	world_set_admin(w, "web", 1, ADMIN_UP);
	s.v4_frag = 0x2001; /* writes over what the first fragment says */
	ck_assert_uint_eq(world_send(w, 0, &s), 0);
	s.v4_frag = 0;
	s.dport = 81;
	ck_assert_uint_eq(world_send(w, 0, &s), 0);
	s.dport = 80;
	vip_view_dips(w->control->vips[0]->now->view)[1].resolved = false;
	ck_assert_uint_eq(world_send(w, 0, &s), 0);
	vip_view_dips(w->control->vips[0]->now->view)[1].resolved = true;
	ck_assert_uint_eq(world_send(w, 0, &s), 1);
	struct port_driver full = *w->ports[0]->driver;
	full.tx = send_nothing;
	w->ports[0]->driver = &full;
	ck_assert_uint_eq(world_send(w, 0, &s), 0);
	read_file(&resp, true);
	close_trace(&resp);
	unsigned n = read_packets(packets, 2000, statistics);
	static const char *const reasons[] = {"no_dip (", "malformed (", "no_vip (",
					      "no_neighbor ("};
	for (unsigned i = 0; i < ARRAY_LEN(reasons); i++) {
		ck_assert_uint_eq(packets[i].iface, 0);
		expect_comment(&packets[i], "dropped: ");
		expect_comment(&packets[i], reasons[i]);
		expect_comment(&packets[i], i == 1 || i == 2 ? "no VIP" : "VIP web");
	}
	/* The last one did not go out, so it is there once, without a way out. */
	expect_comment(&packets[n - 1], "dropped: tx_full (");
	ck_assert_uint_eq(packets[n - 1].iface, 0);
	expect_comment(&packets[n - 2], "forwarded");
	ck_assert_uint_eq(packets[n - 2].iface, 1);
	world_free(w);
}
END_TEST

/* Every combination of filters against looking at each frame. */
START_TEST(filters_take_what_they_say)
{
	static const char *const sources[] = {"192.0.2.1", "192.0.2.2", "198.51.100.3"};
	enum { N = 60 };

	start(2);
	for (unsigned mask = 0; mask < 16; mask++) {
		const char *query[9] = {NULL};
		unsigned k = 0, want = 0;
		if (mask & 1 || mask & 8) {
			query[k++] = "vip";
			query[k++] = "web";
		}
		if (mask & 2) {
			query[k++] = "src";
			query[k++] = sources[1];
		}
		if (mask & 4) {
			query[k++] = "sport";
			query[k++] = "2003";
		}
		if (mask & 8) {
			query[k++] = "dip";
			query[k++] = "b2";
		}
		file_len = 0;
		struct api_response resp = ask(query, 200);
		for (unsigned i = 0; i < N; i++) {
			struct frames_spec s = spec_of(sources[i % 3], (uint16_t)(2000 + i % 10));
			s.dport = i % 7 ? 80 : 81; /* no VIP's */
			unsigned dip = world_send(w, 0, &s);
			bool wanted = (!(mask & 1) || dip) && (!(mask & 2) || i % 3 == 1) &&
				      (!(mask & 4) || i % 10 == 3) && (!(mask & 8) || dip == 2);
			want += wanted ? 1 + (dip != 0) : 0;
		}
		read_file(&resp, true);
		close_trace(&resp);
		ck_assert_uint_eq(read_packets(packets, 2000, statistics), want);
	}
	world_free(w);
}
END_TEST

START_TEST(a_full_ring_loses_copies_only)
{
	start(1);
	file_len = 0;
	struct api_response resp = ask(Q("packets", "10000"), 200);
	for (unsigned i = 0; i < 3000; i++)
		ck_assert_uint_eq(send_from("192.0.2.1", (uint16_t)(1000 + i)), 1);
	read_file(&resp, true);
	close_trace(&resp);
	unsigned n = read_packets(packets, 12000, statistics);
	ck_assert_uint_ge(n, TRACE_RECORDS - 2);
	ck_assert_uint_le(n, TRACE_RECORDS);
	ck_assert_uint_eq(statistics[0].received, 3000);
	ck_assert_uint_eq(statistics[0].dropped, 3000 - n / 2);
	ck_assert_uint_eq(statistics[1].received, n / 2);
	world_free(w);
}
END_TEST

START_TEST(it_ends_by_itself)
{
	start(1);
	file_len = 0;
	step_ms = 500;
	struct api_response resp = ask(Q("seconds", "2"), 200);
	read_file(&resp, false);
	ck_assert_uint_eq(send_from("192.0.2.1", 1), 1);
	uint64_t before = world_now_ms();
	read_file(&resp, true);
	ck_assert_uint_ge(world_now_ms() - before, 2000);
	ck_assert_uint_le(world_now_ms() - before, 3500);
	close_trace(&resp);
	ck_assert_uint_eq(read_packets(packets, 10, statistics), 2);
	/* No trace: nothing is written any more. The next one does not see what the last one left.
	 */
	resp = ask(Q("seconds", "60"), 200);
	for (unsigned i = 0; i < 5; i++)
		send_from("192.0.2.1", 1);
	close_trace(&resp); /* unread */
	uint64_t head = atomic_load(&w->workers[0]->trace.ring->head);
	send_from("192.0.2.1", 1);
	ck_assert_uint_eq(atomic_load(&w->workers[0]->trace.ring->head), head);
	file_len = 0;
	resp = ask(Q("packets", "1"), 200);
	send_from("192.0.2.1", 77);
	read_file(&resp, true);
	close_trace(&resp);
	ck_assert_uint_eq(read_packets(packets, 10, statistics), 2);
	/* The end of the process ends it too. */
	file_len = 0;
	resp = ask(Q("seconds", "60"), 200);
	atomic_store(&api.ready, false);
	before = world_now_ms();
	read_file(&resp, true);
	ck_assert_uint_eq(world_now_ms(), before);
	close_trace(&resp);
	step_ms = 5000;
	world_free(w);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
	start(1);
	expect_refused(Q("vip", "other"), 404, NULL);
	expect_refused(Q("vip", "web", "dip", "b2"), 404, NULL);
	expect_refused(Q("dip", "b1"), 400, "vip");
	expect_refused(Q("src", "10.0.0"), 400, "src");
	expect_refused(Q("sport", "0"), 400, "sport");
	expect_refused(Q("sport", "65536"), 400, "sport");
	expect_refused(Q("packets", "0"), 400, "packets");
	expect_refused(Q("packets", "10001"), 400, "packets");
	expect_refused(Q("seconds", "61"), 400, "seconds");
	expect_refused(Q("seconds", ""), 400, "seconds");
	expect_refused(Q("seconds", "-1"), 400, "seconds");
	expect_refused(Q("snap", "13"), 400, "snap");
	expect_refused(Q("snap", "1921"), 400, "snap");
	struct api_response resp = ask(NULL, 200);
	expect_refused(NULL, 409, NULL);
	close_trace(&resp);
	resp = ask(NULL, 200);
	close_trace(&resp);
	world_free(w);
}
END_TEST

static uint64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A worker at full speed, traces that come and go: what is read is of the trace that runs, and
 * after the stop nothing is written. */
START_TEST(beside_a_worker_at_full_speed)
{
	enum { ROUNDS = 30 };
	struct worker_config wc = {.cpu = -1, .checksum = CHECKSUM_AUTO};
	struct worker *worker;

	start(3);
	wc.port = endless_port_new(1000, 0, 0x0a090064);
	for (int i = 0; i < N_LEARN_RINGS; i++) {
		wc.rings[i] = aligned_alloc(CACHE_LINE, learn_ring_bytes(1024));
		memset(wc.rings[i], 0, learn_ring_bytes(1024));
		wc.rings[i]->n = 1024;
	}
	ck_assert_int_eq(worker_new(&wc, &worker), 0);
	worker_set_snapshot(worker, w->control->snapshot);
	ck_assert_int_eq(worker_start(worker), 0);
	uint32_t session = 0;
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct trace_filter f = {.snap = 60 + round, .dip = (uint16_t)(1 + round % 3)};
		unsigned n = 0, ins = 0;
		f.vip_uid = w->control->vips[0]->uid;
		ck_assert_int_eq(workers_trace_start(&worker, 1, &f), 0);
		const struct trace_record *r;
		uint64_t last_pair = 0;
		for (uint64_t until = real_ns() + 10000000000u; ins < 500 && real_ns() < until;) {
			while ((r = worker_trace_peek(worker)) != NULL) {
				if (n++ == 0)
					ck_assert_uint_ne(r->session, session);
				session = n == 1 ? r->session : session;
				expect(r->session == session && r->dip == f.dip &&
				       r->len_kept == (r->len < f.snap ? r->len : f.snap) &&
				       r->verdict == TRACE_FORWARDED && r->data[12] == 8);
				expect(r->way != TRACE_IN || r->pair > last_pair);
				last_pair = r->way == TRACE_IN ? r->pair : last_pair;
				ins += r->way == TRACE_IN;
				worker_trace_pop(worker);
			}
		}
		workers_trace_stop(&worker, 1);
		uint64_t head = atomic_load(&worker->trace.ring->head);
		uint64_t sent = counter_read(&worker->counters->bursts);
		while (counter_read(&worker->counters->bursts) < sent + 3)
			usleep(100);
		ck_assert_uint_eq(atomic_load(&worker->trace.ring->head), head);
		ck_assert_uint_ge(ins, 500);
	}
	worker_stop(worker);
	ck_assert_uint_eq(endless_port_dropped(wc.port), 0);
	worker_free(worker);
	endless_port_free(wc.port);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		free(wc.rings[i]);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("trace");
	TCase *tc = tcase_create("trace");

	tcase_add_test(tc, a_packet_comes_in_and_goes_out);
	tcase_add_test(tc, the_reason_is_said);
	tcase_add_test(tc, drops_are_shown_with_their_reason);
	tcase_add_test(tc, filters_take_what_they_say);
	tcase_add_test(tc, a_full_ring_loses_copies_only);
	tcase_add_test(tc, it_ends_by_itself);
	tcase_add_test(tc, what_cannot_be_is_refused);
	tcase_add_test(tc, beside_a_worker_at_full_speed);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(s, tc);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
