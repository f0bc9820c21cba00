/* What clients may do to the server that the API does not provide for: heads that are too
 * long, connections that are held, descriptors that run out. Over real sockets, in one process. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/server/connections.h"
#include "api/server/listener.h"
#include "base/clock.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

#define GET_LIVEZ "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"

static char dir[64], where[96]; /* "unix:..." */
static struct http_server *server;
static struct api_context api;
static _Atomic uint64_t ahead_ns; /* of the real clock */
static bool stands;		  /* the clock; set before there is a server */

static uint64_t jumping_clock(void)
{
	struct timespec t;

	if (stands)
		return 1000000000u;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + atomic_load(&ahead_ns);
}

static int64_t wall(void)
{
	return 1;
}

static void pass(unsigned ms)
{
	atomic_fetch_add(&ahead_ns, ms * 1000000ull);
}

static void set_up(void)
{
	struct error err;
	const char *listen[] = {where};
	const struct http_config config = {.n = 1, .listen = listen};

	signal(SIGPIPE, SIG_IGN);
	clock_set_source(jumping_clock, wall);
	memset(&api_fake, 0, sizeof(api_fake));
	snprintf(dir, sizeof(dir), "/tmp/test_http.XXXXXX");
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
	clock_set_source(NULL, NULL);
	rmdir(dir);
}

static int status_of(const char *to, const char *text)
{
	struct http_answer a;
	int fd = http_say(to, text);

	http_read(fd, false, &a);
	close(fd);
	int status = a.status;
	http_answer_free(&a);
	return status;
}

/* --- heads ---------------------------------------------------------------------------------------
 */

static char *repeat(const char *before, const char *piece, unsigned n, const char *after)
{
	size_t len = strlen(piece);
	char *text = malloc(strlen(before) + n * len + strlen(after) + 1);
	char *at = stpcpy(text, before);

	for (unsigned i = 0; i < n; i++)
		at = stpcpy(at, piece);
	strcpy(at, after);
	return text;
}

#define TAIL " HTTP/1.1\r\nHost: x\r\n\r\n"

static const struct {
	const char *before;
	const char *piece;
	unsigned n;
	const char *after;
	int status;
} long_heads[] = {
	{"GET /v1/explain?", "a=1&", 3000, TAIL, 414},
	{"GET /v1/explain?", "a=1&", 2000, TAIL, 400},
	{"GET /v1/explain?", "&", 8000, TAIL, 400},
	{"GET /v1/vips?", "a", 8000, TAIL, 400},
	{"GET /v1/vips?", "%", 7000, TAIL, 400},
	{"GET /", "x", 8000, TAIL, 404},
	{"GET /", "x", 8300, TAIL, 414},
	{"GET /", "x", 30000, TAIL, 414},
	{"GET /", "x", 200000, TAIL, 414},
	{"GET /livez HTTP/1.1\r\nHost: x\r\n", "X: y\r\n", 100, "\r\n", 200},
	{"GET /livez HTTP/1.1\r\nHost: x\r\n", "X: y\r\n", 5000, "\r\n", 431},
	{"GET /livez HTTP/1.1\r\nHost: x\r\nX: ", "y", 100000, "\r\n\r\n", 431},
};

START_TEST(long_heads_are_refused)
{
	for (size_t i = 0; i < ARRAY_LEN(long_heads); i++) {
		char *text = repeat(long_heads[i].before, long_heads[i].piece, long_heads[i].n,
				    long_heads[i].after);
		int status = status_of(where, text);
		ck_assert_msg(status == long_heads[i].status, "%s(%s x %u): %d",
			      long_heads[i].before, long_heads[i].piece, long_heads[i].n, status);
		free(text);
	}
}
END_TEST

/* Requests that end anywhere leave nothing behind. (Under AddressSanitizer, which keeps no such
 * figure, it is the leak checker that says so.) */
START_TEST(refused_requests_leave_nothing)
{
	char *texts[] = {
		repeat("GET /v1/explain?", "a=1&", 3000, TAIL),
		repeat("GET /v1/vips?", "x", 8000, " HTTP/1.1\r\nHost: loc"),
		repeat("GET /v1/vips?", "x", 8000, " HTTP/1.1\r\n\r\n"),
		repeat("GET /v1/vips?", "x", 8000, " HTTP/7.1\r\nHost: x\r\n\r\n"),
		repeat("PUT /v1/vips/a?", "x", 8000,
		       " HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nxxxx"),
		repeat("PUT /v1/vips/a?", "x", 8000,
		       " HTTP/1.1\r\nHost: x\r\nContent-Length: -4\r\n\r\n"),
		repeat("PUT /v1/vips/a?", "x", 8000,
		       " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
		       "chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\na"),
	};
	size_t before = 0;

	for (int round = 0; round < 120; round++) {
		if (round == 20)
			before = mallinfo2().uordblks;
		for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
			int fd = http_say(where, texts[i]);
			shutdown(fd, SHUT_WR);
			ck_assert(http_ends_within(fd, 5000));
			close(fd);
		}
	}
	/* Each of the 700 had a target of 8 KB. */
	ck_assert_uint_lt(mallinfo2().uordblks, before + 400000);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		free(texts[i]);
}
END_TEST

