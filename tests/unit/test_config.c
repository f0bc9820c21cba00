/* The configuration as a whole: what was read can be put back, whatever is put is what is there
 * then, and nothing changes unless all does. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/resources.h"
#include "control/internal.h"
#include "tests/unit/config_bed.h"
#include "tests/unit/prng.h"

/* --- PUT and GET --------------------------------------------------------------------------- */

START_TEST(what_was_put_is_there_and_put_again_changes_nothing)
{
	static const char config[] = CONFIG(
		VIP("web", "80", DIP("b2", "12") "," DIP("b1", "11")) "," VIP("a", "81", ""));
	char tag[ETAG_LEN], other[ETAG_LEN];

	config_bed_start();
	char *empty = config_text(tag);
	ck_assert_str_eq(empty, "{\"vips\":[]}");
	free(empty);
	ck_assert_uint_eq(config_call(config_put, "PUT",
				      (struct config_call){.body = config, .if_match = tag}),
			  200);
	ck_assert_int_eq(config_number("vips", "created"), 2);
	ck_assert_int_eq(config_number("dips", "created"), 2);
	ck_assert_int_eq(config_number("change", "generation"), 1);
	snprintf(other, sizeof(other), "%s", config_answer.etag);
	ck_assert_str_ne(other, tag);
	char *text = config_text(tag);
	ck_assert_str_eq(other, tag);
	ck_assert(strstr(text, "\"id\":\"a\"") < strstr(text, "\"id\":\"web\""));
	ck_assert(strstr(text, "\"id\":\"b1\"") < strstr(text, "\"id\":\"b2\""));
	ck_assert_ptr_null(strstr(text, "packets"));
	unsigned n_commits = config_world->n_commits;
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = config}),
			  200);
	ck_assert_int_eq(config_number("vips", "changed"), 0);
	ck_assert_int_eq(config_number("change", "dcodes_moved"), 0);
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = text}), 200);
	ck_assert_str_eq(config_answer.etag, tag);
	ck_assert_uint_eq(config_world->n_commits, n_commits);
	ck_assert_uint_eq(config_answer.generation, 1);
	world_restart(config_world, WORLD_KILL);
	char *again = config_text(other);
	ck_assert_str_eq(text, again);
	ck_assert_str_eq(tag, other);
	free(text);
	free(again);
	config_bed_end();
}
END_TEST

START_TEST(what_is_absent_is_kept_drained_or_removed)
{
	static const char two[] = CONFIG(VIP("web", "80", DIP("b1", "11") "," DIP("b2", "12")));
	static const char one[] = CONFIG(VIP("web", "80", DIP("b1", "11")));

	config_bed_start();
	for (unsigned how = 0; how < 3; how++) {
		static const char *const prunes[] = {"none", "drain", "remove"};
		ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = two}),
				  200);
		uint32_t i = 100 * how;
		while (world_tcp(config_world, 0, i, FRAMES_SYN, 0) != 12)
			i++;
		world_settle(config_world);
		struct config_call c = {.body = one, .query = "prune", .value = prunes[how]};
		ck_assert_uint_eq(config_call(config_put, "PUT", c), 200);
		ck_assert_int_eq(config_number("dips", "draining"), how == 1);
		ck_assert_int_eq(config_number("dips", "removed"), how == 2);
		const struct vip_runtime *v = control_find_vip(config_world->control, "web");
		const struct dip_version *b2 = vip_version_dip(v->now, "b2");
		ck_assert_int_eq(b2 != NULL, how != 2);
		ck_assert_int_eq(b2 && b2->deleting, how == 1);
		if (how == 2)
			break;
		ck_assert_uint_eq(world_tcp(config_world, 0, i, FRAMES_ACK, 0), 12);
		/* What drains is not shown; so what was read can be put back and lets it drain. */
		char *text = config_text(NULL);
		ck_assert_int_eq(strstr(text, "\"b2\"") != NULL, how == 0);
		uint64_t before = control_generation(config_world->control);
		c.body = text;
		ck_assert_uint_eq(config_call(config_put, "PUT", c), 200);
		ck_assert_uint_eq(control_generation(config_world->control), before);
		free(text);
	}
	struct config_call none = {.body = "{\"vips\": []}", .query = "prune", .value = "remove"};
	ck_assert_uint_eq(config_call(config_put, "PUT", none), 200);
	ck_assert_int_eq(config_number("vips", "removed"), 1);
	ck_assert_uint_eq(config_world->control->n_vips, 0);
	none.value = "all";
	ck_assert_uint_eq(config_call(config_put, "PUT", none), 400);
	world_free(config_world);
}
END_TEST

