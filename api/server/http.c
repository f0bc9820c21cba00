/* A thread for each connection: a change blocks its thread until it is durable and published, and
 * changes that wait together go out together, which a small pool of threads would prevent.
 * Connections are accepted and given time by connections.c; the library serves them.
 *
 * The request target is taken raw from the request line: the library's own unescaping would turn
 * %2F and %00 into a slash and an end of string. */
#include "api/server/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "api/server/auth.h"
#include "api/server/connections.h"
#include "api/server/guard.h"
#include "api/server/head.h"
#include "api/server/incoming.h"
#include "api/server/listener.h"
#include "api/server/peer.h"
#include "api/server/problem.h"
#include "api/server/router.h"
#include "api/server/send.h"
#include "api/server/tls.h"
#include "api/server/web.h"
#include "base/log.h"

/* Changes that may wait at one time: the other connections are left for requests that only ask. */
#define CHANGES_MAX (CONNECTIONS_MAX / 2)
/* For a request line and headers. Longer ones the library refuses itself. */
#define HEAD_MAX (64u << 10)
#define LAST_WORDS_MS 1000u /* of streams, when the process ends */
#define OTHER_FILES 512u    /* open ones, besides connections */

struct http_listener {
	struct listener socket;
	struct http_server *server;
	struct MHD_Daemon *daemon;
	struct connections connections;
	struct incoming incoming[CONNECTIONS_MAX]; /* by the connection's number */
	struct api_peer peers[CONNECTIONS_MAX];	   /* likewise */
};

struct http_server {
	struct api_context *api;
	unsigned n;
	struct http_listener listeners[LISTENERS_MAX];
	_Atomic unsigned n_streams; /* answers that go on */
};

/* --- requests ------------------------------------------------------------------------------------
 */

static void enter_phase(struct http_listener *l, const struct incoming *in,
			enum connection_phase phase)
{
	connections_move(&l->connections, (unsigned)(in - l->incoming), phase);
}

static void on_connection(void *cls, struct MHD_Connection *c, void **socket_context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http_listener *l = cls;
	struct incoming *in = *socket_context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		unsigned i = connections_enter(&l->connections, fd);
		peer_read(&l->socket, c, &l->peers[i]);
		*socket_context = &l->incoming[i];
		return;
	}
	incoming_clear(in);
	connections_leave(&l->connections, (unsigned)(in - l->incoming));
}

/* The request line has come. The library splits the query into a list before it asks us anything,
 * and where that does not fit it neither answers nor closes as it should; so it is shown an empty
 * query. The text is the connection's own buffer, and the library itself overwrites the '?' next.
 */
static void *on_request_line(void *cls, const char *uri, struct MHD_Connection *c)
{
	struct http_listener *l = cls;
	struct incoming *in =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	char *query = uri ? strchr(uri, '?') : NULL;

	incoming_clear(in);
	enter_phase(l, in, CONNECTION_RECEIVING);
	in->target_too_long = uri && strlen(uri) > TARGET_MAX;
	if (uri && !in->target_too_long)
		in->target = strdup(uri);
	if (query && query[1])
		query[1] = '\0';
	return in;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context,
			 enum MHD_RequestTerminationCode code)
{
	struct http_listener *l = cls;
	struct incoming *in = *context;

	(void)c;
	(void)code;
	*context = NULL;
	if (!in)
		return;
	incoming_clear(in);
	enter_phase(l, in, CONNECTION_WAITING);
}

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* req: NULL if there was none yet. */
static enum MHD_Result send_response(struct http_listener *l, struct MHD_Connection *c,
				     const struct incoming *in, const struct api_request *req,
				     struct api_response *resp)
{
	const struct api_backend *b = &l->server->api->backend;
	const struct send_to to = {.connection = c,
				   .connections = &l->connections,
				   .index = (unsigned)(in - l->incoming),
				   .n_streams = &l->server->n_streams,
				   .request = req};

	if (!resp->generation)
		resp->generation = b->generation(b->ctx);
	return send_answer(&to, resp);
}

static void read_cert(struct MHD_Connection *c, struct api_request *req, struct cert_names *names)
{
	if (!req->peer->tls)
		return;
	tls_peer_names(MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session,
		       names);
	req->cert = names;
}

