/* Versions of the configuration over the API's handlers, with a real control
 * behind them: each one is what a list of snapshots kept by the test says it
 * was, whatever has come since and comes meanwhile. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/past.h"
#include "api/server/resources.h"
#include "api/server/timestamp.h"
#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define VERSIONS_MAX 4000
#define VIPS 4
#define DIPS 5

static struct world *w;
static struct history *history;
static struct api_context api;
static struct prng prng;
static uint32_t next_flow;
static bool keeps_flows; /* packets come in the middle of commits */

/* The naive memory: what GET /v1/config said after each version. */
static char *snapshots[VERSIONS_MAX];
static unsigned n_versions; /* the newest; 0: nothing was changed yet */

static unsigned below(unsigned n)
{
	return prng_below(&prng, n);
}

/* --- the API over the world
 * ---------------------------------------------------------------- */

static void change(void *ctx, struct control_request *r)
{
	world_request(ctx, r);
}

static void change_by_thread(void *ctx, struct control_request *r)
{
	control_change(((struct world *)ctx)->control, r);
}

static void look(void *ctx, void (*fn)(void *arg, struct control_view *view), void *arg)
{
	control_look(((struct world *)ctx)->control, fn, arg);
}

static uint64_t generation(void *ctx)
{
	return control_generation(((struct world *)ctx)->control);
}

static struct vip_info *read_vips(void *ctx, const char *vip, bool with_dips, size_t *n)
{
	return control_read_vips(((struct world *)ctx)->control, vip, with_dips, n);
}

static int read_history(void *ctx, uint64_t published, uint64_t from, uint64_t to, size_t max,
			struct history_view *out)
{
	(void)ctx;
	return history_read(history, published, from, to, max, out);
}

/* New flows meet a plan that is committed already: then control plans and
 * commits anew. */
static void commit(struct world *world)
{
	ck_assert_int_eq(history_apply(history, world->txn), 0);
	for (unsigned n = keeps_flows ? below(6) : 0; n > 0; n--)
		world_tcp(world, 0, next_flow++, FRAMES_SYN, 0);
}

static bool ends_own_use(void *ctx, const struct vip_match *m, char text[OWN_USE_LEN])
{
	(void)ctx;
	return own_use_ended_by(m, text);
}

static void start(void)
{
	w = world_new(1, 65536);
	ck_assert_int_eq(history_new(&history), 0);
	w->on_submit = commit;
	memset(&api, 0, sizeof(api));
	api.backend = (struct api_backend){.ctx = w,
					   .change = change,
					   .look = look,
					   .generation = generation,
					   .read_vips = read_vips,
					   .free_vips = vip_infos_free,
					   .ends_own_use = ends_own_use,
					   .read_history = read_history};
	atomic_store(&api.ready, true);
	n_versions = 0;
	snapshots[0] = strdup("{\"vips\":[]}");
}

static void end(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
	history_free(history);
	for (unsigned i = 0; i <= n_versions; i++)
		free(snapshots[i]);
}

typedef void handler(struct api_request *req, struct api_response *resp);

struct call {
	const char *body, *vip, *dip;
	struct {
		const char *name, *value;
	} query[4];
};

/* The answer's body, to be freed; *status as it is. */
static json_t *call_as(const char *author, handler *h, const char *method, const struct call *c,
		       unsigned *status)
{
	struct api_response resp = {.status = 500};
	struct api_request req = {.api = &api,
				  .method = method,
				  .target = "/v1/x",
				  .content_type = c->body ? "application/json" : NULL,
				  .body = c->body,
				  .body_len = c->body ? strlen(c->body) : 0,
				  .path_args = {c->vip, c->dip}};

	snprintf(req.author, sizeof(req.author), "%s", author);
	while (req.n_query < 4 && c->query[req.n_query].name) {
		req.query[req.n_query].name = c->query[req.n_query].name;
		req.query[req.n_query].value = c->query[req.n_query].value;
		req.n_query++;
	}
	h(&req, &resp);
	*status = resp.status;
	ck_assert_ptr_nonnull(resp.body);
	return resp.body;
}

static json_t *call(handler *h, const char *method, struct call c, unsigned *status)
{
	return call_as("tester", h, method, &c, status);
}

