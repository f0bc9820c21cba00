/* Preconditions, batches and dry runs over the API. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/resources.h"
#include "control/internal.h"
#include "tests/unit/config_bed.h"

/* --- preconditions ------------------------------------------------------------------------- */

START_TEST(preconditions_hold_for_the_whole_and_for_each)
{
	static const char config[] = CONFIG(VIP("web", "80", DIP("b1", "11")));
	char whole[ETAG_LEN], vip[ETAG_LEN], dip[ETAG_LEN];

	config_bed_start();
	ck_assert_uint_eq(config_call(config_put, "PUT",
				      (struct config_call){.body = config, .if_match = "\"0\""}),
			  412);
	ck_assert_str_eq(json_string_value(json_object_get(config_answer.body, "etag")),
			 config_answer.etag);
	ck_assert_uint_eq(config_call(config_put, "PUT",
				      (struct config_call){.body = config, .if_none_match = "*"}),
			  412);
	ck_assert_uint_eq(config_call(config_put, "PUT",
				      (struct config_call){.body = config, .if_match = "*"}),
			  200);
	ck_assert_uint_eq(config_call(config_put, "PUT",
				      (struct config_call){.body = config, .if_match = "x"}),
			  400);
	snprintf(whole, sizeof(whole), "%s", config_answer.etag);

	ck_assert_uint_eq(config_call(vip_get, "GET", (struct config_call){.vip = "web"}), 200);
	snprintf(vip, sizeof(vip), "%s", config_answer.etag);
	ck_assert_uint_eq(
		config_call(dip_get, "GET", (struct config_call){.vip = "web", .dip = "b1"}), 200);
	snprintf(dip, sizeof(dip), "%s", config_answer.etag);
	free(config_text(whole));

	/* A DIP's change leaves its VIP's tag, not the whole's. */
	struct config_call c = {
		.vip = "web", .dip = "b1", .body = "{\"weight\": 3}", .if_match = dip};
	ck_assert_uint_eq(config_call(dip_patch, "PATCH", c), 200);
	ck_assert_str_ne(config_answer.etag, dip);
	ck_assert_uint_eq(config_call(dip_patch, "PATCH", c), 412);
	ck_assert_str_eq(json_string_value(json_object_get(config_answer.body, "etag")),
			 config_answer.etag);
	c.if_match = config_answer.etag;
	char now[ETAG_LEN];
	snprintf(now, sizeof(now), "%s", config_answer.etag);
	c.if_match = now;
	ck_assert_uint_eq(config_call(dip_patch, "PATCH", c), 200); /* the same again */
	ck_assert_str_eq(config_answer.etag, now);
	ck_assert_uint_eq(
		config_call(dip_get, "GET",
			    (struct config_call){.vip = "web", .dip = "b1", .if_none_match = now}),
		304);
	ck_assert_str_eq(config_answer.etag, now);
	ck_assert_uint_eq(config_call(dips_list, "GET",
				      (struct config_call){.vip = "web", .if_none_match = now}),
			  304);
	ck_assert_uint_eq(config_call(vip_get, "GET",
				      (struct config_call){.vip = "web", .if_none_match = vip}),
			  304);
	ck_assert_uint_eq(config_call(vips_list, "GET", (struct config_call){.if_none_match = vip}),
			  304);
	ck_assert_uint_eq(
		config_call(config_get, "GET", (struct config_call){.if_none_match = whole}), 200);
	ck_assert_uint_eq(config_call(config_put, "PUT",
				      (struct config_call){.body = config, .if_match = whole}),
			  412);

	/* To create, and only that; of what is not there only a PUT can expect something. */
	c = (struct config_call){.vip = "web",
				 .dip = "b1",
				 .body = "{\"address\": \"10.9.0.11\"}",
				 .if_none_match = "*"};
	ck_assert_uint_eq(config_call(dip_put, "PUT", c), 412);
	c.dip = "b2";
	ck_assert_uint_eq(config_call(dip_put, "PUT", c), 409); /* the address is b1's */
	c.body = "{\"address\": \"10.9.0.12\"}";
	ck_assert_uint_eq(config_call(dip_put, "PUT", c), 201);
	c = (struct config_call){.vip = "web", .dip = "b3", .body = c.body, .if_match = "*"};
	ck_assert_uint_eq(config_call(dip_put, "PUT", c), 412);
	ck_assert(json_is_null(json_object_get(config_answer.body, "etag")));
	ck_assert_uint_eq(
		config_call(dip_delete, "DELETE",
			    (struct config_call){.vip = "web", .dip = "b3", .if_match = dip}),
		404);
	ck_assert_uint_eq(
		config_call(dip_delete, "DELETE",
			    (struct config_call){.vip = "web", .dip = "b1", .if_match = dip}),
		412);
	ck_assert_uint_eq(config_call(vip_delete, "DELETE",
				      (struct config_call){.vip = "web", .if_match = vip}),
			  200);
	config_bed_end();
}
END_TEST

