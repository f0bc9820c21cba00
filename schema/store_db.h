/* The parts of the store that speak SQL. For schema/ alone. */
#pragma once

#include <sqlite3.h>

#include "control/history.h"

/* Prepared statements of the write path. */
enum store_statement {
	STORE_BEGIN,
	STORE_COMMIT,
	STORE_PUT_STATE,
	STORE_DELETE_VIP,
	STORE_PUT_VIP,
	STORE_PUT_LOOKUP,
	STORE_DELETE_DIPS,
	STORE_PUT_DIP,
	STORE_PUT_HEALTH,
	STORE_DELETE_HEALTH,
	STORE_PRUNE_AGENTS,
	STORE_PUT_AGENT,
	STORE_RESTORE_AGENT,
	STORE_DELETE_AGENT,
	STORE_CUT_LOG,
	STORE_PUT_LOG,
	STORE_TRIM_LOG,
	N_STORE_STATEMENTS,
};

#define STORE_STAMP_BYTES 64 /* database id and generation, as text */

struct store;

struct store_db {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *statements[N_STORE_STATEMENTS];
	int wal_frames; /* pages in the log since it was last folded into the file */
	int lock_fd;    /* while path is set; -1: not locked */
	bool read_only; /* it was read, and cannot be written for now; db may be NULL then */
	struct history *history; /* what the change log holds; made by store_db_open */
	char stamp[STORE_STAMP_BYTES]; /* which state was read at the start */
};

/** Negative errno of a failed call, and err's message naming the file. rc: SQLite's result code. */
int store_db_error(const struct store_db *d, int rc, const char *doing, struct error *err);

/** See store_open / store_close. */
MUST_CHECK int store_db_open(struct store_db *d, const char *path, struct error *err);
void store_db_close(struct store_db *d);

/** If the database could not be written when it was opened: connect anew, now that it may be. 0 (also if
 *  it was writable all along), -EROFS (still not), -EIO among others; then the next call tries again. */
MUST_CHECK int store_db_reopen(struct store_db *d, struct error *err);

/** Keep other forwarders from d->path until lock_fd is closed. -EBUSY: one has it. */
MUST_CHECK int store_db_lock(struct store_db *d, struct error *err);

/** True if d->path is still the file that was locked. */
bool store_db_lock_holds(const struct store_db *d);

/** 0, or -EROFS: the file, or the directory that its log lies in, cannot be written; -EIO else. */
MUST_CHECK int store_db_writable(const struct store_db *d, struct error *err);

/** Connect to the file at path, for reading alone if d->read_only, and set SQLite up. d->path is for
 *  messages. On failure d->db may be set, to be closed. */
MUST_CHECK int store_db_connect(struct store_db *d, const char *path, struct error *err);

/** Prepare the statements. */
MUST_CHECK int store_db_prepare(struct store_db *d, struct error *err);

/** Write one transaction durably, or leave the database as it was. */
MUST_CHECK int store_db_commit(struct store_db *d, const struct persist_txn *txn,
			       struct error *err);

/** Write or delete one agent durably, or leave the database as it was. -ENOENT: its DIP is not there. */
MUST_CHECK int store_db_put_agent(struct store_db *d, const struct persist_agent *a,
				  struct error *err);
MUST_CHECK int store_db_delete_agent(struct store_db *d, const char *id, struct error *err);

/** Reopen the database for writing if need be, and see that it still has its name: before any write. 0,
 *  -EROFS, -ENOSPC, -EIO. */
MUST_CHECK int store_db_check_file(struct store_db *d, struct error *err);

/** A write that is no publish: 0 or a negative errno, with err set. */
typedef int (*store_write)(struct store_db *d, const void *arg, struct error *err);

/** Run it on the store's thread, between publishes, and wait for it: its result, or -EIO if there can be no
 *  thread. Thread: any; blocks. */
MUST_CHECK int store_run_aside(struct store *s, store_write write, const void *arg,
			       struct error *err);

/** The database, for the thread that opened it, before the first write. */
struct store_db *store_db_of(struct store *s);

/** There is less room on the disk than twice what the log holds: folding it must not wait. */
bool store_db_short_of_room(const struct store_db *d);

/** Fold the log into the file; empty it too if truncate. Best effort: a failure is logged and the log
 *  goes on. */
void store_db_checkpoint(struct store_db *d, bool truncate);

/** Read the change log into d->history, which is empty. */
MUST_CHECK int store_db_load_log(struct store_db *d, struct error *err);

/** See store_load. */
MUST_CHECK int store_db_load(struct store_db *d, struct persist_state *out, struct error *err);
