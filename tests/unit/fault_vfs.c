#include "tests/unit/fault_vfs.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct fault_file {
	sqlite3_file base;
	sqlite3_file *real; /* follows the struct */
};

static sqlite3_vfs *real_vfs;
static _Atomic int countdown = -1; /* -1: off; 0: fails now */
static _Atomic int fault_rc;
static _Atomic bool fault_sticky;
static _Atomic bool fired;

static int fault(void)
{
	if (countdown < 0)
		return SQLITE_OK;
	if (countdown > 0) {
		countdown--;
		return SQLITE_OK;
	}
	fired = true;
	if (!fault_sticky)
		countdown = -1;
	return fault_rc;
}

static sqlite3_file *real_of(sqlite3_file *f)
{
	return ((struct fault_file *)f)->real;
}

static int file_close(sqlite3_file *f)
{
	return real_of(f)->pMethods->xClose(real_of(f));
}

static int file_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 at)
{
	return real_of(f)->pMethods->xRead(real_of(f), buf, n, at);
}

static int file_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 at)
{
	int rc = fault();

	if (rc != SQLITE_OK) {
		real_of(f)->pMethods->xWrite(real_of(f), buf, n / 2, at);
		return rc;
	}
	return real_of(f)->pMethods->xWrite(real_of(f), buf, n, at);
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	int rc = fault();

	return rc != SQLITE_OK ? rc : real_of(f)->pMethods->xTruncate(real_of(f), size);
}

static int file_sync(sqlite3_file *f, int flags)
{
	int rc = fault();

	return rc != SQLITE_OK ? rc : real_of(f)->pMethods->xSync(real_of(f), flags);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *size)
{
	return real_of(f)->pMethods->xFileSize(real_of(f), size);
}

static int file_lock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int file_unlock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int file_reserved(sqlite3_file *f, int *out)
{
	return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
	return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int file_sector(sqlite3_file *f)
{
	return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int file_traits(sqlite3_file *f)
{
	return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

/* Version 1, without shared memory: the store's exclusive locking must not need it. */
static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_traits,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
	struct fault_file *f = (struct fault_file *)file;
	int rc;

	(void)vfs;
	f->real = (sqlite3_file *)(f + 1);
	f->base.pMethods = NULL;
	rc = real_vfs->xOpen(real_vfs, name, f->real, flags, out);
	if (rc == SQLITE_OK)
		f->base.pMethods = &methods;
	return rc;
}

void fault_vfs_install(void)
{
	static sqlite3_vfs vfs;

	if (real_vfs)
		return;
	real_vfs = sqlite3_vfs_find(NULL);
	if (!real_vfs)
		abort();
	vfs = *real_vfs;
	vfs.zName = "fault";
	vfs.szOsFile = (int)sizeof(struct fault_file) + real_vfs->szOsFile;
	vfs.xOpen = vfs_open;
	if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
		abort();
}

void fault_vfs_arm(int after, int rc, bool sticky)
{
	fired = false;
	fault_rc = rc;
	fault_sticky = sticky;
	countdown = after;
}

bool fault_vfs_disarm(void)
{
	countdown = -1;
	return fired;
}
