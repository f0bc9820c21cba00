/* Who may do what: tokens of the database and of the file, users, certificates, places; against a
 * table of all of them, over all of the API's routes. */
#include <check.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/server/auth.h"
#include "api/server/auth_file.h"
#include "api/server/rate_limit.h"
#include "api/server/router.h"
#include "base/clock.h"
#include "schema/store_tokens.h"
#include "tests/unit/api_fake.h"

#define READ_TOKEN "concury_read-read-read-read"
#define OPERATE_TOKEN "concury_operate-operate-op"
#define ADMIN_TOKEN "concury_admin-admin-admin-a"
#define FILE_TOKEN "from-the-token-file-0123"

static char dir[64];
static char file[96];
static struct api_context api;
static uint64_t now_ms = 1700000000000;

static uint64_t fake_ns(void)
{
	return now_ms * 1000000;
}

static int64_t fake_wall(void)
{
	return (int64_t)(now_ms / 1000);
}

static struct store_token stored(const char *id, const char *role, const char *text,
				 int64_t expires_s)
{
	struct store_token t = {.created_s = 1, .expires_s = expires_s};

	snprintf(t.id, sizeof(t.id), "%s", id);
	snprintf(t.role, sizeof(t.role), "%s", role);
	ck_assert(token_hash(text, t.hash));
	return t;
}

static void write_file(const char *text)
{
	FILE *f = fopen(file, "we");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(file, 0600), 0);
}

/* With the three tokens above if wanted, and the file if there is a text for it. */
static void make_auth(bool tokens, const char *text)
{
	struct store_token list[] = {stored("reader", "read", READ_TOKEN, 0),
				     stored("op", "operate", OPERATE_TOKEN, 0),
				     stored("boss", "admin", ADMIN_TOKEN, 0)};
	struct auth_config c = {.n_tokens = tokens ? 3 : 0,
				.tokens = list,
				.store = api_fake_store,
				.token_file = text ? file : NULL};
	struct error err;

	if (text)
		write_file(text);
	ck_assert_msg(auth_new(&c, &api.auth, &err) == 0, "%s", err.message);
}

static void set_up(void)
{
	clock_set_source(fake_ns, fake_wall);
	memset(&api_fake, 0, sizeof(api_fake));
	api_fake_context(&api);
	snprintf(dir, sizeof(dir), "/tmp/test_auth.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/tokens", dir);
}

static void tear_down(void)
{
	auth_free(api.auth);
	unlink(file);
	rmdir(dir);
	clock_set_source(NULL, NULL);
}

static const struct api_peer far = {.tls = true, .address = {{0x20, 0x01, 0x0d, 0xb8}}};
static const struct api_peer near = {.loopback = true, .address = {{[15] = 1}}};
static const struct api_peer root = {.unix_socket = true, .uid = 0};
static const struct api_peer user = {.unix_socket = true, .uid = 4711};

static struct api_request request(const struct api_peer *peer, const char *authorization)
{
	return (struct api_request){.api = &api,
				    .method = "GET",
				    .target = "/",
				    .peer = peer,
				    .authorization = authorization};
}

/* The highest role that the client has; *author is who it is then. */
static enum api_role role_of(const struct api_peer *peer, const char *authorization,
			     const struct cert_names *cert, char *author)
{
	enum api_role best = ROLE_NONE;

	author[0] = '\0';
	for (unsigned r = ROLE_READ; r <= ROLE_ADMIN; r++) {
		struct api_request req = request(peer, authorization);
		struct api_response resp = {.status = 0};
		req.cert = cert;
		bool may = auth_allow(&req, (enum api_role)r, &resp);
		ck_assert_msg(!may || best == r - 1, "a role without the ones below it");
		if (may) {
			best = (enum api_role)r;
			strcpy(author, req.author);
			ck_assert_uint_eq(resp.status, 0);
		} else {
			ck_assert_uint_eq(resp.status, best ? 403 : 401);
			ck_assert_str_ne(resp.www_authenticate, "");
		}
		json_decref(resp.body);
	}
	return best;
}

static void expect(const struct api_peer *peer, const char *authorization, enum api_role role,
		   const char *author)
{
	char who[ID_LEN];
	enum api_role got = role_of(peer, authorization, NULL, who);

	ck_assert_msg(got == role, "%s: role %d, not %d", authorization, got, role);
	ck_assert_str_eq(who, author);
}

