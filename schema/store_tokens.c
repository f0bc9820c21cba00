/* Tokens of the API: few, and changed seldom, so their statements are prepared each time. */
#include <errno.h>
#include <stdio.h>

#include "schema/store_db.h"
#include "schema/store_tokens.h"

static bool role_known(const char *role)
{
	return !strcmp(role, "read") || !strcmp(role, "operate") || !strcmp(role, "admin");
}

static int read_token(const struct store_db *d, sqlite3_stmt *row, struct store_token *t,
		      struct error *err)
{
	const char *id = (const char *)sqlite3_column_text(row, 0);
	const char *role = (const char *)sqlite3_column_text(row, 1);
	const void *hash = sqlite3_column_blob(row, 2);

	if (!id || !role || !model_id_valid(id) || !role_known(role) ||
	    sqlite3_column_bytes(row, 2) != (int)sizeof(t->hash) || !hash)
		return error_set(err, -EINVAL, "database %s: damaged: token '%s'", d->path,
				 id ? id : "");
	*t = (struct store_token){.created_s = sqlite3_column_int64(row, 3),
				  .expires_s = sqlite3_column_int64(row, 4)};
	snprintf(t->id, sizeof(t->id), "%s", id);
	snprintf(t->role, sizeof(t->role), "%s", role);
	memcpy(t->hash, hash, sizeof(t->hash));
	return 0;
}

int store_load_tokens(struct store *s, struct store_token *out, unsigned *n, struct error *err)
{
	struct store_db *d = store_db_of(s);
	sqlite3_stmt *row = NULL;
	unsigned n_read = 0;
	int rc = 0, step;

	step = sqlite3_prepare_v2(d->db,
				  "SELECT id, role, hash, created_s, expires_s FROM token"
				  " ORDER BY id",
				  -1, &row, NULL);
	if (step != SQLITE_OK)
		return store_db_error(d, step, "read the tokens", err);
	while (!rc && (step = sqlite3_step(row)) == SQLITE_ROW) {
		if (n_read == STORE_TOKENS_MAX)
			rc = error_set(err, -EINVAL, "database %s: damaged: more than %u tokens",
				       d->path, STORE_TOKENS_MAX);
		else
			rc = read_token(d, row, &out[n_read++], err);
	}
	if (!rc && step != SQLITE_DONE)
		rc = store_db_error(d, step, "read the tokens", err);
	sqlite3_finalize(row);
	if (!rc)
		*n = n_read;
	return rc;
}

static int bind_token(sqlite3_stmt *s, const struct store_token *t)
{
	int rc = sqlite3_bind_text(s, 1, t->id, -1, SQLITE_STATIC);

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(s, 2, t->role, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob(s, 3, t->hash, sizeof(t->hash), SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(s, 4, t->created_s);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(s, 5, t->expires_s);
	return rc;
}

/* One statement is a transaction of its own. */
static int run_once(struct store_db *d, const char *sql, const struct store_token *t,
		    const char *id, struct error *err)
{
	sqlite3_stmt *s = NULL;
	int rc = store_db_check_file(d, err);

	if (rc < 0)
		return rc;
	rc = sqlite3_prepare_v2(d->db, sql, -1, &s, NULL);
	if (rc == SQLITE_OK)
		rc = t ? bind_token(s, t) : sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	rc = rc == SQLITE_DONE ? 0 : store_db_error(d, rc, "write a token", err);
	sqlite3_finalize(s);
	return rc == 0 || rc == -ENOSPC || rc == -EROFS ? rc : -EIO;
}

static int put_token(struct store_db *d, const void *arg, struct error *err)
{
	return run_once(
		d,
		"INSERT INTO token (id, role, hash, created_s, expires_s)"
		" VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET role = excluded.role,"
		" hash = excluded.hash, created_s = excluded.created_s,"
		" expires_s = excluded.expires_s",
		arg, NULL, err);
}

static int delete_token(struct store_db *d, const void *arg, struct error *err)
{
	return run_once(d, "DELETE FROM token WHERE id = ?", NULL, arg, err);
}

int store_put_token(struct store *s, const struct store_token *t, struct error *err)
{
	if (!model_id_valid(t->id) || !role_known(t->role))
		return error_set(err, -EIO, "not a token: %s, %s", t->id, t->role);
	return store_run_aside(s, put_token, t, err);
}

int store_delete_token(struct store *s, const char *id, struct error *err)
{
	return store_run_aside(s, delete_token, id, err);
}
