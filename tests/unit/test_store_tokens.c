/* Tokens in the database: kept over a reopening, replaced and deleted, and refused where they
 * cannot be. */
#include <check.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>

#include "schema/store_tokens.h"
#include "tests/unit/store_model.h"

static struct store_token tokens[STORE_TOKENS_MAX];

static struct store_token token(unsigned i)
{
	static const char *const roles[] = {"read", "operate", "admin"};
	struct store_token t = {.created_s = 1000 + i, .expires_s = i % 2 ? 5000 + i : 0};

	snprintf(t.id, sizeof(t.id), "t%03u", i);
	snprintf(t.role, sizeof(t.role), "%s", roles[i % 3]);
	memset(t.hash, (int)i, sizeof(t.hash));
	t.hash[31] = (uint8_t)(i >> 8);
	return t;
}

static unsigned load(struct store *s)
{
	struct error err;
	unsigned n = 0;

	ck_assert_msg(store_load_tokens(s, tokens, &n, &err) == 0, "%s", err.message);
	return n;
}

START_TEST(test_life)
{
	struct error err;

	model_remove();
	struct store *s = model_open();
	ck_assert_uint_eq(load(s), 0);
	for (unsigned i = 0; i < 10; i++) {
		struct store_token t = token(i);
		ck_assert_int_eq(store_put_token(s, &t, &err), 0);
	}
	struct store_token other = token(3);
	strcpy(other.role, "admin");
	memset(other.hash, 99, sizeof(other.hash));
	ck_assert_int_eq(store_put_token(s, &other, &err), 0); /* in place of one */
	ck_assert_int_eq(store_delete_token(s, "t005", &err), 0);
	ck_assert_int_eq(store_delete_token(s, "none", &err), 0);
	store_close(s);

	s = model_open();
	ck_assert_uint_eq(load(s), 9);
	for (unsigned i = 0, n = 0; i < 10; i++) {
		struct store_token t = i == 3 ? other : token(i);
		if (i == 5)
			continue;
		ck_assert_mem_eq(&tokens[n++], &t, sizeof(t));
	}
	/* Two with one hash, and what is no token. */
	struct store_token twin = token(50);
	memcpy(twin.hash, other.hash, sizeof(twin.hash));
	ck_assert_int_eq(store_put_token(s, &twin, &err), -EIO);
	struct store_token bad = token(51);
	strcpy(bad.role, "root");
	ck_assert_int_eq(store_put_token(s, &bad, &err), -EIO);
	bad = token(51);
	strcpy(bad.id, "No Id");
	ck_assert_int_eq(store_put_token(s, &bad, &err), -EIO);
	ck_assert_uint_eq(load(s), 9);
	/* The thread that writes may end in between. */
	store_rest(s);
	store_rest(s);
	struct store_token late = token(60);
	ck_assert_int_eq(store_put_token(s, &late, &err), 0);
	ck_assert_uint_eq(load(s), 10);
	store_close(s);
}
END_TEST

static void damage(const char *sql)
{
	sqlite3 *db;

	/* not by the file system of the model, which is the default one here */
	ck_assert_int_eq(sqlite3_open_v2(model_path, &db, SQLITE_OPEN_READWRITE, "unix"),
			 SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

START_TEST(test_damage)
{
	static const char *const faults[] = {
		"PRAGMA ignore_check_constraints = 1; UPDATE token SET role = 'root'",
		"PRAGMA ignore_check_constraints = 1; UPDATE token SET hash = x'00'",
		"UPDATE token SET id = 'No Id'",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
		" INSERT INTO token SELECT 'x' || i, 'read', randomblob(32), 1, 0 FROM n",
	};
	struct store_token t = token(1);
	struct error err;
	unsigned n;

	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		model_remove();
		struct store *s = model_open();
		ck_assert_int_eq(store_put_token(s, &t, &err), 0);
		store_close(s);
		damage(faults[i]);
		/* A CHECK that does not hold is found when the file is opened. */
		if (store_open(model_path, &s, &err) == 0) {
			ck_assert_int_eq(store_load_tokens(s, tokens, &n, &err), -EINVAL);
			store_close(s);
		}
		ck_assert_msg(strstr(err.message, "damaged") != NULL, "%s: %s", faults[i],
			      err.message);
	}
	model_remove();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store_tokens");
	TCase *tc = tcase_create("store_tokens");

	tcase_set_timeout(tc, 100);
	tcase_add_test(tc, test_life);
	tcase_add_test(tc, test_damage);
	suite_add_tcase(suite, tc);
	return model_run(suite);
}