START_TEST(tokens)
{
	static const char *const wrong[] = {
		"Bearer " READ_TOKEN "x",
		"Bearer concury_read-read-read-rea",
		"Bearer",
		"Bearer ",
		"",
		READ_TOKEN,
		"Basic " ADMIN_TOKEN,
		"Bearer x " ADMIN_TOKEN,
		"Bearer " ADMIN_TOKEN " x",
	};

	make_auth(true, NULL);
	expect(&far, "Bearer " READ_TOKEN, ROLE_READ, "reader");
	expect(&far, "bearer   " OPERATE_TOKEN, ROLE_OPERATE, "op");
	expect(&near, "Bearer " ADMIN_TOKEN, ROLE_ADMIN, "boss");
	expect(&root, "Bearer " READ_TOKEN, ROLE_READ, "reader"); /* less than it could be */
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		expect(&root, wrong[i], ROLE_NONE, "");
		expect(&near, wrong[i], ROLE_NONE, "");
		now_ms += 600000; /* so that the limit does not answer */
	}
}
END_TEST

START_TEST(places)
{
	make_auth(false, NULL);
	ck_assert(!auth_asks(api.auth));
	expect(&near, NULL, ROLE_OPERATE, "local");
	expect(&far, NULL, ROLE_NONE, "");
	expect(&root, NULL, ROLE_ADMIN, "uid:0");
	expect(&user, NULL, ROLE_OPERATE, "uid:4711");
	auth_free(api.auth);

	make_auth(true, NULL); /* one token, and places open nothing over TCP */
	ck_assert(auth_asks(api.auth));
	expect(&near, NULL, ROLE_NONE, "");
	expect(&far, NULL, ROLE_NONE, "");
	expect(&root, NULL, ROLE_ADMIN, "uid:0");
	expect(&user, NULL, ROLE_OPERATE, "uid:4711");
	auth_free(api.auth);

	make_auth(false, "# nobody\n"); /* nor with a token file, though it is empty */
	ck_assert(auth_asks(api.auth));
	expect(&near, NULL, ROLE_NONE, "");
}
END_TEST

/* Who lacks a role that only a token of its own gives is told where that comes from. */
START_TEST(the_first_admin_token_is_named)
{
	struct api_request req = request(&near, NULL);
	struct api_response resp = {.status = 0};

	make_auth(false, NULL);
	ck_assert(!auth_allow(&req, ROLE_ADMIN, &resp));
	ck_assert_uint_eq(resp.status, 403);
	const char *detail = json_string_value(json_object_get(resp.body, "detail"));
	ck_assert_ptr_nonnull(detail);
	ck_assert_msg(strstr(detail, "concuryd --init-token") != NULL, "%s", detail);
	json_decref(resp.body);
}
END_TEST

START_TEST(read_only_listeners)
{
	struct api_peer looking = root;

	make_auth(true, NULL);
	looking.read_only = true;
	expect(&looking, NULL, ROLE_READ, "uid:0");
	expect(&looking, "Bearer " ADMIN_TOKEN, ROLE_READ, "boss");
}
END_TEST

START_TEST(certificates)
{
	struct cert_names one = {.n = 2, .list = {"ops.example", "alt.example"}};
	struct cert_names both = {.n = 2, .list = {"alt.example", "boss.example"}};
	struct cert_names other = {.n = 1, .list = {"OPS.example"}};
	char who[ID_LEN];

	make_auth(false, "operate ops cert:ops.example\nread alt cert:alt.example\n"
			 "admin boss cert:boss.example\n");
	ck_assert_int_eq(role_of(&far, NULL, &one, who), ROLE_OPERATE);
	ck_assert_str_eq(who, "ops");
	ck_assert_int_eq(role_of(&far, NULL, &both, who), ROLE_ADMIN);
	ck_assert_str_eq(who, "boss");
	ck_assert_int_eq(role_of(&far, NULL, &other, who), ROLE_NONE);
	/* A token that comes along is what counts. */
	ck_assert_int_eq(role_of(&far, "Bearer 0123456789abcdef", &one, who), ROLE_NONE);
}
END_TEST

START_TEST(expiry)
{
	struct store_token t = stored("short", "read", READ_TOKEN, fake_wall() + 10);
	struct auth_config c = {.n_tokens = 1, .tokens = &t, .store = api_fake_store};
	struct error err;

	ck_assert_int_eq(auth_new(&c, &api.auth, &err), 0);
	now_ms += 9999;
	expect(&near, "Bearer " READ_TOKEN, ROLE_READ, "short");
	now_ms += 1;
	expect(&near, "Bearer " READ_TOKEN, ROLE_NONE, "");
	expect(&near, NULL, ROLE_NONE, ""); /* the place does not open again by itself */
}
END_TEST

