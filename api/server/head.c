#include "api/server/head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/server/problem.h"

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* Where one of these comes twice, another program on the way may believe the other one. */
static const char *const once[] = {
	"Host",		 "Content-Length",   "Transfer-Encoding", "Origin",
	"Content-Type",	 "Content-Encoding", "Authorization",	  "If-Match",
	"If-None-Match", "Last-Event-ID",
};

struct headers_seen {
	unsigned n[ARRAY_LEN(once)];
	bool bad_name;
};

/* The characters of a field's name. (RFC 9110 5.6.2) */
static const char name_chars[] = "!#$%&'*+-.^_`|~0123456789"
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static enum MHD_Result see_header(void *cls, enum MHD_ValueKind kind, const char *name,
				  const char *value)
{
	struct headers_seen *seen = cls;

	(void)kind;
	(void)value;
	/* "Content-Length :" is another field to the library, and the same to others on the way. */
	seen->bad_name |= !*name || name[strspn(name, name_chars)];
	for (size_t i = 0; i < ARRAY_LEN(once); i++)
		seen->n[i] += !strcasecmp(name, once[i]);
	return MHD_YES;
}

/* True if the headers say one thing about where the body ends, and to whom the request goes. (RFC
 * 9112 3.2, 5.1, 6.1, 6.3) */
static bool head_is_clear(struct MHD_Connection *c, const char *version, struct api_response *resp)
{
	const char *encoding = header(c, "Transfer-Encoding");
	struct headers_seen seen = {.bad_name = false};

	MHD_get_connection_values(c, MHD_HEADER_KIND, see_header, &seen);
	for (size_t i = 0; i < ARRAY_LEN(once); i++) {
		if (seen.n[i] < 2)
			continue;
		problem_set(resp, 400, "the header %s is given twice", once[i]);
		return false;
	}
	if (seen.bad_name)
		problem_set(resp, 400, "a header's name has a character that names cannot have");
	else if (!header(c, "Host") && strcmp(version, "HTTP/1.0") != 0)
		problem_set(resp, 400, "the header Host is missing");
	else if (encoding && header(c, "Content-Length"))
		problem_set(resp, 400, "both Content-Length and Transfer-Encoding are given");
	else if (encoding && strcasecmp(encoding, "chunked") != 0)
		problem_set(resp, 400, "no Transfer-Encoding but chunked is known here");
	else
		return true;
	return false;
}

/* A body that is announced to be too large is refused before it is sent where the client waits for
 * our word (Expect), or where reading it to the end would be too much. */
static bool body_is_hopeless(struct MHD_Connection *c, size_t max)
{
	const char *length = header(c, "Content-Length");
	unsigned long long n = length ? strtoull(length, NULL, 10) : 0;

	return n > max + DRAIN_MAX || (n > max && header(c, "Expect"));
}

bool head_has_body(struct MHD_Connection *c)
{
	const char *length = header(c, "Content-Length");

	return header(c, "Transfer-Encoding") || (length && strspn(length, "0") != strlen(length));
}

bool head_accept(struct MHD_Connection *c, const char *target, const char *version,
		 struct api_response *resp)
{
	if (!target) {
		problem_set(resp, 414, "at most %u bytes are read", TARGET_MAX);
		return false;
	}
	if (strpbrk(target, " \t")) {
		problem_set(resp, 400, "the request line has a blank too many");
		return false;
	}
	if (!head_is_clear(c, version, resp))
		return false;
	if (body_is_hopeless(c, request_body_max(target))) {
		problem_set(resp, 413, "at most %zu bytes are read", request_body_max(target));
		return false;
	}
	return true;
}
