/* Which files the store takes: a sound one of ours, or none at all. However damaged, none starts as
 * an empty configuration. */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/migrations.h"
#include "tests/unit/store_model.h"

static void check_refused(int code, const char *word)
{
	struct store *s = NULL;
	struct error err = {""};
	int rc = store_open(model_path, &s, &err);

	ck_assert_msg(rc == code, "open gave %d, not %d (%s)", rc, code, err.message);
	ck_assert_ptr_null(s);
	ck_assert_msg(strstr(err.message, word) && strstr(err.message, model_path), "message: %s",
		      err.message);
}

/* As the sqlite3 shell would. */
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
	sqlite3 *db;
	char *message = NULL;

	db = shell_open();
	sqlite3_exec(db, text, NULL, NULL, &message);
	ck_assert_msg(!message, "%s: %s", text, message);
	sqlite3_close(db);
}

static void set_schema(int number)
{
	char text[48];

	snprintf(text, sizeof(text), "PRAGMA user_version = %d", number);
	sql(text);
}

static void *read_file(size_t *size)
{
	FILE *f = fopen(model_path, "rb");
	struct stat st;
	void *data;

	ck_assert(f && fstat(fileno(f), &st) == 0);
	*size = (size_t)st.st_size;
	data = malloc(*size);
	ck_assert_uint_eq(fread(data, 1, *size, f), *size);
	fclose(f);
	return data;
}