static void read_head(struct http_listener *l, struct MHD_Connection *c, const char *method,
		      const struct incoming *in, struct api_request *req, struct cert_names *names)
{
	*req = (struct api_request){.api = l->server->api,
				    .method = method,
				    .target = in->target,
				    .host = header(c, "Host"),
				    .origin = header(c, "Origin"),
				    .content_type = header(c, "Content-Type"),
				    .content_encoding = header(c, "Content-Encoding"),
				    .authorization = header(c, "Authorization"),
				    .last_event_id = header(c, "Last-Event-ID"),
				    .accept = header(c, "Accept"),
				    .if_match = header(c, "If-Match"),
				    .if_none_match = header(c, "If-None-Match"),
				    .peer = &l->peers[in - l->incoming]};
	read_cert(c, req, names);
}

/* Who may not have what they ask for need not send a body: it is refused before it is kept, and
 * thrown away as it comes, so that the client hears why. */
static void refuse_early(struct http_listener *l, struct MHD_Connection *c, const char *method,
			 struct incoming *in)
{
	struct api_request req;
	struct api_response resp = {.status = 500};
	struct cert_names names;

	read_head(l, c, method, in, &req, &names);
	if (guard_accept(&req, &resp) && !guard_preflight(&req, &resp))
		in->refused = !router_admits(api_routes, api_n_routes, &req, &resp);
	else
		in->refused = resp.problem;
	if (in->refused)
		in->refusal = resp;
}

/* The head has come. True if the body may. */
static bool take_head(struct http_listener *l, struct MHD_Connection *c, const char *method,
		      const char *version, struct incoming *in)
{
	in->refused =
		!head_accept(c, in->target_too_long ? NULL : in->target, version, &in->refusal);
	if (in->refused)
		return false;
	if (head_has_body(c))
		refuse_early(l, c, method, in);
	return !in->refused || !header(c, "Expect");
}

static enum MHD_Result send_refusal(struct http_listener *l, struct MHD_Connection *c,
				    struct incoming *in)
{
	struct api_response resp = in->refusal;

	in->refusal = (struct api_response){.body = NULL}; /* what it owns is the answer's now */
	enter_phase(l, in, CONNECTION_ANSWERING);
	return send_response(l, c, in, NULL, &resp);
}

static enum MHD_Result answer(struct http_listener *l, struct MHD_Connection *c, const char *method,
			      const struct incoming *in)
{
	struct api_request req;
	struct api_response resp = {.status = 500};
	struct cert_names names;
	bool asks = !strcmp(method, "GET") || !strcmp(method, "HEAD");

	read_head(l, c, method, in, &req, &names);
	req.body = in->body;
	req.body_len = in->len;
	req.body_too_large = in->total > request_body_max(in->target);
	if (!connections_work(&l->connections, (unsigned)(in - l->incoming),
			      asks ? CONNECTIONS_MAX : CHANGES_MAX)) {
		problem_set(&resp, 503, "%u changes wait already", CHANGES_MAX);
		resp.retry_after_s = 1;
	} else if (in->crowded) {
		problem_set(&resp, 503, "other requests' bodies take all the room there is");
		resp.retry_after_s = 1;
	} else if (guard_accept(&req, &resp) && !guard_preflight(&req, &resp) &&
		   !web_answer(req.api->web, &req, &resp)) {
		router_dispatch(api_routes, api_n_routes, &req, &resp);
	}
	enter_phase(l, in, CONNECTION_ANSWERING);
	return send_response(l, c, in, &req, &resp);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *n_data, void **context)
{
	struct http_listener *l = cls;
	struct incoming *in = *context;

	(void)url;
	if (!in || !(in->target || in->target_too_long))
		return MHD_NO;
	if (!in->seen) {
		in->seen = true;
		return take_head(l, c, method, version, in) ? MHD_YES : send_refusal(l, c, in);
	}
	if (*n_data) {
		bool go_on = incoming_append(in, data, *n_data);
		*n_data = 0;
		return go_on ? MHD_YES : MHD_NO;
	}
	return in->refused ? send_refusal(l, c, in) : answer(l, c, method, in);
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

/* The database must not go without files because connections hold them all. */
static void want_files(unsigned n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= n)
		return;
	limit.rlim_cur = limit.rlim_max < n ? limit.rlim_max : n;
	if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < n)
		log_warning("http", "at most %llu files can be open (RLIMIT_NOFILE): %u are wanted",
			    (unsigned long long)limit.rlim_cur, n);
}

