/* The real HTTP server over a Unix socket and over loopback, against a made-up daemon. */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

static char dir[64];
static char where[96]; /* "unix:..." */
static struct http_server *server;
static struct api_context api;
static unsigned seed;

static void set_up(void)
{
	struct error err;
	const char *listen[] = {where, "127.0.0.1:0"};
	const struct http_config config = {.n = 2, .listen = listen};

	signal(SIGPIPE, SIG_IGN);
	memset(&api_fake, 0, sizeof(api_fake));
	snprintf(dir, sizeof(dir), "/tmp/test_api.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(where, sizeof(where), "unix:%s/api.sock", dir);
	api_fake_context(&api);
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
}

static void tear_down(void)
{
	http_close(server);
	server = NULL;
	ck_assert_msg(access(where + 5, F_OK) != 0, "the socket file is left");
	rmdir(dir);
}

/* One request over a connection of its own. */
static void ask(const char *method, const char *target, const char *headers, const char *body,
		struct http_answer *a)
{
	char head[1024];
	int fd = http_connect(where);

	ck_assert_int_ge(fd, 0);
	int n = snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: x\r\n%s", method, target,
			 headers);
	if (body)
		n += snprintf(head + n, sizeof(head) - (size_t)n, "Content-Length: %zu\r\n",
			      strlen(body));
	n += snprintf(head + n, sizeof(head) - (size_t)n, "\r\n");
	http_send(fd, head, (size_t)n);
	if (body)
		http_send(fd, body, strlen(body));
	http_read(fd, !strcmp(method, "HEAD"), a);
	close(fd);
}

#define JSON "Content-Type: application/json\r\n"
#define VIP_BODY "{\"address\": \"10.9.0.100\", \"port\": 80, \"protocol\": \"tcp\"}"