/* It must answer 200. */
static json_t *get(handler *h, struct call c)
{
	unsigned status;
	json_t *body = call(h, "GET", c, &status);

	ck_assert_msg(status == 200, "%u %s", status, json_dumps(body, 0));
	return body;
}

static char *to_text(json_t *body)
{
	char *text = json_dumps(body, JSON_COMPACT);

	json_decref(body);
	return text;
}

static char *config_text(void)
{
	return to_text(get(config_get, (struct call){0}));
}

static char *version_text(unsigned version)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", version);
	return to_text(get(version_get, (struct call){.vip = number}));
}

static json_int_t number(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

static const char *word(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

static json_t *items(const json_t *body)
{
	return json_object_get(body, "items");
}

/* --- random changes
 * ------------------------------------------------------------------------ */

static const char *vip_body(bool patch)
{
	static char text[400];
	unsigned vip = below(VIPS);
	int n = patch ? snprintf(text, sizeof(text), "{\"closing_pin_s\": %u", below(3))
		      : snprintf(text, sizeof(text),
				 "{\"address\": \"10.9.0.100\", \"port\": %u, "
				 "\"protocol\": \"tcp\"",
				 80 + vip);

	if (below(2))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      ", \"idle_timeout_s\": {\"udp\": %u}", 1 + below(3));
	if (below(2))
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", \"on_learn_overflow\": \"%s\"",
			      below(2) ? "drop" : "forward");
	snprintf(text + n, sizeof(text) - (size_t)n, "}");
	return text;
}

static const char *dip_body(unsigned dip, bool patch)
{
	static char text[200];
	int n = patch ? snprintf(text, sizeof(text), "{\"weight\": %u", below(4))
		      : snprintf(text, sizeof(text), "{\"address\": \"10.9.0.%u\", \"weight\": %u",
				 11 + dip, below(4));

	if (below(4) == 0)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", \"admin_state\": \"%s\"",
			      below(2) ? "down" : "up");
	if (below(4) == 0)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      ", \"mac\": \"02:d1:00:00:00:%02x\"", below(3));
	snprintf(text + n, sizeof(text) - (size_t)n, "}");
	return text;
}

static handler *random_resource(struct call *c, const char **method)
{
	static const char *const methods[] = {"PUT", "PUT", "PUT", "PATCH", "DELETE"};
	static char vip[8], dip[8];
	unsigned v = below(VIPS), d = below(DIPS);

	snprintf(vip, sizeof(vip), "v%u", v);
	snprintf(dip, sizeof(dip), "d%u", d);
	*method = methods[below(5)];
	*c = (struct call){.vip = vip};
	bool patch = !strcmp(*method, "PATCH"), deletes = !strcmp(*method, "DELETE");
	if (deletes && below(2)) {
		c->query[0].name = "force";
		c->query[0].value = "true";
	}
	if (below(4) == 0) {
		static char body[400];
		snprintf(body, sizeof(body), "%s", vip_body(patch));
		char *port = strstr(body, "\"port\": ");
		if (port)
			port[9] = (char)('0' + v); /* 80 + v, so that VIPs do not collide */
		c->body = deletes ? NULL : body;
		return deletes ? vip_delete : patch ? vip_patch : vip_put;
	}
	c->dip = dip;
	c->body = deletes ? NULL : dip_body(d, patch);
	return deletes ? dip_delete : patch ? dip_patch : dip_put;
}

/* An earlier state, or the way back to it. */
static handler *random_return(struct call *c, const char **method)
{
	static char body[64];
	unsigned to = below(n_versions + 1);

	if (below(2)) {
		*method = "PUT";
		*c = (struct call){.body = snapshots[to]};
		if (below(3) == 0) {
			c->query[0].name = "prune";
			c->query[0].value = below(2) ? "remove" : "none";
		}
		return config_put;
	}
	snprintf(body, sizeof(body), "{\"to\": %u}", to);
	*method = "POST";
	*c = (struct call){.body = body};
	return rollback_post;
}