static void write_file(const void *data, size_t size)
{
	FILE *f = fopen(model_path, "wb");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(data, 1, size, f), size);
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(test_new_database)
{
	struct persist_state one, two;
	struct store *s;
	struct stat st;
	static const uint8_t zero[16];

	model_remove();
	s = model_open();
	model_load(s, &one);
	ck_assert_uint_eq(one.generation, 0);
	ck_assert_uint_eq(one.next_dip_uid, 1);
	ck_assert_uint_eq(one.next_vip_uid, 1);
	ck_assert_uint_eq(one.n_vips, 0);
	ck_assert_int_ne(memcmp(one.database_id, zero, sizeof(zero)), 0);
	store_close(s);
	ck_assert_int_eq(stat(model_path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	s = model_open();
	model_load(s, &two);
	ck_assert_mem_eq(one.database_id, two.database_id, 16);
	store_close(s);
	model_remove();
	s = model_open();
	persist_state_free(&two);
	model_load(s, &two);
	ck_assert_mem_ne(one.database_id, two.database_id, 16);
	store_close(s);
	persist_state_free(&one);
	persist_state_free(&two);
}
END_TEST

START_TEST(test_one_process)
{
	struct model m = model_make_stored();
	struct store *s = model_open();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct store *second;
		struct error err = {""};
		int rc = store_open(model_path, &second, &err);
		_exit(rc == -EBUSY && strstr(err.message, "in use by another process") ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	store_close(s);
	ck_assert(model_is_stored(&m));
	model_free(&m);
}
END_TEST

START_TEST(test_bad_files)
{
	static const char text[] = "not a database, whatever its name says; long enough to be one, "
				   "though: its first page would hold a header of 100 bytes";
	char name[80];

	model_remove();
	write_file("", 0);
	check_refused(-EINVAL, "the file is empty");
	write_file(text, sizeof(text));
	check_refused(-EINVAL, "damaged");
	unlink(model_path);
	ck_assert_int_eq(mkdir(model_path, 0700), 0);
	check_refused(-EINVAL, "not a regular file");
	rmdir(model_path);

	/* A log without its file: somebody moved the file away. */
	snprintf(name, sizeof(name), "%s-wal", model_path);
	struct model m = model_make_stored();
	struct store *s = model_open();
	struct change c;
	model_step(&m, &c);
	model_commit_ok(s, &c.txn);
	unlink(model_path);
	check_refused(-EINVAL, "-wal is there");
	ck_assert_int_eq(access(model_path, F_OK), -1);
	store_close(s);
	model_free(&m);

	/* Half-made ones, left by a kill, are no hindrance. */
	model_remove();
	snprintf(name, sizeof(name), "%s.new", model_path);
	FILE *half = fopen(name, "w");
	fputs("half", half);
	fclose(half);
	store_close(model_open());
	ck_assert_int_eq(access(name, F_OK), -1);

	char good[sizeof(model_path)];
	memcpy(good, model_path, sizeof(model_path));
	snprintf(model_path, sizeof(model_path), "%s/absent/x.db", model_dir);
	check_refused(-ENOENT, "directory must be there");
	memcpy(model_path, good, sizeof(model_path));
}
END_TEST

START_TEST(test_foreign_and_newer)
{
	size_t size, size_after;
	char *before, *after;
	char says[64];

	model_remove();
	sql("CREATE TABLE t (x); INSERT INTO t VALUES (1)");
	before = read_file(&size);
	check_refused(-EINVAL, "not Concury's");
	after = read_file(&size_after);
	ck_assert(size == size_after && memcmp(before, after, size) == 0);
	free(before);
	free(after);

	struct model m = model_make_stored();
	snprintf(says, sizeof(says), "schema %d, newer than this program's (%d)",
		 SCHEMA_VERSION + 1, SCHEMA_VERSION);
	set_schema(SCHEMA_VERSION + 1);
	check_refused(-EINVAL, says);
	set_schema(0);
	check_refused(-EINVAL, "not Concury's");
	set_schema(SCHEMA_VERSION);
	ck_assert(model_is_stored(&m));
	model_free(&m);
}
END_TEST

/* Each statement makes a sound SQLite file that says something impossible. */
START_TEST(test_impossible_values)
{
	static const struct {
		const char *sql, *word;
	} cases[] = {
		{"UPDATE vip SET slot = slot + 10000", "column slot"},
		{"UPDATE vip SET protocol = 'sctp'", "unknown word in column protocol"},
		{"UPDATE vip SET mode = ''", "column mode"},
		{"UPDATE vip SET address = '10.0.0.300'", "column address"},
		{"UPDATE vip SET address = '127.0.0.1' WHERE uid = (SELECT min(uid) FROM vip)",
		 "address must be"},
		{"UPDATE vip SET id = 'A' || uid", "bad id"},
		{"UPDATE vip SET idle_udp_s = -1", "column idle_udp_s"},
		{"UPDATE vip SET idle_udp_s = 0", "idle_timeout_s/udp must be"},
		{"UPDATE vip SET drain_deadline_s = -1", "column drain_deadline_s"},
		{"UPDATE state SET next_vip_uid = 1", "counter"},
		{"UPDATE state SET next_vip_uid = 0", "counters are damaged"},
		{"UPDATE state SET next_dip_uid = 1", "counter"},
		{"UPDATE state SET byte_order = 'big'", "byte order"},
		{"DELETE FROM state", "row of state is missing"},
		{"DELETE FROM vip_lookup", "no row in vip_lookup"},
		{"UPDATE vip_lookup SET dcodes = x'010000'", "damaged: CHECK"},
		{"UPDATE vip_lookup SET dcodes = x'00000000ffff'", "power of two"},
		{"UPDATE vip_lookup SET dcodes = x'0000ffff', pins = x''", "Dcode names"},
		{"UPDATE vip_lookup SET pins = CAST(zeroblob(31) || x'01' AS BLOB)",
		 "impossible bytes"},
		{"UPDATE vip_lookup SET pin_n_a = -1", "column pin_n_a"},
		{"UPDATE dip SET weight = 65536", "column weight"},
		{"UPDATE dip SET mac = '01:00:00:00:00:00'", "column mac"},
		{"UPDATE dip SET address = 'x'", "column address"},
		{"UPDATE dip SET admin_state = 'idle'", "column admin_state"},
		{"UPDATE dip SET id = '-' || uid", "bad id"},
		{"UPDATE dip SET vip_uid = 77777 WHERE uid = (SELECT min(uid) FROM dip)",
		 "without its VIP"},
		{"UPDATE dip SET vip_uid = 'x' WHERE uid = (SELECT min(uid) FROM dip)", ""},
		{"DROP TABLE dip", "no such table: dip"},
		{"ALTER TABLE vip DROP COLUMN idle_udp_s", "idle_udp_s"},
	};
	struct model m = model_make_stored();
	size_t size;
	void *good = read_file(&size);
	char text[300];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct store *s = NULL;
		struct persist_state state;
		struct error err = {""};
		int rc;

		write_file(good, size);
		sqlite3 *db;
		snprintf(text, sizeof(text), "PRAGMA ignore_check_constraints = ON; %s",
			 cases[i].sql);
		db = shell_open();
		rc = sqlite3_exec(db, text, NULL, NULL, NULL);
		sqlite3_close(db);
		if (rc != SQLITE_OK) {
			ck_assert_msg(!cases[i].word[0], "%s", cases[i].sql);
			continue; /* STRICT refuses it already */
		}
		rc = store_open(model_path, &s, &err);
		if (rc == 0)
			rc = store_load(s, &state, &err);
		ck_assert_msg(rc == -EINVAL, "%s: %d %s", cases[i].sql, rc, err.message);
		ck_assert_msg(strstr(err.message, cases[i].word) && strstr(err.message, model_path),
			      "%s: %s", cases[i].sql, err.message);
		store_close(s);
	}
	write_file(good, size);
	ck_assert(model_is_stored(&m));
	free(good);
	model_free(&m);
}
END_TEST

/* Cut short or with bytes overwritten anywhere: an error, or all VIPs; never an empty start, never
 * a crash. */
START_TEST(test_random_damage)
{
	struct model m = model_make_stored();
	size_t size, n_refused = 0;
	uint8_t *good = read_file(&size);
	uint8_t *bad = malloc(size);
	unsigned n_vips = 0;

	for (unsigned i = 0; i < MODEL_VIPS; i++)
		n_vips += m.used[i];
	for (int i = 0; i < 300; i++) {
		struct store *s = NULL;
		struct persist_state state;
		struct error err = {""};
		size_t cut = model_random(4) ? size : 1 + model_random((unsigned)size - 1);
		int rc;

		memcpy(bad, good, size);
		for (unsigned k = model_random(20) + (cut == size); k > 0; k--)
			bad[model_random(2) ? model_random((unsigned)cut)
					    : model_random(200) % cut] = (uint8_t)rand();
		model_remove();
		write_file(bad, cut);
		rc = store_open(model_path, &s, &err);
		if (rc == 0) {
			rc = store_load(s, &state, &err);
			if (rc == 0) {
				ck_assert_msg(state.n_vips == n_vips, "seed %u, round %d: %u VIPs",
					      model_seed, i, state.n_vips);
				persist_state_free(&state);
			}
		}
		if (rc < 0) {
			ck_assert_msg(strstr(err.message, model_path) != NULL, "%d %s", rc,
				      err.message);
			n_refused++;
		}
		store_close(s);
	}
	ck_assert_uint_gt(n_refused, 100);
	free(good);
	free(bad);
	model_free(&m);
}
END_TEST

/* The file system is read-only: what is there is read, nothing is written, and when it is writable
 * again the same store writes. Returns the line that failed, or 0; with NULL the last one that did.
 */
static int read_only_line(const struct persist_txn *txn)
{
	static int line;
	struct persist_state state;
	struct error err = {""};
	struct store *s;

	if (!txn)
		return line;
	line = __LINE__;
	if (store_open(model_path, &s, &err) != 0 || store_load(s, &state, &err) != 0)
		return line;
	line = __LINE__;
	if (state.generation != txn->generation || state.n_vips == 0)
		return line;
	persist_state_free(&state);
	line = __LINE__;
	for (int i = 0; i < 3; i++)
		if (model_commit(s, txn, &err) != -EROFS)
			return line;
	line = __LINE__;
	if (mount(NULL, model_dir, NULL, MS_REMOUNT, NULL) != 0)
		return line;
	line = __LINE__;
	if (model_commit(s, txn, &err) != 1)
		return line;
	store_close(s);
	return 0;
}

/* In a mount namespace of its own: a file system that is full, then one that is read-only. Returns
 * the line that failed, or 0. */
static int small_disk_child(void)
{
	struct model m = model_new();
	struct error err = {""};
	struct store *s;
	struct persist_vip big;
	struct change c;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", model_dir, "tmpfs", 0, "size=2m") != 0)
		return __LINE__;
	if (store_open(model_path, &s, &err) != 0)
		return __LINE__;
	do
		model_step(&m, &c);
	while (!c.txn.n_put || !c.put[0]->n_pins);
	c.txn.n_delete = 0;
	struct persist_txn small = c.txn;
	big = *c.put[0];
	big.pins = calloc(200000, sizeof(big.pins[0]));
	big.n_pins = 200000;
	for (uint32_t i = 0; i < big.n_pins; i++)
		big.pins[i].dip = c.put[0]->pins[0].dip;
	const struct persist_vip *put = &big;
	c.txn.put = &put;
	c.txn.n_put = 1;
	if (model_commit(s, &c.txn, &err) != -ENOSPC || !strstr(err.message, "full"))
		return __LINE__;
	if (model_commit(s, &small, &err) != 1)
		return __LINE__;
	store_close(s);
	if (mount(NULL, model_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
		return __LINE__;
	if (read_only_line(&small))
		return read_only_line(NULL);
	/* again, with a log that a killed process left */
	pid_t pid = fork();
	if (pid == 0)
		_exit(store_open(model_path, &s, &err) || model_commit(s, &small, &err) != 1);
	int status;
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return __LINE__;
	if (mount(NULL, model_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
		return __LINE__;
	if (read_only_line(&small))
		return read_only_line(NULL);
	if (mount(NULL, model_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
		return __LINE__;
	unlink(model_path);
	snprintf(model_path, sizeof(model_path), "%s/new.db", model_dir);
	if (store_open(model_path, &s, &err) != -EROFS)
		return __LINE__;
	return 0;
}

START_TEST(test_full_and_read_only_disk)
{
	int status;
	pid_t pid = fork();

	model_remove();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) != 0)
			_exit(errno == EPERM ? 255 : 254);
		{
			int line = small_disk_child();
			if (line)
				fprintf(stderr, "line %d\n", line);
			_exit(line ? 1 : 0);
		}
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 255)
		puts("full and read-only disk: skipped (needs root)");
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store_files");
	TCase *tc = tcase_create("store_files");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_new_database);
	tcase_add_test(tc, test_one_process);
	tcase_add_test(tc, test_bad_files);
	tcase_add_test(tc, test_foreign_and_newer);
	tcase_add_test(tc, test_impossible_values);
	tcase_add_test(tc, test_random_damage);
	tcase_add_test(tc, test_full_and_read_only_disk);
	suite_add_tcase(suite, tc);
	return model_run(suite);
}
