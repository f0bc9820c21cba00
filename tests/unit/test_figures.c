/* What operators read: metrics against a parser of the format, audits, histograms, drains. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/server/router.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

/* Takes the C library's place, so that memory can fail here. */
static bool no_memory;

FILE *open_memstream(char **text, size_t *len)
{
	FILE *(*real)(char **, size_t *);

	if (no_memory)
		return NULL;
	*(void **)&real = dlsym(RTLD_NEXT, "open_memstream");
	return real(text, len);
}

static struct api_context api;
static struct api_response resp;

static unsigned ask(const char *method, const char *target)
{
	static const struct api_peer peer = {.unix_socket = true};
	struct api_request req = {.api = &api, .method = method, .target = target, .peer = &peer};

	json_decref(resp.body);
	free(resp.text);
	resp = (struct api_response){.status = 0};
	router_dispatch(api_routes, api_n_routes, &req, &resp);
	return resp.status;
}

static void set_up(void)
{
	memset(&api_fake, 0, sizeof(api_fake));
	api_fake_context(&api);
}

static void tear_down(void)
{
	json_decref(resp.body);
	free(resp.text);
	resp = (struct api_response){.status = 0};
}

static json_int_t integer(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);

	ck_assert_msg(json_is_integer(v), "%s", name);
	return json_integer_value(v);
}

/* --- metrics -------------------------------------------------------------------------------------
 */

struct sample {
	char series[128]; /* name and labels, as written */
	double value;
};

struct page {
	unsigned n;
	struct sample samples[512];
	unsigned n_families;
	char families[128][80];
	char types[128][16];
};

static const char *type_of(const struct page *p, const char *family)
{
	for (unsigned i = 0; i < p->n_families; i++)
		if (strcmp(p->families[i], family) == 0)
			return p->types[i];
	return "";
}

/* Every line is a comment of the two kinds or a sample; HELP then TYPE, each once a family, before
 * its samples, which stand together. */
static void parse(char *text, struct page *p)
{
	char help[80] = "";

	memset(p, 0, sizeof(*p));
	ck_assert_int_eq(text[strlen(text) - 1], '\n');
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char name[128], type[16];
		if (sscanf(line, "# HELP %79s", name) == 1) {
			ck_assert_msg(strlen(line) > strlen("# HELP ") + strlen(name) + 1, "%s",
				      line);
			ck_assert_str_eq(type_of(p, name), "");
			memcpy(help, name, sizeof(help));
			continue;
		}
		if (sscanf(line, "# TYPE %79s %15s", name, type) == 2) {
			ck_assert_str_eq(name, help);
			memcpy(p->families[p->n_families], name, 80);
			memcpy(p->types[p->n_families++], type, sizeof(type));
			continue;
		}
		char *blank = strrchr(line, ' '), *end;
		ck_assert_msg(blank && line[0] != '#', "%s", line);
		struct sample *s = &p->samples[p->n++];
		snprintf(s->series, sizeof(s->series), "%.*s", (int)(blank - line), line);
		s->value = strtod(blank + 1, &end);
		ck_assert_msg(*end == '\0' && end != blank + 1, "%s", line);
		size_t len = strcspn(s->series, "{"), k = strlen(help);
		ck_assert_msg(strncmp(s->series, help, k) == 0 &&
				      (len == k || strcmp(type_of(p, help), "histogram") == 0),
			      "%s under %s", line, help);
		for (unsigned i = 0; i + 1 < p->n; i++)
			ck_assert_str_ne(p->samples[i].series, s->series);
	}
}

static double value(const struct page *p, const char *series)
{
	for (unsigned i = 0; i < p->n; i++)
		if (strcmp(p->samples[i].series, series) == 0)
			return p->samples[i].value;
	return NAN;
}

static struct page page;