static handler *random_batch(struct call *c, const char **method)
{
	static char body[4000];
	int n = snprintf(body, sizeof(body), "{\"operations\": [");
	unsigned count = 1 + below(5);

	for (unsigned i = 0; i < count; i++) {
		unsigned v = below(VIPS), d = below(DIPS);
		bool deletes = below(4) == 0;
		n += snprintf(body + n, sizeof(body) - (size_t)n,
			      "%s{\"method\": \"%s\", \"path\": \"/v1/vips/v%u/dips/d%u\"",
			      i ? ", " : "", deletes ? "DELETE" : "PUT", v, d);
		if (!deletes)
			n += snprintf(body + n, sizeof(body) - (size_t)n, ", \"body\": %s",
				      dip_body(d, false));
		n += snprintf(body + n, sizeof(body) - (size_t)n, "}");
	}
	snprintf(body + n, sizeof(body) - (size_t)n, "]}");
	*method = "POST";
	*c = (struct call){.body = body};
	return config_batch_post;
}

/* One request. What differs afterwards is one version more, else there is none; but for a batch that
 * makes something and takes it back, which has edits to tell of. */
static void step(void)
{
	struct history_view v;
	const char *method;
	struct call c;
	unsigned status, kind = below(10);
	handler *h = kind == 0	 ? random_return(&c, &method)
		     : kind == 1 ? random_batch(&c, &method)
				 : random_resource(&c, &method);

	json_decref(call(h, method, c, &status));
	ck_assert_msg(status < 500, "status %u", status);
	char *now = config_text();
	bool changed = strcmp(now, snapshots[n_versions]) != 0;
	ck_assert_msg(!changed || status < 300, "%u, and changed", status);
	ck_assert_int_eq(read_history(NULL, generation(w), 0, UINT64_MAX, 1, &v), 0);
	bool told = changed || (kind == 1 && v.newest == n_versions + 1);
	ck_assert_msg(v.newest == n_versions + told, "version %llu, not %u (%s %s)",
		      (unsigned long long)v.newest, n_versions + told, method,
		      c.body ? c.body : "");
	history_view_free(&v);
	if (told)
		snapshots[++n_versions] = now;
	else
		free(now);
	if (keeps_flows && below(3) == 0)
		world_tcp(w, 0, next_flow++, FRAMES_SYN, 0);
	if (below(20) == 0) {
		world_advance_ms(below(20) * 1000);
		world_settle(w);
	}
}

/* --- what the snapshots say
 * ---------------------------------------------------------------- */

static void check_version(unsigned version)
{
	char *text = version_text(version);

	ck_assert_msg(!strcmp(text, snapshots[version]), "version %u of %u:\n%s\n%s", version,
		      n_versions, text, snapshots[version]);
	free(text);
}

/* {"/v1/vips/v0": {...}, "/v1/vips/v0/dips/d1": {...}}, with all members. */
static json_t *flatten(const char *snapshot)
{
	json_t *config = json_loads(snapshot, 0, NULL), *flat = json_object();
	json_t *vip, *dip;
	size_t i, k;
	char path[160];

	json_array_foreach(json_object_get(config, "vips"), i, vip)
	{
		json_array_foreach(json_object_get(vip, "dips"), k, dip)
		{
			snprintf(path, sizeof(path), "/v1/vips/%s/dips/%s", word(vip, "id"),
				 word(dip, "id"));
			json_object_set(flat, path, dip);
		}
		json_object_del(vip, "dips");
		snprintf(path, sizeof(path), "/v1/vips/%s", word(vip, "id"));
		json_object_set(flat, path, vip);
	}
	json_decref(config);
	return flat;
}

static json_t *at(const json_t *flat, const char *path)
{
	json_t *v = json_object_get(flat, path);

	return v ? v : json_null();
}

