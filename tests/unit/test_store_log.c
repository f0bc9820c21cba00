/* The change log: in memory and in its table it is what a naive list says, whatever fails in
 * between, and it never grows beyond its bounds. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/migrations.h"
#include "tests/unit/fault_vfs.h"
#include "tests/unit/store_model.h"

#define LIST_MAX 30000
#define LOG_MAX 4

/* The naive list: every version that was ever published or committed last. */
struct list {
	unsigned n; /* versions 1 to n */
	struct {
		uint64_t generation;
		int64_t wall_ms;
		unsigned text; /* what action and edits were made of */
	} at[LIST_MAX];
};

static struct list list; /* large */
static char texts[LOG_MAX][2][512];

static void make_entry(unsigned i, uint64_t generation, struct persist_log_entry *e)
{
	unsigned text = model_random(1u << 20);

	snprintf(texts[i][0], sizeof(texts[i][0]), "PUT /v1/vips/v%u", text);
	snprintf(texts[i][1], sizeof(texts[i][1]), "[%*u]", (int)(text % 400), text);
	*e = (struct persist_log_entry){.wall_ms = 1700000000000 + text,
					.action = texts[i][0],
					.edits = texts[i][1],
					.n_edits = 1 + text % 7,
					.generation_before = generation - 1,
					.generation = generation};
	snprintf(e->author, sizeof(e->author), "who-%u", text % 10);
}

static void list_add(const struct persist_log_entry *e)
{
	ck_assert_uint_lt(list.n, LIST_MAX);
	list.at[list.n].generation = e->generation;
	list.at[list.n].wall_ms = e->wall_ms;
	list.at[list.n++].text = (unsigned)(e->wall_ms - 1700000000000);
}

static void list_cut(uint64_t generation)
{
	while (list.n && list.at[list.n - 1].generation >= generation)
		list.n--;
}

static void check_entry(const struct history_entry *e)
{
	char action[512], edits[512], author[ID_LEN];
	unsigned text = list.at[e->version - 1].text;

	snprintf(action, sizeof(action), "PUT /v1/vips/v%u", text);
	snprintf(edits, sizeof(edits), "[%*u]", (int)(text % 400), text);
	snprintf(author, sizeof(author), "who-%u", text % 10);
	ck_assert_str_eq(e->action, action);
	ck_assert_str_eq(e->edits, edits);
	ck_assert_str_eq(e->author, author);
	ck_assert_uint_eq(e->n_edits, 1 + text % 7);
	ck_assert_int_eq(e->wall_ms, list.at[e->version - 1].wall_ms);
	ck_assert_uint_eq(e->generation, list.at[e->version - 1].generation);
	ck_assert_uint_eq(e->generation_before, e->generation - 1);
}

static struct history_view read_log(struct store *s, uint64_t generation, uint64_t from,
				    uint64_t to, size_t max)
{
	struct history_view v;

	ck_assert_int_eq(history_read(store_history(s), generation, from, to, max, &v), 0);
	return v;
}

/* All that is there, from the first version on. */
static void check_log(struct store *s, uint64_t first)
{
	struct history_view v = read_log(s, UINT64_MAX, 0, UINT64_MAX, SIZE_MAX);

	ck_assert_msg(v.n == list.n - (first - 1), "seed %u: %zu entries, not %u from %llu on",
		      model_seed, v.n, list.n, (unsigned long long)first);
	ck_assert_uint_eq(v.oldest, v.n ? first : 0);
	ck_assert_uint_eq(v.newest, v.n ? list.n : 0);
	for (size_t i = 0; i < v.n; i++) {
		ck_assert_uint_eq(v.entries[i]->version, first + i);
		check_entry(v.entries[i]);
	}
	history_view_free(&v);
}

