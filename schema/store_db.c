/* Opening the database: never an empty configuration by accident.
 *
 * A database is made aside, as FILE.new, and linked to its name when it is complete and durable; so
 * a file that bears the name is either whole or damaged, and an empty one is damage too. A stale
 * log without its file means that somebody moved the file away: SQLite would replay that log into
 * the new one, so this is refused as well. Nothing is written to a file before it has shown that it
 * is sound, ours, and of a schema that we know.
 *
 * SQLite's lock is held for as long as the file is open (locking_mode EXCLUSIVE), so that the log's
 * index needs no shared memory. Who cannot write reads: see store_connect.c. The pages are 16 KiB
 * because almost every byte written is in a large BLOB: 200,000 pins commit in 12 ms, with 4 KiB
 * pages in 17. secure_delete, which Debian turns on, would write every freed page of an old BLOB
 * once more. */
#include "schema/store_db.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/entropy.h"
#include "base/log.h"
#include "schema/migrations.h"

#define PAGE_SIZE_TEXT "16384"
#define PAGE_SIZE 16384u
#define APPLICATION_ID 0x436f6e63 /* "Conc" */

static int error_code(sqlite3 *db, int rc)
{
	int primary = rc & 0xff;
	int sys = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN ? sqlite3_system_errno(db)
									: 0;

	if (primary == SQLITE_FULL || sys == ENOSPC || sys == EDQUOT)
		return -ENOSPC;
	if (primary == SQLITE_READONLY || sys == EROFS)
		return -EROFS;
	if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED)
		return -EBUSY;
	if (primary == SQLITE_NOMEM)
		return -ENOMEM;
	if (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)
		return -EIO;
	return -EINVAL;
}

