/* Each kind of check against real servers on loopback that behave well, badly, or not at all. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/health_check.h"
#include "control/health_dns.h"
#include "tests/unit/check_server.h"
#include "tests/unit/prng.h"

/* --- one check ------------------------------------------------------------------------------ */

static struct outcome {
	bool ended;
	enum check_result result;
	char error[HEALTH_CAUSE_LEN];
} outcome;

static void on_end(struct check *c, enum check_result result, const char *error)
{
	(void)c;
	ck_assert(!outcome.ended);
	outcome.ended = true;
	outcome.result = result;
	snprintf(outcome.error, sizeof(outcome.error), "%s", error);
}

static struct check_loop loop = {.epoll_fd = -1};

static void run_events(unsigned wait_ms)
{
	struct epoll_event events[16];
	int n = epoll_wait(loop.epoll_fd, events, ARRAY_LEN(events), (int)wait_ms);

	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 & CHECK_HTTP_EVENT)
			check_http_event(&loop, (int)(uint32_t)events[i].data.u64,
					 events[i].events);
		else
			check_event(events[i].data.ptr);
	}
	check_http_timer(&loop);
}

/* Carry out one check of a loopback server; without an end within the time it is given up. */
static void check_once(const struct health_conf *conf, uint16_t port, bool v6, unsigned timeout_ms)
{
	const struct health_vip vip = {.conf = *conf, .port = port};
	struct check_spec *spec = check_spec_new(&vip);
	struct check c = {.loop = &loop, .ended = on_end};
	uint64_t until_ms = clock_now_ms() + timeout_ms;

	ck_assert(spec != NULL);
	if (loop.epoll_fd < 0)
		loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c.spec = spec;
	ck_assert_int_eq(ip_addr_parse(v6 ? "::1" : "127.0.0.1", &c.address), 0);
	outcome = (struct outcome){.ended = false};
	check_start(&c);
	while (!outcome.ended && clock_now_ms() < until_ms)
		run_events(10);
	if (!outcome.ended)
		check_abort(&c);
	check_spec_unref(spec);
}

static void passes(const struct health_conf *conf, const struct check_server *s)
{
	check_once(conf, s->port, s->v6, 20000);
	ck_assert(outcome.ended);
	ck_assert_msg(outcome.result == CHECK_PASSED, "%s", outcome.error);
}

static void fails(const struct health_conf *conf, const struct check_server *s, const char *why)
{
	check_once(conf, s->port, s->v6, 20000);
	ck_assert(outcome.ended);
	ck_assert_int_eq(outcome.result, CHECK_FAILED);
	ck_assert_msg(strstr(outcome.error, why) != NULL, "%s", outcome.error);
}

static void hangs(const struct health_conf *conf, const struct check_server *s)
{
	check_once(conf, s->port, s->v6, 300);
	ck_assert(!outcome.ended);
}

static struct health_conf conf_of(enum health_type type)
{
	struct health_conf c;

	health_conf_defaults(&c);
	c.type = type;
	return c;
}

/* --- tcp ------------------------------------------------------------------------------------ */

START_TEST(tcp)
{
	struct health_conf c = conf_of(HEALTH_TCP);
	struct check_server s = {.reply = "hello"}, v6 = {.v6 = true, .reply = "hello"};
	struct check_server closed = check_server_nobody(false);

	check_server_start(&s);
	passes(&c, &s);
	check_server_stop(&s);
	check_server_start(&v6);
	passes(&c, &v6);
	check_server_stop(&v6);
	fails(&c, &closed, "Connection refused");
}
END_TEST

/* Its queue is full: the SYN is not answered. */
START_TEST(tcp_to_a_server_that_accepts_nothing)
{
	struct health_conf c = conf_of(HEALTH_TCP);
	struct check_server s = {.reply = NULL};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fds[4];

	check_server_bind(&s);
	ck_assert_int_eq(listen(s.fd, 0), 0);
	a.sin_port = htons(s.port);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		ck_assert(connect(fds[i], (struct sockaddr *)&a, sizeof(a)) == 0 ||
			  errno == EINPROGRESS);
	}
	usleep(50000);
	hangs(&c, &s);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	close(s.fd);
}
END_TEST

