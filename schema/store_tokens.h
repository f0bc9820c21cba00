/* Tokens of the API: who may do what. The tokens themselves are nowhere kept, only their hashes. */
#pragma once

#include "schema/store.h"

#define STORE_TOKENS_MAX 256u

struct store_token {
	char id[ID_LEN];
	char role[8];	   /* read, operate, admin */
	uint8_t hash[32];  /* SHA-256 */
	int64_t created_s; /* wall clock */
	int64_t expires_s; /* wall clock; 0 = never */
};

/** Read all of them into out, of STORE_TOKENS_MAX. -EINVAL: something in the file cannot be. Thread:
 *  main, before the first write. */
MUST_CHECK int store_load_tokens(struct store *s, struct store_token *out, unsigned *n,
				 struct error *err);

/** Write (insert or replace by id) or delete one, in a transaction of its own. 0: durable. -ENOSPC disk
 *  full, -EROFS read-only, -EIO else: nothing has changed. Thread: any; blocks. */
MUST_CHECK int store_put_token(struct store *s, const struct store_token *t, struct error *err);
MUST_CHECK int store_delete_token(struct store *s, const char *id, struct error *err);
