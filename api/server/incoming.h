/* The request that a connection is on, from its request line on: what was read of it, and what can be
 * said of it already. It belongs to the connection, not to the request: the HTTP library does not tell of
 * the end of each request that it refuses itself. Thread: the connection's. */
#pragma once

#include "api/server/exchange.h"

struct incoming {
	char *target; /* NULL: without memory, or too long */
	bool target_too_long;
	bool seen; /* the headers were looked at */
	bool refused;
	struct api_response refusal; /* what it owns is freed with the request, unless it was sent */
	char *body; /* NULL: none, or it is not kept */
	size_t len;
	size_t capacity;
	size_t total; /* bytes that came, kept or not */
	bool crowded; /* there was no room for it: it is not kept */
};

/** Forget all of it. */
void incoming_clear(struct incoming *in);

/** Take a piece of the body, which is kept unless it is refused, too long or finds no room. False: so much
 *  came that the connection must be cut. */
MUST_CHECK bool incoming_append(struct incoming *in, const char *data, size_t n);
