/* Health over HTTP: each member of a VIP's checks with good and bad values, a DIP's health and
 * history, and overrides, each with every answer that it can get. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/router.h"
#include "tests/unit/api_fake.h"

extern const struct route api_routes[];
extern const size_t api_n_routes;

#define WEB "/v1/vips/web"
#define B1 WEB "/dips/b1"

/* The answer as text; free() it. */
static char *ask(const char *method, const char *target, const char *body, unsigned *status)
{
	static const struct api_peer peer = {.unix_socket = true};
	static struct api_context api;
	struct api_response resp = {.status = 0};

	api_fake_context(&api);
	struct api_request req = {.api = &api,
				  .method = method,
				  .target = target,
				  .peer = &peer,
				  .content_type = "application/json",
				  .body = body ? body : "",
				  .body_len = body ? strlen(body) : 0};
	router_dispatch(api_routes, api_n_routes, &req, &resp);
	ck_assert(resp.body != NULL);
	char *text = json_dumps(resp.body, 0);
	ck_assert(text != NULL);
	json_decref(resp.body);
	*status = resp.status;
	return text;
}

/* --- the checks of a VIP -------------------------------------------------------------------- */

#define PUT(health)                                                                                \
	"{\"address\": \"10.9.0.100\", \"port\": 80, \"protocol\": \"tcp\", \"health\": " health "}"