static const struct {
	const char *method;
	const char *target;
	const char *headers;
	const char *body;
	int status;
	const char *contains;
} cases[] = {
	{"GET", "/v1/vips", "", NULL, 200, "{\"items\": [{\"id\": \"web\""},
	{"GET", "/v1/vips/web", "", NULL, 200, "\"udp\": 60"},
	{"GET", "/v1/vips/none", "", NULL, 404, "no VIP has the id 'none'"},
	{"GET", "/v1/vips/%ff%fe", "", NULL, 404, "no VIP has the id '?\?'"},
	{"GET", "/v1/vips/web/dips", "", NULL, 200, "\"id\": \"b2\""},
	{"GET", "/v1/vips/none/dips", "", NULL, 404, "no VIP"},
	{"GET", "/v1/vips/web/dips/b2", "", NULL, 200, "\"address\": \"10.9.0.12\""},
	{"GET", "/v1/vips/web/dips/b3", "", NULL, 404, "has no DIP 'b3'"},
	{"GET", "/v1/vips/none/dips/b1", "", NULL, 404, "no VIP"},
	{"GET", "/v1/status", "", NULL, 200, "\"cpu\": null"},
	{"GET", "/v1/counters", "", NULL, 200, "\"malformed\": 1000, \"fragment_timeout\": 1001"},
	{"GET", "/v1/consistency", "", NULL, 200, "{\"generation\": 100, \"flows_known\": 101"},
	{"GET", "/v1/doctor", "", NULL, 200,
	 "{\"items\": [{\"rank\": \"ok\", \"text\": \"cores: 2\", \"command\": null}, {\"rank\": "
	 "\"blocks\", \"text\": \"eth0: ?\", \"command\": \"ethtool\"}], \"blocking\": 1, "
	 "\"to_note\": 0}"},
	{"GET", "/livez", "", NULL, 200, "alive"},
	{"GET", "/readyz", "", NULL, 200, "ready"},
	{"GET", "/nope", "", NULL, 404, "/problems/not-found"},
	{"POST", "/v1/vips", JSON, "{}", 405, "GET, HEAD"},
	{"PUT", "/v1/vips/web", JSON, VIP_BODY, 200, "\"change\": {\"generation\": 42"},
	{"PUT", "/v1/vips/web", "Content-Type: Application/JSON ; charset=utf-8\r\n", VIP_BODY, 200,
	 "\"pause_us\": 31"},
	{"PUT", "/v1/vips/web", "", VIP_BODY, 415, "application/json"},
	{"PUT", "/v1/vips/web", "Content-Type: text/plain\r\n", VIP_BODY, 415, ""},
	{"PUT", "/v1/vips/web", "Content-Type: application/merge-patch+json\r\n", VIP_BODY, 415,
	 ""},
	{"PUT", "/v1/vips/web", JSON "Content-Encoding: gzip\r\n", VIP_BODY, 415, "Encoding"},
	{"PUT", "/v1/vips/web", JSON, "", 400, "body"},
	{"PUT", "/v1/vips/web", JSON, NULL, 400, "body"},
	{"PUT", "/v1/vips/web", JSON, "{", 400, "not JSON"},
	{"PUT", "/v1/vips/web", JSON, "{}x", 400, "not JSON"},
	{"PUT", "/v1/vips/web", JSON, "{\"port\": 80, \"port\": 81}", 400, "duplicate"},
	{"PUT", "/v1/vips/web", JSON, "{\"id\": \"a\\u0000\"}", 400, "not JSON"},
	{"PUT", "/v1/vips/web", JSON, "\xff\xfe", 400, "not JSON"},
	{"PUT", "/v1/vips/web", JSON, "{'port': 80}", 400, "not JSON"},
	{"PUT", "/v1/vips/web", JSON, "{\"port\": 099}", 400, "not JSON"},
	{"PUT", "/v1/vips/web", JSON, "{\"port\": 99999999999999999999}", 422, "out_of_range"},
	{"PUT", "/v1/vips/web", JSON, "{\"port\": 1e999}", 422, "out_of_range"},
	{"PUT", "/v1/vips/web", JSON, "[]", 422, "must be an object"},
	{"PUT", "/v1/vips/web", JSON, "null", 422, "must be an object"},
	{"PUT", "/v1/vips/web", JSON, "{}", 422, "{\"pointer\": \"/port\", \"code\": \"required\""},
	{"PUT", "/v1/vips/WEB", JSON, VIP_BODY, 422, "\"pointer\": \"/id\""},
	{"PUT", "/v1/vips/a%2Fb", JSON, VIP_BODY, 422, "\"pointer\": \"/id\""},
	{"PUT", "/v1/vips/web?force=yes", JSON, VIP_BODY, 400, "true or false"},
	{"PUT", "/v1/vips/web?purge=true", JSON, VIP_BODY, 400, "\"parameter\": \"purge\""},
	{"PATCH", "/v1/vips/web", JSON, "{\"mode\": \"ipip\"}", 200, "change"},
	{"PATCH", "/v1/vips/web", "Content-Type: application/merge-patch+json\r\n", "{}", 200, ""},
	{"PATCH", "/v1/vips/web?force=true", JSON, "{}", 400, "force"},
	{"PATCH", "/v1/vips/Web", JSON, "{}", 404, "Web"},
	{"DELETE", "/v1/vips/web", "", NULL, 200, "\"flows_remaining\": 0, \"change\""},
	{"DELETE", "/v1/vips/web", "", NULL, 200, "\"port\": 80"},
	{"DELETE", "/v1/vips/web", "", NULL, 200, "\"state\": \"removed\""},
	{"DELETE", "/v1/vips/web/dips/b2", "", NULL, 200,
	 "{\"id\": \"b2\", \"address\": \"10.9.0.12\""},
	{"DELETE", "/v1/vips/web/dips/b2?force=true", "", NULL, 200, "\"state\": \"removed\""},
	{"DELETE", "/v1/vips/none/dips/b2", "", NULL, 404, "no VIP"},
	{"DELETE", "/v1/vips/_", "", NULL, 404, ""},
	{"PUT", "/v1/vips/web/dips/b1", JSON, "{\"address\": \"10.9.0.11\"}", 200, "\"weight\": 1"},
	{"PUT", "/v1/vips/web/dips/-b", JSON, "{\"address\": \"10.9.0.11\"}", 422, "/id"},
	{"PUT", "/v1/vips/-w/dips/b", JSON, "{\"address\": \"10.9.0.11\"}", 404, "-w"},
	{"PUT", "/v1/vips/web/dips/b1", JSON, "{\"weight\": -1, \"x\": 0}", 422,
	 "{\"pointer\": \"/weight\", \"code\": \"out_of_range\", \"detail\": \"0 to 65535\"}"},
	{"PATCH", "/v1/vips/web/dips/b1", JSON, "{\"weight\": 0}", 200, "\"id\": \"b1\""},
	{"PATCH", "/v1/vips/web/dips/b1", JSON, "{\"weight\": \"0\"}", 422, "\"type\""},
	{"DELETE", "/v1/vips/web/dips/b1", "", NULL, 200, "flows_remaining"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=40000", "", NULL, 200,
	 "\"dip\": \"b1\", \"reason\": \"home\", \"dcode\": 713"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=2", "", NULL, 200, "\"dip\": null"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=1", "", NULL, 404, "no such packet"},
	{"GET", "/v1/explain?vip=no&src=10.9.0.1&sport=1", "", NULL, 404, "no VIP"},
	{"GET", "/v1/explain", "", NULL, 400, "{\"parameter\": \"vip\", \"code\": \"required\""},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1", "", NULL, 400, "sport"},
	{"GET", "/v1/explain?vip=web&src=10.9.0&sport=1", "", NULL, 400, "src"},
	{"GET", "/v1/explain?vip=web&src=2001:db8::1&sport=1", "", NULL, 400, "family"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=65536", "", NULL, 400, "65535"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=-1", "", NULL, 400, "65535"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=", "", NULL, 400, "65535"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&protocol=udp", "", NULL, 400, "tcp or"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&dport=x", "", NULL, 400, "dport"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&dport=81", "", NULL, 400, "80 to 80"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&cid=00ff", "", NULL, 400, "server-id"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&cid=00f", "", NULL, 400, "hexadecimal"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&cid=", "", NULL, 400, "hexadecimal"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&dst=x", "", NULL, 400, "dst"},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&dst=10.9.0.101", "", NULL, 400,
	 "\"code\": \"out_of_range\", \"detail\": \"not of the VIP (10.9.0.100)\""},
	{"GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&dst=10.9.0.100", "", NULL, 200, "b1"},
	{"GET", "/v1/vips", "Origin: http://evil.example\r\n", NULL, 403, "forbidden"},
};

