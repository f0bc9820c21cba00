/* The tokens stand in memory, each as its hash; a request's is hashed and compared with all of them
 * in constant time. So nothing is to be learned from how long it takes, and what was deleted opens
 * nothing from then on, also on connections that were made before. Changes go to the store first:
 * what the API has acknowledged outlives a crash. */
#include "api/server/auth.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/server/auth_file.h"
#include "api/server/problem.h"
#include "api/server/rate_limit.h"
#include "base/clock.h"
#include "base/log.h"

struct auth {
	struct auth_store store;
	const char *token_file;
	uid_t own_uid;
	struct rate_limit failures;
	pthread_mutex_t change; /* held by who changes tokens, while it waits for the store */
	pthread_mutex_t lock;	/* of what follows */
	unsigned n;
	struct auth_token tokens[AUTH_TOKENS_MAX];
	struct auth_file file;
	struct log_limit shut_out;
};

static const char *const role_names[] = {
	[ROLE_READ] = "read", [ROLE_OPERATE] = "operate", [ROLE_ADMIN] = "admin"};

const char *auth_role_name(enum api_role role)
{
	return role_names[role];
}

enum api_role auth_role_parse(const char *word)
{
	for (unsigned i = ROLE_READ; i <= ROLE_ADMIN; i++)
		if (!strcmp(word, role_names[i]))
			return (enum api_role)i;
	return ROLE_NONE;
}

/* --- making --------------------------------------------------------------------------------------
 */

/* Index of a token of the database, or n. Called locked. */
static unsigned find_id(const struct auth *a, const char *id)
{
	unsigned i = 0;

	while (i < a->n && strcmp(a->tokens[i].id, id) != 0)
		i++;
	return i;
}

static bool file_has(const struct auth_file *f, const char *id)
{
	for (unsigned i = 0; i < f->n; i++)
		if (!strcmp(f->lines[i].id, id))
			return true;
	return false;
}

int auth_reload(struct auth *a, struct error *err)
{
	struct auth_file *f;
	int rc = 0;

	if (!a->token_file)
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return error_set(err, -ENOMEM, "--token-file %s: no memory", a->token_file);
	rc = auth_file_read(a->token_file, f, err);
	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; !rc && i < a->n; i++)
		if (file_has(f, a->tokens[i].id))
			rc = error_set(err, -EINVAL,
				       "--token-file %s: a token in the database has the name '%s'",
				       a->token_file, a->tokens[i].id);
	if (!rc)
		a->file = *f;
	pthread_mutex_unlock(&a->lock);
	gnutls_memset(f, 0, sizeof(*f));
	free(f);
	return rc;
}

