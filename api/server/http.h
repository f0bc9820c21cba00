/* The HTTP server: listeners, connections, bodies; with head.h, the only user of libmicrohttpd. */
#pragma once

#include "api/server/exchange.h"

#define LISTENERS_MAX 8

struct http_server;

/** Bind all listeners (see listener.h), so that every mistake in them shows before anything else is
 *  touched. Connections wait until http_start. On failure everything is undone. Thread: main. */
MUST_CHECK int http_open(const char *const *listen, unsigned n, struct http_server **out,
			 struct error *err);

/** Serve. api is the caller's and outlives the server. Thread: main. */
MUST_CHECK int http_start(struct http_server *s, struct api_context *api, struct error *err);

/** Answer what is under way, close every connection and listener, free. NULL is fine. Thread: main. */
void http_close(struct http_server *s);

/** Where listener i is reached: "127.0.0.1:8080". */
const char *http_listener_text(const struct http_server *s, unsigned i);
unsigned http_n_listeners(const struct http_server *s);