/* Each item is a difference, and there are as many as the snapshots have. */
static void check_diff(unsigned x, unsigned y)
{
	char one[16], other[16];
	unsigned from = x < y ? x : y, to = x < y ? y : x;
	json_t *before = flatten(snapshots[from]), *after = flatten(snapshots[to]);
	json_t *both = json_copy(before), *item, *value;
	const char *last = "", *path;
	size_t i, n = 0;

	snprintf(one, sizeof(one), "%u", x);
	snprintf(other, sizeof(other), "%u", y);
	json_t *diff = get(version_diff_get, (struct call){.vip = one, .query = {{"to", other}}});
	ck_assert_int_eq(number(diff, "from"), from);
	ck_assert_int_eq(number(diff, "to"), to);
	json_object_update(both, after);
	json_object_foreach(both, path, value)
	{
		n += !json_equal(at(before, path), at(after, path));
	}
	ck_assert_msg(json_array_size(items(diff)) == n, "%u to %u: %zu items, not %zu", from, to,
		      json_array_size(items(diff)), n);
	json_array_foreach(items(diff), i, item)
	{
		path = word(item, "path");
		ck_assert_int_lt(strcmp(last, path), 0);
		ck_assert(json_equal(json_object_get(item, "before"), at(before, path)));
		ck_assert(json_equal(json_object_get(item, "after"), at(after, path)));
		bool is_there = json_is_object(at(before, path)) && json_is_object(at(after, path));
		ck_assert_int_eq(json_array_size(json_object_get(item, "members")) > 0, is_there);
		last = path;
	}
	json_decref(diff);
	json_decref(before);
	json_decref(after);
	json_decref(both);
}

START_TEST(every_version_is_what_it_was)
{
	start();
	keeps_flows = true;
	for (int i = 0; i < 600 && n_versions + 1 < VERSIONS_MAX; i++) {
		step();
		if (below(5) == 0)
			check_version(below(n_versions + 1));
		if (below(10) == 0)
			check_diff(below(n_versions + 1), below(n_versions + 1));
	}
	for (unsigned v = 0; v <= n_versions; v++)
		check_version(v);
	ck_assert_uint_gt(n_versions, 100);
	printf("%u versions\n", n_versions);
	keeps_flows = false;
	end();
}
END_TEST

/* --- the way back
 * -------------------------------------------------------------------------- */

static unsigned roll_back(const char *body, json_t **answer, const char *dry_run)
{
	unsigned status;
	struct call c = {.body = body};

	if (dry_run)
		c = (struct call){.body = body, .query = {{"dry_run", dry_run}}};
	*answer = call(rollback_post, "POST", c, &status);
	return status;
}

static void must(handler *h, const char *method, struct call c, unsigned wanted)
{
	unsigned status;
	json_t *body = call(h, method, c, &status);

	ck_assert_msg(status == wanted, "%u %s", status, json_dumps(body, 0));
	json_decref(body);
}

#define WEB "{\"address\": \"10.9.0.100\", \"port\": 80, \"protocol\": \"tcp\"}"

START_TEST(rollback_keeps_connections_and_is_a_version_itself)
{
	unsigned home[40];
	json_t *answer;

	start();
	must(vip_put, "PUT", (struct call){.body = WEB, .vip = "web"}, 201);
	must(dip_put, "PUT",
	     (struct call){.body = "{\"address\": \"10.9.0.11\"}", .vip = "web", .dip = "b11"},
	     201);
	must(dip_put, "PUT",
	     (struct call){.body = "{\"address\": \"10.9.0.12\"}", .vip = "web", .dip = "b12"},
	     201);
	char *three = config_text();
	for (uint32_t i = 0; i < 40; i++)
		home[i] = world_tcp(w, 0, i, FRAMES_SYN, 0);
	must(dip_patch, "PATCH",
	     (struct call){.body = "{\"weight\": 0}", .vip = "web", .dip = "b11"}, 200);
	must(dip_put, "PUT",
	     (struct call){.body = "{\"address\": \"10.9.0.13\"}", .vip = "web", .dip = "b13"},
	     201);
	must(dip_delete, "DELETE", (struct call){.vip = "web", .dip = "b12"}, 202);

	char *now = config_text();
	ck_assert_uint_eq(roll_back("{\"to\": 3}", &answer, "true"), 200);
	ck_assert_ptr_nonnull(json_object_get(answer, "plan"));
	json_decref(answer);
	char *still = config_text();
	ck_assert_str_eq(now, still);
	ck_assert_uint_eq(roll_back("{\"to\": 3}", &answer, NULL), 200);
	ck_assert_int_eq(number(json_object_get(answer, "change"), "flows_moved"), 0);
	json_decref(answer);
	char *back = config_text();
	ck_assert_str_eq(back, three);
	for (uint32_t i = 0; i < 40; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, FRAMES_ACK, 10), home[i]);

	json_t *list = get(versions_list, (struct call){.query = {{"limit", "1"}}});
	const json_t *newest = json_array_get(items(list), 0);
	ck_assert_int_eq(number(newest, "version"), 7);
	ck_assert_str_eq(word(newest, "action"), "POST /v1/config:rollback to 3");
	ck_assert_str_eq(word(newest, "author"), "tester");
	ck_assert_int_eq(number(newest, "edits"), 3);
	ck_assert_str_eq(word(list, "next"), "7");
	json_decref(list);
	char *six = version_text(6);
	ck_assert_str_eq(six, now);

	/* To where it is already: nothing happens. */
	ck_assert_uint_eq(roll_back("{\"to\": 7}", &answer, NULL), 200);
	json_decref(answer);
	list = get(versions_list, (struct call){0});
	ck_assert_uint_eq(json_array_size(items(list)), 7);
	json_decref(list);
	free(three);
	free(now);
	free(still);
	free(back);
	free(six);
	end();
}
END_TEST

