/* The HTTP server: listeners, connections, bodies; with head.h, send.h and peer.h, the only user of
 * libmicrohttpd. */
#pragma once

#include "api/server/exchange.h"

#define LISTENERS_MAX 16

struct http_server;

struct http_config {
	unsigned n; /* listeners: see listener.h */
	const char *const *listen;
	unsigned n_read_only; /* more of them, which take no changes */
	const char *const *listen_read_only;
	bool has_tls; /* a tls_new outlives the server */
};

/** Bind all listeners, so that every mistake in them shows before anything else is touched. Connections
 *  wait until http_start. On failure everything is undone. Thread: main. */
MUST_CHECK int http_open(const struct http_config *c, struct http_server **out, struct error *err);

/** -EACCES: other machines reach a listener, and nobody could show who they are: there is no token.
 *  Thread: main. */
MUST_CHECK int http_check(const struct http_server *s, struct auth *auth, struct error *err);

/** Serve. api is the caller's and outlives the server. Thread: main. */
MUST_CHECK int http_start(struct http_server *s, struct api_context *api, struct error *err);

/** Answer what is under way, close every connection and listener, free. NULL is fine. Thread: main. */
void http_close(struct http_server *s);

/** Where listener i is reached: "127.0.0.1:8080". */
const char *http_listener_text(const struct http_server *s, unsigned i);
/** What it is besides: " (TLS)", " (read-only)", "". */
const char *http_listener_kind(const struct http_server *s, unsigned i);
unsigned http_n_listeners(const struct http_server *s);