static const struct {
	const char *health;
	unsigned status;
	const char *contains;
} members[] = {
	{"null", 200, ""},
	{"{\"type\": \"none\"}", 200, ""},
	{"{\"type\": \"tcp\"}", 200, ""},
	{"{\"type\": \"tcp\", \"port\": null}", 200, ""},
	{"{\"type\": \"http\"}", 200, ""},
	{"{\"type\": \"https\", \"verify\": false}", 200, ""},
	{"{\"type\": \"udp\", \"send\": \"hex:00\", \"expect\": \"x\"}", 200, ""},
	{"{\"type\": \"dns\", \"name\": \"example.org\"}", 200, ""},
	{"{\"type\": \"agent\"}", 200, ""},
	{"[]", 422, "/health\", \"code\": \"type\""},
	{"true", 422, "/health\", \"code\": \"type\""},
	{"{}", 200, ""},
	{"{\"interval_ms\": 500}", 422, "/health/type\", \"code\": \"required"},
	{"{\"type\": \"icmp\"}", 422, "/health/type\", \"code\": \"bad_value"},
	{"{\"type\": 1}", 422, "/health/type\", \"code\": \"type"},
	{"{\"type\": \"tcp\", \"bogus\": 1}", 422, "/health/bogus\", \"code\": \"unknown"},
	{"{\"type\": \"none\", \"rise\": 4}", 422, "/health/rise\", \"code\": \"not_applicable"},
	{"{\"type\": \"tcp\", \"path\": \"/x\"}", 422, "/health/path\", \"code\": \"not_appl"},
	{"{\"type\": \"http\", \"verify\": false}", 422, "/health/verify\", \"code\": \"not_appl"},
	{"{\"type\": \"agent\", \"port\": 5}", 422, "/health/port\", \"code\": \"not_appl"},
	{"{\"type\": \"tcp\", \"interval_ms\": 99}", 422,
	 "/health/interval_ms\", \"code\": \"out_of"},
	{"{\"type\": \"tcp\", \"interval_ms\": 3600001}", 422, "100 to 3600000"},
	{"{\"type\": \"tcp\", \"interval_ms\": \"1\"}", 422,
	 "/health/interval_ms\", \"code\": \"type"},
	{"{\"type\": \"tcp\", \"timeout_ms\": 9}", 422, "/health/timeout_ms"},
	{"{\"type\": \"tcp\", \"timeout_ms\": 60001}", 422, "10 to 60000"},
	{"{\"type\": \"tcp\", \"rise\": 0}", 422, "/health/rise"},
	{"{\"type\": \"tcp\", \"rise\": 101}", 422, "1 to 100"},
	{"{\"type\": \"tcp\", \"fall\": 0}", 422, "/health/fall"},
	{"{\"type\": \"tcp\", \"fall\": 99999999999}", 422, "/health/fall\", \"code\": \"out_of"},
	{"{\"type\": \"tcp\", \"fall\": -1}", 422, "/health/fall"},
	{"{\"type\": \"tcp\", \"jitter_percent\": 51}", 422, "0 to 50"},
	{"{\"type\": \"tcp\", \"min_up\": 4097}", 422, "0 to 4096"},
	{"{\"type\": \"tcp\", \"slow_start_s\": 3601}", 422, "/health/slow_start_s"},
	{"{\"type\": \"tcp\", \"damping_half_life_s\": 3601}", 422, "/health/damping_half_life_s"},
	{"{\"type\": \"tcp\", \"port\": 65536}", 422, "/health/port"},
	{"{\"type\": \"http\", \"path\": \"x\"}", 422, "/health/path"},
	{"{\"type\": \"http\", \"path\": \"/a b\"}", 422, "/health/path"},
	{"{\"type\": \"http\", \"path\": \"/\\r\\nX: y\"}", 422, "/health/path"},
	{"{\"type\": \"http\", \"host\": \"a b\"}", 422, "/health/host"},
	{"{\"type\": \"http\", \"host\": \"a\\r\\nX: y\"}", 422, "/health/host"},
	{"{\"type\": \"http\", \"host\": \"example.org:8080\"}", 200, ""},
	{"{\"type\": \"http\", \"method\": \"POST\"}", 422, "/health/method"},
	{"{\"type\": \"http\", \"method\": \"HEAD\"}", 200, ""},
	{"{\"type\": \"http\", \"method\": \"HEAD\", \"expect_body\": \"x\"}", 422,
	 "/health/expect_body\", \"code\": \"conflict"},
	{"{\"type\": \"http\", \"expect_status\": \"\"}", 422, "/health/expect_status"},
	{"{\"type\": \"http\", \"expect_status\": \"200-\"}", 422, "/health/expect_status"},
	{"{\"type\": \"http\", \"expect_status\": \"2xx\"}", 422, "/health/expect_status"},
	{"{\"type\": \"http\", \"expect_status\": \"299-200\"}", 422, "/health/expect_status"},
	{"{\"type\": \"http\", \"expect_status\": \"200,\"}", 422, "/health/expect_status"},
	{"{\"type\": \"http\", \"expect_status\": \"99\"}", 422, "/health/expect_status"},
	{"{\"type\": \"http\", \"expect_status\": \"600\"}", 422, "/health/expect_status"},
	{"{\"type\": \"http\", \"expect_status\": \"200-299,301\"}", 200, ""},
	{"{\"type\": \"http\", \"expect_body\": \"regex:(\"}", 422, "/health/expect_body"},
	{"{\"type\": \"http\", \"expect_body\": \"regex:a{9}\"}", 422, "/health/expect_body"},
	{"{\"type\": \"http\", \"expect_body\": \"regex:(a)\\\\1\"}", 422, "/health/expect_body"},
	{"{\"type\": \"http\", \"expect_body\": \"regex:(((((a+)+)+)+)+)+\"}", 422,
	 "/health/expect_body"},
	{"{\"type\": \"http\", \"expect_body\": \"regex:a++++++\"}", 422, "/health/expect_body"},
	{"{\"type\": \"http\", \"expect_body\": \"regex:(ok)+|[a-z]+ (x*y+)+[0-9]+\"}", 200, ""},
	{"{\"type\": \"http\", \"expect_body\": \"regex:^ok$\"}", 200, ""},
	{"{\"type\": \"https\", \"verify\": \"yes\"}", 422, "/health/verify\", \"code\": \"type"},
	{"{\"type\": \"udp\", \"expect\": \"x\"}", 422, "/health/send\", \"code\": \"required"},
	{"{\"type\": \"udp\", \"send\": \"x\"}", 422, "/health/expect\", \"code\": \"required"},
	{"{\"type\": \"udp\", \"send\": \"hex:0\", \"expect\": \"x\"}", 422, "/health/send"},
	{"{\"type\": \"udp\", \"send\": \"x\", \"expect\": \"hex:zz\"}", 422, "/health/expect"},
	{"{\"type\": \"dns\"}", 422, "/health/name\", \"code\": \"required"},
	{"{\"type\": \"dns\", \"name\": \"a..b\"}", 422, "/health/name\", \"code\": \"bad_value"},
	{"{\"type\": \"dns\", \"name\": \"a b\"}", 422, "/health/name"},
	{"{\"type\": \"dns\", \"name\": \".\", \"query_type\": \"ANY\"}", 422,
	 "/health/query_type"},
	{"{\"type\": \"dns\", \"name\": \".\", \"expect_rcode\": \"ok\"}", 422,
	 "/health/expect_rcode"},
};

