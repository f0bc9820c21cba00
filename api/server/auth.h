/* Who asks, and what they may do.
 *
 * | comes with | is |
 * | a bearer token (database or token file) | what the token says, and nobody else |
 * | a client certificate that the token file names | what its line says |
 * | a Unix socket | root and concuryd's own user: admin; a user that the token file names: what its
 *                   line says; others that the socket's mode lets in: operate |
 * | a loopback address | operate, as long as no token exists and no token file is given |
 * | anything else | nobody |
 *
 * On a read-only listener nobody is more than `read`. Thread: any, but where said. */
#pragma once

#include "api/server/exchange.h"
#include "api/server/token.h"
#include "schema/store_tokens.h"

#define AUTH_TOKENS_MAX STORE_TOKENS_MAX
#define AUTH_FILE_MAX 256u /* lines of a token file that mean something */

struct auth_token {
	char id[ID_LEN];
	enum api_role role;
	uint8_t hash[TOKEN_HASH_LEN];
	int64_t created_s; /* wall clock; 0 = of the token file */
	int64_t expires_s; /* wall clock; 0 = never */
	bool in_file;
};

/** How tokens become durable: store_put_token and store_delete_token, or a test's. */
struct auth_store {
	void *ctx;
	int (*put)(void *ctx, const struct store_token *t, struct error *err);
	int (*remove)(void *ctx, const char *id, struct error *err);
};

struct auth_config {
	unsigned n_tokens; /* of the database */
	const struct store_token *tokens;
	struct auth_store store;
	const char *token_file; /* NULL = none */
};

/** "read", "operate", "admin". role: not ROLE_NONE. */
const char *auth_role_name(enum api_role role);
/** ROLE_NONE for any other word. */
enum api_role auth_role_parse(const char *word);

/** -EINVAL and errno of reading the token file, err naming the line. Thread: main. */
MUST_CHECK int auth_new(const struct auth_config *c, struct auth **out, struct error *err);
void auth_free(struct auth *a);

/** Read the token file again; on failure what was read before stays. Thread: main. */
MUST_CHECK int auth_reload(struct auth *a, struct error *err);

/** True if there is a token or a line in the token file: who comes without is nobody over TCP. */
bool auth_asks(struct auth *a);

/** True if the client has this role; fills req->role and author. Else the answer is set: 401, 403
 *  naming the role, 429. */
MUST_CHECK bool auth_allow(struct api_request *req, enum api_role wanted, struct api_response *resp);

/** What let a request in, for an answer that goes on: peer must outlive it. Nothing is kept of a route that
 *  wants no role. */
struct auth_pass {
	struct auth *auth; /* NULL: nobody was asked */
	enum api_role wanted;
	const struct api_peer *peer;
	bool has_token;
	uint8_t token[TOKEN_HASH_LEN];
	struct cert_names cert;
};
void auth_pass_keep(const struct api_request *req, struct auth_pass *out);
/** It would let in still: its token, or line of the token file, is there and has not expired. */
MUST_CHECK bool auth_pass_holds(const struct auth_pass *p);

/** False, with the answer set (429), while the client's address has failed to log in too often. */
MUST_CHECK bool auth_may_try(const struct api_request *req, struct api_response *resp);
/** It has failed once more. */
void auth_note_failure(const struct api_request *req);

/** All tokens, the database's and the file's, by id; or one. The caller's to free. NULL with *n > 0: no
 *  memory. */
MUST_CHECK struct auth_token *auth_read(struct auth *a, const char *id, size_t *n);

/** Would auth_put, or auth_delete, go? 0, or what they return for the tokens' sake. */
MUST_CHECK int auth_may_put(struct auth *a, const char *id, bool *created, struct error *err);
MUST_CHECK int auth_may_delete(struct auth *a, const char *id, struct error *err);

/** Write one (created_s is filled in here) durably. -EEXIST: the token file has the id; -E2BIG: there are
 *  AUTH_TOKENS_MAX; else as the store. */
MUST_CHECK int auth_put(struct auth *a, const struct auth_token *t, bool *created,
			struct error *err);
/** -ENOENT; -EEXIST: it is the token file's; else as the store. */
MUST_CHECK int auth_delete(struct auth *a, const char *id, struct error *err);
