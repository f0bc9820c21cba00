/* Bodies of clients who may not have what they ask for: refused by the head, never kept, and no way
 * to others' memory. Over real sockets, in one process. */
#include <check.h>
#include <gnutls/gnutls.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define AGENT_TOKEN "fedcba9876543210fedcba9876543210"
#define BEARER "Authorization: Bearer " TOKEN "\r\n"
#define WRONG "Authorization: Bearer wrong-wrong-wrong-wrong\r\n"
#define JSON "Content-Type: application/json\r\n"
#define MIB (1u << 20)

static struct http_server *server;
static struct api_context api;
static const char *where;
static _Atomic uint64_t now_ms;

static uint64_t fake_ns(void)
{
	return atomic_load(&now_ms) * 1000000;
}

static int64_t fake_wall(void)
{
	return 1;
}

static void set_up(void)
{
	struct error err;
	const char *listen[] = {"127.0.0.1:0"};
	const struct http_config config = {.n = 1, .listen = listen};
	struct store_token token = {.id = "op", .role = "operate", .created_s = 1};
	const struct auth_config auth = {.n_tokens = 1, .tokens = &token, .store = api_fake_store};

	signal(SIGPIPE, SIG_IGN);
	atomic_store(&now_ms, 1000000);
	clock_set_source(fake_ns, fake_wall);
	memset(&api_fake, 0, sizeof(api_fake));
	api_fake_context(&api);
	ck_assert(token_hash(TOKEN, token.hash));
	ck_assert_msg(auth_new(&auth, &api.auth, &err) == 0, "%s", err.message);
	api_fake.agent_bound = true;
	strcpy(api_fake.agent.id, "a1");
	ck_assert(token_hash(AGENT_TOKEN, api_fake.token_hash));
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
	where = http_listener_text(server, 0);
}

static void tear_down(void)
{
	http_close(server);
	auth_free(api.auth);
	clock_set_source(NULL, NULL);
}

static int begin(const char *head)
{
	int fd = http_connect(where);

	ck_assert_int_ge(fd, 0);
	ck_assert(http_send(fd, head, strlen(head)));
	return fd;
}

static void send_body(int fd, size_t n)
{
	char piece[4096];

	memset(piece, 'x', sizeof(piece));
	for (; n; n -= n < sizeof(piece) ? n : sizeof(piece))
		ck_assert(http_send(fd, piece, n < sizeof(piece) ? n : sizeof(piece)));
}

static int status_of(int fd)
{
	struct http_answer a;

	http_read(fd, false, &a);
	int status = a.status;
	http_answer_free(&a);
	return status;
}

static bool is_closed(int fd)
{
	char byte;

	return recv(fd, &byte, 1, 0) <= 0;
}

/* Of what is refused, whether the body comes or not. */
static const struct {
	const char *head;
	int status;
} refused[] = {
	{"PUT /v1/config HTTP/1.1\r\nHost: localhost\r\n" JSON, 401},
	{"PUT /v1/config HTTP/1.1\r\nHost: localhost\r\n" WRONG JSON, 401},
	{"PUT /v1/tokens/a HTTP/1.1\r\nHost: localhost\r\n" BEARER JSON, 403},
	{"PUT /v1/nothing HTTP/1.1\r\nHost: localhost\r\n" BEARER JSON, 404},
	{"PUT /v1/%zz HTTP/1.1\r\nHost: localhost\r\n" BEARER JSON, 400},
	{"PUT /v1/status HTTP/1.1\r\nHost: localhost\r\n" BEARER JSON, 405},
	{"PUT /v1/vips/a HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n" BEARER
		 JSON,
	 403},
	{"PUT /v1/vips/a HTTP/1.1\r\nHost: evil.example\r\n" JSON, 403},
	{"POST /v1/agents/a1/reports HTTP/1.1\r\nHost: localhost\r\n" JSON, 401},
	{"POST /v1/agents/a1/reports HTTP/1.1\r\nHost: localhost\r\n" BEARER JSON, 401},
	{"POST /v1/agents/a2/reports HTTP/1.1\r\nHost: localhost\r\n"
	 "Authorization: Bearer " AGENT_TOKEN "\r\n" JSON,
	 401},
};

START_TEST(who_waits_for_our_word_sends_no_body)
{
	char head[1024];

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		snprintf(head, sizeof(head),
			 "%sContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n", refused[i].head);
		int fd = begin(head);
		int status = status_of(fd);
		ck_assert_msg(status == refused[i].status, "%s: %d", refused[i].head, status);
		ck_assert_msg(is_closed(fd), "%s", refused[i].head);
		close(fd);
	}
}
END_TEST

