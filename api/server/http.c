/* A thread for each connection: a change blocks its thread until it is durable and published, and
 * changes that wait together go out together, which a small pool of threads would prevent.
 *
 * The request target is taken raw from the request line: the library's own unescaping would turn
 * %2F and %00 into a slash and an end of string. */
#include "api/server/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/guard.h"
#include "api/server/listener.h"
#include "api/server/problem.h"
#include "api/server/router.h"
#include "base/log.h"

#define CONNECTIONS_MAX 256u
#define IDLE_TIMEOUT_S 60u
/* A body that is too large is read and thrown away up to this size, so that the client hears the
 * answer instead of a reset; beyond it the connection is cut. */
#define DRAIN_MAX (16u << 20)

struct http_listener {
	struct listener socket;
	struct http_server *server;
	struct MHD_Daemon *daemon;
};

struct http_server {
	struct api_context *api;
	unsigned n;
	struct http_listener listeners[LISTENERS_MAX];
};

/* One request while its body comes in. */
struct incoming {
	char *target;
	bool seen; /* the headers were looked at */
	char *body;
	size_t len;
	size_t capacity;
	size_t total; /* bytes that came, kept or not */
};

/* --- requests ------------------------------------------------------------------------------------
 */

static void *incoming_new(void *cls, const char *uri, struct MHD_Connection *connection)
{
	struct incoming *in = calloc(1, sizeof(*in));

	(void)cls;
	(void)connection;
	if (in)
		in->target = strdup(uri);
	if (in && !in->target) {
		free(in);
		in = NULL;
	}
	return in;
}

static void incoming_free(void *cls, struct MHD_Connection *connection, void **context,
			  enum MHD_RequestTerminationCode code)
{
	struct incoming *in = *context;

	(void)cls;
	(void)connection;
	(void)code;
	*context = NULL;
	if (!in)
		return;
	free(in->target);
	free(in->body);
	free(in);
}

/* Take a piece of the body; false to cut the connection. */
static bool incoming_append(struct incoming *in, const char *data, size_t n)
{
	in->total += n;
	if (in->total > BODY_MAX)
		return in->total <= DRAIN_MAX;
	if (in->total > in->capacity) {
		size_t capacity = in->capacity ? in->capacity : 4096;
		while (capacity < in->total)
			capacity *= 2;
		char *body = realloc(in->body, capacity);
		if (!body)
			return false;
		in->body = body;
		in->capacity = capacity;
	}
	memcpy(in->body + in->len, data, n);
	in->len += n;
	return true;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* --- answers -------------------------------------------------------------------------------------
 */

/* A body that becomes the response's own. */
static struct MHD_Response *own_response(char *text, size_t len)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);

	if (!r)
		free(text);
	return r;
}

static struct MHD_Response *make_response(struct api_response *resp)
{
	if (resp->text)
		return own_response(resp->text, resp->text_len);
	char *text = resp->body ? json_dumps(resp->body, 0) : NULL;
	size_t len = text ? strlen(text) : 0;
	char *line = text ? realloc(text, len + 2) : NULL;

	json_decref(resp->body);
	resp->body = NULL;
	if (!line) {
		free(text);
		resp->status = 500;
		resp->problem = true;
		return MHD_create_response_from_buffer(strlen(problem_out_of_memory),
						       (void *)problem_out_of_memory,
						       MHD_RESPMEM_PERSISTENT);
	}
	memcpy(line + len, "\n", 2);
	return own_response(line, len + 1);
}

static const char *content_type(const struct api_response *resp)
{
	if (resp->text)
		return resp->text_type;
	return resp->problem ? "application/problem+json" : "application/json";
}

static bool add_headers(struct MHD_Response *r, const struct api_response *resp)
{
	char seconds[16];
	bool ok = MHD_add_response_header(r, "Content-Type", content_type(resp)) == MHD_YES;

	ok = ok && MHD_add_response_header(r, "Cache-Control", "no-store") == MHD_YES;
	ok = ok && MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") == MHD_YES;
	if (resp->www_authenticate)
		ok = ok && MHD_add_response_header(r, "WWW-Authenticate", "Bearer") == MHD_YES;
	if (resp->allow[0])
		ok = ok && MHD_add_response_header(r, "Allow", resp->allow) == MHD_YES;
	if (resp->location[0])
		ok = ok && MHD_add_response_header(r, "Location", resp->location) == MHD_YES;
	if (resp->retry_after_s) {
		snprintf(seconds, sizeof(seconds), "%u", resp->retry_after_s);
		ok = ok && MHD_add_response_header(r, "Retry-After", seconds) == MHD_YES;
	}
	return ok;
}