static struct auth_pass pass_of(const struct api_peer *peer, const char *authorization,
				const struct cert_names *cert)
{
	struct api_request req = request(peer, authorization);
	struct api_response resp = {.status = 0};
	struct auth_pass p;

	req.cert = cert;
	ck_assert(auth_allow(&req, ROLE_READ, &resp));
	auth_pass_keep(&req, &p);
	return p;
}

/* What let in is looked at again while an answer goes on: each kind of it. */
START_TEST(passes_hold_as_long_as_what_they_prove)
{
	static const char lines[] = "read alt cert:alt.example\nread user uid:4711\n";
	struct cert_names alt = {.n = 1, .list = {"alt.example"}};
	struct error err;

	make_auth(true, lines);
	struct auth_pass by_token = pass_of(&far, "Bearer " READ_TOKEN, NULL);
	struct auth_pass by_cert = pass_of(&far, NULL, &alt);
	struct auth_pass by_uid = pass_of(&user, NULL, NULL);
	memset(&alt, 0, sizeof(alt)); /* it is the request's */
	ck_assert(auth_pass_holds(&by_token) && auth_pass_holds(&by_cert));
	ck_assert_int_eq(auth_delete(api.auth, "reader", &err), 0);
	ck_assert(!auth_pass_holds(&by_token) && auth_pass_holds(&by_cert));
	write_file("read other cert:other.example\n");
	ck_assert_int_eq(auth_reload(api.auth, &err), 0);
	ck_assert(!auth_pass_holds(&by_cert));
	ck_assert(auth_pass_holds(&by_uid)); /* any user that the socket lets in may look on */
}
END_TEST

START_TEST(passes_expire_and_places_close)
{
	struct auth_token t = {.id = "short", .role = ROLE_READ, .expires_s = fake_wall() + 10};
	struct error err;
	bool created;

	make_auth(false, NULL);
	struct auth_pass by_place = pass_of(&near, NULL, NULL);
	ck_assert(auth_pass_holds(&by_place));
	ck_assert(token_hash(READ_TOKEN, t.hash));
	ck_assert_int_eq(auth_put(api.auth, &t, &created, &err), 0);
	ck_assert(!auth_pass_holds(&by_place)); /* from now on it asks for a token */
	struct auth_pass by_token = pass_of(&near, "Bearer " READ_TOKEN, NULL);
	now_ms += 9999;
	ck_assert(auth_pass_holds(&by_token));
	now_ms += 1;
	ck_assert(!auth_pass_holds(&by_token));
}
END_TEST

/* --- the file ------------------------------------------------------------------------------------
 */

START_TEST(file_of_tokens)
{
	uint8_t hash[32];
	char text[512];
	int n;

	ck_assert(token_hash("hashed-token-123456", hash));
	n = snprintf(text, sizeof(text),
		     "# a comment\n\n  \t\nread plain " FILE_TOKEN "\r\n\tadmin\tuser uid:4711 \n"
		     "operate hashed sha256:");
	for (unsigned i = 0; i < 32; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, i % 2 ? "%02X" : "%02x", hash[i]);
	make_auth(false, text); /* no newline at its end */
	expect(&far, "Bearer " FILE_TOKEN, ROLE_READ, "plain");
	expect(&far, "Bearer hashed-token-123456", ROLE_OPERATE, "hashed");
	expect(&far, "Bearer uid:4711", ROLE_NONE, "");
	expect(&user, NULL, ROLE_ADMIN, "uid:4711");
}
END_TEST

static const struct {
	const char *text;
	const char *says;
} bad_files[] = {
	{"root x 0123456789abcdef", "line 1: the first word"},
	{"\n\nread", "line 3: the second word"},
	{"read X 0123456789abcdef", "second word"},
	{"read x", "three words"},
	{"read x 0123456789abcdef y", "three words"},
	{"read x short", "16 to 128"},
	{"read x sha256:00", "64 hex digits"},
	{"read x sha256:zz00000000000000000000000000000000000000000000000000000000000000",
	 "64 hex"},
	{"read x cert:", "needs a name"},
	{"read x uid:", "needs a number"},
	{"read x uid:4294967295", "needs a number"},
	{"read x uid:-1", "needs a number"},
	{"read x 0123456789abcdef\nadmin x 0123456789abcdeg", "line 2: the name is there twice"},
};

