/* GET /v1/events over real sockets: ids and resume, what was missed, filters, and that neither slow
 * clients nor many of them hold anything up. */
#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/server/auth.h"
#include "base/clock.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/event_client.h"
#include "tests/unit/raw_http.h"

#define RING 4096u
#define STREAMS_MAX 32u
#define BOOT "00000000deadbeef"

static char dir[64];
static char where[96]; /* "unix:..." */
static struct http_server *server;
static struct api_context api;
static struct events *events;
static _Atomic uint64_t ahead_ns; /* of the real clock */

static uint64_t jumping_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + atomic_load(&ahead_ns);
}

static int64_t wall(void)
{
	return 1764463307;
}

static void set_up(void)
{
	struct error err;
	const char *listen[] = {where};
	const struct http_config config = {.n = 1, .listen = listen};

	signal(SIGPIPE, SIG_IGN);
	clock_set_source(jumping_clock, wall);
	memset(&api_fake, 0, sizeof(api_fake));
	snprintf(dir, sizeof(dir), "/tmp/test_stream.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(where, sizeof(where), "unix:%s/api.sock", dir);
	api_fake_context(&api);
	events = events_new(BOOT);
	api.backend.events = events;
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
}

static void tear_down(void)
{
	events_close(events);
	http_close(server);
	ck_assert_uint_eq(atomic_load(&api.n_event_streams), 0);
	events_free(events);
	clock_set_source(NULL, NULL);
	rmdir(dir);
}

static void emit(enum event_kind kind, const char *vip, unsigned from, unsigned to)
{
	for (unsigned i = from; i <= to; i++)
		events_emit(
			events,
			&(struct event_note){
				.kind = kind, .vip = vip, .generation = 7, .values = {{"i", i}}},
			"number %u", i);
}

static struct event_client ask(const char *query, const char *header)
{
	return event_client_ask(where, query, header);
}

static void expect_refused(const char *query, const char *header, int status)
{
	struct event_client c = ask(query, header);

	ck_assert_msg(c.status == status, "%s %s: %d", query, header, c.status);
	close(c.fd);
}

static void wait_for_streams(unsigned n)
{
	for (unsigned i = 0; i < 3000 && atomic_load(&api.n_event_streams) != n; i++)
		usleep(1000);
	ck_assert_uint_eq(atomic_load(&api.n_event_streams), n);
}

/* --- tests ---------------------------------------------------------------------------------------
 */

START_TEST(a_client_hears_what_happens)
{
	emit(EVENT_change, "web", 1, 5);
	struct event_client c = ask("", "");
	ck_assert_int_eq(c.status, 200);
	ck_assert_ptr_nonnull(strstr(c.head, "Content-Type: text/event-stream\r\n"));
	ck_assert_ptr_nonnull(strstr(c.head, "Cache-Control: no-store\r\n"));
	wait_for_streams(1);
	emit(EVENT_change, "web", 6, 6);
	struct event_message m;
	ck_assert(event_client_next(&c, &m));
	ck_assert_str_eq(m.id, BOOT "-6");
	ck_assert_str_eq(m.kind, "change");
	json_t *data = json_loads(m.data, 0, NULL);
	ck_assert_ptr_nonnull(data);
	ck_assert_str_eq(json_string_value(json_object_get(data, "kind")), "change");
	ck_assert_str_eq(json_string_value(json_object_get(data, "time")),
			 "2025-11-30T00:41:47.000Z");
	ck_assert_int_eq(json_integer_value(json_object_get(data, "generation")), 7);
	ck_assert_int_eq(json_integer_value(json_object_get(data, "count")), 1);
	ck_assert_str_eq(json_string_value(json_object_get(data, "vip")), "web");
	ck_assert(json_is_null(json_object_get(data, "dip")));
	ck_assert_str_eq(json_string_value(json_object_get(data, "text")), "number 6");
	ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(data, "values"), "i")),
			 6);
	ck_assert_uint_eq(json_object_size(data), 8);
	json_decref(data);
	close(c.fd);
	wait_for_streams(0);
}
END_TEST