START_TEST(what_cannot_be_made_here_says_nothing_of_the_dip)
{
	static const enum health_type types[] = {HEALTH_TCP, HEALTH_HTTP, HEALTH_UDP};
	struct check_server s = {.reply = "x"};
	struct rlimit was, low;
	int fds[64];
	int n = 0;

	check_server_start(&s);
	struct health_conf http = conf_of(HEALTH_HTTP);
	fails(&http, &s, ""); /* and libcurl has made what it keeps */
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	low = was;
	low.rlim_cur = 40;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	while (n < (int)ARRAY_LEN(fds) && (fds[n] = dup(0)) >= 0)
		n++;
	ck_assert_int_eq(errno, EMFILE);
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct health_conf c = conf_of(types[i]);
		snprintf(c.send, sizeof(c.send), "x");
		check_once(&c, s.port, false, 20000);
		ck_assert(outcome.ended);
		ck_assert_int_eq(outcome.result, CHECK_SKIPPED);
	}
	while (n > 0)
		close(fds[--n]);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	check_server_stop(&s);
	ck_assert(check_errno_is_ours(EMFILE) && check_errno_is_ours(EADDRNOTAVAIL));
	ck_assert(!check_errno_is_ours(ECONNREFUSED) && !check_errno_is_ours(EHOSTUNREACH));
}
END_TEST

/* --- http ----------------------------------------------------------------------------------- */

#define ANSWER(status, body) "HTTP/1.1 " status "\r\nContent-Length: " body

START_TEST(http)
{
	struct health_conf c = conf_of(HEALTH_HTTP);
	struct check_server s = {.reply = ANSWER("200 OK", "2\r\n\r\nok")};

	check_server_start(&s);
	passes(&c, &s);
	ck_assert_msg(strncmp(s.request, "GET / HTTP/1.1\r\n", 16) == 0, "%s", s.request);
	ck_assert_ptr_nonnull(strstr(s.request, "Host: 127.0.0.1:"));
	snprintf(c.path, sizeof(c.path), "/health/../z?x=%%20");
	snprintf(c.host, sizeof(c.host), "www.example.org");
	passes(&c, &s);
	ck_assert_msg(strncmp(s.request, "GET /health/../z?x=%20 HTTP/1.1\r\n", 32) == 0, "%s",
		      s.request);
	ck_assert_ptr_nonnull(strstr(s.request, "Host: www.example.org\r\n"));
	c.method = HEALTH_OPTIONS;
	passes(&c, &s);
	ck_assert_msg(strncmp(s.request, "OPTIONS ", 8) == 0, "%s", s.request);
	c.method = HEALTH_HEAD;
	passes(&c, &s);
	ck_assert_msg(strncmp(s.request, "HEAD ", 5) == 0, "%s", s.request);
	check_server_stop(&s);
}
END_TEST

static const struct {
	const char *reply;
	const char *expect_status;
	const char *expect_body;
	const char *fault; /* NULL: passes */
} answers[] = {
	{ANSWER("200 OK", "2\r\n\r\nok"), "200-399", "ok", NULL},
	{ANSWER("200 OK", "2\r\n\r\nok"), "200-399", "no", "the body does not fit"},
	{ANSWER("200 OK", "2\r\n\r\nok"), "200", "regex:^(ok|fine)$", NULL},
	{ANSWER("200 OK", "3\r\n\r\nokk"), "200", "regex:^(ok|fine)$", "the body does not fit"},
	{ANSWER("500 Oops", "2\r\n\r\nok"), "200-399", "", "status 500, expected 200-399"},
	{ANSWER("500 Oops", "2\r\n\r\nok"), "500", "", NULL},
	{ANSWER("302 Found", "0\r\nLocation: http://127.0.0.1:1/\r\n\r\n"), "200-399", "", NULL},
	{ANSWER("404 Not Found", "0\r\n\r\n"), "200-299,404", "", NULL},
	{ANSWER("404 Not Found", "0\r\n\r\n"), "200-299,403", "", "status 404"},
	{ANSWER("204 No Content", "0\r\n\r\n"), "204", "", NULL},
	{"HTTP/1.0 200 OK\r\n\r\nuntil the end", "200", "the end", NULL},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "200", "ok",
	 NULL},
	{ANSWER("200 OK", "5\r\n\r\nok"), "200", "", ""}, /* ends too early */
	{"SSH-2.0-OpenSSH_9.2\r\n", "200", "", ""},
	{"", "200", "", "Empty reply"},
};

START_TEST(http_answers)
{
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct health_conf c = conf_of(HEALTH_HTTP);
		struct check_server s = {.reply = answers[i].reply};

		snprintf(c.expect_status, sizeof(c.expect_status), "%s", answers[i].expect_status);
		snprintf(c.expect_body, sizeof(c.expect_body), "%s", answers[i].expect_body);
		check_server_start(&s);
		if (answers[i].fault)
			fails(&c, &s, answers[i].fault);
		else
			passes(&c, &s);
		check_server_stop(&s);
	}
}
END_TEST