START_TEST(each_member_is_checked_and_named)
{
	char body[512];
	unsigned status;

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		snprintf(body, sizeof(body), PUT("%s"), members[i].health);
		char *text = ask("PUT", WEB, body, &status);
		/* What means something only with the rest is control's to judge. */
		if (status == 200) {
			const struct vip_edit *e = &api_fake.last.vip_edit;
			struct field_errors errors = {.n = 0};
			struct vip_conf conf = {.id = "web"};
			vip_conf_apply(&conf, e, true);
			if (vip_edit_complete(e, &errors))
				vip_conf_validate(&conf, &errors);
			if (errors.n) {
				status = 422;
				free(text);
				text = malloc(512);
				ck_assert(text != NULL);
				snprintf(text, 512, "%s\", \"code\": \"%s %s",
					 errors.list[0].pointer, errors.list[0].code,
					 errors.list[0].detail);
			}
		}
		ck_assert_msg(status == members[i].status, "%s: %u %s", members[i].health, status,
			      text);
		ck_assert_msg(strstr(text, members[i].contains) != NULL, "%s: %s",
			      members[i].health, text);
		free(text);
	}
}
END_TEST

/* Every member can be changed alone; what means nothing for a new type goes. */
START_TEST(a_patch_changes_each_member)
{
	struct vip_conf conf;
	struct field_errors errors = {.n = 0};
	unsigned status;

	vip_conf_defaults(&conf);
	snprintf(conf.id, sizeof(conf.id), "web");
	conf.match.port = 80;
	conf.match.address = ip_addr_v4("\x0a\x09\x00\x64");
	static const char *const patches[] = {
		"{\"type\": \"https\"}",
		"{\"interval_ms\": 777, \"timeout_ms\": 333, \"rise\": 4, \"fall\": 5}",
		"{\"jitter_percent\": 7, \"min_up\": 3, \"slow_start_s\": 9}",
		"{\"damping_half_life_s\": 11, \"port\": 8443, \"path\": \"/h\", \"host\": \"h\"}",
		"{\"method\": \"OPTIONS\", \"expect_status\": \"204\", \"verify\": false}",
		"{\"expect_body\": \"fine\"}",
	};
	for (size_t i = 0; i < ARRAY_LEN(patches); i++) {
		char body[256];
		snprintf(body, sizeof(body), "{\"health\": %s}", patches[i]);
		free(ask("PATCH", WEB, body, &status));
		ck_assert_uint_eq(status, 200);
		vip_conf_apply(&conf, &api_fake.last.vip_edit, false);
		ck_assert(vip_conf_validate(&conf, &errors));
	}
	const struct health_conf *h = &conf.health;
	ck_assert_int_eq(h->type, HEALTH_HTTPS);
	ck_assert(h->interval_ms == 777 && h->timeout_ms == 333 && h->rise == 4 && h->fall == 5);
	ck_assert(h->jitter_percent == 7 && h->min_up == 3 && h->slow_start_s == 9);
	ck_assert(h->damping_half_life_s == 11 && h->port == 8443 && !h->verify);
	ck_assert_str_eq(h->path, "/h");
	ck_assert_str_eq(h->host, "h");
	ck_assert_str_eq(h->expect_status, "204");
	ck_assert_str_eq(h->expect_body, "fine");
	ck_assert_int_eq(h->method, HEALTH_OPTIONS);

	free(ask("PATCH", WEB, "{\"health\": {\"type\": \"tcp\"}}", &status));
	vip_conf_apply(&conf, &api_fake.last.vip_edit, false);
	ck_assert(vip_conf_validate(&conf, &errors));
	ck_assert(h->interval_ms == 777 && h->port == 8443 && h->verify);
	ck_assert_str_eq(h->path, "/");
	ck_assert_str_eq(h->expect_body, "");
	free(ask("PATCH", WEB, "{\"health\": {\"rise\": null, \"port\": null}}", &status));
	vip_conf_apply(&conf, &api_fake.last.vip_edit, false);
	ck_assert(h->rise == 2 && h->port == 0 && h->interval_ms == 777);
	free(ask("PATCH", WEB, "{\"health\": null}", &status));
	vip_conf_apply(&conf, &api_fake.last.vip_edit, false);
	struct health_conf fresh;
	health_conf_defaults(&fresh);
	ck_assert(memcmp(h, &fresh, sizeof(fresh)) == 0);
}
END_TEST

