/* Agents over HTTP against a made-up daemon: tokens, and what a report may say. */
#include <check.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

static char dir[64];
static char where[96];
static struct http_server *server;
static struct api_context api;

static void set_up(void)
{
	struct error err;
	const char *listen[] = {where};
	const struct http_config config = {.n = 1, .listen = listen};

	signal(SIGPIPE, SIG_IGN);
	memset(&api_fake, 0, sizeof(api_fake));
	snprintf(dir, sizeof(dir), "/tmp/test_agent.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(where, sizeof(where), "unix:%s/api.sock", dir);
	api_fake_context(&api);
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
}

static void tear_down(void)
{
	http_close(server);
	rmdir(dir);
}

static void ask(const char *method, const char *target, const char *token, const char *body,
		struct http_answer *a)
{
	char head[1024];
	int fd = http_connect(where);

	ck_assert_int_ge(fd, 0);
	int n = snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: x\r\n%s%s%s", method, target,
			 token ? "Authorization: " : "", token ? token : "", token ? "\r\n" : "");
	n += snprintf(head + n, sizeof(head) - (size_t)n,
		      "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
		      body ? strlen(body) : 0);
	http_send(fd, head, (size_t)n);
	if (body)
		http_send(fd, body, strlen(body));
	http_read(fd, false, a);
	close(fd);
}

static void expect(const char *method, const char *target, const char *token, const char *body,
		   int status, const char *contains)
{
	struct http_answer a;

	ask(method, target, token, body, &a);
	ck_assert_msg(a.status == status && strstr(a.body, contains), "%s %s %.200s: %d %s", method,
		      target, body ? body : "", a.status, a.body);
	http_answer_free(&a);
}

#define A1 "/v1/agents/a1"
#define REPORTS A1 "/reports"
#define BIND "{\"vip\": \"web\", \"dip\": \"b1\"}"
#define TOKEN "0123456789abcdef"
#define BEARER "Bearer " TOKEN
#define BIND_TOKEN "{\"vip\": \"web\", \"dip\": \"b1\", \"token\": \"" TOKEN "\"}"

START_TEST(a_fresh_token_is_shown_once)
{
	struct http_answer a;
	json_error_t err;
	uint8_t hash[32];
	char first[65] = "";

	for (int round = 0; round < 2; round++) {
		ask("PUT", A1, NULL, BIND, &a);
		ck_assert_int_eq(a.status, round ? 200 : 201);
		json_t *body = json_loads(a.body, 0, &err);
		const char *token = json_string_value(json_object_get(body, "token"));
		ck_assert_ptr_nonnull(token);
		ck_assert_uint_eq(strlen(token), 64);
		ck_assert_str_ne(token, first);
		snprintf(first, sizeof(first), "%s", token);
		ck_assert_int_eq(gnutls_hash_fast(GNUTLS_DIG_SHA256, token, 64, hash), 0);
		ck_assert_mem_eq(hash, api_fake.token_hash, 32);
		if (!round)
			ck_assert_str_eq(http_header(&a, "Location"), A1);
		json_decref(body);
		http_answer_free(&a);
	}
	ask("GET", A1, NULL, NULL, &a);
	ck_assert_int_eq(a.status, 200);
	ck_assert_ptr_null(strstr(a.body, "token"));
	ck_assert_ptr_nonnull(strstr(a.body, "\"instance\": null"));
	http_answer_free(&a);
	ask("PUT", A1, NULL, BIND_TOKEN, &a);
	ck_assert_int_eq(a.status, 200);
	ck_assert_ptr_null(strstr(a.body, "token"));
	http_answer_free(&a);
}
END_TEST

