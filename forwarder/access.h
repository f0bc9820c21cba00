/* Who may ask: tokens and certificates, from the database and from files. */
#pragma once

#include "api/server/auth.h"
#include "api/server/tls.h"
#include "control/options.h"
#include "schema/store.h"

/** Read the tokens of the database and o's token file. The store stays the caller's and must outlive *out, to
 *  be freed by auth_free. 0, or negative with err set. Thread: main. */
MUST_CHECK int access_open(const struct options *o, struct store *store, struct auth **out,
			   struct error *err);

/** Read token file and certificates (tls may be NULL) again; what is wrong is logged, and what was read before
 *  stays. Thread: main. */
void access_reload(struct auth *auth, struct tls *tls);