static void check_common(const struct http_answer *a)
{
	const char *type = http_header(a, "Content-Type");
	json_error_t err;
	json_t *body = json_loads(a->body, 0, &err);

	ck_assert_ptr_nonnull(type);
	ck_assert_str_eq(type, a->status < 300 ? "application/json" : "application/problem+json");
	ck_assert_str_eq(http_header(a, "Cache-Control"), "no-store");
	ck_assert_msg(body != NULL, "%s: %s", err.text, a->body);
	if (a->status >= 300) {
		ck_assert_int_eq(json_integer_value(json_object_get(body, "status")), a->status);
		ck_assert(json_is_string(json_object_get(body, "title")));
		ck_assert(json_is_string(json_object_get(body, "detail")));
		ck_assert_str_eq(json_string_value(json_object_get(body, "type")) + 0,
				 json_string_value(json_object_get(body, "type")));
		ck_assert(!strncmp(json_string_value(json_object_get(body, "type")), "/problems/",
				   10));
	}
	json_decref(body);
}

START_TEST(every_resource)
{
	struct http_answer a;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned before = atomic_load(&api_fake.n_changes);
		ask(cases[i].method, cases[i].target, cases[i].headers, cases[i].body, &a);
		ck_assert_msg(a.status == cases[i].status, "%s %s %s: %d %s", cases[i].method,
			      cases[i].target, cases[i].body ? cases[i].body : "", a.status,
			      a.body);
		ck_assert_msg(strstr(a.body, cases[i].contains) != NULL, "%s %s: %s",
			      cases[i].method, cases[i].target, a.body);
		check_common(&a);
		bool changes = a.status == 200 && strcmp(cases[i].method, "GET") != 0;
		ck_assert_uint_eq(atomic_load(&api_fake.n_changes) - before, changes);
		http_answer_free(&a);
	}
}
END_TEST

START_TEST(head_is_get_without_body)
{
	struct http_answer get, head;
	char length[16];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (strcmp(cases[i].method, "GET") != 0 || !strcmp(cases[i].target, "/v1/status"))
			continue;
		ask("GET", cases[i].target, cases[i].headers, NULL, &get);
		ask("HEAD", cases[i].target, cases[i].headers, NULL, &head);
		ck_assert_int_eq(get.status, head.status);
		snprintf(length, sizeof(length), "%zu", get.len);
		ck_assert_str_eq(http_header(&head, "Content-Length"), length);
		http_answer_free(&get);
		http_answer_free(&head);
	}
}
END_TEST