/* Any part of it, up to any generation. */
static void check_part(struct store *s)
{
	uint64_t from = model_random(list.n + 3), to = model_random(list.n + 3);
	uint64_t generation = list.n ? list.at[model_random(list.n)].generation : 5;
	size_t max = model_random(20), n = 0, n_there = 0;

	for (unsigned i = 0; i < list.n && list.at[i].generation <= generation; i++) {
		n_there++;
		n += i + 1 >= from && i + 1 <= to;
	}
	struct history_view v = read_log(s, generation, from, to, max);
	ck_assert_uint_eq(v.n, n < max ? n : max);
	ck_assert_uint_eq(v.newest, n_there);
	for (size_t i = 0; i < v.n; i++)
		ck_assert_uint_eq(v.entries[i]->version,
				  (to < n_there ? to : n_there) - (v.n - 1 - i));
	history_view_free(&v);
}

static void start(void)
{
	model_remove();
	list.n = 0;
}

/* Commit a transaction with some entries. */
static int commit_logged(struct store *s, struct persist_txn *txn)
{
	struct persist_log_entry log[LOG_MAX];
	struct error err = {""};

	txn->log = log;
	txn->n_log = model_random(LOG_MAX + 1);
	for (unsigned i = 0; i < txn->n_log; i++)
		make_entry(i, txn->generation, &log[i]);
	int rc = model_commit(s, txn, &err);
	for (unsigned i = 0; rc == 1 && i < txn->n_log; i++)
		list_add(&log[i]);
	return rc;
}

START_TEST(test_round_trip)
{
	struct model m = model_new();
	struct change c;

	start();
	struct store *s = model_open();
	for (int i = 0; i < 300; i++) {
		model_step(&m, &c);
		ck_assert_int_eq(commit_logged(s, &c.txn), 1);
		if (model_random(3) == 0) { /* not published: the next one takes its place */
			list_cut(m.generation);
			m.generation--;
		} else if (model_random(3) == 0) { /* late pins: the log stays */
			struct persist_txn late = {.generation = m.generation,
						   .next_dip_uid = m.next_dip_uid,
						   .next_vip_uid = m.next_vip_uid,
						   .late = true};
			model_commit_ok(s, &late);
		}
		if (model_random(8) == 0) {
			/* A process that ends between commit and publish has committed. */
			struct persist_state state;
			store_close(s);
			s = model_open();
			model_load(s, &state);
			m.generation = state.generation;
			persist_state_free(&state);
			while (list.n && list.at[list.n - 1].generation > m.generation)
				list.n--;
			struct history_view v =
				read_log(s, UINT64_MAX, list.n + 1, UINT64_MAX, SIZE_MAX);
			for (size_t k = 0; k < v.n; k++) {
				struct persist_log_entry e = {.generation =
								      v.entries[k]->generation,
							      .wall_ms = v.entries[k]->wall_ms};
				ck_assert_uint_eq(e.generation, m.generation);
				list_add(&e);
			}
			history_view_free(&v);
		}
		if (list.n && list.at[list.n - 1].generation <= m.generation)
			check_part(s);
	}
	store_close(s);
	s = model_open();
	struct history_view v = read_log(s, m.generation, 0, UINT64_MAX, SIZE_MAX);
	ck_assert_uint_eq(v.n, list.n);
	for (size_t i = 0; i < v.n; i++)
		check_entry(v.entries[i]);
	history_view_free(&v);
	store_close(s);
	model_free(&m);
}
END_TEST

/* What fails is neither in the table nor in memory. */
START_TEST(test_faults)
{
	static const int kinds[] = {SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC};
	struct persist_txn txn = {.next_dip_uid = 1, .next_vip_uid = 1};
	int after = 0, n_failed = 0, n_passed = 0;

	start();
	struct store *s = model_open();
	while (n_passed < 5) {
		fault_vfs_arm(after, kinds[model_random(3)], model_random(2));
		txn.generation++;
		int rc = commit_logged(s, &txn);
		if (!fault_vfs_disarm()) {
			ck_assert_int_eq(rc, 1);
			n_passed++;
			after = 0;
		} else {
			n_failed += rc < 0;
			after += 1 + (int)model_random(3);
		}
		check_log(s, 1);
		if (model_random(3))
			continue;
		store_close(s);
		s = model_open();
		check_log(s, 1);
	}
	ck_assert_int_gt(n_failed, 10);
	store_close(s);
}
END_TEST

