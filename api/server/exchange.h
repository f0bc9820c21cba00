/* One request and its answer, free of any HTTP library: what http.c fills in, the router and the
 * resources work on, and http.c sends. */
#pragma once

#include <jansson.h>
#include <stdatomic.h>

#include "api/server/backend.h"

#define QUERY_MAX 12    /* parameters of one request */
#define PATH_ARGS_MAX 2 /* {names} of one path */
#define BODY_MAX (1u << 20)
#define CONFIG_BODY_MAX (16u << 20) /* of /v1/config and what is below it */
#define ETAG_LEN 36 /* 32 hexadecimal digits in quotes, and NUL */

struct auth;
struct traffic_history;
struct web;

/** What a client may do, and what a route wants of it: each may do all that the ones before it may. */
enum api_role {
	ROLE_NONE,    /* of a route: nobody is asked who they are, or the handler asks itself */
	ROLE_READ,    /* look at everything but tokens */
	ROLE_OPERATE, /* change VIPs, DIPs and agents */
	ROLE_ADMIN,   /* say who else may do what */
	ROLE_AGENT,   /* of a route alone: the token of the agent that the path names opens it, no other */
};

#define CERT_NAMES_MAX 8u
#define CERT_NAME_LEN 128u

/** The names in a client certificate that was verified. */
struct cert_names {
	unsigned n;
	char list[CERT_NAMES_MAX][CERT_NAME_LEN];
};

/** Where a request comes from: what the connection itself proves. */
struct api_peer {
	bool unix_socket;
	bool loopback;  /* the listener's address is one */
	bool tls;
	bool read_only; /* the listener takes no changes */
	uint32_t uid;   /* of a Unix socket's peer */
	struct ip_addr address; /* of a TCP peer */
};

/** What all requests share. */
struct api_context {
	struct api_backend backend;
	struct auth *auth; /* auth.h; not NULL */
	struct traffic_history *traffic; /* NULL = none is kept */
	const struct web *web; /* the dashboard; NULL = none */
	unsigned n_cors_origins; /* web pages that may ask: --cors-origin */
	const char *const *cors_origins;
	uint64_t started_ms; /* clock_now_ms */
	_Atomic bool ready;  /* started, not ending; while it is not, changes are refused */
	_Atomic unsigned n_event_streams;
	_Atomic bool traces; /* a trace runs */
};

struct api_request {
	/* in */
	struct api_context *api;
	const char *method; /* HEAD counts as GET */
	const char *target; /* as it stands in the request line */
	const char *host;   /* headers; NULL = absent */
	const char *origin;
	const char *content_type;
	const char *content_encoding;
	const char *authorization;
	const char *last_event_id;
	const char *accept;
	const char *if_match;
	const char *if_none_match;
	const struct api_peer *peer; /* where it comes from */
	const struct cert_names *cert; /* NULL = no certificate came */
	const char *body;
	size_t body_len;
	bool body_too_large;
	/* by auth.c, for routes that want a role */
	enum api_role wanted; /* the route's */
	enum api_role role;
	char author[ID_LEN]; /* the token's id, "uid:1000" of a Unix peer, "local" */
	/* by the router; valid within the handler */
	const char *path_args[PATH_ARGS_MAX]; /* decoded {names}, in order */
	unsigned n_query;
	struct {
		const char *name;
		const char *value;
	} query[QUERY_MAX];
};

/** An answer that is made while it is sent, by the thread that sends it. */
struct api_stream {
	/** The next bytes, 1 to max; 0 = none yet, after a wait of a second at most; negative = the
	 *  end. */
	ssize_t (*read)(void *state, char *buf, size_t max);
	void (*close)(void *state); /* once, whether it was read to its end or not */
	void *state;
};

struct api_response {
	unsigned status;
	json_t *body; /* owned; NULL = out of memory: http.c sends a fixed text */
	bool problem; /* application/problem+json */
	char *text;   /* owned; instead of body, of text_type */
	size_t text_len;
	const char *text_type;
	struct api_stream stream; /* read != NULL: instead of body, of text_type */
	char www_authenticate[80]; /* how to log in, with 401 and 403; "" = none */
	uint32_t retry_after_s; /* 0 = none */
	uint64_t generation;    /* for X-Generation; 0 = the published one */
	bool page;              /* a file of the dashboard */
	char etag[ETAG_LEN];    /* "" = none */
	char link[512];         /* "" = none */
	char location[192];     /* "" = none */
	char allow[64];         /* "" = none */
	const char *cors_origin; /* the page that may read it; NULL = none but our own */
};

/** How large a body the target (with its query) takes. */
size_t request_body_max(const char *target);

/** False, with 503 set: concuryd is starting or ending, and takes no changes. */
MUST_CHECK bool request_is_timely(const struct api_request *req, struct api_response *resp);

/** Value of a query parameter, or NULL. */
const char *request_query(const struct api_request *req, const char *name);

/** Answer with a document; takes over body, of which NULL means that memory ran out. */
void response_json(struct api_response *resp, unsigned status, json_t *body);

/** Answer 200 with something else than JSON; takes over text (of malloc). type lives for ever. */
void response_text(struct api_response *resp, const char *type, char *text, size_t len);

/** Answer 200 with a stream, which is taken over. type lives for ever. */
void response_stream(struct api_response *resp, const char *type, const struct api_stream *stream);

/** {"items": items}; takes over items. */
void response_items(struct api_response *resp, json_t *items);
