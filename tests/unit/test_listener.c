/* Where the API may listen: only here, and never on someone else's socket file. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/server/guard.h"
#include "api/server/listener.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

static char dir[64];
static char path[96];
static char spec[112];

static void set_up(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_listener.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	snprintf(spec, sizeof(spec), "unix:%s", path);
}

static void tear_down(void)
{
	unlink(path);
	rmdir(dir);
}

static const struct {
	const char *spec;
	int rc;
	const char *says;
} refused[] = {
	{"0.0.0.0:0", -EACCES, "not a loopback address"},
	{"10.9.0.1:8080", -EACCES, "not a loopback address"},
	{"128.0.0.1:8080", -EACCES, "not a loopback address"},
	{"[::]:8080", -EACCES, "not a loopback address"},
	{"[2001:db8::1]:8080", -EACCES, "not a loopback address"},
	{"[::ffff:10.0.0.1]:8080", -EACCES, "not a loopback address"},
	{"0.0.0.0:0", -EACCES, "say http:0.0.0.0:0"},
	{"https:127.0.0.1:0", -EINVAL, "--tls-cert"},
	{"https:10.9.0.1:8080", -EINVAL, "--tls-cert"},
	{"http:", -EINVAL, "neither"},
	{"http://127.0.0.1:80", -EINVAL, "neither"},
	{"https:unix:/x", -EINVAL, "neither"},
	{"ftp:127.0.0.1:80", -EINVAL, "neither"},
	{"", -EINVAL, "neither"},
	{"8080", -EINVAL, "neither"},
	{":8080", -EINVAL, "neither"},
	{"127.0.0.1", -EINVAL, "neither"},
	{"127.0.0.1:", -EINVAL, "neither"},
	{"127.0.0.1:65536", -EINVAL, "neither"},
	{"127.0.0.1:-1", -EINVAL, "neither"},
	{"127.0.0.1:80x", -EINVAL, "neither"},
	{"127.0.0.1:000080", -EINVAL, "neither"},
	{"::1:8080", -EINVAL, "neither"},
	{"[::1]", -EINVAL, "neither"},
	{"[::1:8080", -EINVAL, "neither"},
	{"]:8080", -EINVAL, "neither"},
	{"[]:8080", -EINVAL, "neither"},
	{"example.com:8080", -EINVAL, "neither"},
	{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1", -EINVAL,
	 "neither"},
	{"unix:", -EINVAL, "1 to 107 bytes"},
	{"unix:/nope/nowhere/sock", -ENOENT, "No such file"},
	{"unix:/etc/passwd", -EEXIST, "no socket"},
};

START_TEST(refuses)
{
	struct listener l = {.fd = 77};
	struct error err;
	char longest[256] = "unix:/";

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		int rc = listener_open(refused[i].spec, false, &l, &err);
		ck_assert_msg(rc == refused[i].rc, "%s: %d", refused[i].spec, rc);
		ck_assert_msg(strstr(err.message, refused[i].says) != NULL, "%s: %s",
			      refused[i].spec, err.message);
		ck_assert_int_eq(l.fd, 77);
	}
	memset(longest + 6, 'x', 107);
	ck_assert_int_eq(listener_open(longest, false, &l, &err), -EINVAL);
}
END_TEST

START_TEST(tcp)
{
	static const char *const specs[] = {"127.0.0.1:0", "localhost:0", "127.9.9.9:0", "[::1]:0"};
	struct listener l, again;
	struct error err;

	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		int rc = listener_open(specs[i], false, &l, &err);
		if (rc == -EADDRNOTAVAIL || rc == -EAFNOSUPPORT)
			continue; /* a machine without IPv6 */
		ck_assert_msg(rc == 0, "%s", err.message);
		ck_assert(!l.is_unix);
		ck_assert_str_ne(l.text, specs[i]); /* it names the port that the kernel chose */
		ck_assert_int_eq(listener_open(l.text, false, &again, &err), -EADDRINUSE);
		listener_close(&l);
		ck_assert_int_eq(l.fd, -1);
	}
}
END_TEST

