#include "access.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "schema/store_tokens.h"

static int put_token(void *ctx, const struct store_token *t, struct error *err)
{
	return store_put_token(ctx, t, err);
}

static int remove_token(void *ctx, const char *id, struct error *err)
{
	return store_delete_token(ctx, id, err);
}

int access_open(const struct options *o, struct store *store, struct auth **out, struct error *err)
{
	struct auth_config c = {.store = {store, put_token, remove_token},
				.token_file = o->token_file};
	struct store_token *tokens = calloc(STORE_TOKENS_MAX, sizeof(*tokens));
	int rc = -ENOMEM;

	if (tokens)
		rc = store_load_tokens(store, tokens, &c.n_tokens, err);
	else
		error_set(err, rc, "no memory");
	c.tokens = tokens;
	if (!rc)
		rc = auth_new(&c, out, err);
	free(tokens);
	return rc;
}

/* Each file by itself: one that is wrong does not keep a token from being withdrawn. */
void access_reload(struct auth *auth, struct tls *tls)
{
	struct error err;
	bool good = true;

	if (auth_reload(auth, &err)) {
		log_error("concuryd", "%s (what was read before stays)", err.message);
		good = false;
	}
	if (tls && tls_reload(tls, &err)) {
		log_error("concuryd", "%s (what was read before stays)", err.message);
		good = false;
	}
	if (good)
		log_info("concuryd", "SIGHUP: tokens and certificates are read again");
}
