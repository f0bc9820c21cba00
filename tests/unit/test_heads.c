/* Heads that two readers may understand in two ways, or that name another machine: refused, and
 * what follows them is not taken for a request. Over real sockets, in one process. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

static struct http_server *server;
static struct api_context api;
static const char *where;

static void set_up(void)
{
	struct error err;
	const char *listen[] = {"127.0.0.1:0"};
	const struct http_config config = {.n = 1, .listen = listen};

	signal(SIGPIPE, SIG_IGN);
	memset(&api_fake, 0, sizeof(api_fake));
	api_fake_context(&api);
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
	where = http_listener_text(server, 0);
}

static void tear_down(void)
{
	http_close(server);
}

static const struct {
	const char *head;
	int status;
} heads[] = {
	{"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
	{"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400},
	{"GET /livez HTTP/1.1\r\nHost: localhost\r\nhOST: localhost\r\n\r\n", 400},
	{"GET /livez HTTP/1.1\r\n\r\n", 400},
	{"GET /livez HTTP/1.0\r\n\r\n", 200},
	{"GET /livez /x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
	{"GET /livez HTTP/1.1\r\nHost: localhost\r\nX{}: 1\r\n\r\n", 400},
	{"GET /livez HTTP/1.1\r\nHost: localhost\r\nX~-.1: (\r\n\r\n", 200},
	{"GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
	{"GET http://evil.example/livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
	{"GET HTTP://evil.example HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
	{"GET http://evil.example?x HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
	{"GET http://localhost:80@evil.example/livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
	{"GET http:///livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
	{"GET http://127.0.0.1:8080/livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
	{"GET http://localhost/livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200},
	{"GET http://127.0.0.1/livez HTTP/1.1\r\nHost: localhost\r\nOrigin: "
	 "http://localhost\r\n\r\n",
	 403},
	{"GET /livez HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
	 "Origin: http://evil.example\r\n\r\n",
	 400},
	{"PUT /v1/vips/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
	 "Content-Length: 40\r\n\r\n{}",
	 400},
	{"PUT /v1/vips/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
	 "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	 400},
	/* Somebody on the way takes what follows for a body; here it would be the next request. */
	{"POST /v1/audit HTTP/1.1\r\nHost: localhost\r\nContent-Length : 36\r\n\r\n"
	 "GET /livez HTTP/1.1\r\nHost: localhost",
	 400},
	{"POST /v1/audit HTTP/1.1\r\nHost: localhost\r\nContent-Length\t: 36\r\n\r\n", 400},
	{"POST /v1/audit HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n", 400},
	{"PUT /v1/vips/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n{}", 400},
	{"PUT /v1/vips/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: Chunked\r\n\r\n"
	 "2\r\n{}\r\n0\r\n\r\n",
	 415},
};

START_TEST(heads_say_one_thing)
{
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct http_answer a;
		int fd = http_say(where, heads[i].head);
		http_read(fd, false, &a);
		ck_assert_msg(a.status == heads[i].status, "%s: %d %s", heads[i].head, a.status,
			      a.body);
		/* What follows an unclear head is not taken for a request. */
		if (a.status == 400) {
			ck_assert_ptr_nonnull(strstr(a.body, "/problems/bad-request"));
			ck_assert(http_ends_within(fd, 2000));
		}
		http_answer_free(&a);
		close(fd);
	}
	ck_assert_uint_eq(atomic_load(&api_fake.n_changes), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("heads");
	TCase *tc = tcase_create("heads");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, heads_say_one_thing);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
