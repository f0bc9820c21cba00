/* The router: every way a target can match or not, escapes against a naive decoder, random targets.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/server/problem.h"
#include "api/server/router.h"

static char seen[256]; /* which handler ran, with what */

static void record(const char *name, struct api_request *req, struct api_response *resp, unsigned n)
{
	size_t len = (size_t)snprintf(seen, sizeof(seen), "%s", name);

	for (unsigned i = 0; i < n; i++)
		len += (size_t)snprintf(seen + len, sizeof(seen) - len, " %s", req->path_args[i]);
	for (unsigned i = 0; i < req->n_query; i++)
		len += (size_t)snprintf(seen + len, sizeof(seen) - len, " %s=%s",
					req->query[i].name, req->query[i].value);
	response_json(resp, 200, json_object());
}

static void list(struct api_request *req, struct api_response *resp)
{
	record("list", req, resp, 0);
}

static void get(struct api_request *req, struct api_response *resp)
{
	record("get", req, resp, 1);
}

static void put(struct api_request *req, struct api_response *resp)
{
	record("put", req, resp, 1);
}

static void get_dip(struct api_request *req, struct api_response *resp)
{
	record("dip", req, resp, 2);
}

static const struct route routes[] = {
	{"GET", "/v1/vips", list, NULL, ROLE_NONE},
	{"GET", "/v1/vips/{vip}", get, NULL, ROLE_NONE},
	{"PUT", "/v1/vips/{vip}", put, "force override_hold", ROLE_NONE},
	{"GET", "/v1/vips/{vip}/dips/{dip}", get_dip, "a b c d e f g h i j k l m", ROLE_NONE},
	{"POST", "/v1/audit", list, NULL, ROLE_NONE},
};

static unsigned dispatch(const char *method, const char *target, struct api_response *resp)
{
	static const struct api_peer peer = {.unix_socket = true};
	struct api_request req = {.method = method, .target = target, .peer = &peer};

	*resp = (struct api_response){.status = 0};
	seen[0] = '\0';
	router_dispatch(routes, ARRAY_LEN(routes), &req, resp);
	ck_assert_ptr_nonnull(resp->body);
	return resp->status;
}

static const struct {
	const char *method;
	const char *target;
	unsigned status;
	const char *outcome; /* what ran; for 405 Allow; else a part of detail */
} cases[] = {
	{"GET", "/v1/vips", 200, "list"},
	{"HEAD", "/v1/vips", 200, "list"},
	{"GET", "http://localhost:8080/v1/vips", 200, "list"},
	{"GET", "HTTP://x/v1/vips/web", 200, "get web"},
	{"GET", "/v1/vips?", 200, "list"},
	{"GET", "/v1/vips?&", 200, "list"},
	{"GET", "/v1/vips/web", 200, "get web"},
	{"GET", "/v1/vips/w%65b", 200, "get web"},
	{"GET", "/%76%31/vips/web", 200, "get web"},
	{"GET", "/v1/vips/a%2Fb", 200, "get a/b"},
	{"GET", "/v1/vips/a+b", 200, "get a+b"},
	{"PUT", "/v1/vips/web?force=true", 200, "put web force=true"},
	{"PUT", "/v1/vips/web?force=true&override_hold=a%20b+c", 200,
	 "put web force=true override_hold=a b c"},
	{"PUT", "/v1/vips/web?force", 200, "put web force="},
	{"GET", "/v1/vips/web/dips/b1", 200, "dip web b1"},
	{"GET", "/v1/vips/web/dips/b1?a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9&j=10&k=11&l=12", 200,
	 "dip web b1 a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9 j=10 k=11 l=12"},
	{"GET", "/v1/vips/web/dips/b1?a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9&j=10&k=11&l=12&m=13", 400,
	 "too many"},
	{"DELETE", "/v1/vips/web", 405, "GET, HEAD, PUT"},
	{"PATCH", "/v1/vips", 405, "GET, HEAD"},
	{"GET", "/v1/audit", 405, "POST"},
	{"BREW", "/v1/audit", 405, "POST"},
	{"GET", "/", 404, "path"},
	{"GET", "", 404, "path"},
	{"OPTIONS", "*", 404, "path"},
	{"GET", "http://localhost", 404, "path"},
	{"GET", "v1/vips", 404, "path"},
	{"GET", "/v1/vips/", 404, "path"},
	{"GET", "/v1//vips", 404, "path"},
	{"GET", "//v1/vips", 404, "path"},
	{"GET", "/v1/vip", 404, "path"},
	{"GET", "/v1/vipss", 404, "path"},
	{"GET", "/V1/vips", 404, "path"},
	{"GET", "/v1/vips/web/dips", 404, "path"},
	{"GET", "/v1/vips/web/dips/", 404, "path"},
	{"GET", "/v1/vips/web/dips/b1/x", 404, "path"},
	{"GET", "/v1/../v1/vips", 404, "path"},
	{"GET", "/1/2/3/4/5/6/7/8/9/10", 404, "path"},
	{"GET", "/v1/vips/%", 400, "escape"},
	{"GET", "/v1/vips/%4", 400, "escape"},
	{"GET", "/v1/vips/%zz", 400, "escape"},
	{"GET", "/v1/vips/a%00b", 400, "escape"},
	{"GET", "/v1/vips?force=true", 400, "force"},
	{"PUT", "/v1/vips/web?forse=true", 400, "forse"},
	{"PUT", "/v1/vips/web?=true", 400, "known here"},
	{"PUT", "/v1/vips/web?force=true&force=true", 400, "twice"},
	{"PUT", "/v1/vips/web?force=%f", 400, "escape"},
	{"PUT", "/v1/vips/web?%00=1", 400, "escape"},
	{"PUT", "/v1/vips/web?force=true?force=true", 200, "put web force=true?force=true"},
};

