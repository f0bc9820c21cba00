/* Reading the change log at start. Each row is held to what a write made it: a log with a hole, or
 * one that runs ahead of the state that it tells of, is not the one that was written. */
#include <errno.h>
#include <stdio.h>

#include "schema/store_db.h"

static int damaged(const struct store_db *d, uint64_t version, const char *what, struct error *err)
{
	return error_set(err, -EINVAL, "database %s: damaged: version %llu of its change log: %s",
			 d->path, (unsigned long long)version, what);
}

static int load_row(struct store_db *d, sqlite3_stmt *row, struct error *err)
{
	uint64_t version = (uint64_t)sqlite3_column_int64(row, 0);
	int64_t before = sqlite3_column_int64(row, 4), after = sqlite3_column_int64(row, 5);
	int64_t n_edits = sqlite3_column_int64(row, 6);
	struct persist_log_entry e = {.wall_ms = sqlite3_column_int64(row, 1),
				      .action = (const char *)sqlite3_column_text(row, 3),
				      .generation_before = (uint64_t)before,
				      .generation = (uint64_t)after,
				      .n_edits = (unsigned)n_edits,
				      .edits = (const char *)sqlite3_column_text(row, 7)};
	const char *author = (const char *)sqlite3_column_text(row, 2);

	if (!author || !e.action || !e.edits)
		return error_set(err, -ENOMEM, "database %s: no memory", d->path);
	if (before < 0 || after < before || !sqlite3_column_int(row, 8))
		return damaged(d, version, "a generation out of range", err);
	if (n_edits < 1 || n_edits > UINT32_MAX)
		return damaged(d, version, "a number of edits out of range", err);
	snprintf(e.author, sizeof(e.author), "%s", author);
	int rc = history_load(d->history, version, &e);
	if (rc == -EINVAL)
		return damaged(d, version, "the one before it is missing", err);
	return rc ? error_set(err, rc, "database %s: no memory", d->path) : 0;
}

int store_db_load_log(struct store_db *d, struct error *err)
{
	sqlite3_stmt *row = NULL;
	int step = SQLITE_DONE;
	int rc = sqlite3_prepare_v2(d->db,
				    "SELECT version, at_ms, author, action, generation_before,"
				    " generation, n_edits, edits,"
				    " generation <= (SELECT generation FROM state)"
				    " FROM change_log ORDER BY version",
				    -1, &row, NULL);

	rc = rc == SQLITE_OK ? 0 : store_db_error(d, rc, "read the change log", err);
	while (rc == 0 && (step = sqlite3_step(row)) == SQLITE_ROW)
		rc = load_row(d, row, err);
	if (rc == 0 && step != SQLITE_DONE)
		rc = store_db_error(d, step, "read the change log", err);
	sqlite3_finalize(row);
	return rc;
}
