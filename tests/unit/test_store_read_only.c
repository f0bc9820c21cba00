/* A database that cannot be written: it is read with its log, refuses changes, keeps other
 * processes away, and writes again when it can; what cannot be read for sure is refused. On a file
 * system of the test's own, which needs root. */
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

static bool disk_mount(void)
{
	if (unshare(CLONE_NEWNS) != 0) {
		puts("skipped (needs root)");
		return false;
	}
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("tmpfs", model_dir, "tmpfs", 0, "size=16m"), 0);
	return true;
}

static void disk_unmount(void)
{
	ck_assert_int_eq(umount2(model_dir, MNT_DETACH), 0);
}

static void disk_read_only(bool on)
{
	ck_assert_int_eq(mount(NULL, model_dir, NULL, MS_REMOUNT | (on ? MS_RDONLY : 0), NULL), 0);
}

static int child_end(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Another process commits, and is killed before it folds the log into the file. */
static void commit_and_die(const struct persist_txn *txn)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct error err;
		struct store *s;
		_exit(store_open(model_path, &s, &err) || model_commit(s, txn, &err) != 1);
	}
	ck_assert_int_eq(child_end(pid), 0);
}

static void check_refused(int code, const char *word)
{
	struct store *s = NULL;
	struct error err = {""};
	int rc = store_open(model_path, &s, &err);

	ck_assert_msg(rc == code, "open gave %d, not %d (%s)", rc, code, err.message);
	ck_assert_msg(strstr(err.message, word) && strstr(err.message, model_path), "message: %s",
		      err.message);
}

static void check_other_process_refused(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct error err = {""};
		struct store *s;
		int rc = store_open(model_path, &s, &err);
		_exit(rc == -EBUSY && strstr(err.message, "in use by another process") ? 0 : 1);
	}
	ck_assert_int_eq(child_end(pid), 0);
}

/* What the sqlite3 shell gets; from another process, as POSIX locks are per process. */
static int shell(const char *sql, bool dies)
{
	pid_t pid = fork();

	if (pid == 0) {
		sqlite3 *db;
		int rc = sqlite3_open_v2(model_path, &db, SQLITE_OPEN_READWRITE, "unix");
		if (rc == SQLITE_OK)
			rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
		if (!dies)
			sqlite3_close(db);
		_exit(rc);
	}
	return child_end(pid);
}

static void check_commit(struct store *s, const struct persist_txn *txn, int code, const char *word)
{
	struct error err = {""};
	int rc = model_commit(s, txn, &err);

	ck_assert_msg(rc == code, "commit gave %d, not %d (%s)", rc, code, err.message);
	ck_assert_msg(strstr(err.message, word) != NULL, "message: %s", err.message);
}

/* with_log: the last changes are in a log that a killed process left. */
static void check_read_then_written(bool with_log)
{
	struct model m = model_make_stored();
	struct persist_agent agent = {.id = "a", .vip_uid = 1, .dip_uid = 1};
	struct change c;
	struct error err;

	for (int i = 0; i < 5; i++) {
		model_step(&m, &c);
		commit_and_die(&c.txn);
	}
	if (!with_log)
		store_close(model_open());
	char name[80];
	snprintf(name, sizeof(name), "%s-wal", model_path);
	ck_assert_int_eq(access(name, F_OK), with_log ? 0 : -1);
	disk_read_only(true);
	ck_assert(model_is_stored(&m));

	struct store *s = model_open();
	struct persist p = store_persist(s);
	struct persist_state state;
	model_load(s, &state);
	persist_state_free(&state);
	check_other_process_refused();
	model_step(&m, &c);
	for (int i = 0; i < 3; i++)
		check_commit(s, &c.txn, -EROFS, "cannot be written");
	ck_assert_int_eq(p.put_agent(p.ctx, &agent, &err), -EROFS);
	ck_assert_int_eq(p.delete_agent(p.ctx, "a", &err), -EROFS);

	disk_read_only(false);
	check_other_process_refused();
	model_commit_ok(s, &c.txn);
	check_other_process_refused();
	ck_assert_int_eq(shell("UPDATE state SET generation = 0", false), SQLITE_BUSY);
	model_step(&m, &c);
	model_commit_ok(s, &c.txn);
	store_close(s);
	ck_assert(model_is_stored(&m));
	model_free(&m);
	model_remove();
}

START_TEST(test_read_then_written)
{
	if (!disk_mount())
		return;
	check_read_then_written(false);
	check_read_then_written(true);
	disk_unmount();
}
END_TEST

/* Only the directory is read-only, so that no log can be made beside a file that could be written.
 */