START_TEST(bad_files_are_refused_and_change_nothing)
{
	struct auth_config c = {.store = api_fake_store, .token_file = file};
	struct auth *a = NULL;
	struct error err;

	ck_assert_int_eq(auth_new(&c, &a, &err), -ENOENT);
	make_auth(false, "read plain " FILE_TOKEN "\n");
	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		write_file(bad_files[i].text);
		ck_assert_int_eq(auth_reload(api.auth, &err), -EINVAL);
		ck_assert_msg(strstr(err.message, bad_files[i].says) != NULL, "%s: %s",
			      bad_files[i].text, err.message);
		ck_assert_ptr_null(strstr(err.message, "abcdef")); /* no secrets in the log */
		expect(&far, "Bearer " FILE_TOKEN, ROLE_READ, "plain");
	}
	/* A pipe: nobody is waited for. */
	unlink(file);
	ck_assert_int_eq(mkfifo(file, 0600), 0);
	ck_assert_int_eq(auth_reload(api.auth, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.message, "not a regular file"));
	expect(&far, "Bearer " FILE_TOKEN, ROLE_READ, "plain");
	unlink(file);
	write_file("admin plain " FILE_TOKEN "\n");
	chmod(file, 0620);
	ck_assert_int_eq(auth_reload(api.auth, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.message, "others may write"));
	chmod(file, 0600);
	ck_assert_int_eq(auth_reload(api.auth, &err), 0);
	expect(&far, "Bearer " FILE_TOKEN, ROLE_ADMIN, "plain");
	write_file("");
	ck_assert_int_eq(auth_reload(api.auth, &err), 0);
	expect(&far, "Bearer " FILE_TOKEN, ROLE_NONE, "");
}
END_TEST

START_TEST(long_files)
{
	FILE *f = fopen(file, "we");
	struct auth_file *out = malloc(sizeof(*out));
	struct error err;

	for (unsigned i = 0; i < AUTH_FILE_MAX; i++)
		fprintf(f, "read t%u uid:%u\n", i, i);
	fflush(f);
	ck_assert_int_eq(auth_file_read(file, out, &err), 0);
	ck_assert_uint_eq(out->n, AUTH_FILE_MAX);
	fputs("read more uid:1\n", f);
	fflush(f);
	ck_assert_int_eq(auth_file_read(file, out, &err), -EINVAL);
	fclose(f);
	f = fopen(file, "we");
	fprintf(f, "read x %0600d\n", 1);
	fclose(f);
	ck_assert_int_eq(auth_file_read(file, out, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.message, "too long"));
	free(out);
	make_auth(false, NULL);
}
END_TEST

/* What a crash has left of a file's end, or of all of it, is not an empty file. */
START_TEST(zeros_are_no_lines)
{
	static const char zeros[4096], line[] = "read plain " FILE_TOKEN "\n";
	struct error err;

	make_auth(false, line);
	for (unsigned with_line = 0; with_line < 2; with_line++) {
		FILE *f = fopen(file, "we");
		ck_assert_ptr_nonnull(f);
		if (with_line)
			fputs(line, f);
		ck_assert_uint_eq(fwrite(zeros, 1, sizeof(zeros), f), sizeof(zeros));
		fclose(f);
		ck_assert_int_eq(auth_reload(api.auth, &err), -EINVAL);
		ck_assert_msg(strstr(err.message, "NUL") != NULL, "%s", err.message);
		expect(&far, "Bearer " FILE_TOKEN, ROLE_READ, "plain");
	}
}
END_TEST

/* --- changes -------------------------------------------------------------------------------------
 */

static struct auth_token fresh(const char *id, const char *text, enum api_role role)
{
	struct auth_token t = {.role = role};

	snprintf(t.id, sizeof(t.id), "%s", id);
	ck_assert(token_hash(text, t.hash));
	return t;
}

