/* What concuryctl prints: numbers, tables, problems, differences, the screen of `top`; and the
 * reading of event streams. */
#include <check.h>
#include <stdlib.h>

#include "api/client/ctl.h"
#include "api/client/ctl_diff.h"
#include "api/client/ctl_problem.h"
#include "api/client/ctl_sse.h"
#include "api/client/ctl_table.h"
#include "api/client/ctl_top.h"
#include "tests/unit/prng.h"

static char *text;
static size_t n_text;

static FILE *open_text(void)
{
	FILE *f = open_memstream(&text, &n_text);

	ck_assert_ptr_nonnull(f);
	return f;
}

/* What was printed; frees it at the next call. */
static const char *printed(FILE *f)
{
	static char *last;

	fclose(f);
	free(last);
	last = text;
	return last;
}

/* --- numbers -------------------------------------------------------------------------------------
 */

START_TEST(numbers)
{
	static const struct {
		uint64_t n;
		const char *count, *bytes;
	} cases[] = {
		{0, "0", "0 B"},
		{999, "999", "999 B"},
		{1000, "1000", "0.98 KiB"},
		{9999, "9999", "9.76 KiB"},
		{10000, "10.0k", "9.77 KiB"},
		{99949, "99.9k", "97.6 KiB"},
		{99950, "100k", "97.6 KiB"},
		{999499, "999k", "976 KiB"},
		{999500, "1.00M", "976 KiB"},
		{1048576, "1.05M", "1.00 MiB"},
		{UINT64_MAX, "18.4E", "16.0 EiB"},
	};
	static const struct {
		uint64_t s;
		const char *text;
	} times[] = {{0, "0s"},	      {59, "59s"},	 {60, "1m00s"},	   {3599, "59m59s"},
		     {3600, "1h00m"}, {86399, "23h59m"}, {86400, "1d00h"}, {864000, "10d00h"}};
	char buf[32];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		ck_assert_str_eq(ctl_human_count(cases[i].n, buf, sizeof(buf)), cases[i].count);
		ck_assert_str_eq(ctl_human_bytes(cases[i].n, buf, sizeof(buf)), cases[i].bytes);
	}
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		ck_assert_str_eq(ctl_human_seconds(times[i].s, buf, sizeof(buf)), times[i].text);
	/* However large, never longer than a column is meant to be. */
	for (uint64_t n = 1; n < UINT64_MAX / 3; n = n * 3 + 1) {
		ck_assert_uint_le(strlen(ctl_human_count(n, buf, sizeof(buf))), 5);
		ck_assert_uint_le(strlen(ctl_human_bytes(n, buf, sizeof(buf))), 9);
	}
}
END_TEST

/* --- tables --------------------------------------------------------------------------------------
 */

START_TEST(tables)
{
	struct ctl_table *t = ctl_table_new("NAME >N STATE");
	json_t *o = json_pack("{s:s, s:i, s:b, s:n}", "s", "text", "n", 12345, "b", 1, "z");
	FILE *f = open_text();

	ctl_table_add(t, "a\033[2J");
	ctl_table_member(t, o, "n");
	ctl_table_member(t, o, "b");
	ctl_table_add(t, "l\xc3\xa4nger");
	ctl_table_count(t, o, "n");
	ctl_table_member(t, o, "z");
	ctl_table_member(t, o, "s");
	ctl_table_bytes(t, o, "n");
	ctl_table_member(t, o, "absent");
	ctl_table_print(t, f, "nothing");
	ck_assert_str_eq(printed(f), "NAME           N  STATE\n"
				     "a?[2J      12345  yes\n"
				     "l\xc3\xa4nger     12.3k  -\n"
				     "text    12.1 KiB  -\n");
	f = open_text();
	ctl_table_print(ctl_table_new("A B"), f, "nothing");
	ck_assert_str_eq(printed(f), "nothing\n");
	json_decref(o);
}
END_TEST

/* A cell that is too long is cut between characters, and rows stay as they are. */
START_TEST(long_cells)
{
	char cell[200] = "";
	FILE *f = open_text();
	struct ctl_table *t = ctl_table_new("A B");

	for (int i = 0; i < 60; i++)
		strcat(cell, "\xc3\xa4");
	for (unsigned i = 0; i < 500; i++) {
		ctl_table_add(t, "%s", cell);
		ctl_table_add(t, "%u", i);
	}
	ctl_table_print(t, f, "");
	const char *line = printed(f);
	ck_assert_ptr_nonnull(strstr(line, "\xc3\xa4..  499\n"));
	for (const char *c = line; *c; c++)
		ck_assert(((unsigned char)c[0] != 0xc3 || (unsigned char)c[1] == 0xa4));
}
END_TEST

