/* HTTP from a command: one question at a time, over TCP, TLS or a Unix socket. (libcurl) */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/client/ctl_url.h"
#include "base/error.h"

struct ctl_http;

struct ctl_request {
	const char *method;
	const struct ctl_path *path;
	const json_t *body;   /* NULL = none */
	const char *type;     /* of the body; NULL = application/json */
	const char *if_match; /* an ETag, which may lack its quotes, or *; NULL = none */
	bool create_only;     /* If-None-Match: * */
	unsigned timeout_ms;  /* 0 = the default */
};

struct ctl_answer {
	long status; /* 0 = there was none: error says why */
	char *body;  /* never NULL where status is not 0 */
	size_t len;
	json_t *json;	 /* the body, if it is JSON; else NULL */
	char etag[128];	 /* "" = none */
	char error[256]; /* of the transport */
};

/** 0, or -ENOMEM and -EINVAL with err set. target stays the caller's and must outlive it. */
MUST_CHECK int ctl_http_open(const struct ctl_target *target, struct ctl_http **out,
			     struct error *err);
void ctl_http_close(struct ctl_http *h);

/** Ask and wait for the answer; free it. */
void ctl_http_ask(struct ctl_http *h, const struct ctl_request *r, struct ctl_answer *out);
void ctl_answer_free(struct ctl_answer *a);

/** What a stream is given to as it comes; false ends it. */
typedef bool (*ctl_on_data)(void *ctx, const char *data, size_t len);

/** GET something that does not end. It ends when on_data says so, the server ends it, or nothing
 * came for idle_ms (0 = never mind). headers: further ones, NULL-terminated. An answer other than
 * 200 is read whole into *out, as of ctl_http_ask. */
void ctl_http_stream(struct ctl_http *h, const struct ctl_path *path, const char *const *headers,
		     unsigned idle_ms, ctl_on_data on_data, void *ctx, struct ctl_answer *out);