/* --- a DIP's health ------------------------------------------------------------------------- */

static const struct {
	const char *method, *target, *body;
	unsigned status;
	const char *contains;
} cases[] = {
	{"GET", B1, NULL, 200, "\"effective_weight\": "},
	{"GET", B1, NULL, 200, "\"health\": {\"state\": \"unchecked\""},
	{"GET", B1 "/health", NULL, 200, "\"at\": \"2023-11-14T22:13:22.345Z\", \"state\": \"up\""},
	{"GET", B1 "/health", NULL, 200, "\"cause\": \"(not UTF-8)\""},
	{"GET", WEB "/dips/b9/health", NULL, 404, "has no DIP 'b9'"},
	{"GET", "/v1/vips/none/dips/b1/health", NULL, 404, "no VIP has the id 'none'"},
	{"PUT", B1 "/health", "{}", 405, ""},
	{"GET", B1 "/health-override", NULL, 405, ""},
	{"PUT", B1 "/health-override", "{\"state\": \"down\", \"reason\": \"disk\"}", 200,
	 "\"state\""},
	{"PUT", B1 "/health-override", "{\"state\": \"up\", \"reason\": \"x\", \"ttl_s\": 600}",
	 200, ""},
	{"PUT", B1 "/health-override", "{\"state\": \"up\", \"reason\": \"x\", \"until\": \"y\"}",
	 200, ""},
	{"DELETE", B1 "/health-override", NULL, 200, "\"override\": null"},
	{"PUT", B1 "/health-override?dry_run=true", "{\"state\": \"down\", \"reason\": \"x\"}", 200,
	 "{\"plan\": {"},
	{"DELETE", B1 "/health-override?dry_run=true", NULL, 200, "{\"plan\": {"},
	{"PUT", B1 "/health-override?dry_run=true", "{\"state\": \"down\"}", 422, "/reason"},
	{"PUT", WEB "/dips/b9/health-override?dry_run=true",
	 "{\"state\": \"up\", \"reason\": \"x\"}", 404, ""},
	{"DELETE", B1 "/health-override?dry_run=maybe", NULL, 400, "true or false"},
	{"PUT", B1 "/health-override", "[]", 422, "must be an object"},
	{"PUT", B1 "/health-override", "{", 400, "not JSON"},
	{"PUT", B1 "/health-override", "{}", 422, "/state"},
	{"PUT", B1 "/health-override", "{\"state\": \"down\"}", 422, "/reason"},
	{"PUT", B1 "/health-override", "{\"state\": \"ill\", \"reason\": \"x\"}", 422,
	 "one of: up, down"},
	{"PUT", B1 "/health-override", "{\"state\": 1, \"reason\": 2, \"ttl_s\": \"3\", \"x\": 4}",
	 422, "/ttl_s"},
	{"PUT", B1 "/health-override", "{\"state\": 1, \"reason\": 2, \"ttl_s\": \"3\", \"x\": 4}",
	 422, "/x\", \"code\": \"unknown"},
	{"PUT", B1 "/health-override", "{\"state\": \"up\", \"reason\": \"\"}", 422, "/reason"},
	{"PUT", B1 "/health-override", "{\"state\": \"up\", \"reason\": \"x\", \"ttl_s\": 0}", 422,
	 "1 to 2592000"},
	{"PUT", B1 "/health-override", "{\"state\": \"up\", \"reason\": \"x\", \"ttl_s\": 2592001}",
	 422, "/ttl_s"},
	{"PUT", WEB "/dips/b9/health-override", "{\"state\": \"up\", \"reason\": \"x\"}", 404, ""},
	{"PUT", B1 "/health-override", "{\"state\": \"up\", \"reason\": \"held\"}", 503, ""},
	{"PUT", B1 "/health-override", "{\"state\": \"up\", \"reason\": \"full\"}", 507, ""},
	{"PUT", B1 "/health-override", "{\"state\": \"up\", \"reason\": \"failed\"}", 500, ""},
	{"PUT", B1 "/health-override?override_hold=maybe", "{}", 400, "true or false"},
	{"DELETE", B1 "/health-override?x=1", NULL, 400, ""},
};