/* --- problems ------------------------------------------------------------------------------------
 */

static const char *problem(long status, const char *body, int exit_code)
{
	struct ctl_answer a = {.status = status, .json = json_loads(body, 0, NULL)};
	FILE *f = open_text();

	snprintf(a.etag, sizeof(a.etag), "\"17\"");
	snprintf(a.error, sizeof(a.error), "Connection refused");
	ck_assert_int_eq(ctl_problem_print(&a, "http://host", f), exit_code);
	json_decref(a.json);
	return printed(f);
}

START_TEST(problems)
{
	ck_assert_str_eq(problem(200, "{}", CTL_OK), "");
	ck_assert_str_eq(problem(0, "", CTL_UNREACHABLE),
			 "concuryctl: http://host: Connection refused\n");
	ck_assert_str_eq(
		problem(422,
			"{\"detail\": \"two faults\", \"errors\": [{\"pointer\": \"/weight\", "
			"\"code\": \"out_of_range\", \"detail\": \"0 to 65535\"}, "
			"{\"parameter\": \"limit\", \"code\": \"x\", \"detail\": \"\\u001b[2J\"}]}",
			CTL_FAILED),
		"concuryctl: HTTP 422: two faults\n  /weight: 0 to 65535\n  limit: ?[2J\n");
	/* What is said already is not said again. */
	ck_assert_str_eq(problem(422,
				 "{\"detail\": \"/weight: 0 to 65535\", \"errors\": [{\"pointer\": "
				 "\"/weight\", \"code\": \"out_of_range\", \"detail\": \"0 to "
				 "65535\"}]}",
				 CTL_FAILED),
			 "concuryctl: HTTP 422: /weight: 0 to 65535\n");
	ck_assert_str_eq(problem(400,
				 "{\"detail\": \"limit: 1 to 1000\", \"errors\": [{\"parameter\": "
				 "\"limit\", \"code\": \"bad_value\", \"detail\": \"1 to 1000\"}]}",
				 CTL_FAILED),
			 "concuryctl: HTTP 400: limit: 1 to 1000\n");
	ck_assert_str_eq(problem(409,
				 "{\"detail\": \"no\", \"errors\": [{\"pointer\": \"\", "
				 "\"code\": \"conflict\", \"detail\": \"no more\"}]}",
				 CTL_CONFLICT),
			 "concuryctl: HTTP 409: no\n  no more\n");
	ck_assert_str_eq(problem(401, "{\"detail\": \"a token is needed\"}", CTL_FAILED),
			 "concuryctl: HTTP 401: a token is needed\n"
			 "  concuryctl takes it from CONCURY_TOKEN, or --token\n");
	ck_assert_str_eq(problem(412, "{\"title\": \"Precondition Failed\"}", CTL_CONFLICT),
			 "concuryctl: HTTP 412: Precondition Failed\n");
	ck_assert_str_eq(problem(502, "<html>", CTL_FAILED),
			 "concuryctl: HTTP 502: (it does not say why; is this concuryd?)\n");
	problem(409, "{}", CTL_CONFLICT);
	problem(428, "{}", CTL_CONFLICT);
	problem(503, "{}", CTL_UNREACHABLE);
	problem(404, "{}", CTL_FAILED);
	problem(202, "{}", CTL_OK);
}
END_TEST

/* --- differences ---------------------------------------------------------------------------------
 */

static const char *diff(const char *current, const char *wanted, bool keep, unsigned n)
{
	json_t *a = json_loads(current, 0, NULL), *b = json_loads(wanted, 0, NULL);
	FILE *f = open_text();

	ck_assert_ptr_nonnull(a);
	ck_assert_ptr_nonnull(b);
	ck_assert_uint_eq(ctl_diff_print(a, b, &(struct ctl_diff_style){.keep = keep}, f), n);
	json_decref(a);
	json_decref(b);
	return printed(f);
}

#define CURRENT                                                                                    \
	"{\"vips\": [{\"id\": \"web\", \"port\": 80, \"idle\": {\"udp\": 60, \"tcp\": 1}, "        \
	"\"dips\": [{\"id\": \"b1\", \"weight\": 1, \"mac\": null}, {\"id\": \"b2\", "             \
	"\"weight\": 2, \"mac\": null}]}, {\"id\": \"old\", \"port\": 1, \"dips\": []}]}"