static enum MHD_Result send_response(struct MHD_Connection *c, struct api_response *resp)
{
	struct MHD_Response *r = make_response(resp);

	if (!r)
		return MHD_NO;
	enum MHD_Result sent = MHD_NO;
	if (add_headers(r, resp))
		sent = MHD_queue_response(c, resp->status, r);
	MHD_destroy_response(r);
	return sent;
}

static enum MHD_Result answer(const struct http_listener *l, struct MHD_Connection *c,
			      const char *method, const struct incoming *in)
{
	struct api_request req = {.api = l->server->api,
				  .method = method,
				  .target = in->target,
				  .host = header(c, "Host"),
				  .origin = header(c, "Origin"),
				  .content_type = header(c, "Content-Type"),
				  .content_encoding = header(c, "Content-Encoding"),
				  .authorization = header(c, "Authorization"),
				  .over_unix_socket = l->socket.is_unix,
				  .body = in->body,
				  .body_len = in->len,
				  .body_too_large = in->total > BODY_MAX};
	struct api_response resp = {.status = 500};

	if (guard_local(&req, &resp))
		router_dispatch(api_routes, api_n_routes, &req, &resp);
	return send_response(c, &resp);
}

/* A body that is announced to be too large is refused before it is sent where the client waits for
 * our word (Expect), or where reading it to the end would be too much. */
static bool refuse_early(struct MHD_Connection *c)
{
	const char *length = header(c, "Content-Length");
	unsigned long long n = length ? strtoull(length, NULL, 10) : 0;

	return n > DRAIN_MAX || (n > BODY_MAX && header(c, "Expect"));
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *n_data, void **context)
{
	struct http_listener *l = cls;
	struct incoming *in = *context;

	(void)url;
	(void)version;
	if (!in)
		return MHD_NO;
	if (!in->seen) {
		in->seen = true;
		if (!refuse_early(c))
			return MHD_YES;
		struct api_response resp = {.status = 413};
		problem_set(&resp, 413, "at most %u bytes are read", BODY_MAX);
		return send_response(c, &resp);
	}
	if (*n_data) {
		bool go_on = incoming_append(in, data, *n_data);
		*n_data = 0;
		return go_on ? MHD_YES : MHD_NO;
	}
	return answer(l, c, method, in);
}

/* --- the server ----------------------------------------------------------------------------------
 */

static size_t keep_escapes(void *cls, struct MHD_Connection *c, char *text)
{
	(void)cls;
	(void)c;
	return strlen(text);
}

static void log_library(void *cls, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void log_library(void *cls, const char *fmt, va_list ap)
{
	char line[256];

	(void)cls;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\r\n")] = '\0';
	log_debug("http", "%s", line);
}

int http_open(const char *const *listen, unsigned n, struct http_server **out, struct error *err)
{
	struct http_server *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(err, -ENOMEM, "http: out of memory");
	if (n > LISTENERS_MAX) {
		free(s);
		return error_set(err, -EINVAL, "--listen: at most %d", LISTENERS_MAX);
	}
	for (; s->n < n; s->n++) {
		s->listeners[s->n].server = s;
		int rc = listener_open(listen[s->n], &s->listeners[s->n].socket, err);
		if (rc) {
			http_close(s);
			return rc;
		}
	}
	*out = s;
	return 0;
}

static struct MHD_Daemon *start_daemon(struct http_listener *l)
{
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
			 MHD_USE_POLL | MHD_USE_ERROR_LOG;

	return MHD_start_daemon(
		flags, 0, NULL, NULL, on_request, l, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
		MHD_OPTION_LISTEN_SOCKET, l->socket.fd, MHD_OPTION_CONNECTION_LIMIT,
		CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, incoming_new, NULL,
		MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_NOTIFY_COMPLETED,
		incoming_free, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

int http_start(struct http_server *s, struct api_context *api, struct error *err)
{
	s->api = api;
	for (unsigned i = 0; i < s->n; i++) {
		struct http_listener *l = &s->listeners[i];
		l->daemon = start_daemon(l);
		if (!l->daemon)
			return error_set(err, -EIO, "--listen %s: the server does not start",
					 l->socket.text);
	}
	return 0;
}

void http_close(struct http_server *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->n; i++) {
		struct http_listener *l = &s->listeners[i];
		/* The library closes a listening socket that it serves. */
		if (l->daemon) {
			MHD_stop_daemon(l->daemon);
			l->socket.fd = -1;
		}
		listener_close(&l->socket);
	}
	free(s);
}

const char *http_listener_text(const struct http_server *s, unsigned i)
{
	return s->listeners[i].socket.text;
}

unsigned http_n_listeners(const struct http_server *s)
{
	return s->n;
}