START_TEST(a_client_that_comes_back_misses_nothing)
{
	emit(EVENT_change, "web", 1, 5);
	struct event_client c = ask("?since=0", "");
	event_client_expect(&c, "change", BOOT "-1", "number 1");
	close(c.fd);
	c = ask("?since=" BOOT "-3", "");
	event_client_expect(&c, "change", BOOT "-4", "number 4");
	close(c.fd);
	c = ask("?since=0", "Last-Event-ID: " BOOT "-4\r\n"); /* as browsers do */
	event_client_expect(&c, "change", BOOT "-5", "number 5");
	emit(EVENT_change, "web", 6, 6);
	event_client_expect(&c, "change", BOOT "-6", "number 6");
	close(c.fd);
	c = ask("", "Last-Event-ID: 0123456789abcdef-77\r\n");
	event_client_expect(&c, "restarted", BOOT "-0", "another process");
	event_client_expect(&c, "change", BOOT "-1", "number 1");
	close(c.fd);

	emit(EVENT_change, "web", 7, RING + 100);
	c = ask("?since=" BOOT "-3", "");
	event_client_expect(&c, "gap", BOOT "-100", "\"lost\":97");
	event_client_expect(&c, "change", BOOT "-101", "number 101");
	close(c.fd);
}
END_TEST

START_TEST(filters_keep_others_out)
{
	emit(EVENT_change, "web", 1, 1);
	emit(EVENT_change, "dns", 2, 2);
	emit(EVENT_warning, NULL, 3, 3);
	emit(EVENT_audit, NULL, 4, 4);
	struct event_client c = ask("?since=0&vip=dns", "");
	event_client_expect(&c, "change", BOOT "-2", "number 2");
	emit(EVENT_change, "dns", 5, 5);
	event_client_expect(&c, "change", BOOT "-5", "number 5");
	close(c.fd);
	c = ask("?since=0&kind=warning,audit", "");
	event_client_expect(&c, "warning", BOOT "-3", "number 3");
	event_client_expect(&c, "audit", BOOT "-4", "number 4");
	/* The sign of life moves it past what was kept from it. */
	emit(EVENT_change, "dns", 6, 7);
	atomic_fetch_add(&ahead_ns, 16000000000ull);
	struct event_message m;
	ck_assert(event_client_next(&c, &m));
	ck_assert(m.comment && !m.kind[0]);
	ck_assert_str_eq(m.id, BOOT "-7");
	close(c.fd);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
	emit(EVENT_change, "web", 1, 5);
	expect_refused("?kind=change,frob", "", 400);
	expect_refused("?kind=", "", 400);
	expect_refused("?kind=change,", "", 400);
	expect_refused("?vip=No%20ID", "", 400);
	expect_refused("?since=1", "", 400);
	expect_refused("?since=", "", 400);
	expect_refused("?since=" BOOT "-6", "", 400); /* has not happened */
	expect_refused("?since=" BOOT "-", "", 400);
	expect_refused("?since=" BOOT "--1", "", 400);
	expect_refused("?since=-1", "", 400);
	expect_refused("?since=" BOOT "-99999999999999999999", "", 400);
	expect_refused("", "Last-Event-ID: now\r\n", 400);
	expect_refused("", "Last-Event-ID: 0\r\nLast-Event-ID: 0\r\n", 400);
	expect_refused("?frob=1", "", 400);
	wait_for_streams(0);
}
END_TEST