START_TEST(bindings)
{
	expect("GET", "/v1/agents", NULL, NULL, 200, "{\"items\": []}");
	expect("GET", A1, NULL, NULL, 404, "no agent");
	expect("DELETE", A1, NULL, NULL, 404, "no agent");
	expect("DELETE", "/v1/agents/A", NULL, NULL, 404, "no agent");
	expect("PUT", A1, NULL, "{\"dip\": \"b1\"}", 422, "/vip");
	expect("PUT", A1, NULL, "{\"vip\": \"web\"}", 422, "/dip");
	expect("PUT", A1, NULL, "{\"vip\": 1, \"dip\": \"b1\"}", 422, "must be a string");
	expect("PUT", A1, NULL, "[]", 422, "object");
	expect("PUT", A1, NULL, "{\"vip\": \"web\", \"dip\": \"b1\", \"x\": \"\"}", 422, "/x");
	expect("PUT", A1, NULL, "{\"vip\": \"web\", \"dip\": \"b1\", \"id\": \"a2\"}", 422, "/id");
	expect("PUT", A1, NULL, "{\"vip\": \"web\", \"dip\": \"b1\", \"token\": \"short\"}", 422,
	       "/token");
	expect("PUT", A1, NULL,
	       "{\"vip\": \"web\", \"dip\": \"b1\", \"token\": \"with a blank in it\"}", 422,
	       "/token");
	expect("PUT", "/v1/agents/-a", NULL, BIND, 422, "/id");
	expect("PUT", A1, NULL, "{\"vip\": \"no\", \"dip\": \"b1\"}", 404, "no VIP");
	api_fake.status = CONTROL_CONFLICT;
	expect("PUT", A1, NULL, BIND, 409, "told to fail");
	api_fake.status = CONTROL_NO_STORAGE;
	expect("PUT", A1, NULL, BIND, 507, "told to fail");
	expect("PUT", A1 "?dry_run=true", NULL, BIND, 507, "told to fail");
	api_fake.status = CONTROL_OK;
	expect("PUT", A1 "?dry_run=true", NULL, BIND, 200, "\"vips\": []");
	expect("GET", A1, NULL, NULL, 404, "no agent");
	expect("DELETE", A1 "?dry_run=true", NULL, NULL, 404, "no agent");
	expect("PUT", A1, NULL, BIND, 201, "\"dip\": \"b1\"");
	/* What was read can be put back. */
	strcpy(api_fake.agent.instance, "0123456789abcdef");
	struct http_answer a;
	ask("GET", A1, NULL, NULL, &a);
	expect("PUT", A1, NULL, a.body, 200, "\"cpus\": 0");
	http_answer_free(&a);
	expect("GET", "/v1/agents", NULL, NULL, 200, "{\"items\": [{\"id\": \"a1\"");
	api_fake.status = CONTROL_FAILED;
	expect("DELETE", A1, NULL, NULL, 500, "told to fail");
	api_fake.status = CONTROL_OK;
	expect("DELETE", A1 "?dry_run=true", NULL, NULL, 200, "\"vips\": []");
	expect("DELETE", A1 "?dry_run=1", NULL, NULL, 400, "true or false");
	expect("DELETE", A1, NULL, NULL, 200, "{\"id\": \"a1\"}");
	atomic_store(&api.ready, false);
	expect("PUT", A1, NULL, BIND, 503, "starting");
	expect("DELETE", A1, NULL, NULL, 503, "starting");
	expect("POST", REPORTS, BEARER, "{}", 503, "starting");
}
END_TEST

#define OK_REPORT "{\"instance\": \"0123456789abcdef\", \"sequence\": 1, \"kind\": \"full\"}"