START_TEST(bad_requests)
{
	static const struct {
		const char *body, *pointer, *code;
	} bad[] = {
		{"{}", "/to", "required"},
		{"{\"to\": \"1\"}", "/to", "type"},
		{"{\"to\": -1}", "/to", "out_of_range"},
		{"{\"to\": 3}", "/to", "not_found"},
		{"{\"to\": 0, \"prune\": 1}", "/prune", "unknown"},
		{"[1]", "", "type"},
	};
	static const struct {
		handler *h;
		struct call c;
		unsigned status;
	} refused[] = {
		{version_get, {.vip = "3"}, 404},
		{version_get, {.vip = "x"}, 404},
		{version_get, {.vip = "1x"}, 404},
		{version_get, {.vip = "-1"}, 404},
		{version_get, {.vip = "9999999999999999999"}, 404},
		{version_diff_get, {.vip = "3"}, 404},
		{version_diff_get, {.vip = "1", .query = {{"to", "3"}}}, 404},
		{version_diff_get, {.vip = "x"}, 404},
		{version_diff_get, {.vip = "1", .query = {{"to", "x"}}}, 400},
		{versions_list, {.query = {{"limit", "0"}}}, 400},
		{versions_list, {.query = {{"limit", "1001"}}}, 400},
		{versions_list, {.query = {{"cursor", "x"}}}, 400},
		{versions_list, {.query = {{"cursor", "0"}}}, 400},
		{audit_log_get, {.query = {{"cursor", ""}}}, 400},
		{audit_log_get, {.query = {{"since", "yesterday"}}}, 400},
	};
	json_t *answer;

	start();
	must(vip_put, "PUT", (struct call){.body = WEB, .vip = "web"}, 201);
	must(vip_put, "PUT", (struct call){.body = WEB, .vip = "Web"}, 422); /* not in the log */
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		ck_assert_uint_eq(roll_back(bad[i].body, &answer, NULL), 422);
		const json_t *e = json_array_get(json_object_get(answer, "errors"), 0);
		ck_assert_str_eq(word(e, "pointer"), bad[i].pointer);
		ck_assert_str_eq(word(e, "code"), bad[i].code);
		json_decref(answer);
	}
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		must(refused[i].h, "GET", refused[i].c, refused[i].status);
	unsigned status;
	answer = call(version_get, "GET", (struct call){.vip = "7"}, &status);
	ck_assert_str_eq(word(answer, "detail"), "version 7 is not there: 0 to 1 are");
	json_decref(answer);
	json_t *list = get(versions_list, (struct call){0});
	ck_assert_uint_eq(json_array_size(items(list)), 1);
	ck_assert_ptr_null(json_object_get(list, "next"));
	json_decref(list);
	end();
}
END_TEST

/* --- logs that are made up
 * ----------------------------------------------------------------- */

/* Versions first.. of one edit each, oldest ones forgotten; author, path and
 * time by number. */