/* --- connections that are held -------------------------------------------------------------------
 */

START_TEST(slow_requests_are_cut)
{
	static const char *const begun[] = {
		"",
		"GET /livez HT",
		"GET /livez HTTP/1.1\r\nHost: x\r\nX: ",
		"PUT /v1/vips/web HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	};
	int fds[ARRAY_LEN(begun)];

	for (size_t i = 0; i < ARRAY_LEN(begun); i++)
		fds[i] = http_say(where, begun[i]);
	/* A byte now and then does not help. */
	for (int k = 0; k < 5; k++) {
		usleep(100000);
		pass(1800);
		for (size_t i = 1; i < ARRAY_LEN(begun); i++)
			ck_assert(http_send(fds[i], "a", 1));
	}
	pass(1000);
	for (size_t i = 0; i < ARRAY_LEN(begun); i++) {
		ck_assert_msg(http_ends_within(fds[i], 3000), "'%s' is not cut", begun[i]);
		close(fds[i]);
	}
	ck_assert_int_eq(status_of(where, GET_LIVEZ), 200);
}
END_TEST

START_TEST(kept_connections_are_kept_for_a_while)
{
	struct http_answer a;
	int fd = http_say(where, GET_LIVEZ);

	http_read(fd, false, &a);
	http_answer_free(&a);
	for (int i = 0; i < 3; i++) {
		usleep(200000); /* until the server has noted that the answer is out */
		pass(40000);
		usleep(600000);
		ck_assert(http_send(fd, GET_LIVEZ, strlen(GET_LIVEZ)));
		http_read(fd, false, &a);
		ck_assert_int_eq(a.status, 200);
		http_answer_free(&a);
	}
	/* The server may note a moment after we have read the answer that the connection is kept:
	 * the clock passes more than once. */
	bool ended = false;
	for (int i = 0; i < 10 && !ended; i++) {
		pass(61000);
		ended = http_ends_within(fd, 1000);
	}
	ck_assert(ended);
	close(fd);
}
END_TEST

START_TEST(slow_readers_are_cut)
{
	static const char get[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	int fd = http_connect(where);
	int sent = 0;

	/* Until the server takes no more, as it cannot get rid of its answers. */
	for (int idle = 0; idle < 5;) {
		if (send(fd, get, sizeof(get) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
			sent++;
			idle = 0;
		} else {
			idle++;
			usleep(100000);
		}
		ck_assert_int_lt(sent, 1000000);
	}
	pass(31000);
	usleep(600000);
	ck_assert_int_lt(send(fd, get, sizeof(get) - 1, MSG_DONTWAIT | MSG_NOSIGNAL), 0);
	ck_assert_int_eq(errno, EPIPE);
	close(fd);
}
END_TEST

static void *change_slowly(void *status)
{
	*(int *)status = status_of(where, "DELETE /v1/vips/web HTTP/1.1\r\nHost: x\r\n\r\n");
	return NULL;
}

#define CROWD (CONNECTIONS_MAX + 200)

/* Whoever holds connections, whatever he does with them, others get in; and no change is cut. */
START_TEST(a_crowd_keeps_nobody_out)
{
	static const char *const held[] = {"", "GET /livez HTTP/1.1\r\nX: ",
					   "PUT /v1/vips/web HTTP/1.1\r\nHost: x\r\n"
					   "Content-Length: 9\r\n\r\n{"};
	static int fds[CROWD];
	pthread_t changer;
	int status = 0;

	atomic_store(&api_fake.hold_changes, true);
	ck_assert_int_eq(pthread_create(&changer, NULL, change_slowly, &status), 0);
	while (!atomic_load(&api_fake.n_changes_now))
		usleep(1000);
	for (unsigned i = 0; i < CROWD; i++)
		fds[i] = http_say(where, held[i % ARRAY_LEN(held)]);
	for (int i = 0; i < 5; i++) {
		uint64_t start = jumping_clock();
		ck_assert_int_eq(status_of(where, GET_LIVEZ), 200);
		ck_assert_uint_lt(jumping_clock() - start, 8000000000u);
	}
	atomic_store(&api_fake.hold_changes, false);
	pthread_join(changer, NULL);
	ck_assert_int_eq(status, 200);
	for (unsigned i = 0; i < CROWD; i++)
		close(fds[i]);
}
END_TEST

#define CHANGERS (CONNECTIONS_MAX / 2 + 20)

START_TEST(waiting_changes_leave_room)
{
	static const char change[] = "DELETE /v1/vips/web HTTP/1.1\r\nHost: x\r\n\r\n";
	static int fds[CHANGERS];
	unsigned done = 0, refused = 0;
	struct http_answer a;

	atomic_store(&api_fake.hold_changes, true);
	for (unsigned i = 0; i < CHANGERS; i++)
		fds[i] = http_say(where, change);
	while (atomic_load(&api_fake.n_changes_now) < CONNECTIONS_MAX / 2)
		usleep(1000);
	ck_assert_int_eq(status_of(where, GET_LIVEZ), 200);
	ck_assert_int_eq(status_of(where, change), 503);
	atomic_store(&api_fake.hold_changes, false);
	for (unsigned i = 0; i < CHANGERS; i++) {
		http_read(fds[i], false, &a);
		done += a.status == 200;
		refused += a.status == 503;
		http_answer_free(&a);
		close(fds[i]);
	}
	ck_assert_uint_ge(done, CONNECTIONS_MAX / 2);
	ck_assert_uint_eq(done + refused, CHANGERS);
}
END_TEST

/* --- the system's limits -------------------------------------------------------------------------
 */

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* All of a body of 16 MiB but its last byte. */
static int begin_large_body(const char *body)
{
	int fd = http_say(where, "PUT /v1/config HTTP/1.1\r\nHost: x\r\nContent-Type: "
				 "application/json\r\nContent-Length: 16777216\r\n\r\n");

	ck_assert(http_send(fd, body, strlen(body)));
	return fd;
}

/* No deadline ends what a busy machine takes long for. */
static void set_up_without_time(void)
{
	stands = true;
	set_up();
}

static void tear_down_without_time(void)
{
	tear_down();
	stands = false;
}

/* Whoever may connect can send bodies, before a token is looked at: together they may take only so
 * much memory, and they keep no small ones out. */
START_TEST(large_bodies_take_only_so_much)
{
	char *body = repeat("", "x", (16u << 20) - 1, "");
	char *large = repeat("PUT /v1/config HTTP/1.1\r\nHost: x\r\nContent-Type: "
			     "application/json\r\nContent-Length: 1048576\r\n\r\n",
			     "x", 1u << 20, "");
	char *small = repeat("PUT /v1/config HTTP/1.1\r\nHost: x\r\nContent-Type: "
			     "application/json\r\nContent-Length: 65536\r\n\r\n",
			     "x", 1u << 16, "");
	int fds[8], status = 503;

	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = begin_large_body(body);
	ck_assert_int_eq(status_of(where, large), 503);
	ck_assert_int_eq(status_of(where, small), 400);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	for (unsigned i = 0; i < 500 && status == 503; i++) {
		status = status_of(where, large);
		usleep(10000);
	}
	ck_assert_int_eq(status, 400);
	free(body);
	free(large);
	free(small);
}
END_TEST

START_TEST(no_descriptor_is_left)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct rlimit before, none;
	int fds[20];

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", where + 5);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&a, sizeof(a)), 0);
	double start = cpu_s();
	sleep(1);
	double used = cpu_s() - start;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_msg(used < 0.2, "%.2f s of a second's CPU time", used);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		struct http_answer answer;
		ck_assert(http_send(fds[i], GET_LIVEZ, strlen(GET_LIVEZ)));
		http_read(fds[i], false, &answer);
		ck_assert_int_eq(answer.status, 200);
		http_answer_free(&answer);
		close(fds[i]);
	}
}
END_TEST

START_TEST(files_are_asked_for)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert(limit.rlim_cur >= 2 * CONNECTIONS_MAX || limit.rlim_cur == limit.rlim_max);
}
END_TEST