START_TEST(changes_count_at_once)
{
	struct auth_token t = fresh("new", "concury_new-new-new-new", ROLE_OPERATE);
	bool created = false;
	struct error err;
	size_t n;

	make_auth(false, NULL);
	expect(&near, NULL, ROLE_OPERATE, "local");
	api_fake.status = CONTROL_NO_STORAGE;
	ck_assert_int_eq(auth_put(api.auth, &t, &created, &err), -EROFS);
	expect(&near, NULL, ROLE_OPERATE, "local"); /* nothing has changed */
	api_fake.status = CONTROL_OK;
	ck_assert_int_eq(auth_put(api.auth, &t, &created, &err), 0);
	ck_assert(created);
	expect(&near, NULL, ROLE_NONE, "");
	expect(&near, "Bearer concury_new-new-new-new", ROLE_OPERATE, "new");
	t = fresh("new", "concury_other-other-other", ROLE_READ);
	ck_assert_int_eq(auth_put(api.auth, &t, &created, &err), 0);
	ck_assert(!created);
	expect(&near, "Bearer concury_new-new-new-new", ROLE_NONE, "");
	expect(&near, "Bearer concury_other-other-other", ROLE_READ, "new");
	struct auth_token *list = auth_read(api.auth, NULL, &n);
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(list[0].role, ROLE_READ);
	ck_assert_int_eq(list[0].created_s, fake_wall());
	free(list);
	ck_assert_int_eq(auth_delete(api.auth, "other", &err), -ENOENT);
	api_fake.status = CONTROL_NO_STORAGE;
	ck_assert_int_eq(auth_delete(api.auth, "new", &err), -EROFS);
	expect(&near, "Bearer concury_other-other-other", ROLE_READ, "new");
	api_fake.status = CONTROL_OK;
	ck_assert_int_eq(auth_delete(api.auth, "new", &err), 0);
	expect(&near, "Bearer concury_other-other-other", ROLE_NONE, "");
	expect(&near, NULL, ROLE_OPERATE, "local"); /* the last one is gone */
}
END_TEST

START_TEST(file_and_database_keep_apart)
{
	struct auth_token t = fresh("plain", "concury_new-new-new-new", ROLE_ADMIN);
	bool created;
	struct error err;
	size_t n;

	make_auth(true, "read plain " FILE_TOKEN "\n");
	ck_assert_int_eq(auth_may_put(api.auth, "plain", &created, &err), -EEXIST);
	ck_assert_int_eq(auth_may_put(api.auth, "other", &created, &err), 0);
	ck_assert(created);
	ck_assert_int_eq(auth_may_delete(api.auth, "plain", &err), -EEXIST);
	ck_assert_int_eq(auth_may_delete(api.auth, "other", &err), -ENOENT);
	ck_assert_int_eq(auth_put(api.auth, &t, &created, &err), -EEXIST);
	ck_assert_int_eq(auth_delete(api.auth, "plain", &err), -EEXIST);
	struct auth_token *list = auth_read(api.auth, NULL, &n);
	ck_assert_uint_eq(n, 4);
	ck_assert_str_eq(list[0].id, "boss");
	ck_assert_str_eq(list[2].id, "plain");
	ck_assert(list[2].in_file && !list[0].in_file);
	free(list);
	write_file("admin boss 0123456789abcdef\n");
	ck_assert_int_eq(auth_reload(api.auth, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.message, "boss"));
	expect(&far, "Bearer 0123456789abcdef", ROLE_NONE, "");
}
END_TEST

START_TEST(there_is_a_most)
{
	bool created;
	struct error err;
	char id[16];

	make_auth(false, NULL);
	for (unsigned i = 0; i < AUTH_TOKENS_MAX; i++) {
		snprintf(id, sizeof(id), "t%u", i);
		struct auth_token t = fresh(id, id, ROLE_READ);
		ck_assert_int_eq(auth_put(api.auth, &t, &created, &err), 0);
	}
	struct auth_token more = fresh("more", "more", ROLE_READ);
	ck_assert_int_eq(auth_put(api.auth, &more, &created, &err), -E2BIG);
	more = fresh("t7", "more", ROLE_ADMIN); /* in place of one */
	ck_assert_int_eq(auth_put(api.auth, &more, &created, &err), 0);
}
END_TEST

/* --- failures ------------------------------------------------------------------------------------
 */

static unsigned status_of(const struct api_peer *peer, const char *authorization)
{
	struct api_request req = request(peer, authorization);
	struct api_response resp = {.status = 0};
	bool may = auth_allow(&req, ROLE_READ, &resp);

	ck_assert(may == (resp.status == 0));
	ck_assert((resp.status == 429) == (resp.retry_after_s > 0));
	json_decref(resp.body);
	return resp.status;
}