static void fill(unsigned first, unsigned n, const char *edits)
{
	char text[200];

	for (unsigned i = first; i < first + n; i++) {
		struct persist_log_entry e = {.wall_ms = 1700000000000 + i * 1000,
					      .action = "PUT",
					      .edits = edits ? edits : text,
					      .n_edits = 1};
		snprintf(text, sizeof(text),
			 "[{\"path\": \"/v1/vips/v%u/dips/d\", \"before\": null, "
			 "\"after\": {}}]",
			 i % 10);
		snprintf(e.author, sizeof(e.author), "a%u", i % 3);
		ck_assert_int_eq(history_load(history, i, &e), 0);
	}
}

START_TEST(what_was_trimmed_is_not_there)
{
	json_t *answer;
	unsigned status;

	start();
	fill(500, 10, "[]");
	answer = call(version_get, "GET", (struct call){.vip = "498"}, &status);
	ck_assert_uint_eq(status, 404);
	ck_assert_str_eq(word(answer, "detail"), "version 498 is not there: 499 to 509 are");
	json_decref(answer);
	must(version_get, "GET", (struct call){.vip = "499"}, 200);
	must(version_get, "GET", (struct call){.vip = "509"}, 200);
	must(version_get, "GET", (struct call){.vip = "510"}, 404);
	must(version_diff_get, "GET", (struct call){.vip = "500"}, 200);
	must(version_diff_get, "GET", (struct call){.vip = "499"}, 404); /* to 498 */
	end();
}
END_TEST

START_TEST(what_is_damaged_is_said)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[1]",
		"[{}]",
		"[{\"path\": \"/v1/vips/web\", \"before\": 1, \"after\": null}]",
		"[{\"path\": \"/v1/vips/web\", \"before\": null}]",
		"[{\"path\": \"/v1/vips/Web\", \"before\": null, \"after\": null}]",
		"[{\"path\": \"/v1/vip/web\", \"before\": null, \"after\": null}]",
		"[{\"path\": \"/v1/vips/web/dip/b\", \"before\": null, \"after\": null}]",
		"[{\"path\": \"/v1/vips/web/dips/\", \"before\": null, \"after\": null}]",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		json_t *answer;
		unsigned status;
		start();
		fill(1, 1, "[]");
		fill(2, 1, bad[i]);
		fill(3, 1, "[]");
		answer = call(version_get, "GET", (struct call){.vip = "1"}, &status);
		ck_assert_msg(status == 500, "%zu: %u", i, status);
		ck_assert_str_eq(word(answer, "detail"), "the log's entry of version 2 is damaged");
		json_decref(answer);
		must(version_get, "GET", (struct call){.vip = "2"}, 200);
		must(version_diff_get, "GET", (struct call){.vip = "2"}, 500);
		must(audit_log_get, "GET", (struct call){0}, 200);
		must(audit_log_get, "GET", (struct call){.query = {{"path", "/v1/vips/web"}}}, 200);
		end();
	}
	/* A DIP without its VIP is no configuration. */
	start();
	fill(1, 1,
	     "[{\"path\": \"/v1/vips/web/dips/b\", \"before\": {\"id\": \"b\"}, "
	     "\"after\": null}]");
	must(version_get, "GET", (struct call){.vip = "0"}, 500);
	end();
}
END_TEST