START_TEST(there_is_room_for_some)
{
	struct event_client c[STREAMS_MAX];

	for (unsigned i = 0; i < STREAMS_MAX; i++) {
		c[i] = ask("", "");
		ck_assert_int_eq(c[i].status, 200);
	}
	struct event_client refused = ask("", "");
	ck_assert_int_eq(refused.status, 503);
	ck_assert_ptr_nonnull(strstr(refused.head, "Retry-After: 5\r\n"));
	close(refused.fd);
	/* All hear it, and others are answered beside them. */
	emit(EVENT_change, "web", 1, 1);
	for (unsigned i = 0; i < STREAMS_MAX; i++)
		event_client_expect(&c[i], "change", BOOT "-1", "number 1");
	struct http_answer a;
	int fd = http_connect(where);
	http_send(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 33);
	http_read(fd, false, &a);
	ck_assert_int_eq(a.status, 200);
	http_answer_free(&a);
	close(fd);
	/* One that has gone makes room. */
	close(c[0].fd);
	wait_for_streams(STREAMS_MAX - 1);
	c[0] = ask("", "");
	ck_assert_int_eq(c[0].status, 200);
	for (unsigned i = 0; i < STREAMS_MAX; i++)
		close(c[i].fd);
	wait_for_streams(0);
}
END_TEST