START_TEST(who_guesses_is_shut_out)
{
	struct api_peer neighbour = far, elsewhere = far;

	make_auth(true, NULL);
	neighbour.address.b[15] = 9; /* the same /64 */
	elsewhere.address.b[7] = 9;
	for (unsigned i = 0; i < 100; i++)
		ck_assert_uint_eq(status_of(&far, NULL), 401); /* not a guess */
	for (unsigned i = 0; i < RATE_BURST; i++)
		ck_assert_uint_eq(status_of(&far, "Bearer guess-guess-guess"), 401);
	ck_assert_uint_eq(status_of(&far, "Bearer " ADMIN_TOKEN), 429);
	ck_assert_uint_eq(status_of(&neighbour, "Bearer " ADMIN_TOKEN), 429);
	ck_assert_uint_eq(status_of(&elsewhere, "Bearer " ADMIN_TOKEN), 0);
	now_ms += RATE_MS;
	ck_assert_uint_eq(status_of(&far, "Bearer " ADMIN_TOKEN), 0);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_uint_eq(status_of(&root, "Bearer guess-guess-guess"), 401);
}
END_TEST

/* --- all routes ----------------------------------------------------------------------------------
 */

static void fill_path(const char *pattern, char *path)
{
	while (*pattern) {
		if (*pattern == '{') {
			path = stpcpy(path, "x");
			pattern = strchr(pattern, '}') + 1;
		} else {
			*path++ = *pattern++;
		}
	}
	*path = '\0';
}

static unsigned ask(const struct route *r, const struct api_peer *peer, const char *authorization)
{
	char path[128];
	struct api_request req = request(peer, authorization);
	struct api_response resp = {.status = 0};

	fill_path(r->path, path);
	req.method = r->method;
	req.target = path;
	router_dispatch(api_routes, api_n_routes, &req, &resp);
	if (resp.stream.read)
		resp.stream.close(resp.stream.state);
	json_decref(resp.body);
	free(resp.text);
	return resp.status;
}

START_TEST(every_route_wants_its_role)
{
	static const char *const given[] = {NULL, "Bearer " READ_TOKEN, "Bearer " OPERATE_TOKEN,
					    "Bearer " ADMIN_TOKEN};
	struct api_peer looking = far;

	make_auth(true, NULL);
	looking.read_only = true;
	for (size_t i = 0; i < api_n_routes; i++) {
		const struct route *r = &api_routes[i];
		bool get = !strcmp(r->method, "GET");
		/* Nothing is changed by who may only look, and nothing changes by looking. */
		ck_assert_msg(get || r->role != ROLE_READ, "%s %s", r->method, r->path);
		for (unsigned role = ROLE_NONE; role <= ROLE_ADMIN; role++) {
			unsigned status = ask(r, &far, given[role]);
			bool own = r->role == ROLE_AGENT; /* which none of these is */
			ck_assert_msg((status == 403) == (role && role < r->role && !own),
				      "%s %s as %u: %u", r->method, r->path, role, status);
			ck_assert_msg((status == 401) == ((!role && r->role) || own),
				      "%s %s as %u: %u", r->method, r->path, role, status);
			now_ms += 60000;
		}
		unsigned status = ask(r, &looking, "Bearer " ADMIN_TOKEN);
		ck_assert_msg((status == 403) == (!get || r->role > ROLE_READ), "%s %s: %u",
			      r->method, r->path, status);
		unsigned before = atomic_load(&api_fake.n_changes);
		if (get)
			(void)ask(r, &root, NULL);
		ck_assert_uint_eq(atomic_load(&api_fake.n_changes), before);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("auth");
	TCase *tc = tcase_create("auth");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, tokens);
	tcase_add_test(tc, places);
	tcase_add_test(tc, read_only_listeners);
	tcase_add_test(tc, the_first_admin_token_is_named);
	tcase_add_test(tc, certificates);
	tcase_add_test(tc, expiry);
	tcase_add_test(tc, passes_hold_as_long_as_what_they_prove);
	tcase_add_test(tc, passes_expire_and_places_close);
	tcase_add_test(tc, file_of_tokens);
	tcase_add_test(tc, bad_files_are_refused_and_change_nothing);
	tcase_add_test(tc, long_files);
	tcase_add_test(tc, zeros_are_no_lines);
	tcase_add_test(tc, changes_count_at_once);
	tcase_add_test(tc, file_and_database_keep_apart);
	tcase_add_test(tc, there_is_a_most);
	tcase_add_test(tc, who_guesses_is_shut_out);
	tcase_add_test(tc, every_route_wants_its_role);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