/* --- batches ------------------------------------------------------------------------------- */

#define OP(method, path, rest)                                                                     \
	"{\"method\": \"" method "\", \"path\": \"/v1/vips/" path "\"" rest "}"
#define BODY(text) ", \"body\": " text

START_TEST(a_batch_is_one_change)
{
	static const char good[] = "{\"operations\": [" OP("PUT", "web", BODY("{\"address\": \"10.9.0.100\", \"port\": 80, \"protocol\": \"tcp\"}")) "," OP(
		"PUT", "web/dips/b1",
		BODY("{\"address\": \"10.9.0.11\"}")) "," OP("PUT", "web/dips/b2",
							     BODY(
								     "{\"address\": "
								     "\"10.9.0.12\"}")) "," OP("PAT"
											       "CH",
											       "web"
											       "/di"
											       "ps/"
											       "b2",
											       BODY("{\"weight\": 4}")) "," OP("DELETE",
															       "web/dips/b1?force=true",
															       "") "]}";
	static const char bad[] = "{\"operations\": [" OP("PATCH", "web/dips/b2", BODY("{\"weight\": 9}")) "," OP(
		"PATCH", "web/dips/b2",
		BODY("{\"weight\": \"x\", \"wieght\": 1}")) "," OP("POST", "web",
								   "") ", " OP("PUT", "web/b1",
									       "") "," OP("DELETE",
											  "web",
											  BODY("{"
											       "}")) ", 7, " OP("PUT",
														"web",
														"") ", {\"mehtod\": 1}], \"x\": 1}";
	static const char late[] =
		"{\"operations\": [" OP("PATCH", "web/dips/b2", BODY("{\"weight\": 9}")) "," OP(
			"PATCH", "web/dips/b7",
			BODY("{\"weight\": 9}")) "," OP("PUT", "web/dips/b2",
							BODY("{\"address\": \"10.9.0.77\"}")) "]}";
	static const char *const pointers[] = {"/x",
					       "/operations/1/body/weight",
					       "/operations/1/body/wieght",
					       "/operations/2/method",
					       "/operations/3/path",
					       "/operations/4/body",
					       "/operations/5",
					       "/operations/6/body",
					       "/operations/7/mehtod",
					       "/operations/7/method",
					       "/operations/7/path"};

	config_bed_start();
	ck_assert_uint_eq(
		config_call(config_batch_post, "POST", (struct config_call){.body = good}), 200);
	ck_assert_uint_eq(control_generation(config_world->control), 1);
	const json_t *results = json_object_get(config_answer.body, "results");
	static const int statuses[] = {201, 201, 201, 200, 200};
	ck_assert_uint_eq(json_array_size(results), 5);
	for (size_t i = 0; i < 5; i++) {
		const json_t *r = json_array_get(results, i);
		ck_assert_int_eq(json_integer_value(json_object_get(r, "status")), statuses[i]);
		ck_assert(json_is_string(json_object_get(r, "etag")) == (i != 1 && i != 4));
	}
	char tag[ETAG_LEN];
	snprintf(tag, sizeof(tag), "%s",
		 json_string_value(json_object_get(json_array_get(results, 3), "etag")));
	ck_assert_uint_eq(
		config_call(dip_get, "GET", (struct config_call){.vip = "web", .dip = "b2"}), 200);
	ck_assert_str_eq(config_answer.etag, tag);
	ck_assert_int_eq(json_integer_value(json_object_get(config_answer.body, "weight")), 4);

	ck_assert_uint_eq(config_call(config_batch_post, "POST", (struct config_call){.body = bad}),
			  422);
	size_t n = json_array_size(json_object_get(config_answer.body, "errors"));
	for (size_t i = 0; i < ARRAY_LEN(pointers); i++) {
		bool found = false;
		for (size_t k = 0; k < n; k++)
			found |= strcmp(config_error(k, "pointer"), pointers[i]) == 0;
		ck_assert_msg(found, "%s", pointers[i]);
	}
	ck_assert_uint_eq(n, ARRAY_LEN(pointers));
	ck_assert_uint_eq(
		config_call(config_batch_post, "POST", (struct config_call){.body = late}), 404);
	ck_assert_str_eq(config_error(0, "pointer"), "/operations/1/body");
	ck_assert_str_eq(config_error(0, "code"), "not_found");
	ck_assert_str_eq(config_error(1, "pointer"), "/operations/2/body/address");
	ck_assert_str_eq(config_error(1, "code"), "immutable");
	ck_assert_uint_eq(config_call(config_batch_post, "POST",
				      (struct config_call){.body = good, .if_match = "\"0\""}),
			  412);
	ck_assert_uint_eq(config_call(config_batch_post, "POST",
				      (struct config_call){.body = "{\"operations\": 1}"}),
			  422);
	ck_assert_uint_eq(config_call(config_batch_post, "POST", (struct config_call){.body = "7"}),
			  422);
	ck_assert_uint_eq(control_generation(config_world->control), 1);
	ck_assert_uint_eq(
		config_call(dip_get, "GET", (struct config_call){.vip = "web", .dip = "b2"}), 200);
	ck_assert_str_eq(config_answer.etag, tag);
	config_bed_end();
}
END_TEST