/* A VIP that goes makes room for one that comes, and a DIP's address too. */
START_TEST(what_goes_makes_room)
{
	config_bed_start();
	ck_assert_uint_eq(
		config_call(config_put, "PUT",
			    (struct config_call){.body = CONFIG(VIP("zz", "80", DIP("b9", "11")))}),
		200);
	struct config_call c = {.body = CONFIG(VIP("web", "80", DIP("b1", "11"))),
				.query = "prune",
				.value = "remove"};
	ck_assert_uint_eq(config_call(config_put, "PUT", c), 200);
	ck_assert_uint_eq(config_world->n_unsteered_total, 0);
	c.body = CONFIG(VIP("web", "80", DIP("a1", "11")));
	ck_assert_uint_eq(config_call(config_put, "PUT", c), 200);
	ck_assert_int_eq(config_number("dips", "created"), 1);
	ck_assert_int_eq(config_number("dips", "removed"), 1);
	config_bed_end();
}
END_TEST

START_TEST(all_faults_are_told)
{
	static const char bad[] =
		"{\"vips\": ["
		"{\"id\": \"web\", \"address\": \"10.9.0.100\", \"port\": 80, \"protocol\": "
		"\"tcp\","
		" \"mode\": \"l3\", \"dips\": [{\"id\": \"b1\", \"address\": \"10.9.0.11\","
		" \"weight\": -1}, {\"id\": \"B2\"}, {\"id\": \"b3\"}, 7]},"
		"{\"id\": \"a\", \"address\": \"10.9.0.100\", \"port\": 81, \"protocol\": \"tcp\"},"
		"[], {\"address\": \"10.9.0.100\", \"dips\": {}}], \"more\": 1}";
	static const char *const pointers[] = {"/more",
					       "/vips/0/mode",
					       "/vips/0/dips/0/weight",
					       "/vips/0/dips/1/id",
					       "/vips/0/dips/2/address",
					       "/vips/0/dips/3",
					       "/vips/1/dips",
					       "/vips/2",
					       "/vips/3/id",
					       "/vips/3/dips"};
	char big[20000] = "{\"vips\": [";

	config_bed_start();
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = bad}), 422);
	size_t n = json_array_size(json_object_get(config_answer.body, "errors"));
	ck_assert_uint_eq(n, ARRAY_LEN(pointers));
	for (size_t i = 0; i < ARRAY_LEN(pointers); i++) {
		bool found = false;
		for (size_t k = 0; k < n; k++)
			found |= strcmp(config_error(k, "pointer"), pointers[i]) == 0;
		ck_assert_msg(found, "%s", pointers[i]);
	}
	for (unsigned i = 0; i < 100; i++)
		strcat(big, i ? ",7" : "7");
	strcat(big, "]}");
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = big}), 422);
	ck_assert_uint_eq(json_array_size(json_object_get(config_answer.body, "errors")), 64);
	ck_assert_int_eq(json_integer_value(json_object_get(config_answer.body, "errors_omitted")),
			 36);
	ck_assert_uint_eq(config_call(config_put, "PUT",
				      (struct config_call){
					      .body = CONFIG(VIP("config_world", "1", "") "," VIP(
						      "config_world", "2", ""))}),
			  422);
	ck_assert_str_eq(config_error(0, "pointer"), "/vips/1/id");
	ck_assert_str_eq(config_error(0, "code"), "duplicate");
	/* What only control can know, and all of it too. */
	ck_assert_uint_eq(
		config_call(
			config_put, "PUT",
			(struct config_call){
				.body = CONFIG(
					VIP("x", "80", DIP("b1", "11") "," DIP("b2", "11")) "," VIP(
						"y", "80", DIP("b1", "100")))}),
		409);
	ck_assert_uint_eq(json_array_size(json_object_get(config_answer.body, "errors")), 2);
	ck_assert_str_eq(config_error(0, "pointer"), "/vips/0/dips/1/address");
	ck_assert_str_eq(config_error(1, "pointer"), "/vips/1/address");
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = "[]"}), 422);
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = "{"}), 400);
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = "{}"}), 422);
	ck_assert_uint_eq(config_world->control->n_vips, 0);
	ck_assert_uint_eq(control_generation(config_world->control), 0);
	config_bed_end();
}
END_TEST

