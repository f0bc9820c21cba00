/* Connecting to the file: by one process, which need not be able to write.
 *
 * A file that cannot be written (its file system has turned read-only, or its directory, where the
 * log is made) does not keep the forwarder from starting: the file and its log are read, and every
 * change is refused until writing is possible again. SQLite wants to make the log if there is none,
 * unless it is told that nothing can change ("immutable"); but told so, it would also overlook what
 * a killed process left beside the file. So that is said only if nothing is there. A log is read
 * with the locks of SQLite turned off, since it knows write locks alone for a log without shared
 * memory, and those want a writable file. A rollback journal would have to be written back before
 * the file means anything, and is refused.
 *
 * SQLite's locks keep others away while we write; flock(2) on the file, which asks for no right to
 * write, keeps other forwarders away in either case, and stays when we go from one to the other.
 * Closing any descriptor of a file drops the process's POSIX locks on it: the old connection goes
 * before the new one is made, and the descriptor with our lock is closed last. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "schema/store_db.h"

#define BUSY_TIMEOUT_MS 1000 /* a predecessor may be just about to end */
#define LOCK_RETRY_MS 20

int store_db_lock(struct store_db *d, struct error *err)
{
	const struct timespec pause = {.tv_nsec = LOCK_RETRY_MS * 1000000L};
	struct statfs fs;

	d->lock_fd = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (d->lock_fd < 0)
		return error_set(err, -errno, "database %s: %s", d->path, strerror(errno));
	/* NFS makes a POSIX lock of it, which SQLite's own would run into. */
	if (fstatfs(d->lock_fd, &fs) == 0 && fs.f_type == NFS_SUPER_MAGIC)
		return 0;
	for (int ms = 0; flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0; ms += LOCK_RETRY_MS) {
		if (errno != EWOULDBLOCK)
			return 0; /* no such locks here: SQLite's remain */
		if (ms >= BUSY_TIMEOUT_MS)
			return error_set(err, -EBUSY, "database %s: in use by another process",
					 d->path);
		nanosleep(&pause, NULL);
	}
	return 0;
}

bool store_db_lock_holds(const struct store_db *d)
{
	struct stat ours, there;

	return fstat(d->lock_fd, &ours) == 0 && stat(d->path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

int store_db_writable(const struct store_db *d, struct error *err)
{
	char *copy = strdup(d->path);
	int rc = -ENOMEM;

	if (copy)
		rc = faccessat(AT_FDCWD, d->path, W_OK, AT_EACCESS) == 0 &&
				     faccessat(AT_FDCWD, dirname(copy), W_OK, AT_EACCESS) == 0
			     ? 0
			     : -errno;
	free(copy);
	if (rc == -EACCES || rc == -EPERM || rc == -EROFS)
		return error_set(err, -EROFS, "database %s: cannot be written: %s", d->path,
				 strerror(-rc));
	return rc == 0 ? 0 : error_set(err, -EIO, "database %s: %s", d->path, strerror(-rc));
}

static bool is_beside(const char *path, const char *suffix)
{
	char name[4096];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return access(name, F_OK) == 0;
}

static int connect_immutable(sqlite3 **db, const char *path)
{
	char *uri = malloc(strlen(path) * 3 + sizeof("file:?immutable=1"));
	size_t n;
	int rc;

	if (!uri)
		return SQLITE_NOMEM;
	n = (size_t)sprintf(uri, "file:");
	for (const char *p = path; *p; p++)
		n += (size_t)sprintf(uri + n, strchr("%?#", *p) ? "%%%02x" : "%c",
				     (unsigned char)*p);
	sprintf(uri + n, "?immutable=1");
	rc = sqlite3_open_v2(uri, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
			     NULL);
	free(uri);
	return rc;
}

static int open_file(const struct store_db *d, sqlite3 **db, const char *path)
{
	if (!d->read_only)
		return sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (is_beside(path, "-wal") || is_beside(path, "-journal"))
		return sqlite3_open_v2(path, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
				       "unix-none");
	return connect_immutable(db, path);
}

int store_db_connect(struct store_db *d, const char *path, struct error *err)
{
	static const char settings[] =
		"PRAGMA locking_mode = EXCLUSIVE; PRAGMA secure_delete = OFF;"
		"PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;";
	int rc = open_file(d, &d->db, path);

	if (rc != SQLITE_OK)
		return store_db_error(d, rc, "open it", err);
	sqlite3_extended_result_codes(d->db, 1);
	sqlite3_busy_timeout(d->db, BUSY_TIMEOUT_MS);
	if (sqlite3_db_readonly(d->db, "main") && !d->read_only)
		return error_set(err, -EROFS, "database %s: cannot be written", path);
	rc = sqlite3_exec(d->db, settings, NULL, NULL, NULL);
	return rc == SQLITE_OK ? 0 : store_db_error(d, rc, "set it up", err);
}