START_TEST(requests_reach_control_as_they_are)
{
	struct http_answer a;

	ask("PUT", "/v1/vips/web?force=true&override_hold=true", JSON,
	    "{\"address\": \"2001:db8::1\", \"port\": 0, \"protocol\": \"any\", \"affinity\": "
	    "\"client\"}",
	    &a);
	http_answer_free(&a);
	const struct control_request *r = &api_fake.last;
	ck_assert_int_eq(r->op, OP_VIP_PUT);
	ck_assert_str_eq(r->vip, "web");
	ck_assert(r->force && r->override_hold);
	ck_assert_uint_eq(r->vip_edit.members,
			  VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL | VIP_M_AFFINITY);
	ck_assert_int_eq(r->vip_edit.conf.match.protocol, VIP_ANY);

	ask("DELETE", "/v1/vips/web/dips/b2?force=false", "", NULL, &a);
	http_answer_free(&a);
	ck_assert_int_eq(r->op, OP_DIP_DELETE);
	ck_assert_str_eq(r->dip, "b2");
	ck_assert(!r->force && !r->override_hold);

	ask("GET", "/v1/explain?vip=web&src=10.9.0.1&sport=9&dport=80&protocol=tcp", "", NULL, &a);
	http_answer_free(&a);
	ck_assert_uint_eq(api_fake.explained.sport, 9);
	ck_assert_uint_eq(api_fake.explained.dport, 80);
	ck_assert_uint_eq(api_fake.explained.proto, IPPROTO_TCP);
	ck_assert_uint_eq(api_fake.explained.cid_len, 0);
}
END_TEST

/* What a VIP takes away from this host is said with the change, also if it is only planned, and not
 * in the way of putting back what came. */
START_TEST(what_may_not_be_meant)
{
	static const char *const targets[] = {"/v1/vips/web", "/v1/vips/web?dry_run=true"};
	struct http_answer a;

	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		for (int warned = 0; warned < 2; warned++) {
			api_fake.ends_own_use = warned;
			ask("PUT", targets[i], JSON, VIP_BODY, &a);
			ck_assert_int_eq(a.status, 200);
			ck_assert_msg(!strstr(a.body, "\"warnings\": [\"port 80 is in use\"]") ==
					      !warned,
				      "%s", a.body);
			http_answer_free(&a);
		}
	}
	api_fake.ends_own_use = true;
	ask("PUT", "/v1/vips/web", JSON, VIP_BODY, &a);
	struct http_answer again;
	ask("PUT", "/v1/vips/web", JSON, a.body, &again);
	ck_assert_int_eq(again.status, 200);
	http_answer_free(&again);
	http_answer_free(&a);
	ask("PATCH", "/v1/vips/web", JSON, "{\"mode\": \"ipip\"}", &a);
	ck_assert_ptr_null(strstr(a.body, "warnings"));
	http_answer_free(&a);
	api_fake.status = CONTROL_CONFLICT;
	ask("PUT", "/v1/vips/web", JSON, VIP_BODY, &a);
	ck_assert_int_eq(a.status, 409);
	ck_assert_ptr_null(strstr(a.body, "warnings"));
	http_answer_free(&a);
}
END_TEST

static const struct {
	enum control_status outcome;
	int status;
} outcomes[] = {
	{CONTROL_OK, 200},	    {CONTROL_CREATED, 201},    {CONTROL_ACCEPTED, 202},
	{CONTROL_NOT_FOUND, 404},   {CONTROL_CONFLICT, 409},   {CONTROL_INVALID, 422},
	{CONTROL_UNAVAILABLE, 503}, {CONTROL_NO_STORAGE, 507}, {CONTROL_FAILED, 500},
};

START_TEST(outcomes_of_control)
{
	struct http_answer a;

	api_fake.retry_after_s = 7;
	api_fake.flows_remaining = 12;
	field_errors_add(&api_fake.errors, "/port", "immutable", "cannot change");
	for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
		api_fake.status = outcomes[i].outcome;
		snprintf(api_fake.detail, sizeof(api_fake.detail), "%s", i % 2 ? "why" : "");
		ask("PUT", "/v1/vips/web", JSON, VIP_BODY, &a);
		ck_assert_int_eq(a.status, outcomes[i].status);
		check_common(&a);
		if (a.status >= 300)
			ck_assert_ptr_nonnull(strstr(a.body, "\"pointer\": \"/port\""));
		const char *location = http_header(&a, "Location");
		ck_assert_int_eq(location != NULL, a.status == 201);
		if (location)
			ck_assert_str_eq(location, "/v1/vips/web");
		const char *retry = http_header(&a, "Retry-After");
		ck_assert_int_eq(retry != NULL, a.status == 503);
		if (retry)
			ck_assert_str_eq(retry, "7");
		http_answer_free(&a);
	}
	api_fake.status = CONTROL_CREATED;
	ask("PUT", "/v1/vips/web/dips/b1", JSON, "{\"address\": \"10.9.0.11\"}", &a);
	ck_assert_str_eq(http_header(&a, "Location"), "/v1/vips/web/dips/b1");
	http_answer_free(&a);
	api_fake.status = CONTROL_ACCEPTED;
	ask("DELETE", "/v1/vips/web", "", NULL, &a);
	ck_assert_int_eq(a.status, 202);
	ck_assert_ptr_nonnull(strstr(a.body, "\"flows_remaining\": 12"));
	http_answer_free(&a);
}
END_TEST

