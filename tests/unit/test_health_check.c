/* Each kind of check against real servers on loopback that behave well, badly, or not at all. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
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
#include "tests/unit/prng.h"

/* --- servers -------------------------------------------------------------------------------- */

struct server {
	int fd;
	uint16_t port;
	bool udp, v6;
	const char *reply; /* NULL: silence */
	size_t n_reply;	   /* 0 = strlen(reply) */
	bool blurts;	   /* whatever is asked */
	bool stall;	   /* after the reply: neither more nor an end */
	gnutls_certificate_credentials_t tls;
	char request[2048];
	pthread_t thread;
};

static void serve_tls(struct server *s, int fd)
{
	gnutls_session_t session;
	char request[1024];

	gnutls_init(&session, GNUTLS_SERVER);
	gnutls_set_default_priority(session);
	gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, s->tls);
	gnutls_transport_set_int(session, fd);
	gnutls_handshake_set_timeout(session, 20000);
	if (gnutls_handshake(session) == 0 &&
	    gnutls_record_recv(session, request, sizeof(request)) > 0) {
		gnutls_record_send(session, s->reply, strlen(s->reply));
		gnutls_bye(session, GNUTLS_SHUT_WR);
	}
	gnutls_deinit(session);
}

static void serve_tcp(struct server *s, int fd)
{
	size_t n = 0;
	ssize_t got;

	if (s->tls) {
		serve_tls(s, fd);
		return;
	}
	while (n < sizeof(s->request) - 1 &&
	       (got = recv(fd, s->request + n, sizeof(s->request) - 1 - n, 0)) > 0) {
		n += (size_t)got;
		s->request[n] = '\0';
		if (s->blurts || strstr(s->request, "\r\n\r\n"))
			break;
	}
	if (s->reply)
		send(fd, s->reply, s->n_reply ? s->n_reply : strlen(s->reply), MSG_NOSIGNAL);
	if (s->stall || !s->reply)
		while (recv(fd, s->request, sizeof(s->request), 0) > 0)
			;
}

static void *server_main(void *arg)
{
	struct server *s = arg;
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	if (s->udp) {
		ssize_t n;
		while ((n = recvfrom(s->fd, s->request, sizeof(s->request), 0,
				     (struct sockaddr *)&from, &len)) > 0)
			if (s->reply)
				sendto(s->fd, s->reply, s->n_reply ? s->n_reply : strlen(s->reply),
				       0, (struct sockaddr *)&from, len);
		return NULL;
	}
	for (;;) {
		int fd = accept(s->fd, NULL, NULL);
		if (fd < 0)
			return NULL;
		serve_tcp(s, fd);
		close(fd);
	}
}

static void bind_server(struct server *s)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr *a = s->v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t len = s->v6 ? sizeof(v6) : sizeof(v4);

	s->fd = socket(a->sa_family, s->udp ? SOCK_DGRAM : SOCK_STREAM, 0);
	ck_assert_int_ge(s->fd, 0);
	ck_assert_int_eq(bind(s->fd, a, len), 0);
	ck_assert_int_eq(getsockname(s->fd, a, &len), 0);
	s->port = ntohs(s->v6 ? v6.sin6_port : v4.sin_port);
}

static void serve(struct server *s)
{
	bind_server(s);
	if (!s->udp)
		ck_assert_int_eq(listen(s->fd, 16), 0);
	ck_assert_int_eq(pthread_create(&s->thread, NULL, server_main, s), 0);
}

static void stop(struct server *s)
{
	if (s->udp) { /* a datagram socket that is shut down still waits: wake it with an empty one
		       */
		struct sockaddr_in a = {.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
					.sin_port = htons(s->port)};
		sendto(s->fd, "", 0, 0, (struct sockaddr *)&a, sizeof(a));
	} else {
		shutdown(s->fd, SHUT_RDWR);
	}
	pthread_join(s->thread, NULL);
	close(s->fd);
}

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

static void passes(const struct health_conf *conf, const struct server *s)
{
	check_once(conf, s->port, s->v6, 20000);
	ck_assert(outcome.ended);
	ck_assert_msg(outcome.result == CHECK_PASSED, "%s", outcome.error);
}