int auth_new(const struct auth_config *c, struct auth **out, struct error *err)
{
	struct auth *a = calloc(1, sizeof(*a));

	if (!a)
		return error_set(err, -ENOMEM, "tokens: no memory");
	pthread_mutex_init(&a->change, NULL);
	pthread_mutex_init(&a->lock, NULL);
	rate_limit_init(&a->failures);
	a->store = c->store;
	a->token_file = c->token_file;
	a->own_uid = geteuid();
	a->shut_out = (struct log_limit){.interval_ms = 60000, .burst = 10};
	for (; a->n < c->n_tokens && a->n < AUTH_TOKENS_MAX; a->n++) {
		const struct store_token *from = &c->tokens[a->n];
		struct auth_token *t = &a->tokens[a->n];
		*t = (struct auth_token){.role = auth_role_parse(from->role),
					 .created_s = from->created_s,
					 .expires_s = from->expires_s};
		memcpy(t->id, from->id, sizeof(t->id));
		memcpy(t->hash, from->hash, sizeof(t->hash));
	}
	int rc = auth_reload(a, err);
	if (rc) {
		auth_free(a);
		return rc;
	}
	*out = a;
	return 0;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	rate_limit_free(&a->failures);
	pthread_mutex_destroy(&a->change);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

bool auth_asks(struct auth *a)
{
	pthread_mutex_lock(&a->lock);
	bool asks = a->n || a->token_file;
	pthread_mutex_unlock(&a->lock);
	return asks;
}

/* --- who asks ------------------------------------------------------------------------------------
 */

struct identity {
	enum api_role role;
	char name[ID_LEN];
};

static void be(struct identity *who, enum api_role role, const char *name)
{
	who->role = role;
	snprintf(who->name, sizeof(who->name), "%s", name);
}

/* Each hash is looked at, whichever is the right one. Called locked. */
static void find_token(const struct auth *a, const uint8_t *hash, struct identity *who)
{
	int64_t now_s = clock_wall_s();

	for (unsigned i = 0; i < a->n; i++) {
		const struct auth_token *t = &a->tokens[i];
		if (gnutls_memcmp(t->hash, hash, TOKEN_HASH_LEN) == 0 &&
		    (!t->expires_s || now_s < t->expires_s))
			be(who, t->role, t->id);
	}
	for (unsigned i = 0; i < a->file.n; i++) {
		const struct auth_line *l = &a->file.lines[i];
		if (l->proof == PROOF_TOKEN && gnutls_memcmp(l->hash, hash, TOKEN_HASH_LEN) == 0)
			be(who, l->role, l->id);
	}
}

/* Of several lines that fit, the one that allows most. Called locked. */
static void find_cert(const struct auth *a, const struct cert_names *cert, struct identity *who)
{
	for (unsigned i = 0; i < a->file.n; i++) {
		const struct auth_line *l = &a->file.lines[i];
		for (unsigned k = 0; l->proof == PROOF_CERT && k < cert->n; k++)
			if (!strcmp(l->cert, cert->list[k]) && l->role > who->role)
				be(who, l->role, l->id);
	}
}

/* Called locked. */
static void find_user(const struct auth *a, uint32_t uid, struct identity *who)
{
	char name[ID_LEN];

	snprintf(name, sizeof(name), "uid:%u", uid);
	be(who, uid == 0 || uid == a->own_uid ? ROLE_ADMIN : ROLE_OPERATE, name);
	for (unsigned i = 0; uid && uid != a->own_uid && i < a->file.n; i++)
		if (a->file.lines[i].proof == PROOF_UID && a->file.lines[i].uid == uid)
			be(who, a->file.lines[i].role, name);
}

/* Who the connection itself says it is; nobody if it says nothing. */
static void identify_peer(struct auth *a, const struct api_peer *peer,
			  const struct cert_names *cert, struct identity *who)
{
	pthread_mutex_lock(&a->lock);
	bool asks = a->n || a->token_file;
	if (cert)
		find_cert(a, cert, who);
	if (peer->unix_socket)
		find_user(a, peer->uid, who);
	else if (!who->role && peer->loopback && !asks)
		be(who, ROLE_OPERATE, "local");
	pthread_mutex_unlock(&a->lock);
}

static void identify_hash(struct auth *a, const uint8_t *hash, struct identity *who)
{
	pthread_mutex_lock(&a->lock);
	find_token(a, hash, who);
	pthread_mutex_unlock(&a->lock);
}

static void identify_token(struct auth *a, const char *token, struct identity *who)
{
	uint8_t hash[TOKEN_HASH_LEN];

	if (token && token_hash(token, hash))
		identify_hash(a, hash, who);
}

bool auth_may_try(const struct api_request *req, struct api_response *resp)
{
	if (req->peer->unix_socket)
		return true; /* who is let in by the socket's mode has no address */
	struct rate_key key = rate_key_of(&req->peer->address);
	uint32_t wait_s = rate_limit_wait_s(&req->api->auth->failures, &key);
	if (!wait_s)
		return true;
	problem_set(resp, 429, "too many failed log-ins from this address");
	resp->retry_after_s = wait_s;
	return false;
}

void auth_note_failure(const struct api_request *req)
{
	struct auth *a = req->api->auth;
	char text[IP_ADDR_STRLEN];
	uint64_t held_back;

	if (req->peer->unix_socket)
		return;
	struct rate_key key = rate_key_of(&req->peer->address);
	if (!rate_limit_fail(&a->failures, &key))
		return;
	pthread_mutex_lock(&a->lock);
	bool pass = log_limit_pass(&a->shut_out, &held_back);
	pthread_mutex_unlock(&a->lock);
	if (pass)
		log_warning("auth", "%s: too many failed log-ins: its tokens are not looked at",
			    ip_addr_format(&req->peer->address, text));
}

static bool identify(struct api_request *req, struct identity *who, struct api_response *resp)
{
	struct auth *a = req->api->auth;

	if (!req->authorization) {
		identify_peer(a, req->peer, req->cert, who);
		if (who->role)
			return true;
		problem_set(resp, 401, "a token is needed: Authorization: Bearer TOKEN");
		strcpy(resp->www_authenticate, "Bearer");
		return false;
	}
	if (!auth_may_try(req, resp))
		return false;
	identify_token(a, token_of(req->authorization), who);
	if (who->role)
		return true;
	auth_note_failure(req);
	problem_set(resp, 401, "the token is not known here, or has expired");
	strcpy(resp->www_authenticate, "Bearer error=\"invalid_token\"");
	return false;
}

static bool allow_agent(const struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	uint8_t hash[TOKEN_HASH_LEN];

	if (!request_is_timely(req, resp))
		return false;
	bool known = b->agent_token(b->ctx, req->path_args[0], hash);
	return token_check(req, known ? hash : NULL, resp);
}

bool auth_allow(struct api_request *req, enum api_role wanted, struct api_response *resp)
{
	struct identity who = {.role = ROLE_NONE};

	req->wanted = wanted;
	if (wanted == ROLE_NONE)
		return true;
	if (wanted == ROLE_AGENT)
		return allow_agent(req, resp);
	if (!identify(req, &who, resp))
		return false;
	if (req->peer->read_only && who.role > ROLE_READ)
		who.role = ROLE_READ;
	req->role = who.role;
	memcpy(req->author, who.name, sizeof(req->author));
	if (who.role >= wanted)
		return true;
	problem_set(resp, 403, "the role '%s' is needed; %s has '%s'%s", role_names[wanted],
		    who.name, role_names[who.role],
		    req->peer->read_only   ? " at most on this listener"
		    : wanted == ROLE_ADMIN ? " (root has it on the Unix socket; concuryd "
					     "--init-token makes a token that has it)"
					   : "");
	snprintf(resp->www_authenticate, sizeof(resp->www_authenticate),
		 "Bearer error=\"insufficient_scope\", scope=\"%s\"", role_names[wanted]);
	return false;
}

void auth_pass_keep(const struct api_request *req, struct auth_pass *out)
{
	const char *token = token_of(req->authorization);

	*out = (struct auth_pass){.wanted = req->wanted, .peer = req->peer};
	if (req->wanted != ROLE_NONE)
		out->auth = req->api->auth;
	if (req->cert)
		out->cert = *req->cert;
	out->has_token = token && token_hash(token, out->token);
}

bool auth_pass_holds(const struct auth_pass *p)
{
	struct identity who = {.role = ROLE_NONE};

	if (!p->auth)
		return true;
	if (p->has_token)
		identify_hash(p->auth, p->token, &who);
	else
		identify_peer(p->auth, p->peer, &p->cert, &who);
	return who.role >= p->wanted;
}

/* --- tokens --------------------------------------------------------------------------------------
 */

static int compare_ids(const void *x, const void *y)
{
	return strcmp(((const struct auth_token *)x)->id, ((const struct auth_token *)y)->id);
}

struct auth_token *auth_read(struct auth *a, const char *id, size_t *n)
{
	pthread_mutex_lock(&a->lock);
	size_t all = a->n + a->file.n;
	struct auth_token *list = calloc(all + 1, sizeof(*list));
	*n = list ? 0 : 1;
	for (unsigned i = 0; list && i < a->n; i++)
		if (!id || !strcmp(a->tokens[i].id, id))
			list[(*n)++] = a->tokens[i];
	for (unsigned i = 0; list && i < a->file.n; i++) {
		const struct auth_line *l = &a->file.lines[i];
		if (id && strcmp(l->id, id) != 0)
			continue;
		list[*n] = (struct auth_token){.role = l->role, .in_file = true};
		memcpy(list[(*n)++].id, l->id, sizeof(l->id));
	}
	pthread_mutex_unlock(&a->lock);
	if (list)
		qsort(list, *n, sizeof(*list), compare_ids);
	return list;
}

int auth_may_put(struct auth *a, const char *id, bool *created, struct error *err)
{
	pthread_mutex_lock(&a->lock);
	bool in_file = file_has(&a->file, id);
	*created = find_id(a, id) == a->n;
	bool full = *created && a->n == AUTH_TOKENS_MAX;
	pthread_mutex_unlock(&a->lock);
	if (in_file)
		return error_set(err, -EEXIST, "'%s' stands in the token file", id);
	if (full)
		return error_set(err, -E2BIG, "there are %u tokens, which is the most",
				 AUTH_TOKENS_MAX);
	return 0;
}

static void install(struct auth *a, const struct auth_token *t)
{
	pthread_mutex_lock(&a->lock);
	unsigned i = find_id(a, t->id);
	a->tokens[i] = *t;
	a->n += i == a->n;
	pthread_mutex_unlock(&a->lock);
}

int auth_put(struct auth *a, const struct auth_token *t, bool *created, struct error *err)
{
	struct auth_token mine = *t;
	struct store_token durable = {.expires_s = t->expires_s, .created_s = clock_wall_s()};

	mine.created_s = durable.created_s;
	mine.in_file = false;
	memcpy(durable.id, t->id, sizeof(durable.id));
	snprintf(durable.role, sizeof(durable.role), "%s", role_names[t->role]);
	memcpy(durable.hash, t->hash, sizeof(durable.hash));
	pthread_mutex_lock(&a->change);
	int rc = auth_may_put(a, t->id, created, err);
	if (!rc)
		rc = a->store.put(a->store.ctx, &durable, err);
	if (!rc)
		install(a, &mine);
	pthread_mutex_unlock(&a->change);
	return rc;
}

int auth_may_delete(struct auth *a, const char *id, struct error *err)
{
	pthread_mutex_lock(&a->lock);
	bool in_file = file_has(&a->file, id);
	bool known = find_id(a, id) < a->n;
	pthread_mutex_unlock(&a->lock);
	if (in_file)
		return error_set(err, -EEXIST, "'%s' stands in the token file", id);
	return known ? 0 : error_set(err, -ENOENT, "no token has the id '%s'", id);
}

int auth_delete(struct auth *a, const char *id, struct error *err)
{
	pthread_mutex_lock(&a->change);
	int rc = auth_may_delete(a, id, err);
	if (!rc)
		rc = a->store.remove(a->store.ctx, id, err);
	if (!rc) {
		pthread_mutex_lock(&a->lock);
		unsigned i = find_id(a, id);
		a->tokens[i] = a->tokens[--a->n];
		pthread_mutex_unlock(&a->lock);
	}
	pthread_mutex_unlock(&a->change);
	return rc;
}