START_TEST(matches)
{
	struct api_response resp;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned status = dispatch(cases[i].method, cases[i].target, &resp);
		const char *detail = json_string_value(json_object_get(resp.body, "detail"));

		ck_assert_msg(status == cases[i].status, "%s %s: %u", cases[i].method,
			      cases[i].target, status);
		if (status == 200)
			ck_assert_str_eq(seen, cases[i].outcome);
		else
			ck_assert_msg(seen[0] == '\0', "a handler ran for %s", cases[i].target);
		if (status == 405)
			ck_assert_str_eq(resp.allow, cases[i].outcome);
		else
			ck_assert_str_eq(resp.allow, "");
		if (status == 400 || status == 404)
			ck_assert_msg(strstr(detail, cases[i].outcome) != NULL, "%s: %s",
				      cases[i].target, detail);
		json_decref(resp.body);
	}
}
END_TEST

START_TEST(every_faulty_parameter_is_named)
{
	struct api_response resp;

	ck_assert_uint_eq(dispatch("PUT", "/v1/vips/web?x=1&force=true&y=2", &resp), 400);
	json_t *errors = json_object_get(resp.body, "errors");
	ck_assert_uint_eq(json_array_size(errors), 2);
	const char *first =
		json_string_value(json_object_get(json_array_get(errors, 0), "parameter"));
	const char *second =
		json_string_value(json_object_get(json_array_get(errors, 1), "parameter"));
	ck_assert_str_eq(first, "x");
	ck_assert_str_eq(second, "y");
	json_decref(resp.body);
}
END_TEST

START_TEST(api_routes_are_sound)
{
	for (size_t i = 0; i < api_n_routes; i++) {
		unsigned n_args = 0;
		for (const char *p = api_routes[i].path; *p; p++)
			n_args += *p == '{';
		ck_assert_uint_le(n_args, PATH_ARGS_MAX);
		ck_assert_ptr_nonnull(api_routes[i].handle);
		for (size_t k = 0; k < i; k++)
			ck_assert(strcmp(api_routes[i].path, api_routes[k].path) != 0 ||
				  strcmp(api_routes[i].method, api_routes[k].method) != 0);
	}
}
END_TEST

/* Decoding by the book: one character at a time, into another buffer. */
static bool naive_decode(const char *in, bool plus, char *out)
{
	while (*in) {
		char hex[3] = {0};
		char *end;
		if (*in != '%') {
			*out++ = plus && *in == '+' ? ' ' : *in;
			in++;
			continue;
		}
		if (!in[1] || !in[2] || !strchr("0123456789abcdefABCDEF", in[1]) ||
		    !strchr("0123456789abcdefABCDEF", in[2]))
			return false;
		memcpy(hex, in + 1, 2);
		long byte = strtol(hex, &end, 16);
		if (!byte)
			return false;
		*out++ = (char)byte;
		in += 3;
	}
	*out = '\0';
	return true;
}

static unsigned seed;

START_TEST(decodes_as_the_naive_decoder)
{
	static const char alphabet[] = "%%%%0123abcDEFxyz+/ \xff";

	for (int round = 0; round < 200000; round++) {
		char text[16], expected[16], got[16];
		size_t n = (size_t)rand_r(&seed) % (sizeof(text) - 1);
		bool plus = rand_r(&seed) & 1;

		for (size_t i = 0; i < n; i++)
			text[i] = alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
		text[n] = '\0';
		memcpy(got, text, sizeof(got));
		bool ok = naive_decode(text, plus, expected);
		if (router_percent_decode(got, plus) != ok || (ok && strcmp(got, expected) != 0))
			ck_abort_msg("'%s': %d '%s', expected '%s'", text, ok, got, expected);
	}
}
END_TEST

START_TEST(random_targets_get_an_answer)
{
	static const char *const pieces[] = {"/",     "v1",   "vips", "web",   "dips", "%2F",
					     "%",     "?",    "&",    "=",     "a",    "b",
					     "force", "true", "\xc3", "http:", "+",    "{vip}"};
	struct api_response resp;

	for (int round = 0; round < 50000; round++) {
		char target[256] = "";
		size_t n = (size_t)rand_r(&seed) % 14;
		for (size_t i = 0; i < n; i++)
			strcat(target, pieces[(size_t)rand_r(&seed) % ARRAY_LEN(pieces)]);
		unsigned status = dispatch(round % 3 ? "GET" : "PUT", target, &resp);
		if (status != 200 && status != 400 && status != 404 && status != 405)
			ck_abort_msg("%s: %u", target, status);
		if ((status == 200) != (seen[0] != '\0'))
			ck_abort_msg("%s: %u, ran '%s'", target, status, seen);
		json_decref(resp.body);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("router");
	TCase *tc = tcase_create("router");

	seed = (unsigned)time(NULL);
	printf("seed %u\n", seed);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, matches);
	tcase_add_test(tc, every_faulty_parameter_is_named);
	tcase_add_test(tc, api_routes_are_sound);
	tcase_add_test(tc, decodes_as_the_naive_decoder);
	tcase_add_test(tc, random_targets_get_an_answer);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