START_TEST(differences)
{
	ck_assert_str_eq(diff(CURRENT, CURRENT, false, 0), "");
	ck_assert_str_eq(diff(CURRENT, "{\"vips\": []}", false, 2), "- vip web\n- vip old\n");
	ck_assert_str_eq(diff(CURRENT, "{\"vips\": []}", true, 0), "");
	ck_assert_str_eq(
		diff(CURRENT,
		     "{\"vips\": [{\"id\": \"web\", \"flows\": 3, \"idle\": {\"udp\": 120}, "
		     "\"dips\": [{\"id\": \"b2\", \"weight\": 5}, {\"id\": \"b3\", \"weight\": "
		     "1}]}, "
		     "{\"id\": \"new\", \"port\": 2, \"dips\": [{\"id\": \"c\"}]}]}",
		     false, 7),
		"- vip old\n"
		"~ vip web  idle.udp: 60 -> 120\n"
		"- dip web/b1\n"
		"~ dip web/b2  weight: 2 -> 5\n"
		"+ dip web/b3  weight: 1\n"
		"+ vip new  port: 2\n"
		"+ dip new/c\n");
	ck_assert_str_eq(diff("{\"vips\": [{\"id\": \"a\", \"mode\": \"ipip\", \"dips\": []}]}",
			      "{\"vips\": [{\"id\": \"a\", \"mode\": null}]}", false, 1),
			 "~ vip a  mode: \"ipip\" -> (default)\n");
	ck_assert_str_eq(diff("{\"vips\": []}", "{\"vips\": [{\"id\": \"\\u001b[2J\"}]}", false, 1),
			 "+ vip ?[2J\n");
}
END_TEST

/* --- the screen of top ---------------------------------------------------------------------------
 */

static struct ctl_top_look look(uint64_t at_ms, int packets, unsigned n_vips)
{
	struct ctl_top_look l = {.at_ms = at_ms};
	json_t *vips = json_array();

	l.status = json_pack("{s:s, s:i, s:i, s:b, s:{s:i, s:i}, s:[]}", "version", "1", "uptime_s",
			     70, "generation", 7, "ready", 1, "flows", "known", 3, "capacity", 9,
			     "warnings");
	l.counters = json_pack("{s:[{s:s, s:i, s:i, s:i, s:i}], s:{s:i}, s:i}", "interfaces",
			       "name", "eth0", "rx_packets", packets, "rx_bytes", packets * 64,
			       "tx_packets", packets, "tx_bytes", packets * 64, "drops", "no_dip",
			       packets / 2, "rx_kernel_drops", 0);
	l.consistency = json_pack("{s:i, s:i, s:i}", "flows_pinned", 1, "flows_opened_total",
				  packets, "violations_total", 0);
	l.dips = json_object();
	for (unsigned i = 0; i < n_vips; i++) {
		char id[16];
		snprintf(id, sizeof(id), "vip%u", i);
		json_array_append_new(vips, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i}", "id", id,
						      "address", "10.0.0.1", "state", "up", "flows",
						      1, "packets", packets, "bytes", packets));
		json_object_set_new(l.dips, id,
				    json_pack("{s:[{s:s, s:s, s:i, s:i, s:i, s:i}]}", "items", "id",
					      "b1", "state", "up", "weight", 1, "flows", 1,
					      "packets", packets, "bytes", packets));
	}
	l.vips = json_pack("{s:o}", "items", vips);
	return l;
}

START_TEST(top_screen)
{
	struct ctl_top_look before = look(1000, 1000, 2), now = look(3000, 5000, 2);
	FILE *f = open_text();

	ck_assert_uint_eq(ctl_top_print(&before, &now, 0, 0, 0, f), 5);
	const char *all = printed(f);
	ck_assert_ptr_nonnull(
		strstr(all, "concuryd 1  ready  up 1m10s  generation 7  warnings 0\n"));
	ck_assert_ptr_nonnull(strstr(all, "rx 2000 packets/s 125 KiB/s  tx 2000"));
	ck_assert_ptr_nonnull(strstr(all, "dropped 1000/s\n"));
	ck_assert_ptr_nonnull(strstr(all, "flows 3 of 9  pinned 1  opened 2000/s  violations 0\n"));
	ck_assert_ptr_nonnull(strstr(all, "vip1  10.0.0.1  up"));
	ck_assert_ptr_nonnull(strstr(all, "      b1        up          1      1       2000"));
	ctl_top_look_free(&before);
	ctl_top_look_free(&now);
	/* concuryd was restarted: counters that began anew make no rate. */
	before = look(1000, 5000, 1);
	now = look(2000, 10, 1);
	f = open_text();
	ctl_top_print(&before, &now, 0, 0, 0, f);
	ck_assert_ptr_nonnull(strstr(printed(f), "rx 0 packets/s 0 B/s"));
	ctl_top_look_free(&before);
	ctl_top_look_free(&now);
}
END_TEST