START_TEST(only_the_token_opens)
{
	struct http_answer a;
	static const char *const wrong[] = {
		"Bearer",	    "Bearer ", "Basic " TOKEN, TOKEN, "Bearer 0123456789abcdeF",
		"Bearer " TOKEN "0"};

	expect("POST", REPORTS, BEARER, OK_REPORT, 401,
	       "not that of an agent 'a1'"); /* there is none */
	expect("POST", REPORTS, NULL, OK_REPORT, 401, "token is needed");
	expect("PUT", A1, NULL, BIND_TOKEN, 201, "a1");
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		expect("POST", REPORTS, wrong[i], OK_REPORT, 401, "/problems/unauthorized");
	ask("POST", REPORTS, NULL, "not JSON", &a);
	ck_assert_int_eq(a.status, 401); /* before the body is looked at */
	ck_assert_str_eq(http_header(&a, "WWW-Authenticate"), "Bearer");
	http_answer_free(&a);
	expect("POST", "/v1/agents/a2/reports", BEARER, OK_REPORT, 401,
	       "not that of an agent 'a2'");
	ck_assert_uint_eq(atomic_load(&api_fake.n_reports), 0);
	expect("POST", REPORTS, "bearer  " TOKEN, OK_REPORT, 200, "\"ack\": 1");
	ck_assert_uint_eq(atomic_load(&api_fake.n_reports), 1);
}
END_TEST

#define HEAD "{\"instance\": \"0123456789abcdef\", \"sequence\": 7, \"kind\": \"delta\""

START_TEST(reports_that_say_something_else)
{
	static const struct {
		const char *body, *contains;
	} bad[] = {
		{"[]", "object"},
		{"{}", "/instance"},
		{"{\"instance\": \"0123456789ABCDEF\", \"sequence\": 1, \"kind\": \"full\"}",
		 "hexadecimal"},
		{"{\"instance\": \"0123456789abcdef\", \"sequence\": 0, \"kind\": \"full\"}", "1"},
		{"{\"instance\": \"0123456789abcdef\", \"sequence\": -1, \"kind\": \"full\"}",
		 "out_of_range"},
		{"{\"instance\": \"0123456789abcdef\", \"sequence\": 1, \"kind\": \"all\"}",
		 "full, delta"},
		{HEAD ", \"part\": \"0\"}", "integer"},
		{HEAD ", \"more\": 1}", "true or false"},
		{HEAD ", \"orphans\": -1}", "/orphans"},
		{HEAD ", \"load\": 1}", "/load"},
		{HEAD ", \"load\": {\"cpu\": 1}}", "\"/load/cpu\", \"code\": \"unknown\""},
		{HEAD ", \"x/y~\": 1}", "\"/x~1y~0\", \"code\": \"unknown\""},
		{HEAD ", \"opened\": {}}", "array"},
		{HEAD ", \"opened\": [1]}", "/opened/0"},
		{HEAD ", \"opened\": [{}]}", "/opened/0/src"},
		{HEAD ", \"ended\": [{\"src\": \"x\", \"sport\": 1, \"dport\": 2, "
		      "\"protocol\": \"tcp\"}]}",
		 "/ended/0/src"},
		{HEAD ", \"ended\": [{\"src\": \"10.0.0.1\", \"sport\": 65536, \"dport\": 2, "
		      "\"protocol\": \"tcp\"}]}",
		 "/ended/0/sport"},
		{HEAD ", \"ended\": [{\"src\": \"10.0.0.1\", \"sport\": 1, \"dport\": 2, "
		      "\"protocol\": \"sctp\"}]}",
		 "tcp, udp"},
		{HEAD ", \"ended\": [{\"src\": \"10.0.0.1\", \"sport\": 1, \"dport\": 2, "
		      "\"protocol\": \"udp\", \"age_ms\": 604800001}]}",
		 "/ended/0/age_ms"},
		{HEAD ", \"ended\": [{\"src\": \"10.0.0.1\", \"sport\": 1, \"dport\": 2, "
		      "\"protocol\": \"udp\", \"mss\": 1}]}",
		 "\"/ended/0/mss\", \"code\": \"unknown\""},
	};

	expect("PUT", A1, NULL, BIND_TOKEN, 201, "a1");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		expect("POST", REPORTS, BEARER, bad[i].body, 422, bad[i].contains);
	expect("POST", REPORTS, BEARER, "{", 400, "not JSON");
	ck_assert_uint_eq(atomic_load(&api_fake.n_reports), 0);
}
END_TEST