static void fails(const struct health_conf *conf, const struct server *s, const char *why)
{
	check_once(conf, s->port, s->v6, 20000);
	ck_assert(outcome.ended);
	ck_assert_int_eq(outcome.result, CHECK_FAILED);
	ck_assert_msg(strstr(outcome.error, why) != NULL, "%s", outcome.error);
}

static void hangs(const struct health_conf *conf, const struct server *s)
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

/* A port where nobody listens. */
static struct server nobody(bool udp)
{
	struct server s = {.udp = udp};

	bind_server(&s);
	close(s.fd);
	return s;
}

/* --- tcp ------------------------------------------------------------------------------------ */

START_TEST(tcp)
{
	struct health_conf c = conf_of(HEALTH_TCP);
	struct server s = {.reply = "hello"}, v6 = {.v6 = true, .reply = "hello"};
	struct server closed = nobody(false);

	serve(&s);
	passes(&c, &s);
	stop(&s);
	serve(&v6);
	passes(&c, &v6);
	stop(&v6);
	fails(&c, &closed, "Connection refused");
}
END_TEST

/* Its queue is full: the SYN is not answered. */
START_TEST(tcp_to_a_server_that_accepts_nothing)
{
	struct health_conf c = conf_of(HEALTH_TCP);
	struct server s = {.reply = NULL};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fds[4];

	bind_server(&s);
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
	struct server s = {.reply = "x"};
	struct rlimit was, low;
	int fds[64];
	int n = 0;

	serve(&s);
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
	stop(&s);
	ck_assert(check_errno_is_ours(EMFILE) && check_errno_is_ours(EADDRNOTAVAIL));
	ck_assert(!check_errno_is_ours(ECONNREFUSED) && !check_errno_is_ours(EHOSTUNREACH));
}
END_TEST

/* --- http ----------------------------------------------------------------------------------- */

#define ANSWER(status, body) "HTTP/1.1 " status "\r\nContent-Length: " body

START_TEST(http)
{
	struct health_conf c = conf_of(HEALTH_HTTP);
	struct server s = {.reply = ANSWER("200 OK", "2\r\n\r\nok")};

	serve(&s);
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
	stop(&s);
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
		struct server s = {.reply = answers[i].reply};

		snprintf(c.expect_status, sizeof(c.expect_status), "%s", answers[i].expect_status);
		snprintf(c.expect_body, sizeof(c.expect_body), "%s", answers[i].expect_body);
		serve(&s);
		if (answers[i].fault)
			fails(&c, &s, answers[i].fault);
		else
			passes(&c, &s);
		stop(&s);
	}
}
END_TEST

START_TEST(http_that_hangs)
{
	struct health_conf c = conf_of(HEALTH_HTTP);
	struct server silent = {.reply = NULL};
	struct server slow = {.reply = ANSWER("200 OK", "9\r\n\r\nok"), .stall = true};
	struct server closed = nobody(false);

	serve(&silent);
	hangs(&c, &silent);
	stop(&silent);
	serve(&slow); /* the head and some of the body, and no more */
	hangs(&c, &slow);
	stop(&slow);
	fails(&c, &closed, "cannot connect: Connection refused");
}
END_TEST

/* Of an endless body only the first 64 KiB are looked at, and then it is enough. */
START_TEST(http_with_a_large_body)
{
	static char reply[300000];
	struct health_conf c = conf_of(HEALTH_HTTP);
	struct server s = {.reply = reply, .n_reply = sizeof(reply), .stall = true};
	size_t head = (size_t)snprintf(reply, sizeof(reply),
				       "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");

	memset(reply + head, 'x', sizeof(reply) - head);
	memcpy(reply + head + 60000, "early", 5);
	memcpy(reply + head + 70000, "late", 4);
	serve(&s);
	snprintf(c.expect_body, sizeof(c.expect_body), "early");
	passes(&c, &s);
	snprintf(c.expect_body, sizeof(c.expect_body), "late");
	fails(&c, &s, "the body does not fit");
	stop(&s);
}
END_TEST

/* --- https ---------------------------------------------------------------------------------- */

