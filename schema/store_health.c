/* Both ways go through the table of members, so that a new one is a line there and a column here.
 */
#include "schema/store_health.h"

#include <errno.h>
#include <stdio.h>

static int bind_member(sqlite3_stmt *s, int at, const struct health_conf *c,
		       const struct health_member *m)
{
	const char *value = (const char *)c + m->offset;
	uint32_t number = 0;
	bool flag;

	if (m->kind == HEALTH_TEXT)
		return sqlite3_bind_text(s, at, value, -1, SQLITE_STATIC);
	if (m->kind == HEALTH_FLAG) {
		memcpy(&flag, value, sizeof(flag));
		return sqlite3_bind_int(s, at, flag);
	}
	memcpy(&number, value, sizeof(number));
	if (m->kind == HEALTH_WORD)
		return sqlite3_bind_text(s, at, m->words[number], -1, SQLITE_STATIC);
	return sqlite3_bind_int64(s, at, number);
}

int store_health_put(const struct store_db *d, const struct persist_vip *v)
{
	const struct health_conf *c = &v->conf.health;
	sqlite3_stmt *s =
		d->statements[c->type == HEALTH_NONE ? STORE_DELETE_HEALTH : STORE_PUT_HEALTH];
	int rc = sqlite3_bind_int64(s, 1, v->uid);

	for (int i = 0; rc == SQLITE_OK && c->type != HEALTH_NONE && i < N_HEALTH_MEMBERS; i++)
		rc = bind_member(s, i + 2, c, &health_members[i]);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	int reset = sqlite3_reset(s);
	sqlite3_clear_bindings(s);
	return rc == SQLITE_DONE ? reset : rc;
}

/* --- reading -------------------------------------------------------------- */

static bool read_word(const char *text, const char *const *words, uint32_t *value)
{
	for (*value = 0; words[*value]; ++*value)
		if (strcmp(words[*value], text) == 0)
			return true;
	return false;
}

/* What is wrong with a column, or NULL. */
static const char *read_member(sqlite3_stmt *row, int at, const struct health_member *m,
			       struct health_conf *c)
{
	char *to = (char *)c + m->offset;
	const char *text = (const char *)sqlite3_column_text(row, at);
	uint32_t number = 0;

	if (!text)
		return "no value";
	if (m->kind == HEALTH_TEXT) {
		if (strlen(text) != (size_t)sqlite3_column_bytes(row, at) ||
		    strlen(text) >= HEALTH_TEXT_LEN)
			return "a bad text";
		memset(to, 0, HEALTH_TEXT_LEN); /* so that equal ones are equal bytes */
		snprintf(to, HEALTH_TEXT_LEN, "%s", text);
		return NULL;
	}
	if (m->kind == HEALTH_WORD) {
		if (!read_word(text, m->words, &number))
			return "an unknown word";
	} else {
		int64_t value = sqlite3_column_int64(row, at);
		if (value < 0 || value > UINT32_MAX || (m->kind == HEALTH_FLAG && value > 1))
			return "a number out of range";
		number = (uint32_t)value;
	}
	if (m->kind == HEALTH_FLAG) {
		bool flag = number;
		memcpy(to, &flag, sizeof(flag));
	} else {
		memcpy(to, &number, sizeof(number));
	}
	return NULL;
}

static struct persist_vip *find_vip(struct persist_state *s, int64_t uid)
{
	for (unsigned lo = 0, hi = s->n_vips; lo < hi;) {
		unsigned mid = (lo + hi) / 2;
		if (s->vips[mid].uid == uid)
			return &s->vips[mid];
		if (s->vips[mid].uid < uid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static int read_row(const struct store_db *d, sqlite3_stmt *row, struct persist_state *s,
		    struct error *err)
{
	struct persist_vip *v = find_vip(s, sqlite3_column_int64(row, 0));

	if (!v)
		return error_set(err, -EINVAL, "database %s: health checks without a VIP", d->path);
	for (int i = 0; i < N_HEALTH_MEMBERS; i++) {
		const struct health_member *m = &health_members[i];
		const char *fault = read_member(row, i + 1, m, &v->conf.health);
		if (fault)
			return error_set(err, -EINVAL,
					 "database %s: VIP %.63s: health: %s in column %s", d->path,
					 v->conf.id, fault, m->name);
	}
	return 0;
}

int store_health_load(const struct store_db *d, struct persist_state *s, struct error *err)
{
	sqlite3_stmt *row = NULL;
	int step = SQLITE_DONE;
	int rc = sqlite3_prepare_v2(
		d->db, "SELECT vip_uid, " STORE_HEALTH_COLUMNS " FROM vip_health", -1, &row, NULL);

	rc = rc == SQLITE_OK ? 0 : store_db_error(d, rc, "read the health checks", err);
	for (unsigned i = 0; rc == 0 && i < s->n_vips; i++)
		health_conf_defaults(&s->vips[i].conf.health);
	while (rc == 0 && (step = sqlite3_step(row)) == SQLITE_ROW)
		rc = read_row(d, row, s, err);
	if (rc == 0 && step != SQLITE_DONE)
		rc = store_db_error(d, step, "read the health checks", err);
	sqlite3_finalize(row);
	return rc;
}
