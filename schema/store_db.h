/* The parts of the store that speak SQL. For schema/ alone. */
#pragma once

#include <sqlite3.h>

#include "control/persist.h"

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
	STORE_PRUNE_AGENTS,
	STORE_PUT_AGENT,
	STORE_DELETE_AGENT,
	N_STORE_STATEMENTS,
};

struct store_db {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *statements[N_STORE_STATEMENTS];
	int wal_frames; /* pages in the log since it was last folded into the file */
	bool read_only; /* the file system is: it was read, and nothing can be written now */
};

/** Negative errno of a failed call, and err's message naming the file. rc: SQLite's result code. */
int store_db_error(const struct store_db *d, int rc, const char *doing, struct error *err);

/** See store_open / store_close. */
MUST_CHECK int store_db_open(struct store_db *d, const char *path, struct error *err);
void store_db_close(struct store_db *d);

/** If the file system was read-only when the database was opened: open it anew, now that it may be
 *  writable. 0 (also if it was writable all along), or -EROFS among others, and nothing changed. */
MUST_CHECK int store_db_reopen(struct store_db *d, struct error *err);

/** Prepare the statements. */
MUST_CHECK int store_db_prepare(struct store_db *d, struct error *err);

/** Write one transaction durably, or leave the database as it was. */
MUST_CHECK int store_db_commit(struct store_db *d, const struct persist_txn *txn,
			       struct error *err);

/** Write or delete one agent durably, or leave the database as it was. -ENOENT: its DIP is not there. */
MUST_CHECK int store_db_put_agent(struct store_db *d, const struct persist_agent *a,
				  struct error *err);
MUST_CHECK int store_db_delete_agent(struct store_db *d, const char *id, struct error *err);

/** Fold the log into the file; empty it too if truncate. Best effort: a failure is logged and the log
 *  goes on. */
void store_db_checkpoint(struct store_db *d, bool truncate);

/** See store_load. */
MUST_CHECK int store_db_load(struct store_db *d, struct persist_state *out, struct error *err);