/* --- at random ----------------------------------------------------------------------------- */

/* A document of random content; the naive model is the document itself. */
static json_t *random_config(struct prng *rng)
{
	json_t *vips = json_array();

	for (unsigned v = 0; v < 4; v++) {
		json_t *dips = json_array();
		if (prng_below(rng, 4) == 0) {
			json_decref(dips);
			continue;
		}
		for (unsigned d = 0; d < 5; d++) {
			char id[8], address[16];
			snprintf(id, sizeof(id), "d%u", d);
			snprintf(address, sizeof(address), "10.9.1.%u", d + 1);
			if (prng_below(rng, 2))
				json_array_append_new(
					dips, json_pack("{s:s, s:s, s:n, s:i, s:n, s:n, s:s}", "id",
							id, "address", address, "port", "weight",
							(int)prng_below(rng, 3), "mac", "server_id",
							"admin_state",
							prng_below(rng, 4) ? "up" : "down"));
		}
		char id[8];
		snprintf(id, sizeof(id), "v%u", v);
		json_array_append_new(vips,
				      json_pack("{s:s, s:s, s:i, s:s, s:i, s:o}", "id", id,
						"address", WORLD_VIP_ADDRESS, "port", (int)(80 + v),
						"protocol", "tcp", "drain_timeout_s",
						(int)prng_below(rng, 2) + 1, "dips", dips));
	}
	return json_pack("{s:o}", "vips", vips);
}

/* What was wanted is in what is there; and nothing else is. */
static void check_config(const json_t *wanted, const json_t *is)
{
	const json_t *a = json_object_get(wanted, "vips"), *b = json_object_get(is, "vips");

	expect(json_array_size(a) == json_array_size(b));
	for (size_t i = 0; i < json_array_size(a); i++) {
		const json_t *x = json_array_get(a, i), *y = json_array_get(b, i), *value;
		const char *name;
		json_object_foreach((json_t *)x, name, value)
			expect(json_equal(value, json_object_get(y, name)));
	}
}

START_TEST(any_document_leads_anywhere)
{
	struct prng rng = prng_new("documents");
	unsigned n_changed = 0;

	config_bed_start();
	for (unsigned i = 0; i < (SANITIZED ? 100 : 400); i++) {
		json_t *wanted = random_config(&rng);
		char *text = json_dumps(wanted, 0);
		struct config_call c = {.body = text, .query = "prune", .value = "remove"};
		if (prng_below(&rng, 2))
			c.value = "drain";
		uint64_t before = control_generation(config_world->control);
		unsigned status = config_call(config_put, "PUT", c);
		ck_assert_msg(status == 200, "%u: %s %s %s", status, text,
			      config_error(0, "pointer"), config_error(0, "detail"));
		expect(control_generation(config_world->control) <= before + 1);
		n_changed += control_generation(config_world->control) != before;
		char tag[ETAG_LEN];
		snprintf(tag, sizeof(tag), "%s", config_answer.etag);
		ck_assert_uint_eq(config_call(config_get, "GET", (struct config_call){0}), 200);
		ck_assert_str_eq(config_answer.etag, tag);
		check_config(wanted, config_answer.body);
		free(text);
		json_decref(wanted);
		world_advance_ms(6000);
		world_settle(config_world);
	}
	ck_assert_uint_gt(n_changed, 50);
	config_bed_end();
}
END_TEST