START_TEST(the_queue_is_as_long_as_can_be)
{
	struct listener l;
	struct error err;
	struct tcp_info info;
	socklen_t len = sizeof(info);
	unsigned most;
	FILE *f = fopen("/proc/sys/net/core/somaxconn", "re");

	ck_assert(f && fscanf(f, "%u", &most) == 1);
	fclose(f);
	ck_assert_int_eq(listener_open("127.0.0.1:0", false, &l, &err), 0);
	ck_assert_int_eq(getsockopt(l.fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	ck_assert_uint_eq(info.tcpi_sacked, most < SOMAXCONN ? most : SOMAXCONN);
	listener_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http");
	TCase *tc = tcase_create("http");

	tcase_set_timeout(tc, 180);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, long_heads_are_refused);
	tcase_add_test(tc, refused_requests_leave_nothing);
	tcase_add_test(tc, slow_requests_are_cut);
	tcase_add_test(tc, kept_connections_are_kept_for_a_while);
	tcase_add_test(tc, slow_readers_are_cut);
	tcase_add_test(tc, a_crowd_keeps_nobody_out);
	tcase_add_test(tc, waiting_changes_leave_room);
	tcase_add_test(tc, no_descriptor_is_left);
	tcase_add_test(tc, files_are_asked_for);
	tcase_add_test(tc, the_queue_is_as_long_as_can_be);
	suite_add_tcase(s, tc);
	tc = tcase_create("http without time");
	tcase_set_timeout(tc, 180);
	tcase_add_checked_fixture(tc, set_up_without_time, tear_down_without_time);
	tcase_add_test(tc, large_bodies_take_only_so_much);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
