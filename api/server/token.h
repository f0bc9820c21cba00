/* Bearer tokens: random text that is shown once, of which only the SHA-256 hash is kept. */
#pragma once

#include "api/server/exchange.h"

#define TOKEN_HASH_LEN 32
#define TOKEN_TEXT_LEN 65 /* of a fresh one: 64 hex digits and NUL */
#define TOKEN_MIN 16      /* characters of one that a client chooses */
#define TOKEN_MAX 128

#define ACCESS_TOKEN_PREFIX "concury_"
#define ACCESS_TOKEN_LEN (sizeof(ACCESS_TOKEN_PREFIX) + TOKEN_TEXT_LEN - 1)

/** A fresh random token of 256 bits. Thread: any. */
void token_make(char text[TOKEN_TEXT_LEN]);

/** One for the API, with a prefix by which it is recognised where it must not be. Thread: any. */
void access_token_make(char text[ACCESS_TOKEN_LEN]);

/** True if a client may choose this as a token. Thread: any. */
bool token_text_valid(const char *text);

/** The token of "Bearer TOKEN", or NULL. Thread: any. */
const char *token_of(const char *authorization);

/** The hash of a token. False: the library failed. Thread: any. */
MUST_CHECK bool token_hash(const char *text, uint8_t hash[TOKEN_HASH_LEN]);

/** An answer with one more member, the fresh token, which is shown this once; NULL = none was made. Takes
 *  over body, of which NULL means that memory ran out. Thread: any. */
void response_with_token(struct api_response *resp, unsigned status, json_t *body, const char *text);

/** True if the request bears the token of this hash; hash NULL: there is none, which takes as long to
 *  find out. Else the answer is set (401, 429). Thread: any. */
MUST_CHECK bool token_check(const struct api_request *req, const uint8_t *hash,
			    struct api_response *resp);