START_TEST(a_report_reaches_control_as_it_is)
{
	expect("PUT", A1, NULL, BIND_TOKEN, 201, "a1");
	expect("POST", REPORTS, BEARER,
	       "{\"instance\": \"0123456789abcdef\", \"sequence\": 101, \"kind\": \"full\","
	       " \"part\": 2, \"more\": true, \"clock_ms\": 99, \"orphans\": 3,"
	       " \"load\": {\"connections\": 4, \"cpus\": 5, \"load_percent\": 6},"
	       " \"opened\": [{\"src\": \"2001:db8::1\", \"sport\": 1, \"dport\": 2,"
	       " \"protocol\": \"udp\"}],"
	       " \"ended\": [{\"src\": \"10.1.2.3\", \"sport\": 3, \"dport\": 4, "
	       " \"protocol\": \"tcp\", \"age_ms\": 604800000}]}",
	       200,
	       "{\"ack\": 101, \"instance\": \"00000000deadbeef\", \"resync\": true, "
	       "\"clock_ms\": 5, \"refused\": 0, \"vips\": [{\"address\": \"10.9.0.100\", "
	       "\"port\": 80, \"port_end\": null, \"protocol\": \"tcp\"}]}");
	const struct agent_report *r = &api_fake.report;
	ck_assert_str_eq(r->instance, "0123456789abcdef");
	ck_assert_uint_eq(r->sequence, 101);
	ck_assert(r->full && !r->first && !r->last);
	ck_assert_uint_eq(r->clock_ms, 99);
	ck_assert_uint_eq(r->orphans, 3);
	ck_assert_uint_eq(r->load.connections, 4);
	ck_assert_uint_eq(r->load.cpus, 5);
	ck_assert_uint_eq(r->load.load_percent, 6);
	ck_assert_uint_eq(r->n, 2);
	const struct agent_entry *e = api_fake.entries;
	ck_assert(e[0].ended && !e[1].ended);
	ck_assert_uint_eq(e[0].age_ms, 604800000);
	ck_assert_uint_eq(e[0].sport, 3);
	ck_assert_uint_eq(e[0].proto, IPPROTO_TCP);
	ck_assert_uint_eq(e[1].dport, 2);
	ck_assert_uint_eq(e[1].proto, IPPROTO_UDP);
	ck_assert(!ip_addr_is_v4(&e[1].src));

	expect("POST", REPORTS, BEARER, OK_REPORT, 200, "\"resync\": false");
	ck_assert(r->full && r->first && r->last && r->n == 0);
}
END_TEST

START_TEST(a_report_is_bounded)
{
	static const char entry[] = "{\"src\": \"10.0.0.1\", \"sport\": 1, \"dport\": 2, "
				    "\"protocol\": \"tcp\"}";
	char *body = malloc(1 << 20);

	expect("PUT", A1, NULL, BIND_TOKEN, 201, "a1");
	for (unsigned n = AGENT_ENTRIES_MAX; n <= AGENT_ENTRIES_MAX + 1; n++) {
		size_t len =
			(size_t)sprintf(body, "%s, \"ended\": [%s], \"opened\": [", HEAD, entry);
		for (unsigned i = 1; i < n; i++)
			len += (size_t)sprintf(body + len, "%s%s", i > 1 ? "," : "", entry);
		strcpy(body + len, "]}");
		if (n == AGENT_ENTRIES_MAX)
			expect("POST", REPORTS, BEARER, body, 200, "ack");
		else
			expect("POST", REPORTS, BEARER, body, 422, "too_many");
	}
	ck_assert_uint_eq(api_fake.report.n, AGENT_ENTRIES_MAX);
	free(body);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agent_protocol");
	TCase *tc = tcase_create("agent_protocol");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, a_fresh_token_is_shown_once);
	tcase_add_test(tc, bindings);
	tcase_add_test(tc, only_the_token_opens);
	tcase_add_test(tc, reports_that_say_something_else);
	tcase_add_test(tc, a_report_reaches_control_as_it_is);
	tcase_add_test(tc, a_report_is_bounded);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
