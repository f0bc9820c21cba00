/* The dashboard's files over the real HTTP server: which there are, what goes with them, and that
 * no path leads to any other. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/server/web.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static char dir[64];
static struct http_server *server;
static struct web *web;
static struct api_context api;

static void write_file(const char *name, const char *text, size_t len)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, len, f), len);
	ck_assert_int_eq(fclose(f), 0);
}

static void write_text(const char *name, const char *text)
{
	write_file(name, text, strlen(text));
}

static void make_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_web.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static void set_up(void)
{
	struct error err;
	const char *listen[] = {"127.0.0.1:0"};
	const struct http_config config = {.n = 1, .listen = listen};
	struct store_token token = {.id = "op", .role = "operate", .created_s = 1};
	const struct auth_config auth = {.n_tokens = 1, .tokens = &token, .store = api_fake_store};
	char sub[96];

	signal(SIGPIPE, SIG_IGN);
	make_dir();
	write_text("index.html", "<!doctype html>hello");
	write_file("app.js", "a\0b", 3);
	write_text("style.css", "p{}");
	write_text("icon.svg", "<svg/>");
	write_text("empty.js", "");
	write_text("secret.txt", "secret");
	write_text(".hidden.js", "secret");
	write_text("README.md", "secret");
	snprintf(sub, sizeof(sub), "%s/sub.js", dir);
	ck_assert_int_eq(mkdir(sub, 0700), 0);
	write_text("sub.js/x.js", "secret");
	memset(&api_fake, 0, sizeof(api_fake));
	api_fake_context(&api);
	ck_assert(token_hash(TOKEN, token.hash));
	ck_assert_msg(auth_new(&auth, &api.auth, &err) == 0, "%s", err.message);
	ck_assert_msg(web_open(dir, &web, &err) == 0, "%s", err.message);
	api.web = web;
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
}

static void tear_down(void)
{
	http_close(server);
	auth_free(api.auth);
	web_free(web);
	api.web = NULL;
	remove_dir();
}

static void ask(const char *method, const char *target, const char *headers, struct http_answer *a)
{
	char head[1024];
	int fd = http_connect(http_listener_text(server, 0));

	ck_assert_int_ge(fd, 0);
	int n = snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\n%s\r\n", method, target, headers);
	ck_assert(http_send(fd, head, (size_t)n));
	http_read(fd, !strcmp(method, "HEAD"), a);
	close(fd);
}

#define HOST "Host: localhost\r\n"

static const struct {
	const char *method, *target, *headers;
	int status;
	const char *type, *contains;
} cases[] = {
	{"GET", "/", HOST, 200, "text/html; charset=utf-8", "<!doctype html>hello"},
	{"GET", "/?x=1", HOST, 200, "text/html; charset=utf-8", "hello"},
	{"GET", "/index.html", HOST, 200, "text/html; charset=utf-8", "hello"},
	{"GET", "/style.css", HOST, 200, "text/css; charset=utf-8", "p{}"},
	{"GET", "/icon.svg", HOST, 200, "image/svg+xml", "<svg/>"},
	{"GET", "/empty.js", HOST, 200, "text/javascript; charset=utf-8", ""},
	{"GET", "/", HOST "Origin: http://localhost\r\n", 200, NULL, "hello"},
	/* Not served, or not there. */
	{"GET", "/secret.txt", HOST, 404, NULL, "no resource"},
	{"GET", "/README.md", HOST, 404, NULL, "no resource"},
	{"GET", "/.hidden.js", HOST, 404, NULL, "no resource"},
	{"GET", "/sub.js", HOST, 404, NULL, "no resource"},
	{"GET", "/sub.js/x.js", HOST, 404, NULL, "no resource"},
	{"GET", "/app.j", HOST, 404, NULL, "no resource"},
	{"GET", "/app.jss", HOST, 404, NULL, "no resource"},
	{"GET", "/app.js/", HOST, 404, NULL, "no resource"},
	{"GET", "//app.js", HOST, 404, NULL, "no resource"},
	{"GET", "/./app.js", HOST, 404, NULL, "no resource"},
	{"GET", "/%61pp.js", HOST, 404, NULL, "no resource"},
	{"GET", "/../../etc/passwd", HOST, 404, NULL, "no resource"},
	{"GET", "/%2e%2e/%2e%2e/etc/passwd", HOST, 404, NULL, "no resource"},
	{"GET", "/..%2f..%2fetc%2fpasswd", HOST, 404, NULL, "no resource"},
	{"POST", "/", HOST "Content-Length: 0\r\n", 404, NULL, "no resource"},
	{"PUT", "/app.js", HOST "Content-Length: 0\r\n", 404, NULL, "no resource"},
	/* The place's protections are those of the API; its token is for the API alone. */
	{"GET", "/", "Host: evil.example\r\n", 403, NULL, "another machine"},
	{"GET", "/app.js", HOST "Origin: http://evil.example\r\n", 403, NULL, "foreign"},
	{"GET", "/", HOST "If-None-Match: nonsense\r\n", 400, NULL, "If-None-Match"},
	{"GET", "/v1/status", HOST, 401, NULL, "token"},
	{"GET", "/v1/whoami", HOST, 401, NULL, "token"},
	{"GET", "/v1/whoami", HOST "Authorization: Bearer " TOKEN "\r\n", 200, NULL,
	 "{\"author\": \"op\", \"role\": \"operate\"}"},
};