/* --- dry runs ------------------------------------------------------------------------------ */

START_TEST(every_change_can_be_tried)
{
	static const char config[] = CONFIG(VIP("web", "80", DIP("b1", "11")));
	static const char batch[] = "{\"operations\": [" OP("DELETE", "web", "") "]}";
	const struct {
		config_handler *h;
		const char *method;
		struct config_call c;
	} calls[] = {
		{config_put, "PUT", {.body = CONFIG(VIP("other", "81", ""))}},
		{config_batch_post, "POST", {.body = batch}},
		{vip_put,
		 "PUT",
		 {.vip = "v2",
		  .body = "{\"address\": \"10.9.0.100\", \"port\": 82,"
			  " \"protocol\": \"udp\"}"}},
		{vip_patch, "PATCH", {.vip = "web", .body = "{\"closing_pin_s\": 1}"}},
		{vip_delete, "DELETE", {.vip = "web"}},
		{dip_put,
		 "PUT",
		 {.vip = "web", .dip = "b2", .body = "{\"address\": \"10.9.0.12\"}"}},
		{dip_patch, "PATCH", {.vip = "web", .dip = "b1", .body = "{\"weight\": 0}"}},
		{dip_delete, "DELETE", {.vip = "web", .dip = "b1"}},
	};

	config_bed_start();
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = config}),
			  200);
	char tag[ETAG_LEN];
	char *before = config_text(tag);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		struct config_call c = calls[i].c;
		c.query = "dry_run";
		c.value = "true";
		ck_assert_uint_eq(config_call(calls[i].h, calls[i].method, c), 200);
		const json_t *plan = json_object_get(config_answer.body, "plan");
		ck_assert_uint_gt(json_array_size(json_object_get(plan, "vips")), 0);
		ck_assert_int_eq(json_integer_value(json_object_get(plan, "generation")), 1);
		c.value = "maybe";
		ck_assert_uint_eq(config_call(calls[i].h, calls[i].method, c), 400);
		char *after = config_text(NULL);
		ck_assert_str_eq(before, after);
		ck_assert_str_eq(config_answer.etag, tag);
		free(after);
	}
	struct config_call c = {.vip = "web",
				.dip = "b9",
				.body = "{\"weight\": 1}",
				.query = "dry_run",
				.value = "true"};
	ck_assert_uint_eq(config_call(dip_patch, "PATCH", c), 404);
	ck_assert_uint_eq(control_generation(config_world->control), 1);
	free(before);
	config_bed_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("config_batch");
	TCase *t = tcase_create("config_batch");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, preconditions_hold_for_the_whole_and_for_each);
	tcase_add_test(t, a_batch_is_one_change);
	tcase_add_test(t, every_change_can_be_tried);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