static int open_listener(struct http_listener *l, const char *spec, bool has_tls, struct error *err)
{
	int rc = listener_open(spec, has_tls, &l->socket, err);

	if (rc)
		return rc;
	rc = connections_init(&l->connections, err);
	if (rc)
		listener_close(&l->socket);
	return rc;
}

int http_open(const struct http_config *c, struct http_server **out, struct error *err)
{
	struct http_server *s = calloc(1, sizeof(*s));
	unsigned n = c->n + c->n_read_only;

	if (!s)
		return error_set(err, -ENOMEM, "http: out of memory");
	if (n > LISTENERS_MAX) {
		free(s);
		return error_set(err, -EINVAL, "--listen: at most %d", LISTENERS_MAX);
	}
	for (; s->n < n; s->n++) {
		struct http_listener *l = &s->listeners[s->n];
		bool read_only = s->n >= c->n;
		l->server = s;
		int rc = open_listener(
			l, read_only ? c->listen_read_only[s->n - c->n] : c->listen[s->n],
			c->has_tls, err);
		if (rc) {
			http_close(s);
			return rc;
		}
		l->socket.read_only = read_only;
	}
	want_files(n * CONNECTIONS_MAX + OTHER_FILES);
	*out = s;
	return 0;
}

int http_check(const struct http_server *s, struct auth *auth, struct error *err)
{
	for (unsigned i = 0; i < s->n; i++) {
		const struct listener *l = &s->listeners[i].socket;
		if (!l->is_unix && !l->loopback && !auth_asks(auth))
			return error_set(
				err, -EACCES,
				"--listen %s: not a loopback address, and no token exists "
				"that could be asked for: make one by concuryd --init-token, "
				"or give a --token-file",
				l->text);
	}
	return 0;
}

static struct MHD_Daemon *start_daemon(struct http_listener *l)
{
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
			 MHD_USE_POLL | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)tls_retrieve},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)tls_priorities},
		{MHD_OPTION_END, 0, NULL},
	};

	if (l->socket.tls)
		flags |= MHD_USE_TLS;
	return MHD_start_daemon(
		flags, 0, NULL, NULL, on_request, l, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)HEAD_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_URI_LOG_CALLBACK,
		on_request_line, l, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, l, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, l, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY,
		l->socket.tls ? tls : &tls[ARRAY_LEN(tls) - 1], MHD_OPTION_END);
}

static void serve_connection(void *cls, int fd, const struct sockaddr *peer, socklen_t len)
{
	struct http_listener *l = cls;

	/* The library closes the socket whatever comes of it, and logs why. */
	(void)MHD_add_connection(l->daemon, fd, peer, len);
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
		int rc = connections_start(&l->connections, l->socket.fd, serve_connection, l, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Streams end by themselves once the process does: let them say so. */
static void wait_for_streams(struct http_server *s)
{
	static const struct timespec pause = {.tv_nsec = 10000000};

	for (unsigned i = 0; i < LAST_WORDS_MS / 10 && atomic_load(&s->n_streams); i++)
		nanosleep(&pause, NULL);
}

void http_close(struct http_server *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->n; i++) {
		struct http_listener *l = &s->listeners[i];
		connections_stop(&l->connections);
		listener_close(&l->socket);
	}
	wait_for_streams(s);
	for (unsigned i = 0; i < s->n; i++) {
		struct http_listener *l = &s->listeners[i];
		if (l->daemon)
			MHD_stop_daemon(l->daemon);
		connections_free(&l->connections);
	}
	free(s);
}

const char *http_listener_kind(const struct http_server *s, unsigned i)
{
	const struct listener *l = &s->listeners[i].socket;

	if (l->read_only)
		return l->tls ? " (TLS, read-only)" : " (read-only)";
	if (!l->is_unix && !l->loopback && !l->tls)
		return " (in clear text)";
	return l->tls ? " (TLS)" : "";
}

const char *http_listener_text(const struct http_server *s, unsigned i)
{
	return s->listeners[i].socket.text;
}

unsigned http_n_listeners(const struct http_server *s)
{
	return s->n;
}