static gnutls_certificate_credentials_t self_signed(void)
{
	gnutls_certificate_credentials_t cred;
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t crt;
	static const char serial[] = {1};

	gnutls_x509_privkey_init(&key);
	ck_assert_int_eq(
		gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
					     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
		0);
	gnutls_x509_crt_init(&crt);
	gnutls_x509_crt_set_version(crt, 3);
	gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
	gnutls_x509_crt_set_activation_time(crt, time(NULL) - 3600);
	gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 3600);
	gnutls_x509_crt_set_dn(crt, "CN=example.org", NULL);
	gnutls_x509_crt_set_key(crt, key);
	ck_assert_int_eq(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
	gnutls_certificate_allocate_credentials(&cred);
	ck_assert_int_eq(gnutls_certificate_set_x509_key(cred, &crt, 1, key), 0);
	gnutls_x509_crt_deinit(crt);
	gnutls_x509_privkey_deinit(key);
	return cred;
}

START_TEST(https)
{
	struct health_conf c = conf_of(HEALTH_HTTPS);
	struct server s = {.reply = ANSWER("200 OK", "2\r\n\r\nok"), .tls = self_signed()};
	struct server plain = {.reply = ANSWER("200 OK", "2\r\n\r\nok"), .blurts = true};

	serve(&s);
	fails(&c, &s, "certificate");
	snprintf(c.host, sizeof(c.host), "example.org");
	fails(&c, &s, "certificate");
	c.verify = false;
	passes(&c, &s);
	c.host[0] = '\0';
	passes(&c, &s);
	stop(&s);
	gnutls_certificate_free_credentials(s.tls);
	serve(&plain);
	fails(&c, &plain, ""); /* no TLS there */
	stop(&plain);
}
END_TEST

/* --- udp and dns ---------------------------------------------------------------------------- */

START_TEST(udp)
{
	struct health_conf c = conf_of(HEALTH_UDP);
	struct server s = {.udp = true, .reply = "xx\x01\x02yy"};
	struct server silent = {.udp = true}, closed = nobody(true);

	snprintf(c.send, sizeof(c.send), "hex:00ff10");
	snprintf(c.expect, sizeof(c.expect), "hex:0102");
	serve(&s);
	passes(&c, &s);
	snprintf(c.expect, sizeof(c.expect), "hex:0201");
	fails(&c, &s, "not in it what is expected");
	stop(&s);
	ck_assert(memcmp(s.request, "\x00\xff\x10", 3) == 0);
	serve(&silent);
	hangs(&c, &silent);
	stop(&silent);
	fails(&c, &closed, "Connection refused");
}
END_TEST

/* A name server in a thread: what it says is told to it. */
struct name_server {
	struct server s;
	_Atomic int rcode;
	_Atomic bool strays_first; /* answers to queries that nobody made */
	_Atomic bool lie;	   /* about the question */
};

static void *name_server_main(void *arg)
{
	struct name_server *ns = arg;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	uint8_t m[512];
	ssize_t n;

	while ((n = recvfrom(ns->s.fd, m, sizeof(m), 0, (struct sockaddr *)&from, &len)) > 0) {
		m[2] |= 0x80;
		m[3] = (uint8_t)ns->rcode;
		if (ns->lie)
			m[n - 3] ^= 1; /* another type */
		if (ns->strays_first) {
			m[0] ^= 1;
			sendto(ns->s.fd, m, (size_t)n, 0, (struct sockaddr *)&from, len);
			m[0] ^= 1;
			sendto(ns->s.fd, m, 5, 0, (struct sockaddr *)&from, len);
		}
		sendto(ns->s.fd, m, (size_t)n, 0, (struct sockaddr *)&from, len);
	}
	return NULL;
}

static void serve_names(struct name_server *ns)
{
	ns->s.udp = true;
	bind_server(&ns->s);
	ck_assert_int_eq(pthread_create(&ns->s.thread, NULL, name_server_main, ns), 0);
}

START_TEST(dns)
{
	struct health_conf c = conf_of(HEALTH_DNS);
	struct name_server ns = {.rcode = RCODE_NOERROR};
	struct server closed = nobody(true);

	snprintf(c.name, sizeof(c.name), "example.org");
	serve_names(&ns);
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
	stop(&ns.s);
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