START_TEST(paths_and_types)
{
	struct http_answer a;

	ask(cases[_i].method, cases[_i].target, cases[_i].headers, &a);
	ck_assert_msg(a.status == cases[_i].status, "%s %s: %d, %s", cases[_i].method,
		      cases[_i].target, a.status, a.body);
	ck_assert_msg(strstr(a.body, cases[_i].contains), "%s: %s", cases[_i].target, a.body);
	ck_assert_ptr_null(strstr(a.body, "secret"));
	ck_assert_str_eq(http_header(&a, "X-Content-Type-Options"), "nosniff");
	if (cases[_i].type)
		ck_assert_str_eq(http_header(&a, "Content-Type"), cases[_i].type);
	http_answer_free(&a);
}
END_TEST

START_TEST(what_goes_with_a_page)
{
	struct http_answer a;

	ask("GET", "/app.js", HOST, &a);
	ck_assert_uint_eq(a.len, 3);
	ck_assert_mem_eq(a.body, "a\0b", 3);
	const char *policy = http_header(&a, "Content-Security-Policy");
	ck_assert_ptr_nonnull(policy);
	ck_assert_ptr_nonnull(strstr(policy, "default-src 'none'"));
	ck_assert_ptr_nonnull(strstr(policy, "frame-ancestors 'none'"));
	ck_assert_ptr_null(strstr(policy, "unsafe"));
	ck_assert_ptr_null(strstr(policy, "http"));
	ck_assert_str_eq(http_header(&a, "Cache-Control"), "no-cache");
	ck_assert_str_eq(http_header(&a, "Referrer-Policy"), "no-referrer");
	http_answer_free(&a);

	ask("GET", "/v1/status", HOST "Authorization: Bearer " TOKEN "\r\n", &a);
	ck_assert_int_eq(a.status, 200);
	ck_assert_str_eq(http_header(&a, "Cache-Control"), "no-store");
	ck_assert_ptr_null(http_header(&a, "Content-Security-Policy"));
	http_answer_free(&a);
}
END_TEST