/* Long silence is no reason to cut a stream; a client that does not read is one. */
START_TEST(silence_is_allowed_but_not_deafness)
{
	struct event_client quiet = ask("", "");
	struct event_client deaf = ask("", "");
	int small = 4096;

	setsockopt(deaf.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	wait_for_streams(2);
	for (unsigned i = 0; i < 2; i++) {
		atomic_fetch_add(&ahead_ns, 20000000000ull);
		struct event_message m;
		ck_assert(event_client_next(&quiet, &m)); /* signs of life */
		ck_assert(m.comment);
	}
	/* Until nothing more goes into the deaf one's socket; the other one reads on. */
	for (unsigned n = 1; n <= 1500; n += 100) {
		emit(EVENT_change, "web", n, n + 99);
		for (unsigned i = 0; i < 100; i++) {
			char id[40];
			snprintf(id, sizeof(id), BOOT "-%u", n + i);
			event_client_expect(&quiet, "change", id, "number");
		}
	}
	ck_assert_uint_eq(atomic_load(&api.n_event_streams), 2);
	atomic_fetch_add(&ahead_ns, 31000000000ull);
	wait_for_streams(1);
	close(deaf.fd);
	close(quiet.fd);
}
END_TEST

/* A client that reads, but too slowly for what happens, is told so and cut. */
START_TEST(a_slow_client_is_told_and_cut)
{
	struct event_client c = ask("", "");
	struct event_message m;
	unsigned seen = 1;

	wait_for_streams(1);
	emit(EVENT_change, "web", 1, 1);
	event_client_expect(&c, "change", BOOT "-1", "number 1");
	emit(EVENT_change, "web", 2, 3000);
	usleep(100000); /* its socket is full by now */
	emit(EVENT_change, "web", 3001, 20000);
	while (event_client_next(&c, &m) && strcmp(m.kind, "gap") != 0)
		seen += !strcmp(m.kind, "change");
	ck_assert_str_eq(m.kind, "gap");
	json_t *data = json_loads(m.data, 0, NULL);
	json_int_t lost = json_integer_value(json_object_get(data, "lost"));
	json_decref(data);
	ck_assert_int_gt(lost, 0);
	char id[40];
	snprintf(id, sizeof(id), BOOT "-%u", seen + (unsigned)lost);
	ck_assert_str_eq(m.id, id);
	event_client_expect_end(&c);
	/* It comes back where it was cut; what has been forgotten since then is counted. */
	char header[80];
	unsigned after = seen + (unsigned)lost;
	snprintf(header, sizeof(header), "Last-Event-ID: %s\r\n", id);
	c = ask("", header);
	ck_assert(event_client_next(&c, &m));
	if (!strcmp(m.kind, "gap")) {
		data = json_loads(m.data, 0, NULL);
		after += (unsigned)json_integer_value(json_object_get(data, "lost"));
		json_decref(data);
		snprintf(id, sizeof(id), BOOT "-%u", after);
		ck_assert_str_eq(m.id, id);
		ck_assert(event_client_next(&c, &m));
	}
	snprintf(id, sizeof(id), BOOT "-%u", after + 1);
	ck_assert_str_eq(m.kind, "change");
	ck_assert_str_eq(m.id, id);
	close(c.fd);
}
END_TEST

START_TEST(the_last_event_ends_it)
{
	struct event_client c = ask("", "");

	wait_for_streams(1);
	uint64_t start = clock_now_ms();
	emit(EVENT_end, NULL, 1, 1);
	events_close(events);
	event_client_expect(&c, "end", BOOT "-1", "number 1");
	event_client_expect_end(&c);
	c = ask("?since=0", ""); /* too late, but no fault */
	event_client_expect(&c, "end", BOOT "-1", "number 1");
	event_client_expect_end(&c);
	ck_assert_uint_lt(clock_now_ms() - start, 500);
}
END_TEST

#define TOKEN "concury_whoever-follows-the-events"

/* Who came by place goes on; who came by the token is let go with it. */
START_TEST(a_stream_ends_with_its_token)
{
	struct auth_token t = {.id = "follower", .role = ROLE_READ};
	struct event_client by_place = ask("", ""), by_token;
	struct error err;
	bool created;

	ck_assert(token_hash(TOKEN, t.hash));
	ck_assert_int_eq(auth_put(api.auth, &t, &created, &err), 0);
	by_token = ask("", "Authorization: Bearer " TOKEN "\r\n");
	wait_for_streams(2);
	emit(EVENT_change, "web", 1, 1);
	event_client_expect(&by_token, "change", BOOT "-1", "number 1");
	event_client_expect(&by_place, "change", BOOT "-1", "number 1");
	ck_assert_int_eq(auth_delete(api.auth, t.id, &err), 0);
	uint64_t start = clock_now_ms();
	event_client_expect_end(&by_token);
	ck_assert_uint_lt(clock_now_ms() - start, 2000);
	expect_refused("", "Authorization: Bearer " TOKEN "\r\n", 401);
	emit(EVENT_change, "web", 2, 2);
	event_client_expect(&by_place, "change", BOOT "-2", "number 2");
	close(by_place.fd);
	wait_for_streams(0);
}
END_TEST

static int status_of(const char *text)
{
	struct http_answer a;
	int fd = http_connect(where);

	http_send(fd, text, strlen(text));
	http_read(fd, true, &a);
	int status = a.status;
	http_answer_free(&a);
	close(fd);
	return status;
}

START_TEST(head_and_old_clients)
{
	ck_assert_int_eq(status_of("HEAD /v1/events HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
	wait_for_streams(0);
	ck_assert_int_eq(status_of("POST /v1/events HTTP/1.1\r\nHost: x\r\n"
				   "Content-Length: 0\r\n\r\n"),
			 405);
	/* Without chunks: up to the end of the connection. */
	int fd = http_connect(where);
	char buf[4096];
	size_t n = 0;
	emit(EVENT_change, "web", 1, 1);
	http_send(fd, "GET /v1/events?since=0 HTTP/1.0\r\n\r\n", 35);
	while (n < sizeof(buf) - 1 && !strstr(buf, "number 1")) {
		ssize_t got = recv(fd, buf + n, sizeof(buf) - 1 - n, 0);
		ck_assert_int_gt(got, 0);
		n += (size_t)got;
		buf[n] = '\0';
	}
	ck_assert_ptr_null(strstr(buf, "chunked"));
	close(fd);
	wait_for_streams(0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("event_stream");
	TCase *tc = tcase_create("stream");

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, a_client_hears_what_happens);
	tcase_add_test(tc, a_client_that_comes_back_misses_nothing);
	tcase_add_test(tc, filters_keep_others_out);
	tcase_add_test(tc, what_cannot_be_is_refused);
	tcase_add_test(tc, there_is_room_for_some);
	tcase_add_test(tc, silence_is_allowed_but_not_deafness);
	tcase_add_test(tc, a_slow_client_is_told_and_cut);
	tcase_add_test(tc, the_last_event_ends_it);
	tcase_add_test(tc, a_stream_ends_with_its_token);
	tcase_add_test(tc, head_and_old_clients);
	tcase_set_timeout(tc, 60);
	suite_add_tcase(s, tc);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