START_TEST(test_read_only_directory)
{
	if (!disk_mount())
		return;
	struct model m = model_make_stored();
	struct change c;
	ck_assert_int_eq(mount(model_path, model_path, NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(mount(NULL, model_dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
	ck_assert_int_eq(access(model_path, W_OK), 0);
	ck_assert(model_is_stored(&m));
	struct store *s = model_open();
	model_step(&m, &c);
	check_commit(s, &c.txn, -EROFS, "cannot be written");
	ck_assert_int_eq(mount(NULL, model_dir, NULL, MS_REMOUNT | MS_BIND, NULL), 0);
	model_commit_ok(s, &c.txn);
	store_close(s);
	ck_assert_int_eq(umount2(model_path, MNT_DETACH), 0);
	ck_assert(model_is_stored(&m));
	model_free(&m);
	disk_unmount();
}
END_TEST

/* One process writes, another one sees the same file through a read-only mount. */
START_TEST(test_writer_elsewhere)
{
	char good[sizeof(model_path)], view[64];

	if (!disk_mount())
		return;
	struct model m = model_make_stored();
	struct store *s = model_open();
	memcpy(good, model_path, sizeof(good));
	snprintf(view, sizeof(view), "%s/view", model_dir);
	ck_assert_int_eq(mkdir(view, 0700), 0);
	ck_assert_int_eq(mount(model_dir, view, NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(mount(NULL, view, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
	snprintf(model_path, sizeof(model_path), "%s%s", view, strrchr(good, '/'));
	check_other_process_refused();
	store_close(s);
	ck_assert(model_is_stored(&m));
	memcpy(model_path, good, sizeof(good));
	model_free(&m);
	disk_unmount();
}
END_TEST

/* What was read must be what is there when writing becomes possible. */
START_TEST(test_changed_meanwhile)
{
	char aside[80];

	if (!disk_mount())
		return;
	struct model m = model_make_stored();
	struct change c;
	struct store *s;
	snprintf(aside, sizeof(aside), "%s.aside", model_path);
	model_step(&m, &c);

	disk_read_only(true);
	s = model_open();
	disk_read_only(false);
	ck_assert_int_eq(rename(model_path, aside), 0);
	check_commit(s, &c.txn, -EIO, "");
	store_close(model_open()); /* another one, of that name */
	check_commit(s, &c.txn, -EIO, "moved or replaced");
	ck_assert_int_eq(rename(aside, model_path), 0);
	ck_assert_int_eq(shell("UPDATE state SET generation = generation + 1", false), SQLITE_OK);
	for (int i = 0; i < 2; i++)
		check_commit(s, &c.txn, -EIO, "changed by others");
	ck_assert_int_eq(shell("UPDATE state SET generation = generation - 1", false), SQLITE_OK);
	model_commit_ok(s, &c.txn);
	store_close(s);
	ck_assert(model_is_stored(&m));
	model_free(&m);
	disk_unmount();
}
END_TEST

static void damage_first_page(void)
{
	FILE *f = fopen(model_path, "r+b");

	ck_assert(f && fseek(f, 100, SEEK_SET) == 0);
	for (int i = 0; i < 100; i++)
		fputc(0x5a, f);
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(test_refused)
{
	char name[80];

	if (!disk_mount())
		return;
	struct model m = model_make_stored();
	ck_assert_int_eq(shell("PRAGMA user_version = 1", false), SQLITE_OK);
	disk_read_only(true);
	check_refused(-EROFS, "of schema 1, and cannot be upgraded");
	disk_read_only(false);

	/* A transaction of another program that was killed amidst it. */
	snprintf(name, sizeof(name), "PRAGMA user_version = %d", SCHEMA_VERSION);
	ck_assert_int_eq(shell(name, false), SQLITE_OK);
	ck_assert_int_eq(shell("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN;"
			       "UPDATE vip_lookup SET pins = zeroblob(320000);"
			       "UPDATE vip_lookup SET pins = zeroblob(640000)",
			       true),
			 SQLITE_OK);
	snprintf(name, sizeof(name), "%s-journal", model_path);
	ck_assert_int_eq(access(name, F_OK), 0);
	disk_read_only(true);
	check_refused(-EROFS, "-journal must be written back");
	disk_read_only(false);
	ck_assert(model_is_stored(&m));

	damage_first_page();
	disk_read_only(true);
	check_refused(-EINVAL, "damaged");
	disk_read_only(false);
	model_remove();
	disk_read_only(true);
	check_refused(-EROFS, "Read-only file system");
	model_free(&m);
	disk_unmount();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store_read_only");
	TCase *tc = tcase_create("store_read_only");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_read_then_written);
	tcase_add_test(tc, test_read_only_directory);
	tcase_add_test(tc, test_writer_elsewhere);
	tcase_add_test(tc, test_changed_meanwhile);
	tcase_add_test(tc, test_refused);
	suite_add_tcase(suite, tc);
	return model_run(suite);
}
