#include "api/server/token.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <strings.h>

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

bool token_hash(const char *text, uint8_t hash[TOKEN_HASH_LEN])
{
	return gnutls_hash_fast(GNUTLS_DIG_SHA256, text, strlen(text), hash) == 0;
}

/* The token of "Bearer TOKEN", or NULL. */
static const char *bearer(const char *authorization)
{
	static const char scheme[] = "Bearer ";
	size_t len = sizeof(scheme) - 1;

	if (!authorization || strncasecmp(authorization, scheme, len) != 0)
		return NULL;
	const char *token = authorization + len;
	token += strspn(token, " ");
	return *token ? token : NULL;
}

bool token_check(const struct api_request *req, const uint8_t *hash, struct api_response *resp)
{
	static const uint8_t nobody[TOKEN_HASH_LEN];
	const char *token = bearer(req->authorization);
	uint8_t given[TOKEN_HASH_LEN];

	if (token && token_hash(token, given) &&
	    gnutls_memcmp(given, hash ? hash : nobody, sizeof(given)) == 0 && hash)
		return true;
	problem_set(resp, 401, "the agent's token is needed: Authorization: Bearer TOKEN");
	resp->www_authenticate = true;
	return false;
}