/* Whatever the terminal's size, it is kept; and every line of the table can be scrolled to. */
START_TEST(top_sizes)
{
	struct ctl_top_look before = look(0, 0, 30), now = look(1000, 12345678, 30);

	for (unsigned rows = 1; rows < 90; rows++) {
		for (unsigned columns = 1; columns < 120; columns += 13) {
			FILE *f = open_text();
			ctl_top_print(&before, &now, rows, columns, 0, f);
			const char *all = printed(f);
			unsigned n = 0;
			for (const char *line = all; *line; n++) {
				size_t len = strcspn(line, "\n");
				ck_assert_uint_le(len, columns);
				line += len + 1;
			}
			ck_assert_uint_le(n, rows);
			ck_assert(n == rows || n == 4 + 61);
		}
	}
	FILE *f = open_text();
	ctl_top_print(&before, &now, 24, 80, 50, f);
	const char *all = printed(f);
	ck_assert_ptr_nonnull(strstr(all, "VIP "));
	ck_assert_ptr_null(strstr(all, "vip24"));
	ck_assert_ptr_nonnull(strstr(all, "vip25"));
	ck_assert_ptr_nonnull(strstr(all, "vip29"));
	ctl_top_look_free(&before);
	ctl_top_look_free(&now);
}
END_TEST

/* --- event streams -------------------------------------------------------------------------------
 */

static char heard[4096];

static bool on_event(void *ctx, const struct ctl_sse_event *e)
{
	size_t len = strlen(heard);

	snprintf(heard + len, sizeof(heard) - len, "[%s|%s|%s]", e->id, e->kind, e->data);
	return *(bool *)ctx;
}

#define STREAM                                                                                     \
	"\xef\xbb\xbfretry: 1000\n\n"                                                              \
	"id: a-1\nevent: change\ndata: {\"x\": 1}\n\n"                                             \
	": still here\nid: a-2\n\n"                                                                \
	"data:first\r\ndata: second\r\n\r\n"                                                       \
	"event: empty\n\n"                                                                         \
	"unknown: field\ndata\rid\r\r"                                                             \
	"id: b-9\ndata: half"

#define HEARD "[a-1|change|{\"x\": 1}][a-2|message|first\nsecond][|message|]"

/* However the stream is cut into pieces, the same is heard. */
START_TEST(streams)
{
	static const char stream[] = STREAM;
	struct prng r = prng_new("streams");
	bool more = true;

	for (int round = 0; round < 300; round++) {
		struct ctl_sse *s = ctl_sse_new(on_event, &more);
		size_t left = sizeof(stream) - 1;
		const char *at = stream;
		heard[0] = '\0';
		while (left) {
			size_t n = round == 0 ? left : 1 + prng_u64(&r) % (round < 3 ? 1 : left);
			ck_assert(ctl_sse_feed(s, at, n));
			at += n;
			left -= n;
		}
		ck_assert_str_eq(heard, HEARD);
		/* What was not whole is not where the next stream goes on. */
		ck_assert_str_eq(ctl_sse_last_id(s), "");
		ctl_sse_restart(s);
		ck_assert(ctl_sse_feed(s, "data: x\n\n", 9));
		ck_assert_str_eq(heard, HEARD "[|message|x]");
		ctl_sse_free(s);
	}
}
END_TEST

START_TEST(streams_that_end)
{
	static char flood[300 << 10];
	bool more = false;
	struct ctl_sse *s = ctl_sse_new(on_event, &more);

	heard[0] = '\0';
	ck_assert(!ctl_sse_feed(s, "id: 7\ndata: x\n\ndata: y\n\n", 24));
	ck_assert_str_eq(heard, "[7|message|x]");
	ck_assert_str_eq(ctl_sse_last_id(s), "7");
	ctl_sse_free(s);
	/* A line, and an event, that never end. */
	memset(flood, 'a', sizeof(flood));
	s = ctl_sse_new(on_event, &more);
	ck_assert(!ctl_sse_feed(s, flood, sizeof(flood)));
	ctl_sse_free(s);
	for (size_t i = 0; i + 64 <= sizeof(flood); i += 64) {
		memcpy(flood + i, "data: ", 6);
		flood[i + 63] = '\n';
	}
	s = ctl_sse_new(on_event, &more);
	bool good = true;
	for (int i = 0; i < 2 && good; i++)
		good = ctl_sse_feed(s, flood, sizeof(flood));
	ck_assert(!good);
	ctl_sse_free(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("concuryctl's output");
	TCase *tc = tcase_create("text");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, numbers);
	tcase_add_test(tc, tables);
	tcase_add_test(tc, long_cells);
	tcase_add_test(tc, problems);
	tcase_add_test(tc, differences);
	tcase_add_test(tc, top_screen);
	tcase_add_test(tc, top_sizes);
	tcase_add_test(tc, streams);
	tcase_add_test(tc, streams_that_end);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