START_TEST(http_that_hangs)
{
	struct health_conf c = conf_of(HEALTH_HTTP);
	struct check_server silent = {.reply = NULL};
	struct check_server slow = {.reply = ANSWER("200 OK", "9\r\n\r\nok"), .stall = true};
	struct check_server closed = check_server_nobody(false);

	check_server_start(&silent);
	hangs(&c, &silent);
	check_server_stop(&silent);
	check_server_start(&slow); /* the head and some of the body, and no more */
	hangs(&c, &slow);
	check_server_stop(&slow);
	fails(&c, &closed, "cannot connect: Connection refused");
}
END_TEST

/* Of an endless body only the first 64 KiB are looked at, and then it is enough. */
START_TEST(http_with_a_large_body)
{
	static char reply[300000];
	struct health_conf c = conf_of(HEALTH_HTTP);
	struct check_server s = {.reply = reply, .n_reply = sizeof(reply), .stall = true};
	size_t head = (size_t)snprintf(reply, sizeof(reply),
				       "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");

	memset(reply + head, 'x', sizeof(reply) - head);
	memcpy(reply + head + 60000, "early", 5);
	memcpy(reply + head + 70000, "late", 4);
	check_server_start(&s);
	snprintf(c.expect_body, sizeof(c.expect_body), "early");
	passes(&c, &s);
	snprintf(c.expect_body, sizeof(c.expect_body), "late");
	fails(&c, &s, "the body does not fit");
	check_server_stop(&s);
}
END_TEST

/* --- https ---------------------------------------------------------------------------------- */

START_TEST(https)
{
	struct health_conf c = conf_of(HEALTH_HTTPS);
	struct check_server s = {.reply = ANSWER("200 OK", "2\r\n\r\nok"),
				 .tls = check_server_self_signed()};
	struct check_server plain = {.reply = ANSWER("200 OK", "2\r\n\r\nok"), .blurts = true};

	check_server_start(&s);
	fails(&c, &s, "certificate");
	snprintf(c.host, sizeof(c.host), "example.org");
	fails(&c, &s, "certificate");
	c.verify = false;
	passes(&c, &s);
	c.host[0] = '\0';
	passes(&c, &s);
	check_server_stop(&s);
	gnutls_certificate_free_credentials(s.tls);
	check_server_start(&plain);
	fails(&c, &plain, ""); /* no TLS there */
	check_server_stop(&plain);
}
END_TEST

/* --- udp and dns ---------------------------------------------------------------------------- */

START_TEST(udp)
{
	struct health_conf c = conf_of(HEALTH_UDP);
	struct check_server s = {.udp = true, .reply = "xx\x01\x02yy"};
	struct check_server silent = {.udp = true}, closed = check_server_nobody(true);

	snprintf(c.send, sizeof(c.send), "hex:00ff10");
	snprintf(c.expect, sizeof(c.expect), "hex:0102");
	check_server_start(&s);
	passes(&c, &s);
	snprintf(c.expect, sizeof(c.expect), "hex:0201");
	fails(&c, &s, "not in it what is expected");
	check_server_stop(&s);
	ck_assert(memcmp(s.request, "\x00\xff\x10", 3) == 0);
	check_server_start(&silent);
	hangs(&c, &silent);
	check_server_stop(&silent);
	fails(&c, &closed, "Connection refused");
}
END_TEST

START_TEST(dns)
{
	struct health_conf c = conf_of(HEALTH_DNS);
	struct check_name_server ns = {.rcode = RCODE_NOERROR};
	struct check_server closed = check_server_nobody(true);

	snprintf(c.name, sizeof(c.name), "example.org");
	check_name_server_start(&ns);
	passes(&c, &ns.s);
	ns.strays_first = true;
	passes(&c, &ns.s);
	ns.rcode = RCODE_SERVFAIL;
	fails(&c, &ns.s, "rcode servfail, not noerror");
	ns.rcode = RCODE_NXDOMAIN;
	c.expect_rcode = RCODE_NXDOMAIN;
	passes(&c, &ns.s);
	ns.rcode = 9;
	fails(&c, &ns.s, "rcode of another kind");
	ns.lie = true;
	hangs(&c, &ns.s);
	check_server_stop(&ns.s);
	fails(&c, &closed, "Connection refused");
}
END_TEST