/* --- bounds ------------------------------------------------------------------------------- */

static sqlite3 *shell_open(void)
{
	sqlite3 *db;

	ck_assert_int_eq(sqlite3_open_v2(model_path, &db,
					 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix"),
			 SQLITE_OK);
	return db;
}

static void sql(const char *text)
{
	sqlite3 *db = shell_open();
	char *message = NULL;

	sqlite3_exec(db, text, NULL, NULL, &message);
	ck_assert_msg(!message, "%s: %s", text, message);
	sqlite3_close(db);
}

static int64_t sql_number(const char *text)
{
	sqlite3 *db = shell_open();
	sqlite3_stmt *s;

	ck_assert_int_eq(sqlite3_prepare_v2(db, text, -1, &s, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_step(s), SQLITE_ROW);
	int64_t n = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	sqlite3_close(db);
	return n;
}

START_TEST(test_trim_by_number)
{
	enum { EACH = 250 };
	static struct persist_log_entry log[EACH];
	struct persist_txn txn = {.next_dip_uid = 1, .next_vip_uid = 1, .log = log, .n_log = EACH};

	start();
	struct store *s = model_open();
	for (uint64_t g = 1; g <= 50; g++) {
		txn.generation = g;
		for (unsigned i = 0; i < EACH; i++) {
			make_entry(0, g, &log[i]);
			list_add(&log[i]);
			log[i].action = strdup(log[i].action);
			log[i].edits = strdup(log[i].edits);
		}
		model_commit_ok(s, &txn);
		for (unsigned i = 0; i < EACH; i++) {
			free((char *)log[i].action);
			free((char *)log[i].edits);
		}
		if (list.n <= HISTORY_ENTRIES_MAX || g % 5 == 0)
			check_log(s, list.n > HISTORY_ENTRIES_MAX ? list.n - HISTORY_ENTRIES_MAX + 1
								  : 1);
	}
	store_close(s);
	ck_assert_int_eq(sql_number("SELECT count(*) FROM change_log"), HISTORY_ENTRIES_MAX);
	ck_assert_int_eq(sql_number("SELECT max(version) FROM change_log"), 50 * EACH);
	s = model_open();
	check_log(s, list.n - HISTORY_ENTRIES_MAX + 1);
	store_close(s);
}
END_TEST

/* Entries of a quarter of what is kept: four fit. One that is larger than all of it is kept alone.
 */
START_TEST(test_trim_by_bytes)
{
	size_t quarter = HISTORY_BYTES_MAX / 4 - 10;
	char *edits = malloc(HISTORY_BYTES_MAX * 2 + 1);
	struct persist_log_entry e = {.action = "PUT", .edits = edits, .n_edits = 1};
	struct persist_txn txn = {.next_dip_uid = 1, .next_vip_uid = 1, .log = &e, .n_log = 1};

	start();
	struct store *s = model_open();
	memset(edits, ' ', HISTORY_BYTES_MAX * 2);
	edits[quarter] = '\0';
	for (uint64_t g = 1; g <= 12; g++) {
		bool large = g == 7;
		e.generation = txn.generation = g;
		edits[quarter] = large ? ' ' : '\0';
		edits[HISTORY_BYTES_MAX * 2] = '\0';
		model_commit_ok(s, &txn);
		uint64_t oldest = g < 5 ? 1 : g < 7 ? g - 3 : g == 7 ? 7 : g < 12 ? 8 : 9;
		struct history_view v = read_log(s, g, 0, UINT64_MAX, SIZE_MAX);
		ck_assert_uint_eq(v.oldest, oldest);
		ck_assert_uint_eq(v.newest, g);
		ck_assert_uint_eq(v.n, g - oldest + 1);
		history_view_free(&v);
	}
	store_close(s);
	ck_assert_int_eq(sql_number("SELECT min(version) FROM change_log"), 9);
	free(edits);
}
END_TEST

/* A table of more than this program keeps, by another one's leave: read, and trimmed by the next.
 */
START_TEST(test_longer_table)
{
	struct persist_log_entry e = {
		.action = "PUT", .edits = "[]", .n_edits = 1, .generation = 8};
	struct persist_txn txn = {
		.generation = 8, .next_dip_uid = 1, .next_vip_uid = 1, .log = &e, .n_log = 1};

	start();
	store_close(model_open());
	sql("UPDATE state SET generation = 7;"
	    "WITH RECURSIVE c(x) AS (SELECT 11 UNION ALL SELECT x + 1 FROM c WHERE x < 12010)"
	    " INSERT INTO change_log SELECT x, 0, 'a', 'PUT', 6, 7, 1, '[]' FROM c");
	struct store *s = model_open();
	struct history_view v = read_log(s, 7, 0, UINT64_MAX, SIZE_MAX);
	ck_assert_uint_eq(v.n, HISTORY_ENTRIES_MAX);
	ck_assert_uint_eq(v.newest, 12010);
	history_view_free(&v);
	model_commit_ok(s, &txn);
	store_close(s);
	ck_assert_int_eq(sql_number("SELECT count(*) FROM change_log"), HISTORY_ENTRIES_MAX);
	ck_assert_int_eq(sql_number("SELECT max(version) FROM change_log"), 12011);
}
END_TEST

/* --- what a start finds ------------------------------------------------------------------- */

START_TEST(test_older_schema)
{
	struct persist_state state;
	sqlite3 *db;

	start();
	db = shell_open();
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(sqlite3_exec(db, migrations[i], NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	sql("INSERT INTO state SELECT 1, randomblob(16), 'little', 41, 2, 2;"
	    "INSERT INTO vip VALUES (1, 'web', 0, '10.9.0.100', 80, 'tcp', 'l2', 'flow', 'forward',"
	    " 3600, 15, 7200, 30, 60, 60, 0, 0);"
	    "INSERT INTO vip_lookup VALUES (1, 5, 6, 0, 0, zeroblob(0), zeroblob(0));"
	    "PRAGMA application_id = 1131376227; PRAGMA user_version = 2");
	struct store *s = model_open();
	model_load(s, &state);
	ck_assert_uint_eq(state.generation, 41);
	ck_assert_uint_eq(state.n_vips, 1);
	ck_assert_str_eq(state.vips[0].conf.id, "web");
	persist_state_free(&state);
	check_log(s, 1);
	struct persist_log_entry e;
	make_entry(0, 42, &e);
	struct persist_txn txn = {
		.generation = 42, .next_dip_uid = 2, .next_vip_uid = 2, .log = &e, .n_log = 1};
	model_commit_ok(s, &txn);
	list_add(&e);
	check_log(s, 1);
	store_close(s);
	s = model_open();
	check_log(s, 1);
	store_close(s);
	ck_assert_int_eq(sql_number("PRAGMA user_version"), SCHEMA_VERSION);
}
END_TEST

static void check_refused(const char *word)
{
	struct store *s = NULL;
	struct error err = {""};

	ck_assert_int_eq(store_open(model_path, &s, &err), -EINVAL);
	ck_assert_msg(strstr(err.message, word) && strstr(err.message, model_path), "message: %s",
		      err.message);
}

START_TEST(test_damaged)
{
	struct persist_log_entry log[3];
	struct persist_txn txn = {
		.generation = 1, .next_dip_uid = 1, .next_vip_uid = 1, .log = log, .n_log = 3};

	start();
	struct store *s = model_open();
	for (unsigned i = 0; i < 3; i++) {
		make_entry(i, 1, &log[i]);
		list_add(&log[i]);
	}
	model_commit_ok(s, &txn);
	store_close(s);
	sql("UPDATE change_log SET version = 9 WHERE version = 2");
	check_refused("version 3 of its change log: the one before it is missing");
	sql("UPDATE change_log SET version = 2, generation = 2 WHERE version = 9");
	check_refused("version 2 of its change log: a generation out of range");
	sql("UPDATE change_log SET generation = 1, generation_before = -1 WHERE version = 2");
	check_refused("a generation out of range");
	sql("UPDATE change_log SET generation_before = 2 WHERE version = 2");
	check_refused("a generation out of range");
	sql("UPDATE change_log SET generation_before = 0, n_edits = 0 WHERE version = 2");
	check_refused("version 2 of its change log: a number of edits out of range");
	sql("UPDATE change_log SET n_edits = 4294967296 WHERE version = 2");
	check_refused("a number of edits out of range");
	sql("UPDATE change_log SET n_edits = (SELECT 1 + (at_ms - 1700000000000) % 7)"
	    " WHERE version = 2");
	s = model_open();
	check_log(s, 1);
	store_close(s);
	sql("UPDATE change_log SET version = version - 1");
	check_refused("version 0 of its change log");
}
END_TEST

/* Commits a version for each generation until it is killed. */
static void crash_child(int report)
{
	struct persist_state state;
	struct store *s = model_open();

	model_load(s, &state);
	for (uint64_t g = state.generation + 1;; g++) {
		char edits[300];
		struct persist_log_entry e = {.wall_ms = (int64_t)g,
					      .action = "PUT",
					      .edits = edits,
					      .n_edits = 1,
					      .generation_before = g - 1,
					      .generation = g};
		struct persist_txn txn = {.generation = g,
					  .next_dip_uid = 1,
					  .next_vip_uid = 1,
					  .log = &e,
					  .n_log = 1};
		snprintf(edits, sizeof(edits), "[%*llu]", (int)(g % 250), (unsigned long long)g);
		model_commit_ok(s, &txn);
		if (write(report, &g, sizeof(g)) != (ssize_t)sizeof(g))
			_exit(1);
	}
}

/* Killed at any time: the log holds exactly the versions of the generations that the state has
 * seen. */
START_TEST(test_crash)
{
	uint64_t last = 0;

	start();
	store_close(model_open());
	for (int round = 0; round < 10; round++) {
		struct persist_state state;
		uint64_t g;
		int fds[2];

		ck_assert_int_eq(pipe(fds), 0);
		pid_t pid = fork();
		if (pid == 0)
			crash_child(fds[1]);
		close(fds[1]);
		while (read(fds[0], &g, sizeof(g)) == (ssize_t)sizeof(g)) {
			last = g;
			if (model_random(20) == 0)
				kill(pid, SIGKILL);
		}
		close(fds[0]);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		struct store *s = model_open();
		model_load(s, &state);
		ck_assert_uint_ge(state.generation, last);
		struct history_view v = read_log(s, state.generation, 0, UINT64_MAX, SIZE_MAX);
		ck_assert_uint_eq(v.n, state.generation);
		for (size_t i = 0; i < v.n; i++) {
			ck_assert_uint_eq(v.entries[i]->version, i + 1);
			ck_assert_uint_eq(v.entries[i]->generation, i + 1);
			ck_assert_int_eq(v.entries[i]->wall_ms, (int64_t)i + 1);
			ck_assert_uint_eq(strtoull(v.entries[i]->edits + 1, NULL, 10), i + 1);
		}
		history_view_free(&v);
		persist_state_free(&state);
		store_close(s);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store_log");
	TCase *tc = tcase_create("log");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_round_trip);
	tcase_add_test(tc, test_faults);
	tcase_add_test(tc, test_trim_by_number);
	tcase_add_test(tc, test_trim_by_bytes);
	tcase_add_test(tc, test_longer_table);
	tcase_add_test(tc, test_older_schema);
	tcase_add_test(tc, test_damaged);
	tcase_add_test(tc, test_crash);
	suite_add_tcase(suite, tc);
	return model_run(suite);
}