START_TEST(not_ready)
{
	struct http_answer a;

	atomic_store(&api.ready, false);
	ask("GET", "/readyz", "", NULL, &a);
	ck_assert_int_eq(a.status, 503);
	ck_assert_str_eq(http_header(&a, "Retry-After"), "1");
	http_answer_free(&a);
	ask("PUT", "/v1/vips/web", JSON, VIP_BODY, &a);
	ck_assert_int_eq(a.status, 503);
	http_answer_free(&a);
	ck_assert_uint_eq(atomic_load(&api_fake.n_changes), 0);
	ask("GET", "/livez", "", NULL, &a);
	ck_assert_int_eq(a.status, 200);
	http_answer_free(&a);
}
END_TEST

START_TEST(status_and_lists)
{
	struct http_answer a;

	api_fake.flows = 799;
	ask("GET", "/v1/status", "", NULL, &a);
	ck_assert_ptr_nonnull(strstr(a.body, "\"version\": \"" CONCURY_VERSION "\""));
	ck_assert_ptr_nonnull(strstr(a.body, "\"commit\": \"0123456789ab\""));
	ck_assert_ptr_nonnull(strstr(a.body, "\"state_file\": \"kept\""));
	ck_assert_ptr_nonnull(
		strstr(a.body, "{\"lookup\": \"reserved\", \"umem\": \"transparent\"}"));
	ck_assert_ptr_nonnull(strstr(a.body, "\"warnings\": []"));
	ck_assert_ptr_nonnull(strstr(
		a.body, "{\"id\": 0, \"cpu\": 1, \"queues\": [{\"interface\": \"eth0\", \"queue\": "
			"0, \"xdp_mode\": \"copy\"}]}"));
	http_answer_free(&a);
	api_fake.flows = 800;
	ask("GET", "/v1/status", "", NULL, &a);
	ck_assert_ptr_nonnull(strstr(a.body, "80% full"));
	http_answer_free(&a);
	api_fake.no_vips = true;
	ask("GET", "/v1/vips", "", NULL, &a);
	ck_assert_str_eq(a.body, "{\"items\": []}\n");
	http_answer_free(&a);
}
END_TEST

/* --- connections ---------------------------------------------------------------------------------
 */

START_TEST(a_connection_is_kept)
{
	static const char get[] = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
	static const char put[] = "PUT /v1/vips/web HTTP/1.1\r\nHost: x\r\n" JSON
				  "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
	struct http_answer a;
	int fd = http_connect(where);

	for (int i = 0; i < 50; i++) {
		ck_assert(http_send(fd, i % 2 ? put : get, strlen(i % 2 ? put : get)));
		http_read(fd, false, &a);
		ck_assert_int_eq(a.status, i % 2 ? 422 : 200);
		http_answer_free(&a);
	}
	close(fd);
}
END_TEST

/* A body of n bytes, with its length or in chunks. */
static int send_large(size_t n, bool chunked, const char *more, struct http_answer *a)
{
	char head[256];
	char *piece = malloc(65536);
	int fd = http_connect(where);

	memset(piece, ' ', 65536);
	if (chunked)
		snprintf(head, sizeof(head), "Transfer-Encoding: chunked\r\n");
	else
		snprintf(head, sizeof(head), "Content-Length: %zu\r\n", n);
	http_send(fd, "PUT /v1/vips/web HTTP/1.1\r\nHost: x\r\n" JSON,
		  strlen("PUT /v1/vips/web HTTP/1.1\r\nHost: x\r\n" JSON));
	http_send(fd, head, strlen(head));
	http_send(fd, more, strlen(more));
	http_send(fd, "\r\n", 2);
	for (size_t at = 0; at < n && !*more; at += 65536) {
		size_t k = n - at < 65536 ? n - at : 65536;
		snprintf(head, sizeof(head), "%zx\r\n", k);
		if (chunked)
			http_send(fd, head, strlen(head));
		if (!http_send(fd, piece, k))
			break;
		if (chunked)
			http_send(fd, "\r\n", 2);
	}
	if (chunked)
		http_send(fd, "0\r\n\r\n", 5);
	http_read(fd, false, a);
	free(piece);
	return fd;
}