/* Pages of any size, with any filter, are together what a naive walk finds. */
START_TEST(audit_log_pages_and_filters)
{
	enum { FIRST = 300, COUNT = 900 };

	start();
	fill(FIRST, COUNT, NULL);
	for (int round = 0; round < 40; round++) {
		char limit[8], author[8], path[24], since[40], cursor[24] = "";
		unsigned by = below(4), of = below(12), from = FIRST + below(COUNT);
		unsigned expect = FIRST + COUNT - 1;
		snprintf(limit, sizeof(limit), "%u", 1 + below(400));
		snprintf(author, sizeof(author), "a%u", by);
		snprintf(path, sizeof(path), "/v1/vips/v%u", of);
		bool is_author = below(2), is_path = below(2), is_since = below(2);
		json_t *time = timestamp_print(1700000000000 + (int64_t)from * 1000);
		snprintf(since, sizeof(since), "%s", json_string_value(time));
		json_decref(time);
		do {
			struct call c = {.query = {{"limit", limit}}};
			unsigned n = 1;
			if (*cursor)
				c.query[n].name = "cursor", c.query[n++].value = cursor;
			if (is_author)
				c.query[n].name = "author", c.query[n++].value = author;
			if (is_path)
				c.query[n].name = "path", c.query[n++].value = path;
			else if (is_since)
				c.query[n].name = "since", c.query[n++].value = since;
			json_t *page = get(audit_log_get, c), *item;
			size_t i;
			json_array_foreach(items(page), i, item)
			{
				while ((is_author && expect % 3 != by) ||
				       (is_path && expect % 10 != of))
					expect--;
				ck_assert_int_eq(number(item, "version"), expect);
				ck_assert_str_eq(word(item, "action"), "PUT");
				ck_assert_uint_eq(json_array_size(json_object_get(item, "paths")),
						  1);
				expect--;
			}
			snprintf(cursor, sizeof(cursor), "%s", word(page, "next"));
			json_decref(page);
		} while (*cursor);
		/* What is left does not pass. */
		for (; expect >= (is_since && !is_path ? from : FIRST); expect--)
			ck_assert((is_author && expect % 3 != by) ||
				  (is_path && expect % 10 != of));
	}
	end();
}
END_TEST

START_TEST(paths_are_taken_whole)
{
	struct history_entry e = {.edits = "[{\"path\": \"/v1/vips/web/dips/b1\", "
					   "\"before\": null, \"after\": {}}]"};

	ck_assert(past_touches(&e, "/v1/vips/web"));
	ck_assert(past_touches(&e, "/v1/vips/web/dips/b1"));
	ck_assert(past_touches(&e, "/v1/vips/"));
	ck_assert(past_touches(&e, "/"));
	ck_assert(!past_touches(&e, "/v1/vips/we"));
	ck_assert(!past_touches(&e, "/v1/vips/web/dips/b"));
	ck_assert(!past_touches(&e, "dips"));
	ck_assert(!past_touches(&e, "/v1/vips/web/dips/b11"));
}
END_TEST

START_TEST(timestamps)
{
	static const char *const bad[] = {
		"",
		"now",
		"2026-11-30",
		"2026-11-30T00:00:00",
		"2026-11-30 00:00:00Z",
		"2026-02-30T00:00:00Z",
		"2026-13-01T00:00:00Z",
		"2026-11-30T24:00:00Z",
		"2026-11-30T00:60:00Z",
		"2026-11-30T00:00:00.Z",
		"2026-11-30T00:00:00+1:00",
		"2026-11-30T00:00:00+24:00",
		"2026-11-30T00:00:00+01:60",
		"2026-11-30T00:00:00Zz",
		"+026-11-30T00:00:00Z",
		"2026-11-30T00:00:00+01:00 ",
	};
	int64_t ms;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		ck_assert_msg(!timestamp_parse(bad[i], &ms), "%s", bad[i]);
	ck_assert(timestamp_parse("2023-11-14T22:13:20.1239Z", &ms));
	ck_assert_int_eq(ms, 1700000000123);
	ck_assert(timestamp_parse("2023-11-15T00:13:20.5+02:00", &ms));
	ck_assert_int_eq(ms, 1700000000500);
	ck_assert(timestamp_parse("2023-11-14t20:43:20-01:30", &ms));
	ck_assert_int_eq(ms, 1700000000000);
	for (int i = 0; i < 1000; i++) {
		int64_t was = (int64_t)(prng_u64(&prng) % 253370764800000ull); /* below 10000 */
		json_t *text = timestamp_print(was);
		ck_assert(timestamp_parse(json_string_value(text), &ms));
		ck_assert_int_eq(ms, was);
		json_decref(text);
	}
	ck_assert(json_is_null(timestamp_print(INT64_MAX)));
}
END_TEST

/* --- all at once
 * ---------------------------------------------------------------------------
 */

#define WRITERS 3
#define READERS 3
#define WRITES 60

static atomic_uint n_writing;

static struct reading {
	unsigned n;
	struct {
		unsigned version;
		char *text;
	} seen[2000];
} readings[READERS];

