#include "api/server/token.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <strings.h>

#include "api/server/auth.h"
#include "api/server/problem.h"
#include "base/entropy.h"

_Static_assert(TOKEN_TEXT_LEN == 2 * TOKEN_HASH_LEN + 1, "as many random bytes as a hash has");

void token_make(char text[TOKEN_TEXT_LEN])
{
	uint8_t bytes[TOKEN_HASH_LEN];

	entropy_fill(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	gnutls_memset(bytes, 0, sizeof(bytes));
}

void access_token_make(char text[ACCESS_TOKEN_LEN])
{
	token_make(stpcpy(text, ACCESS_TOKEN_PREFIX));
}

bool token_text_valid(const char *text)
{
	size_t len = strlen(text);

	if (len < TOKEN_MIN || len > TOKEN_MAX)
		return false;
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

bool token_hash(const char *text, uint8_t hash[TOKEN_HASH_LEN])
{
	return gnutls_hash_fast(GNUTLS_DIG_SHA256, text, strlen(text), hash) == 0;
}

const char *token_of(const char *authorization)
{
	static const char scheme[] = "Bearer ";
	size_t len = sizeof(scheme) - 1;

	if (!authorization || strncasecmp(authorization, scheme, len) != 0)
		return NULL;
	const char *token = authorization + len;
	token += strspn(token, " ");
	return *token ? token : NULL;
}

void response_with_token(struct api_response *resp, unsigned status, json_t *body, const char *text)
{
	/* Refuses NULL on either side. */
	if (text && json_object_set_new(body, "token", json_string(text))) {
		json_decref(body);
		body = NULL;
	}
	response_json(resp, status, body);
}

bool token_check(const struct api_request *req, const uint8_t *hash, struct api_response *resp)
{
	static const uint8_t nobody[TOKEN_HASH_LEN];
	const char *token = token_of(req->authorization);
	uint8_t given[TOKEN_HASH_LEN];

	if (token && !auth_may_try(req, resp))
		return false;
	if (token && token_hash(token, given) &&
	    gnutls_memcmp(given, hash ? hash : nobody, sizeof(given)) == 0 && hash)
		return true;
	if (token) {
		auth_note_failure(req);
		/* Which of the two is wrong is not for who has neither. */
		problem_set(resp, 401,
			    "the token is not that of an agent '%s': there is no agent of this id, "
			    "or it has another token",
			    req->path_args[0]);
	} else {
		problem_set(resp, 401, "the agent's token is needed: Authorization: Bearer TOKEN");
	}
	snprintf(resp->www_authenticate, sizeof(resp->www_authenticate), "Bearer%s",
		 token ? " error=\"invalid_token\"" : "");
	return false;
}