START_TEST(unix_socket)
{
	struct listener l, again;
	struct error err;
	struct stat st;

	ck_assert_msg(listener_open(spec, false, &l, &err) == 0, "%s", err.message);
	ck_assert_str_eq(l.text, spec);
	ck_assert(l.is_unix && l.has_file);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0660);
	int fd = http_connect(spec);
	ck_assert_int_ge(fd, 0);
	close(fd);
	/* One that lives is left alone. */
	ck_assert_int_eq(listener_open(spec, false, &again, &err), -EADDRINUSE);
	ck_assert_int_eq(access(path, F_OK), 0);
	listener_close(&l);
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(stale_socket_is_replaced)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct listener l;
	struct error err;

	/* What a killed process leaves. */
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	close(fd);
	ck_assert_int_lt(http_connect(spec), 0);

	ck_assert_msg(listener_open(spec, false, &l, &err) == 0, "%s", err.message);
	fd = http_connect(spec);
	ck_assert_int_ge(fd, 0);
	close(fd);
	listener_close(&l);
}
END_TEST

START_TEST(another_ones_file_is_not_removed)
{
	struct listener l;
	struct error err;

	ck_assert_int_eq(listener_open(spec, false, &l, &err), 0);
	unlink(path);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	listener_close(&l);
	ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(one_bad_listener_undoes_all)
{
	const char *listen[] = {spec, "127.0.0.1:0", "0.0.0.0:80"};
	const char *many[LISTENERS_MAX + 1] = {spec};
	const struct http_config too_many = {
		.n = LISTENERS_MAX, .listen = many, .n_read_only = 1, .listen_read_only = many};
	struct http_server *s;
	struct error err;

	struct http_config c = {.n = 3, .listen = listen};
	ck_assert_int_eq(http_open(&c, &s, &err), -EACCES);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(http_open(&too_many, &s, &err), -EINVAL);
	/* Opened and never started. */
	c.n = 2;
	ck_assert_int_eq(http_open(&c, &s, &err), 0);
	ck_assert_uint_eq(http_n_listeners(s), 2);
	ck_assert_str_eq(http_listener_text(s, 0), spec);
	http_close(s);
	ck_assert_int_ne(access(path, F_OK), 0);
	http_close(NULL);
}
END_TEST

/* --- who may ask ---------------------------------------------------------------------------------
 */

static const struct {
	bool over_unix;
	const char *host;
	const char *origin;
	bool allowed;
} guests[] = {
	{false, NULL, NULL, true},
	{false, "localhost", NULL, true},
	{false, "LocalHost:8080", NULL, true},
	{false, "127.0.0.1:8080", NULL, true},
	{false, "127.1.2.3", NULL, true},
	{false, "[::1]:8080", NULL, true},
	{false, "[::1]", NULL, true},
	{false, "127.0.0.1:8080", "http://127.0.0.1:8080", true},
	{false, "localhost:8080", "http://LOCALHOST:8080", true},
	{false, "localhost:8080", "http://localhost:9090", false},
	{false, "localhost:8080", "https://localhost:8080", false},
	{false, "localhost:8080", "null", false},
	{false, "localhost:8080", "http://evil.example", false},
	{false, "evil.example", NULL, false},
	{false, "evil.example:8080", "http://evil.example:8080", false},
	{false, "localhost.evil.example", NULL, false},
	{false, "127.0.0.1.evil.example", NULL, false},
	{false, "128.0.0.1", NULL, false},
	{false, "", NULL, false},
	{false, "localhost:", NULL, true},
	{false, "localhost:80a", NULL, false},
	{false, "[::1", NULL, false},
	{false, "[::2]:80", NULL, false},
	{false, "[::1]x", NULL, false},
	{false, "[", NULL, false},
	{false, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	 NULL, false},
	{true, "anything", NULL, true},
	{true, NULL, NULL, true},
	{true, "x", "http://x", false},
};

static bool is_accepted(struct api_request *req, const struct api_peer *peer,
			struct api_response *resp)
{
	static const char *const origins[] = {"https://ui.example", "http://10.0.0.1:3000"};
	struct api_context api = {.n_cors_origins = 2, .cors_origins = origins};

	req->api = &api;
	req->peer = peer;
	*resp = (struct api_response){.status = 0};
	bool accepted = guard_accept(req, resp);
	ck_assert_uint_eq(resp->status, accepted ? 0 : 403);
	json_decref(resp->body);
	return accepted;
}

START_TEST(guests_of_the_house)
{
	for (size_t i = 0; i < ARRAY_LEN(guests); i++) {
		struct api_peer peer = {.unix_socket = guests[i].over_unix,
					.loopback = !guests[i].over_unix};
		struct api_request req = {.host = guests[i].host, .origin = guests[i].origin};
		struct api_response resp;
		bool allowed = is_accepted(&req, &peer, &resp);

		ck_assert_msg(allowed == guests[i].allowed, "Host %s, Origin %s: %d",
			      guests[i].host, guests[i].origin, allowed);
		ck_assert_ptr_null(resp.cors_origin);
	}
}
END_TEST

static const struct {
	struct api_peer peer;
	const char *target;
	const char *host;
	const char *origin;
	const char *authorization;
	bool allowed;
	bool cors;
} strangers[] = {
	/* a name that leads here (DNS rebinding): the place opens nothing, a token does */
	{{.loopback = true}, "/", "evil.example", NULL, NULL, false, false},
	{{.loopback = true}, "/", "evil.example", NULL, "Bearer x", true, false},
	{{.loopback = true}, "/", "evil.example", "http://evil.example", NULL, false, false},
	{{.loopback = true}, "http://evil.example/", "localhost", NULL, NULL, false, false},
	{{.loopback = true}, "https://evil.example/", "localhost", NULL, NULL, false, false},
	{{.loopback = true}, "http://localhost/", "evil.example", NULL, NULL, true, false},
	/* elsewhere any name is good, and only our own page */
	{{.loopback = false}, "/", "lb.example", NULL, NULL, true, false},
	{{.loopback = false}, "/", "lb.example", "http://lb.example", NULL, true, false},
	{{.loopback = false}, "/", "lb.example", "http://evil.example", NULL, false, false},
	{{.loopback = false}, "/", "lb.example", "http://evil.example", "Bearer x", false, false},
	{{.tls = true}, "/", "lb.example", "https://lb.example", NULL, true, false},
	{{.tls = true}, "/", "lb.example", "http://lb.example", NULL, false, false},
	/* what --cors-origin names, exactly */
	{{.tls = true}, "/", "lb.example", "https://ui.example", "Bearer x", true, true},
	{{.tls = true}, "/", "lb.example", "http://ui.example", "Bearer x", false, false},
	{{.tls = true}, "/", "lb.example", "https://ui.example.evil", "Bearer x", false, false},
	{{.tls = true}, "/", "lb.example", "https://UI.example", "Bearer x", false, false},
	{{.loopback = true}, "/", "localhost", "http://10.0.0.1:3000", NULL, true, true},
	{{.loopback = true}, "/", "evil.example", "http://10.0.0.1:3000", NULL, false, false},
};

START_TEST(strangers_at_the_door)
{
	for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
		struct api_request req = {.method = "OPTIONS",
					  .target = strangers[i].target,
					  .host = strangers[i].host,
					  .origin = strangers[i].origin,
					  .authorization = strangers[i].authorization};
		struct api_response resp;
		bool allowed = is_accepted(&req, &strangers[i].peer, &resp);

		ck_assert_msg(allowed == strangers[i].allowed, "case %zu: %d", i, allowed);
		ck_assert_msg((resp.cors_origin != NULL) == strangers[i].cors, "case %zu", i);
		ck_assert(guard_preflight(&req, &resp) == strangers[i].cors);
		req.method = "GET";
		ck_assert(!guard_preflight(&req, &resp));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("listener");
	TCase *tc = tcase_create("listener");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, refuses);
	tcase_add_test(tc, tcp);
	tcase_add_test(tc, unix_socket);
	tcase_add_test(tc, stale_socket_is_replaced);
	tcase_add_test(tc, another_ones_file_is_not_removed);
	tcase_add_test(tc, one_bad_listener_undoes_all);
	tcase_add_test(tc, guests_of_the_house);
	tcase_add_test(tc, strangers_at_the_door);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