static void *writer(void *arg)
{
	unsigned id = *(unsigned *)arg;
	char vip[8], dip[8], author[8], body[128];

	snprintf(author, sizeof(author), "w%u", id);
	for (unsigned i = 0; i < WRITES; i++) {
		unsigned status;
		snprintf(vip, sizeof(vip), "v%u", id % 2); /* two of them share one */
		snprintf(dip, sizeof(dip), "d%u", i % 4);
		snprintf(body, sizeof(body), "{\"address\": \"10.9.0.%u\", \"weight\": %u}",
			 11 + i % 4, id * 1000 + i);
		struct call put = {.vip = vip, .dip = dip, .body = body};
		struct call del = {.vip = vip, .dip = dip};
		bool deletes = i % 7 == 6;
		json_decref(call_as(author, deletes ? dip_delete : dip_put,
				    deletes ? "DELETE" : "PUT", deletes ? &del : &put, &status));
		ck_assert_uint_lt(status, 500);
	}
	atomic_fetch_sub(&n_writing, 1);
	return NULL;
}

static void *reader(void *arg)
{
	struct reading *r = arg;
	unsigned newest = 0;

	while (atomic_load(&n_writing) && r->n < ARRAY_LEN(r->seen)) {
		struct call one = {.query = {{"limit", "1"}}};
		unsigned status;
		json_t *list = call_as("r", versions_list, "GET", &one, &status);
		json_int_t n = number(json_array_get(items(list), 0), "version");
		ck_assert_int_ge(n, newest); /* it never goes back */
		newest = (unsigned)n;
		json_decref(list);
		r->seen[r->n].version = r->n % 2 ? newest : newest / 2;
		r->seen[r->n].text = version_text(r->seen[r->n].version);
		r->n++;
	}
	return NULL;
}

/* A version says the same at any time: while it is the newest one and others
 * come, and at the end. */
START_TEST(readers_beside_writers)
{
	pthread_t writers[WRITERS], readers[READERS];
	static unsigned ids[WRITERS];
	struct error err;

	start();
	must(vip_put, "PUT", (struct call){.body = WEB, .vip = "v0"}, 201);
	must(vip_put, "PUT",
	     (struct call){.body = "{\"address\": \"10.9.0.101\", \"port\": 80, \"protocol\": "
				   "\"tcp\"}",
			   .vip = "v1"},
	     201);
	api.backend.change = change_by_thread;
	memset(readings, 0, sizeof(readings));
	atomic_store(&n_writing, WRITERS);
	ck_assert_int_eq(control_start(w->control, &err), 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		ids[i] = i;
		pthread_create(&writers[i], NULL, writer, &ids[i]);
	}
	for (unsigned i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, reader, &readings[i]);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	control_stop(w->control);

	unsigned n = 0;
	for (unsigned i = 0; i < READERS; i++) {
		for (unsigned k = 0; k < readings[i].n; k++, n++) {
			char *text = version_text(readings[i].seen[k].version);
			ck_assert_msg(!strcmp(text, readings[i].seen[k].text),
				      "version %u:\n%s\n%s", readings[i].seen[k].version, text,
				      readings[i].seen[k].text);
			free(text);
			free(readings[i].seen[k].text);
		}
	}
	ck_assert_uint_gt(n, READERS);
	/* The newest one is what there is. */
	json_t *list = get(versions_list, (struct call){.query = {{"limit", "1"}}});
	char *newest = version_text((unsigned)number(json_array_get(items(list), 0), "version"));
	char *now = config_text();
	ck_assert_str_eq(newest, now);
	json_decref(list);
	free(newest);
	free(now);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("history");
	TCase *tc = tcase_create("versions");

	prng = prng_new("history");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, every_version_is_what_it_was);
	tcase_add_test(tc, rollback_keeps_connections_and_is_a_version_itself);
	tcase_add_test(tc, bad_requests);
	tcase_add_test(tc, what_was_trimmed_is_not_there);
	tcase_add_test(tc, what_is_damaged_is_said);
	tcase_add_test(tc, audit_log_pages_and_filters);
	tcase_add_test(tc, paths_are_taken_whole);
	tcase_add_test(tc, timestamps);
	tcase_add_test(tc, readers_beside_writers);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