/* A list of n empty objects between two texts. */
static char *long_list(const char *before, unsigned n, const char *after)
{
	char *text = malloc(strlen(before) + 3 * n + strlen(after) + 1);
	char *at = stpcpy(text, before);

	for (unsigned i = 0; i < n; i++)
		at = stpcpy(at, i ? ",{}" : "{}");
	strcpy(at, after);
	return text;
}

/* What cannot be is refused before it takes memory. */
START_TEST(lists_that_are_too_long_are_not_read)
{
	static const struct {
		const char *before, *after, *pointer;
		unsigned most;
	} lists[] = {
		{"{\"vips\": [", "]}", "/vips", VIPS_MAX},
		{"{\"vips\": [{\"dips\": [", "]}]}", "/vips/0/dips", DIPS_PER_VIP_MAX},
	};

	config_bed_start();
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		for (unsigned more = 0; more < 2; more++) {
			char *text =
				long_list(lists[i].before, lists[i].most + more, lists[i].after);
			ck_assert_uint_eq(
				config_call(config_put, "PUT", (struct config_call){.body = text}),
				422);
			free(text);
			size_t n = json_array_size(json_object_get(config_answer.body, "errors"));
			unsigned n_limits = 0;
			for (size_t k = 0; k < n; k++) {
				if (strcmp(config_error(k, "code"), "limit") != 0)
					continue;
				ck_assert_str_eq(config_error(k, "pointer"), lists[i].pointer);
				n_limits++;
			}
			ck_assert_uint_eq(n_limits, more);
			ck_assert(more == (n <= 2)); /* else each entry is at fault */
		}
	}
	config_bed_end();
}
END_TEST

START_TEST(the_limits_are_told_and_named)
{
	char body[256];

	config_bed_start();
	ck_assert_uint_eq(config_call(limits_get, "GET", (struct config_call){0}), 200);
	json_int_t most = json_integer_value(json_object_get(config_answer.body, "dips_per_vip"));
	ck_assert_int_eq(most, DIPS_PER_VIP_MAX);
	ck_assert_int_eq(json_integer_value(json_object_get(config_answer.body, "flows")), 65536);
	char *text = malloc((size_t)most * 64 + 1000);
	size_t n =
		(size_t)sprintf(text, "{\"vips\": [{\"id\": \"web\", \"address\": \"10.9.0.100\", "
				      "\"port\": 80, \"protocol\": \"tcp\", \"dips\": [");
	for (json_int_t i = 0; i < most; i++)
		n += (size_t)sprintf(text + n, "%s{\"id\": \"d%d\", \"address\": \"10.10.%d.%d\"}",
				     i ? "," : "", (int)i, (int)i / 250, (int)i % 250 + 1);
	strcpy(text + n, "]}]}");
	ck_assert_uint_eq(config_call(config_put, "PUT", (struct config_call){.body = text}), 200);
	ck_assert_int_eq(config_number("dips", "created"), most);
	snprintf(body, sizeof(body), "{\"address\": \"10.11.0.1\"}");
	ck_assert_uint_eq(config_call(dip_put, "PUT",
				      (struct config_call){.vip = "web", .dip = "x", .body = body}),
			  422);
	ck_assert_str_eq(config_error(0, "code"), "limit");
	ck_assert_ptr_nonnull(strstr(config_error(0, "detail"), "dips_per_vip"));
	free(text);
	config_bed_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("config");
	TCase *t = tcase_create("config");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, what_was_put_is_there_and_put_again_changes_nothing);
	tcase_add_test(t, what_is_absent_is_kept_drained_or_removed);
	tcase_add_test(t, what_goes_makes_room);
	tcase_add_test(t, all_faults_are_told);
	tcase_add_test(t, any_document_leads_anywhere);
	tcase_add_test(t, lists_that_are_too_long_are_not_read);
	tcase_add_test(t, the_limits_are_told_and_named);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