START_TEST(each_answer)
{
	unsigned status;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *text = ask(cases[i].method, cases[i].target, cases[i].body, &status);
		ck_assert_msg(status == cases[i].status, "%s %s %s: %u %s", cases[i].method,
			      cases[i].target, cases[i].body ? cases[i].body : "", status, text);
		ck_assert_msg(strstr(text, cases[i].contains) != NULL, "%s %s: %s", cases[i].method,
			      cases[i].target, text);
		free(text);
	}
}
END_TEST

START_TEST(an_override_arrives_as_it_was_sent)
{
	unsigned status;

	free(ask("PUT", B1 "/health-override?override_hold=true",
		 "{\"state\": \"down\", \"reason\": \"new disk\", \"ttl_s\": 60}", &status));
	ck_assert_str_eq(api_fake.health.vip, "web");
	ck_assert_str_eq(api_fake.health.dip, "b1");
	ck_assert_int_eq(api_fake.health.state, OVERRIDE_DOWN);
	ck_assert_str_eq(api_fake.health.reason, "new disk");
	ck_assert_uint_eq(api_fake.health.ttl_s, 60);
	ck_assert(api_fake.health.override_hold);
	free(ask("DELETE", B1 "/health-override", NULL, &status));
	ck_assert_int_eq(api_fake.health.state, OVERRIDE_NONE);
	ck_assert(!api_fake.health.override_hold);
	ck_assert_ptr_null(api_fake.health.plan);
	free(ask("DELETE", B1 "/health-override?dry_run=true", NULL, &status));
	ck_assert_ptr_nonnull(api_fake.health.plan);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("health_api");
	TCase *tc = tcase_create("health_api");
	SRunner *runner = srunner_create(suite);

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, each_member_is_checked_and_named);
	tcase_add_test(tc, a_patch_changes_each_member);
	tcase_add_test(tc, each_answer);
	tcase_add_test(tc, an_override_arrives_as_it_was_sent);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