START_TEST(dns_query_and_answers)
{
	struct health_conf c = conf_of(HEALTH_DNS);
	uint8_t q[HEALTH_DNS_MAX], a[HEALTH_DNS_MAX];
	char error[64];
	static const uint8_t want[] = {0x12, 0x34, 1,	0,   0, 1,   0,	  0,   0, 0, 0,	 0, 1,
				       'a',  2,	   'b', 'c', 3, 'o', 'r', 'g', 0, 0, 28, 0, 1};

	snprintf(c.name, sizeof(c.name), "a.bc.org");
	c.query_type = QUERY_AAAA;
	size_t n = health_dns_query(&c, 0x1234, q);
	ck_assert_uint_eq(n, sizeof(want));
	ck_assert(memcmp(q, want, n) == 0);
	snprintf(c.name, sizeof(c.name), "a.bc.org.");
	ck_assert_uint_eq(health_dns_query(&c, 0x1234, q), sizeof(want));
	ck_assert(memcmp(q, want, n) == 0);

	memcpy(a, q, n);
	ck_assert_int_eq(health_dns_judge(&c, 0x1234, a, n, error, sizeof(error)), DNS_NOT_OURS);
	a[2] |= 0x80;
	ck_assert_int_eq(health_dns_judge(&c, 0x1234, a, n, error, sizeof(error)), DNS_GOOD);
	a[13] = 'A';
	ck_assert_int_eq(health_dns_judge(&c, 0x1234, a, n, error, sizeof(error)), DNS_GOOD);
	/* Whatever is cut off or flipped: never read past its end, never good by accident. */
	struct prng p = prng_new("dns");
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t *cut = malloc(n);
		size_t len = prng_below(&p, (uint32_t)n + 1);
		memcpy(cut, a, n);
		if (len)
			cut[prng_below(&p, (uint32_t)len)] ^= (uint8_t)(1 << prng_below(&p, 8));
		uint8_t *exact = malloc(len + 1);
		memcpy(exact, cut, len);
		enum dns_judgement j =
			health_dns_judge(&c, 0x1234, exact, len, error, sizeof(error));
		expect(len == n || j != DNS_GOOD);
		free(exact);
		free(cut);
	}
	snprintf(c.name, sizeof(c.name), ".");
	ck_assert_uint_eq(health_dns_query(&c, 1, q), 17);
}
END_TEST

/* --- texts ---------------------------------------------------------------------------------- */

START_TEST(status_sets_and_bytes)
{
	uint8_t b[HEALTH_TEXT_LEN];
	struct prng p = prng_new("status sets");

	for (unsigned round = 0; round < 2000; round++) {
		bool in[600] = {false};
		char set[128] = "";
		size_t len = 0;
		for (unsigned i = 0, n = 1 + prng_below(&p, 5); i < n; i++) {
			unsigned low = 100 + prng_below(&p, 500);
			unsigned high = low + prng_below(&p, 600 - low);
			if (prng_below(&p, 2))
				high = low;
			len += (size_t)snprintf(set + len, sizeof(set) - len,
						high > low ? "%s%u-%u" : "%s%u", i ? "," : "", low,
						high);
			for (unsigned s = low; s <= high; s++)
				in[s] = true;
		}
		expect(health_status_set_valid(set));
		for (unsigned s = 0; s < 700; s++)
			expect(health_status_set_has(set, s) == (s < 600 && in[s]));
	}
	ck_assert_int_eq(health_bytes("", b), 0);
	ck_assert_int_eq(health_bytes("abc", b), 3);
	ck_assert_int_eq(health_bytes("hex:", b), 0);
	ck_assert_int_eq(health_bytes("hex:0aFf", b), 2);
	ck_assert(b[0] == 0x0a && b[1] == 0xff);
	ck_assert_int_eq(health_bytes("hex:0", b), -EINVAL);
	ck_assert_int_eq(health_bytes("hex:0g", b), -EINVAL);
	ck_assert_int_eq(health_bytes("hexx", b), 4);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("health_check");
	TCase *tc = tcase_create("health_check");
	SRunner *runner = srunner_create(suite);

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, tcp);
	tcase_add_test(tc, tcp_to_a_server_that_accepts_nothing);
	tcase_add_test(tc, what_cannot_be_made_here_says_nothing_of_the_dip);
	tcase_add_test(tc, http);
	tcase_add_test(tc, http_answers);
	tcase_add_test(tc, http_that_hangs);
	tcase_add_test(tc, http_with_a_large_body);
	tcase_add_test(tc, https);
	tcase_add_test(tc, udp);
	tcase_add_test(tc, dns);
	tcase_add_test(tc, dns_query_and_answers);
	tcase_add_test(tc, status_sets_and_bytes);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	check_http_close(&loop);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