START_TEST(large_bodies)
{
	struct http_answer a;
	int status[6];

	/* As large as may be: all blanks, so no JSON. */
	close(send_large(BODY_MAX, false, "", &a));
	status[0] = a.status;
	http_answer_free(&a);
	close(send_large(BODY_MAX, true, "", &a));
	status[1] = a.status;
	http_answer_free(&a);
	close(send_large(BODY_MAX + 1, false, "", &a));
	status[2] = a.status;
	check_common(&a);
	http_answer_free(&a);
	close(send_large(BODY_MAX * 3 + 1, true, "", &a));
	status[3] = a.status;
	http_answer_free(&a);
	/* Refused before it is sent. */
	close(send_large(BODY_MAX + 1, false, "Expect: 100-continue\r\n", &a));
	status[4] = a.status;
	http_answer_free(&a);
	close(send_large(100 * BODY_MAX, false, "X-Not-Sent: yes\r\n", &a));
	status[5] = a.status;
	http_answer_free(&a);
	ck_assert_int_eq(status[0], 400);
	ck_assert_int_eq(status[1], 400);
	for (int i = 2; i < 6; i++)
		ck_assert_msg(status[i] == 413, "case %d: %d", i, status[i]);
	/* A flood in chunks is cut. */
	close(send_large(40 * BODY_MAX, true, "", &a));
	ck_assert_int_eq(a.status, 0);
	http_answer_free(&a);
	ck_assert_uint_eq(atomic_load(&api_fake.n_changes), 0);
}
END_TEST

START_TEST(deep_nesting)
{
	struct http_answer a;
	size_t n = 200000;
	char *body = malloc(n + 1);

	memset(body, '[', n);
	body[n] = '\0';
	ask("PUT", "/v1/vips/web", JSON, body, &a);
	ck_assert_int_eq(a.status, 400);
	http_answer_free(&a);
	free(body);
}
END_TEST

static void *change_some(void *arg)
{
	struct http_answer a;

	(void)arg;
	for (int i = 0; i < 10; i++) {
		ask("PATCH", "/v1/vips/web", JSON, "{}", &a);
		ck_assert_int_eq(a.status, 200);
		http_answer_free(&a);
	}
	return NULL;
}

START_TEST(changes_wait_together)
{
	pthread_t threads[8];

	api_fake.change_ms = 20;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, change_some, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(atomic_load(&api_fake.n_changes), 80);
	ck_assert_uint_gt(atomic_load(&api_fake.n_changes_together), 3);
}
END_TEST

START_TEST(garbage_does_no_harm)
{
	static const char alphabet[] = "GETPUT /v1?%:\r\n\r\n{}\"0HTTP/1.1Host: x\xff";
	struct http_answer a;
	char bytes[512];

	for (int round = 0; round < 300; round++) {
		int fd = http_connect(where);
		size_t n = (size_t)rand_r(&seed) % sizeof(bytes);
		for (size_t i = 0; i < n; i++)
			bytes[i] = round % 2 ? (char)rand_r(&seed)
					     : alphabet[(size_t)rand_r(&seed) % sizeof(alphabet)];
		http_send(fd, bytes, n);
		if (round % 3)
			shutdown(fd, SHUT_WR);
		close(fd);
	}
	ask("GET", "/livez", "", NULL, &a);
	ck_assert_int_eq(a.status, 200);
	http_answer_free(&a);
	ck_assert_uint_eq(atomic_load(&api_fake.n_changes), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("api");
	TCase *tc = tcase_create("api");

	seed = (unsigned)time(NULL);
	printf("seed %u\n", seed);
	tcase_set_timeout(tc, 180);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, every_resource);
	tcase_add_test(tc, head_is_get_without_body);
	tcase_add_test(tc, requests_reach_control_as_they_are);
	tcase_add_test(tc, what_may_not_be_meant);
	tcase_add_test(tc, outcomes_of_control);
	tcase_add_test(tc, not_ready);
	tcase_add_test(tc, status_and_lists);
	tcase_add_test(tc, a_connection_is_kept);
	tcase_add_test(tc, large_bodies);
	tcase_add_test(tc, deep_nesting);
	tcase_add_test(tc, changes_wait_together);
	tcase_add_test(tc, garbage_does_no_harm);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