START_TEST(every_counter_is_a_metric)
{
	double want = 100;

	ck_assert_uint_eq(ask("GET", "/metrics"), 200);
	ck_assert_str_eq(resp.text_type, "text/plain; version=0.0.4; charset=utf-8");
	ck_assert_uint_eq(strlen(resp.text), resp.text_len);
	parse(resp.text, &page);
#define CHECK(name, help)                                                                          \
	ck_assert_double_eq(value(&page, "concury_consistency_" #name), want++);                   \
	ck_assert_str_eq(type_of(&page, "concury_consistency_" #name),                             \
			 strstr(#name, "_total") ? "counter" : "gauge");
	CONSISTENCY_FIELDS(CHECK)
#undef CHECK
	for (unsigned i = 0; i < N_DROP_REASONS; i++) {
		char series[96];
		snprintf(series, sizeof(series), "concury_drops_total{reason=\"%s\"}",
			 drop_reason_name[i]);
		ck_assert_double_eq(value(&page, series), 1000 + i);
	}
	ck_assert_double_eq(
		value(&page, "concury_interface_receive_packets_total{interface=\"eth0\"}"), 5);
	ck_assert_double_eq(value(&page, "concury_vip_packets_total{vip=\"web\"}"), 11);
	ck_assert_double_eq(value(&page, "concury_dip_bytes_total{vip=\"web\",dip=\"b2\"}"), 200);
	ck_assert_double_eq(value(&page, "concury_vip_flows_pinned{vip=\"web\"}"), 0);
	ck_assert_double_eq(value(&page, "concury_dip_weight{vip=\"web\",dip=\"b1\"}"), 1);
	ck_assert_double_eq(value(&page, "concury_dip_dcodes{vip=\"web\",dip=\"b2\"}"), 512);
	for (int i = 0; dip_state_names[i]; i++) {
		char series[96];
		snprintf(series, sizeof(series),
			 "concury_dip_state{vip=\"web\",dip=\"b1\",state=\"%s\"}",
			 dip_state_names[i]);
		ck_assert_double_eq(value(&page, series), i == DIP_UP);
	}
	ck_assert_double_eq(value(&page, "concury_dip_health{vip=\"web\",dip=\"b2\"}"), 1);
	ck_assert_double_eq(
		value(&page, "concury_dip_health_checks_failed_total{vip=\"web\",dip=\"b1\"}"), 0);
	ck_assert_double_eq(
		value(&page, "concury_dip_health_latency_seconds{vip=\"web\",dip=\"b1\"}"), 0);
	ck_assert_double_eq(value(&page, "concury_flows_capacity"), 1000);
	ck_assert_double_eq(value(&page, "concury_build_info{version=\"" CONCURY_VERSION
					 "\",commit=\"0123456789ab\"}"),
			    1);
}
END_TEST

/* 10, 100, ... 10,000,000 microseconds were put in. */
START_TEST(histograms_are_in_seconds)
{
	ck_assert_uint_eq(ask("GET", "/metrics"), 200);
	parse(resp.text, &page);
	ck_assert_str_eq(type_of(&page, "concury_publish_pause_seconds"), "histogram");
	ck_assert_double_eq_tol(value(&page, "concury_publish_pause_seconds_sum"), 11.11111, 1e-9);
	ck_assert_double_eq(value(&page, "concury_publish_pause_seconds_count"), 7);
	ck_assert_double_eq(value(&page, "concury_publish_pause_seconds_bucket{le=\"+Inf\"}"), 7);
	ck_assert_double_eq(value(&page, "concury_publish_pause_seconds_bucket{le=\"0.000001\"}"),
			    0);
	ck_assert_double_eq(value(&page, "concury_publish_pause_seconds_bucket{le=\"0.000016\"}"),
			    1);
	ck_assert_double_eq(value(&page, "concury_publish_pause_seconds_bucket{le=\"16.777216\"}"),
			    7);
	ck_assert_double_eq(value(&page, "concury_publish_build_seconds_count"), 0);
}
END_TEST

START_TEST(series_end_with_their_objects)
{
	api_fake.no_vips = true;
	ck_assert_uint_eq(ask("GET", "/metrics"), 200);
	ck_assert_ptr_null(strstr(resp.text, "vip=\"web\""));
	parse(resp.text, &page);
	ck_assert_double_eq(value(&page, "concury_drops_total{reason=\"malformed\"}"), 1000);
	ck_assert_uint_eq(ask("POST", "/metrics"), 405);
}
END_TEST

static void odd_traffic(void *ctx, struct api_traffic *out)
{
	(void)ctx;
	memset(out, 0, sizeof(*out));
	out->n_ifaces = 1;
	strcpy(out->ifaces[0].name, "a\\b\"c\nd");
}

START_TEST(labels_are_escaped)
{
	api.backend.read_traffic = odd_traffic;
	ck_assert_uint_eq(ask("GET", "/metrics"), 200);
	ck_assert_ptr_nonnull(strstr(resp.text, "{interface=\"a\\\\b\\\"c\\nd\"} 0\n"));
}
END_TEST

START_TEST(no_memory_is_a_problem)
{
	no_memory = true;
	ck_assert_uint_eq(ask("GET", "/metrics"), 500);
	ck_assert(resp.problem && resp.body && !resp.text);
	no_memory = false;
	ck_assert_uint_eq(ask("GET", "/metrics"), 200);
}
END_TEST

/* Over HTTP, so that the header fields and the length are right too. */
START_TEST(metrics_over_http)
{
	char dir[] = "/tmp/test_figures.XXXXXX", where[64];
	struct http_server *server;
	struct http_answer a;
	struct error err;

	signal(SIGPIPE, SIG_IGN);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(where, sizeof(where), "unix:%s/s", dir);
	const char *listen[] = {where};
	const struct http_config config = {.n = 1, .listen = listen};
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	int fd = http_connect(where);
	ck_assert(http_send(fd, request, strlen(request)));
	http_read(fd, false, &a);
	close(fd);
	ck_assert_int_eq(a.status, 200);
	ck_assert_str_eq(http_header(&a, "Content-Type"),
			 "text/plain; version=0.0.4; charset=utf-8");
	parse(a.body, &page);
	ck_assert_uint_gt(page.n, 100);
	http_answer_free(&a);
	http_close(server);
	rmdir(dir);
}
END_TEST

/* --- JSON ----------------------------------------------------------------------------------------
 */

START_TEST(an_audit_is_answered)
{
	api_fake.misplaced = 3;
	ck_assert_uint_eq(ask("POST", "/v1/audit"), 200);
	ck_assert_int_eq(integer(resp.body, "generation"), 42);
	ck_assert_int_eq(integer(resp.body, "flows_checked"), 1000);
	ck_assert_int_eq(integer(resp.body, "flows_misplaced"), 3);
	ck_assert_int_eq(integer(resp.body, "flows_of_down_dips"), 7);
	ck_assert_int_eq(integer(resp.body, "duration_us"), 1234);
	ck_assert_uint_eq(json_object_size(resp.body), 5);
	api_fake.no_audit = true;
	ck_assert_uint_eq(ask("POST", "/v1/audit"), 503);
	ck_assert_uint_eq(resp.retry_after_s, 1);
	ck_assert_uint_eq(ask("GET", "/v1/audit"), 405);
}
END_TEST

START_TEST(consistency_has_histograms)
{
	ck_assert_uint_eq(ask("GET", "/v1/consistency"), 200);
	const json_t *h = json_object_get(resp.body, "publish_pause_us");
	const json_t *buckets = json_object_get(h, "buckets");
	ck_assert_int_eq(integer(h, "count"), 7);
	ck_assert_int_eq(integer(h, "sum"), 11111110);
	ck_assert_uint_eq(json_array_size(buckets), HISTOGRAM_BUCKETS);
	json_int_t last = 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		const json_t *b = json_array_get(buckets, i);
		ck_assert_int_eq(integer(b, "le"), (json_int_t)1 << i);
		ck_assert_int_ge(integer(b, "count"), last);
		last = integer(b, "count");
	}
	ck_assert_int_eq(last, 7);
}
END_TEST

START_TEST(a_drain_shows_while_it_lasts)
{
	ck_assert_uint_eq(ask("GET", "/v1/vips/web"), 200);
	ck_assert_ptr_null(json_object_get(resp.body, "drain"));
	api_fake.draining = true;
	ck_assert_uint_eq(ask("GET", "/v1/vips/web"), 200);
	const json_t *d = json_object_get(resp.body, "drain");
	ck_assert_int_eq(integer(d, "flows_remaining"), 17);
	ck_assert_int_eq(integer(d, "oldest_age_s"), 4711);
	ck_assert_str_eq(json_string_value(json_object_get(d, "deadline")), "2023-11-14T22:13:20Z");
	ck_assert_str_eq(json_string_value(json_object_get(d, "then")), "cut");
	ck_assert_uint_eq(ask("GET", "/v1/vips/web/dips/b2"), 200);
	ck_assert_int_eq(integer(json_object_get(resp.body, "drain"), "flows_remaining"), 2);
	api_fake.status = CONTROL_ACCEPTED;
	api_fake.flows_remaining = 1;
	ck_assert_uint_eq(ask("DELETE", "/v1/vips/web/dips/b1"), 202);
	ck_assert_int_eq(integer(resp.body, "flows_remaining"), 1);
	ck_assert_int_eq(integer(json_object_get(resp.body, "drain"), "flows_remaining"), 1);
}
END_TEST

/* --- whether it serves ---------------------------------------------------------------------------
 */

static const json_t *warnings_of_status(bool ready)
{
	ck_assert_uint_eq(ask("GET", "/v1/status"), 200);
	ck_assert_int_eq(json_is_true(json_object_get(resp.body, "ready")), ready);
	return json_object_get(resp.body, "warnings");
}

START_TEST(serving)
{
	for (int serves = 1; serves >= 0; serves--) {
		api_fake.not_serving = !serves;
		api_fake.n_more_warnings = serves ? 0 : 3;
		ck_assert_uint_eq(ask("GET", "/readyz"), serves ? 200 : 503);
		ck_assert_uint_eq(resp.retry_after_s, serves ? 0 : 1);
		const json_t *list = warnings_of_status(serves);
		ck_assert_uint_eq(json_array_size(list), serves ? 0 : 2);
		if (!serves) {
			ck_assert_str_eq(json_string_value(json_array_get(list, 0)),
					 "eth0: the interface is down: up with it");
			ck_assert_str_eq(json_string_value(json_array_get(list, 1)),
					 "3 more warnings are not shown");
		}
		ck_assert_uint_eq(ask("GET", "/metrics"), 200);
		ck_assert_ptr_nonnull(
			strstr(resp.text, serves ? "\nconcury_ready 1\n" : "\nconcury_ready 0\n"));
		/* What is wanted can be written all the same. */
		ask("DELETE", "/v1/vips/web");
		ck_assert_uint_eq(atomic_load(&api_fake.n_changes), 2 - (unsigned)serves);
	}
	/* It is not ready before the start has come to its end, whatever the watch sees. */
	api_fake.not_serving = false;
	atomic_store(&api.ready, false);
	ck_assert_uint_eq(ask("GET", "/readyz"), 503);
	warnings_of_status(false);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("figures");
	TCase *t = tcase_create("figures");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, every_counter_is_a_metric);
	tcase_add_test(t, histograms_are_in_seconds);
	tcase_add_test(t, series_end_with_their_objects);
	tcase_add_test(t, labels_are_escaped);
	tcase_add_test(t, no_memory_is_a_problem);
	tcase_add_test(t, metrics_over_http);
	tcase_add_test(t, an_audit_is_answered);
	tcase_add_test(t, consistency_has_histograms);
	tcase_add_test(t, a_drain_shows_while_it_lasts);
	tcase_add_test(t, serving);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