/* Asked for again, it costs no body. */
START_TEST(tags)
{
	struct http_answer a;
	char tag[64], headers[160];

	ask("HEAD", "/style.css", HOST, &a);
	ck_assert_int_eq(a.status, 200);
	ck_assert_str_eq(http_header(&a, "Content-Length"), "3");
	snprintf(tag, sizeof(tag), "%s", http_header(&a, "ETag"));
	http_answer_free(&a);
	snprintf(headers, sizeof(headers), HOST "If-None-Match: %s\r\n", tag);
	ask("GET", "/style.css", headers, &a);
	ck_assert_int_eq(a.status, 304);
	ck_assert_uint_eq(a.len, 0);
	ck_assert_str_eq(http_header(&a, "ETag"), tag);
	ck_assert_str_eq(http_header(&a, "Cache-Control"), "no-cache");
	http_answer_free(&a);
	ask("GET", "/app.js", headers, &a);
	ck_assert_int_eq(a.status, 200);
	ck_assert_str_ne(http_header(&a, "ETag"), tag);
	http_answer_free(&a);
}
END_TEST

/* What is read is what was there at the start. */
START_TEST(read_once)
{
	struct http_answer a;

	write_text("index.html", "changed");
	ask("GET", "/", HOST, &a);
	ck_assert_str_eq(a.body, "<!doctype html>hello");
	http_answer_free(&a);
	remove_dir();
	ask("GET", "/", HOST, &a);
	ck_assert_str_eq(a.body, "<!doctype html>hello");
	http_answer_free(&a);
	make_dir();
}
END_TEST

START_TEST(no_page)
{
	struct http_answer a;

	api.web = NULL;
	ask("GET", "/", HOST, &a);
	ck_assert_int_eq(a.status, 404);
	http_answer_free(&a);
}
END_TEST

static void expect_refusal(int code, const char *contains)
{
	struct error err = {""};
	struct web *w = NULL;

	ck_assert_int_eq(web_open(dir, &w, &err), code);
	ck_assert_ptr_null(w);
	ck_assert_msg(strstr(err.message, contains), "%s", err.message);
}

START_TEST(directories_refused)
{
	char name[96];

	make_dir();
	expect_refusal(-ENOENT, "there is no index.html");
	write_text("index.html", "");
	snprintf(name, sizeof(name), "%s/big.js", dir);
	write_text("big.js", "");
	ck_assert_int_eq(truncate(name, (4 << 20) + 1), 0);
	expect_refusal(-E2BIG, "big.js");
	ck_assert_int_eq(unlink(name), 0);
	snprintf(name, sizeof(name), "%s/gone.js", dir);
	ck_assert_int_eq(symlink("nowhere", name), 0);
	expect_refusal(-ENOENT, "gone.js");
	ck_assert_int_eq(unlink(name), 0);
	for (unsigned i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "f%u.js", i);
		write_text(name, "");
	}
	expect_refusal(-E2BIG, dir);
	remove_dir();
	expect_refusal(-ENOENT, dir);
}
END_TEST

/* As a build lays them out: the tests stand in build/unit, the dashboard in build/web. */
START_TEST(found_beside_the_program)
{
	struct error err = {""};
	struct web *w = NULL;
	char path[512];
	ssize_t n = readlink("/proc/self/exe", path, 256);

	ck_assert_int_gt(n, 0);
	path[n] = '\0';
	strcpy(strrchr(path, '/'), "/../web/index.html");
	ck_assert_msg(web_open(NULL, &w, &err) == 0, "%s", err.message);
	ck_assert_msg((w != NULL) == (access(path, R_OK) == 0), "%s", path);
	web_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("web");
	TCase *served = tcase_create("served");
	TCase *opened = tcase_create("opened");

	tcase_add_checked_fixture(served, set_up, tear_down);
	tcase_set_timeout(served, 60);
	tcase_add_loop_test(served, paths_and_types, 0, (int)ARRAY_LEN(cases));
	tcase_add_test(served, what_goes_with_a_page);
	tcase_add_test(served, tags);
	tcase_add_test(served, read_once);
	tcase_add_test(served, no_page);
	suite_add_tcase(s, served);
	tcase_set_timeout(opened, 60);
	tcase_add_test(opened, directories_refused);
	tcase_add_test(opened, found_beside_the_program);
	suite_add_tcase(s, opened);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