/* ... and who does not hears why all the same, and may go on. */
START_TEST(a_body_that_comes_is_thrown_away)
{
	char head[1024];

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		snprintf(head, sizeof(head), "%sContent-Length: %u\r\n\r\n", refused[i].head,
			 MIB / 2);
		int fd = begin(head);
		send_body(fd, MIB / 2);
		int status = status_of(fd);
		ck_assert_msg(status == refused[i].status, "%s: %d", refused[i].head, status);
		ck_assert(http_send(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 40));
		ck_assert_msg(status_of(fd) == 200, "%s", refused[i].head);
		close(fd);
	}
	ck_assert_uint_eq(atomic_load(&api_fake.n_changes), 0);
	ck_assert_uint_eq(atomic_load(&api_fake.n_reports), 0);
}
END_TEST

START_TEST(a_chunked_body_is_cut_where_it_does_not_end)
{
	int fd = begin("PUT /v1/vips/a HTTP/1.1\r\nHost: localhost\r\n" JSON
		       "Transfer-Encoding: chunked\r\n\r\n");
	char piece[7 + 65536 + 2] = "10000\r\n";
	unsigned n = 0;

	memset(piece + 7, 'x', 65536);
	memcpy(piece + 7 + 65536, "\r\n", 2);
	while (n < 1000 && http_send(fd, piece, sizeof(piece)))
		n++;
	ck_assert_uint_lt(n, 1000); /* 62 MiB */
	close(fd);
}
END_TEST

/* Bodies of the known take only so much memory together; those of others take none of it. */
START_TEST(strangers_leave_the_room_to_others)
{
	int fds[12];

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = begin("PUT /v1/config HTTP/1.1\r\nHost: localhost\r\n" JSON
			       "Content-Length: 16777216\r\n\r\n");
		send_body(fds[i], 16 * MIB - 1);
	}
	int fd = begin("PUT /v1/config HTTP/1.1\r\nHost: localhost\r\n" BEARER JSON
		       "Content-Length: 1048576\r\n\r\n");
	send_body(fd, MIB);
	ck_assert_int_eq(status_of(fd), 400); /* no JSON, but it was looked at */
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		send_body(fds[i], 1);
		ck_assert_int_eq(status_of(fds[i]), 401);
		close(fds[i]);
	}
}
END_TEST

/* A wrong token with a body counts as one, whenever it is looked at. */
START_TEST(a_failure_counts_once)
{
	static const char head[] = "PUT /v1/vips/a HTTP/1.1\r\nHost: localhost\r\n" WRONG JSON
				   "Content-Length: 2\r\n\r\n{}";
	static const char get[] = "GET /v1/vips HTTP/1.1\r\nHost: localhost\r\n" WRONG "\r\n";
	unsigned n[2] = {0};

	for (unsigned kind = 0; kind < 2; kind++) {
		for (int status = 401; status == 401 && n[kind] < 100; n[kind]++) {
			int fd = begin(kind ? get : head);
			status = status_of(fd);
			ck_assert_msg(status == 401 || status == 429, "%d", status);
			close(fd);
		}
		atomic_fetch_add(&now_ms, 3600000);
	}
	ck_assert_uint_gt(n[0], 3);
	ck_assert_uint_eq(n[0], n[1]);
}
END_TEST

START_TEST(who_may_is_served)
{
	int fd = begin("PUT /v1/vips/web/dips/b1 HTTP/1.1\r\nHost: localhost\r\n" BEARER JSON
		       "Content-Length: 24\r\n\r\n{\"address\": \"10.9.0.11\"}");

	ck_assert_int_eq(status_of(fd), 200);
	ck_assert_uint_eq(atomic_load(&api_fake.n_changes), 1);
	close(fd);
	fd = begin("POST /v1/agents/a1/reports HTTP/1.1\r\nHost: localhost\r\n"
		   "Authorization: Bearer " AGENT_TOKEN "\r\n" JSON "Content-Length: 2\r\n\r\n{}");
	ck_assert_int_eq(status_of(fd), 422);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("early_refusal");
	TCase *t = tcase_create("early_refusal");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, who_waits_for_our_word_sends_no_body);
	tcase_add_test(t, a_body_that_comes_is_thrown_away);
	tcase_add_test(t, a_chunked_body_is_cut_where_it_does_not_end);
	tcase_add_test(t, strangers_leave_the_room_to_others);
	tcase_add_test(t, a_failure_counts_once);
	tcase_add_test(t, who_may_is_served);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