int store_db_error(const struct store_db *d, int rc, const char *doing, struct error *err)
{
	int code = error_code(d->db, rc);

	if (rc == SQLITE_READONLY_ROLLBACK)
		return error_set(err, code,
				 "database %s: its -journal must be written back first, and it "
				 "cannot be written",
				 d->path);
	if (code == -EBUSY)
		return error_set(err, code, "database %s: in use by another process", d->path);
	if ((rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB)
		return error_set(err, code, "database %s: damaged: %s", d->path,
				 sqlite3_errmsg(d->db));
	if (code == -EIO && sqlite3_system_errno(d->db))
		return error_set(err, code, "database %s: cannot %s: %s (%s)", d->path, doing,
				 sqlite3_errmsg(d->db), strerror(sqlite3_system_errno(d->db)));
	return error_set(err, code, "database %s: cannot %s: %s", d->path, doing,
			 sqlite3_errmsg(d->db));
}

static int exec(const struct store_db *d, const char *sql, const char *doing, struct error *err)
{
	int rc = sqlite3_exec(d->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : store_db_error(d, rc, doing, err);
}

/* First column of the first row as text ("" if there is no row) and, if wanted, as a number. */
static int query(const struct store_db *d, const char *sql, char *text, size_t size,
		 struct error *err)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(d->db, sql, -1, &s, NULL);

	text[0] = '\0';
	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	if (rc == SQLITE_ROW)
		snprintf(text, size, "%s", (const char *)sqlite3_column_text(s, 0));
	else if (rc != SQLITE_DONE)
		rc = store_db_error(d, rc, "read it", err);
	sqlite3_finalize(s);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rc;
}

static int query_number(const struct store_db *d, const char *sql, long *number, struct error *err)
{
	char text[32];
	int rc = query(d, sql, text, sizeof(text), err);

	if (rc == 0)
		*number = strtol(text, NULL, 10);
	return rc;
}

/* --- making and upgrading ------------------------------------------------ */

static int insert_state(const struct store_db *d, struct error *err)
{
	static const uint16_t one = 1;
	uint8_t id[16];
	sqlite3_stmt *s = NULL;
	int rc;

	entropy_fill(id, sizeof(id));
	rc = sqlite3_prepare_v2(d->db, "INSERT INTO state VALUES (1, ?, ?, 0, 1, 1)", -1, &s, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob(s, 1, id, sizeof(id), SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(s, 2, *(const uint8_t *)&one ? "little" : "big", -1,
				       SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	rc = rc == SQLITE_DONE ? 0 : store_db_error(d, rc, "write its first row", err);
	sqlite3_finalize(s);
	return rc;
}

/* From schema `from` to ours in one transaction. */
static int migrate(const struct store_db *d, long from, struct error *err)
{
	char sql[96];
	int rc = exec(d, "BEGIN IMMEDIATE", "upgrade it", err);

	for (long v = from; v < SCHEMA_VERSION && rc == 0; v++)
		rc = exec(d, migrations[v], "upgrade its schema", err);
	if (rc == 0 && from == 0)
		rc = insert_state(d, err);
	snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
		 APPLICATION_ID, SCHEMA_VERSION);
	if (rc == 0)
		rc = exec(d, sql, "upgrade it", err);
	if (rc < 0 && !sqlite3_get_autocommit(d->db))
		sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

static int make_aside(const char *path, const char *aside, struct error *err)
{
	struct store_db d = {.path = (char *)path};
	int fd, rc;

	if (unlink(aside) != 0 && errno != ENOENT)
		return error_set(err, -errno, "database %s: %s", aside, strerror(errno));
	/* It holds secret seeds and clients' addresses. */
	fd = open(aside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(err, -errno, "database %s: cannot make it: %s%s", path,
				 strerror(errno),
				 errno == ENOENT ? " (its directory must be there)" : "");
	close(fd);
	rc = store_db_connect(&d, aside, err);
	if (rc == 0)
		rc = exec(&d, "PRAGMA page_size = " PAGE_SIZE_TEXT, "make it", err);
	if (rc == 0)
		rc = migrate(&d, 0, err);
	sqlite3_close(d.db);
	return rc;
}

static int sync_directory(const char *path, struct error *err)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int rc = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;

	if (fd >= 0)
		close(fd);
	free(copy);
	return rc == 0 ? 0
		       : error_set(err, rc, "database %s: cannot sync its directory: %s", path,
				   strerror(-rc));
}

static int make_database(const char *path, struct error *err)
{
	static const char *const leftovers[] = {"-wal", "-journal"};
	char name[4096];
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(leftovers); i++) {
		snprintf(name, sizeof(name), "%s%s", path, leftovers[i]);
		if (access(name, F_OK) == 0)
			return error_set(
				err, -EINVAL,
				"database %s is missing, but its %s is there: put it back, or "
				"remove that too to start empty",
				path, name);
	}
	snprintf(name, sizeof(name), "%s.new", path);
	rc = make_aside(path, name, err);
	if (rc == 0 && link(name, path) != 0)
		rc = error_set(err, -errno, "database %s: cannot make it: %s", path,
			       strerror(errno));
	unlink(name);
	if (rc == 0)
		rc = sync_directory(path, err);
	if (rc == 0)
		log_info("store", "%s made", path);
	return rc;
}

/* --- checking ------------------------------------------------------------ */

static int check_identity(const struct store_db *d, long *schema, struct error *err)
{
	long application = 0;
	int rc = query_number(d, "PRAGMA application_id", &application, err);

	if (rc == 0)
		rc = query_number(d, "PRAGMA user_version", schema, err);
	if (rc < 0)
		return rc;
	if (application != APPLICATION_ID || *schema < 1)
		return error_set(err, -EINVAL, "database %s: a SQLite file, but not Concury's",
				 d->path);
	if (*schema > SCHEMA_VERSION)
		return error_set(
			err, -EINVAL,
			"database %s: of schema %ld, newer than this program's (%d): run the "
			"newer concuryd, or restore a backup",
			d->path, *schema, SCHEMA_VERSION);
	return 0;
}

static int check_sound(const struct store_db *d, struct error *err)
{
	char text[160];
	int rc = query(d, "PRAGMA integrity_check(1)", text, sizeof(text), err);

	if (rc == 0 && strcmp(text, "ok") != 0)
		return error_set(err, -EINVAL, "database %s: damaged: %s", d->path, text);
	if (rc == 0)
		rc = query(d, "PRAGMA foreign_key_check", text, sizeof(text), err);
	if (rc == 0 && text[0])
		return error_set(err, -EINVAL, "database %s: damaged: a row of %s without its VIP",
				 d->path, text);
	return rc;
}

/* The file is there: say what is wrong before SQLite makes something of it. */
static int check_file(const char *path, struct error *err)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return errno == ENOENT
			       ? make_database(path, err)
			       : error_set(err, -errno, "database %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "database %s: not a regular file", path);
	if (st.st_size == 0)
		return error_set(
			err, -EINVAL,
			"database %s: damaged: the file is empty; restore it from a backup, "
			"or remove it to start without configuration",
			path);
	return 0;
}

static int count_frames(void *db, sqlite3 *sqlite, const char *name, int n_frames)
{
	(void)sqlite;
	(void)name;
	((struct store_db *)db)->wal_frames = n_frames;
	return SQLITE_OK;
}

/* What is sound becomes ours: the log mode, and the newest schema. */
static int prepare_file(struct store_db *d, long schema, struct error *err)
{
	char mode[16];
	int rc;

	if (d->read_only)
		return schema == SCHEMA_VERSION
			       ? 0
			       : error_set(err, -EROFS,
					   "database %s: of schema %ld, and cannot be upgraded: "
					   "it cannot be written",
					   d->path, schema);
	rc = query(d, "PRAGMA journal_mode = WAL", mode, sizeof(mode), err);
	if (rc == 0 && strcmp(mode, "wal") != 0)
		rc = error_set(err, -EIO, "database %s: no write-ahead log here (mode %s)", d->path,
			       mode);
	if (rc == 0)
		rc = exec(d, "PRAGMA journal_size_limit = 67108864", "set it up", err);
	if (rc == 0 && schema < SCHEMA_VERSION) {
		rc = migrate(d, schema, err);
		if (rc == 0)
			log_info("store", "%s upgraded from schema %ld to %d", d->path, schema,
				 SCHEMA_VERSION);
	}
	return rc;
}

static void disconnect(struct store_db *d)
{
	for (unsigned i = 0; i < N_STORE_STATEMENTS; i++)
		sqlite3_finalize(d->statements[i]);
	memset(d->statements, 0, sizeof(d->statements));
	sqlite3_close(d->db); /* folds the log into the file */
	d->db = NULL;
	d->wal_frames = 0;
}

/* Connect, check and make ready. What is read as a whole later is told by its stamp. */
static int open_as(struct store_db *d, bool read_only, char *stamp, struct error *err)
{
	long schema = 0;
	int rc;

	d->read_only = read_only;
	rc = store_db_connect(d, d->path, err);
	if (rc == 0)
		rc = check_identity(d, &schema, err);
	if (rc == 0)
		rc = check_sound(d, err);
	if (rc == 0)
		rc = prepare_file(d, schema, err);
	if (rc == 0)
		rc = exec(d, "PRAGMA foreign_keys = ON", "set it up", err);
	if (rc == 0)
		rc = query(d, "SELECT hex(database_id) || ' ' || generation FROM state", stamp,
			   STORE_STAMP_BYTES, err);
	if (rc == 0)
		rc = store_db_prepare(d, err);
	if (rc < 0)
		disconnect(d);
	else /* Ours in place of SQLite's, which would checkpoint within a commit. */
		sqlite3_wal_hook(d->db, count_frames, d);
	return rc;
}

/* To write if possible, or else to read. */
static int open_either(struct store_db *d, struct error *err)
{
	struct error why = {""};
	int rc = store_db_writable(d, &why);

	if (rc == 0)
		rc = open_as(d, false, d->stamp, &why);
	if (rc == -EROFS || rc == -ENOSPC || rc == -EIO) {
		rc = open_as(d, true, d->stamp, err);
		if (rc == 0)
			log_warning("store", "reading only, changes are refused for now: %s",
				    why.message);
	} else if (rc < 0) {
		*err = why;
	}
	return rc;
}

int store_db_open(struct store_db *d, const char *path, struct error *err)
{
	int rc;

	memset(d, 0, sizeof(*d));
	d->lock_fd = -1;
	rc = check_file(path, err);
	if (rc < 0)
		return rc;
	d->path = strdup(path);
	if (!d->path)
		return error_set(err, -ENOMEM, "database %s: no memory", path);
	rc = history_new(&d->history);
	if (rc < 0)
		error_set(err, rc, "database %s: no memory", path);
	if (rc == 0)
		rc = store_db_lock(d, err);
	if (rc == 0)
		rc = open_either(d, err);
	if (rc == 0)
		rc = store_db_load_log(d, err);
	if (rc < 0)
		store_db_close(d);
	return rc;
}

int store_db_reopen(struct store_db *d, struct error *err)
{
	char stamp[STORE_STAMP_BYTES];
	int rc;

	if (!d->read_only)
		return 0;
	rc = store_db_writable(d, err);
	if (rc < 0)
		return rc;
	if (!store_db_lock_holds(d))
		return error_set(err, -EIO,
				 "database %s: moved or replaced while in use: put it back, or "
				 "restart",
				 d->path);
	disconnect(d);
	rc = open_as(d, false, stamp, err);
	if (rc == 0 && strcmp(stamp, d->stamp) != 0) {
		disconnect(d);
		rc = error_set(err, -EIO,
			       "database %s: changed by others since it was read: restart",
			       d->path);
	}
	if (rc < 0)
		d->read_only = true; /* what was read is in use; the next change tries again */
	else
		log_info("store", "%s can be written again", d->path);
	return rc;
}

void store_db_close(struct store_db *d)
{
	if (!d->path)
		return;
	disconnect(d);
	if (d->lock_fd >= 0)
		close(d->lock_fd);
	history_free(d->history);
	free(d->path);
	memset(d, 0, sizeof(*d));
}

bool store_db_short_of_room(const struct store_db *d)
{
	struct statvfs disk;

	return d->wal_frames && statvfs(d->path, &disk) == 0 &&
	       (uint64_t)disk.f_bavail * disk.f_frsize / 2 < (uint64_t)d->wal_frames * PAGE_SIZE;
}

void store_db_checkpoint(struct store_db *d, bool truncate)
{
	static struct log_limit limit = {.interval_ms = 10000, .burst = 1};
	uint64_t suppressed;

	if (d->read_only)
		return;
	int rc = sqlite3_wal_checkpoint_v2(
		d->db, NULL, truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE,
		NULL, NULL);

	if (rc != SQLITE_OK && log_limit_pass(&limit, &suppressed))
		log_warning("store", "%s: cannot fold the log into the file: %s", d->path,
			    sqlite3_errmsg(d->db));
	d->wal_frames = 0;
}
