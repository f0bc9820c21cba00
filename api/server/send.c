#include "api/server/send.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/problem.h"

#define STREAM_PIECE ((size_t)16 << 10)

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
	if (resp->status == 204 || resp->status == 304)
		return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
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
	if (resp->text_type && !resp->problem)
		return resp->text_type;
	return resp->problem ? "application/problem+json" : "application/json";
}

/* What the browser may let a page of another origin send and see. */
static bool add_cors_headers(struct MHD_Response *r, const struct api_response *resp)
{
	static const char *const allow[][2] = {
		{"Vary", "Origin"},
		{"Access-Control-Allow-Methods", "GET, HEAD, PUT, PATCH, POST, DELETE"},
		{"Access-Control-Allow-Headers",
		 "Authorization, Content-Type, If-Match, If-None-Match"},
		{"Access-Control-Expose-Headers",
		 "ETag, Location, Retry-After, WWW-Authenticate, X-Generation"},
		{"Access-Control-Max-Age", "600"},
	};
	bool ok = MHD_add_response_header(r, "Access-Control-Allow-Origin", resp->cors_origin) ==
		  MHD_YES;

	for (size_t i = 0; ok && i < ARRAY_LEN(allow); i++)
		ok = MHD_add_response_header(r, allow[i][0], allow[i][1]) == MHD_YES;
	return ok;
}

/* A page of ours runs only what is ours, speaks to nobody else, and is shown in nobody's frame. It
 * may be kept, but is asked for again each time: by its tag, which costs an empty answer. */
static bool add_page_headers(struct MHD_Response *r)
{
	static const char *const headers[][2] = {
		{"Cache-Control", "no-cache"},
		{"Content-Security-Policy",
		 "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
		 "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
		 "require-trusted-types-for 'script'; trusted-types 'none'"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Referrer-Policy", "no-referrer"},
		{"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
	};
	bool ok = true;

	for (size_t i = 0; ok && i < ARRAY_LEN(headers); i++)
		ok = MHD_add_response_header(r, headers[i][0], headers[i][1]) == MHD_YES;
	return ok;
}

/* A stream on its way. Waiting for what comes next has no deadline, but each piece that was given
 * to the library has the one of any answer: a client that reads nothing is cut. What opened it must
 * go on opening it: it ends with its token. */
struct stream {
	struct send_to to;
	struct api_stream source;
	struct auth_pass pass;
};

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct stream *s = cls;
	struct connections *c = s->to.connections;
	ssize_t n = 0;

	(void)pos;
	connections_move(c, s->to.index, CONNECTION_STREAMING);
	while (n == 0 && connections_alive(c, s->to.index) && auth_pass_holds(&s->pass))
		n = s->source.read(s->source.state, buf, max);
	connections_move(c, s->to.index, CONNECTION_ANSWERING);
	return n > 0 ? n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void close_stream(void *cls)
{
	struct stream *s = cls;

	s->source.close(s->source.state);
	atomic_fetch_sub(s->to.n_streams, 1);
	free(s);
}

static struct MHD_Response *make_stream(const struct send_to *to, const struct api_stream *source)
{
	struct stream *s = malloc(sizeof(*s));

	if (!s) {
		source->close(source->state);
		return NULL;
	}
	*s = (struct stream){.to = *to, .source = *source};
	auth_pass_keep(to->request, &s->pass);
	s->to.request = NULL; /* gone before the stream is */
	atomic_fetch_add(to->n_streams, 1);
	struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_PIECE,
								   read_stream, s, close_stream);
	if (!r)
		close_stream(s);
	return r;
}

static bool add_headers(struct MHD_Response *r, const struct api_response *resp)
{
	char number[24];
	bool ok = true;

	if (resp->status != 204 && resp->status != 304)
		ok = MHD_add_response_header(r, "Content-Type", content_type(resp)) == MHD_YES;
	if (resp->cors_origin)
		ok = ok && add_cors_headers(r, resp);
	if (resp->page)
		ok = ok && add_page_headers(r);
	else
		ok = ok && MHD_add_response_header(r, "Cache-Control", "no-store") == MHD_YES;
	ok = ok && MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") == MHD_YES;
	if (resp->www_authenticate[0])
		ok = ok && MHD_add_response_header(r, "WWW-Authenticate", resp->www_authenticate) ==
				   MHD_YES;
	if (resp->allow[0])
		ok = ok && MHD_add_response_header(r, "Allow", resp->allow) == MHD_YES;
	if (resp->etag[0])
		ok = ok && MHD_add_response_header(r, "ETag", resp->etag) == MHD_YES;
	snprintf(number, sizeof(number), "%" PRIu64, resp->generation);
	ok = ok && MHD_add_response_header(r, "X-Generation", number) == MHD_YES;
	if (resp->link[0])
		ok = ok && MHD_add_response_header(r, "Link", resp->link) == MHD_YES;
	if (resp->location[0])
		ok = ok && MHD_add_response_header(r, "Location", resp->location) == MHD_YES;
	if (resp->retry_after_s) {
		snprintf(number, sizeof(number), "%u", resp->retry_after_s);
		ok = ok && MHD_add_response_header(r, "Retry-After", number) == MHD_YES;
	}
	return ok;
}

enum MHD_Result send_answer(const struct send_to *to, struct api_response *resp)
{
	struct MHD_Response *r =
		resp->stream.read ? make_stream(to, &resp->stream) : make_response(resp);

	if (!r)
		return MHD_NO;
	enum MHD_Result sent = MHD_NO;
	if (add_headers(r, resp))
		sent = MHD_queue_response(to->connection, resp->status, r);
	MHD_destroy_response(r);
	return sent;
}
