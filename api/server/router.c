/* Paths are split at '/' before they are decoded, so that an escaped slash is a character of an id
 * (and so refused as one), never a separator. */
#include "api/server/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "api/server/accept.h"
#include "api/server/auth.h"
#include "api/server/problem.h"

#define SEGMENTS_MAX 8

struct path {
	unsigned n;
	char *segments[SEGMENTS_MAX]; /* decoded */
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool router_percent_decode(char *text, bool plus)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (*in == '%') {
			int hi = hex_digit(in[1]);
			int lo = hi < 0 ? -1 : hex_digit(in[2]);
			if (lo < 0 || (hi | lo) == 0)
				return false;
			*out++ = (char)(hi << 4 | lo);
			in += 2;
		} else {
			*out++ = *in == '+' && plus ? ' ' : *in;
		}
	}
	*out = '\0';
	return true;
}

/* Where the path starts in a request target, which may be in absolute form (RFC 9112 3.2.2). */
static char *target_path(char *target)
{
	size_t scheme = !strncasecmp(target, "http://", 7)    ? 7
			: !strncasecmp(target, "https://", 8) ? 8
							      : 0;

	if (!scheme)
		return target;
	char *slash = strchr(target + scheme, '/');
	return slash ? slash : target + strlen(target);
}

/* 0, -1 for a broken escape, 1 for a path that no route can have. */
static int split_path(char *text, struct path *p)
{
	char *rest = text + 1;

	if (*text != '/')
		return 1;
	p->n = 0;
	while (rest) {
		char *segment = strsep(&rest, "/");
		if (!router_percent_decode(segment, false))
			return -1;
		if (p->n == SEGMENTS_MAX)
			return 1;
		p->segments[p->n++] = segment;
	}
	return 0;
}

static bool path_matches(const char *pattern, const struct path *p, struct api_request *req)
{
	unsigned n_args = 0;
	unsigned i = 0;

	for (; *pattern; i++) {
		size_t len = strcspn(++pattern, "/");
		if (i >= p->n)
			return false;
		if (*pattern == '{') {
			if (!*p->segments[i])
				return false;
			req->path_args[n_args++] = p->segments[i];
		} else if (strlen(p->segments[i]) != len ||
			   memcmp(p->segments[i], pattern, len) != 0) {
			return false;
		}
		pattern += len;
	}
	return i == p->n;
}

static void allow_add(struct api_response *resp, const char *method)
{
	size_t len = strlen(resp->allow);

	snprintf(resp->allow + len, sizeof(resp->allow) - len, "%s%s", len ? ", " : "", method);
	if (!strcmp(method, "GET"))
		allow_add(resp, "HEAD");
}

static const struct route *find_route(const struct route *routes, size_t n, const struct path *p,
				      struct api_request *req, struct api_response *resp)
{
	const char *method = strcmp(req->method, "HEAD") ? req->method : "GET";

	for (size_t i = 0; i < n; i++) {
		if (!path_matches(routes[i].path, p, req))
			continue;
		if (!strcmp(routes[i].method, method)) {
			resp->allow[0] = '\0';
			return &routes[i];
		}
		allow_add(resp, routes[i].method);
	}
	if (resp->allow[0])
		problem_set(resp, 405, "the resource has %s", resp->allow);
	else
		problem_set(resp, 404, "no resource has this path");
	return NULL;
}

static bool list_has(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (list && *list) {
		size_t word = strcspn(list, " ");
		if (word == len && !memcmp(list, name, len))
			return true;
		list += word;
		list += *list == ' ';
	}
	return false;
}

/* Split and decode the query; every fault is noted. */
static void parse_query(char *text, const struct route *route, struct api_request *req,
			struct field_errors *errors)
{
	char *rest;
	char pointer[64];

	for (char *pair = strtok_r(text, "&", &rest); pair; pair = strtok_r(NULL, "&", &rest)) {
		char *value = strchr(pair, '=');
		if (value)
			*value++ = '\0';
		if (!router_percent_decode(pair, true) ||
		    (value && !router_percent_decode(value, true))) {
			field_errors_add(errors, "?", "bad_value", "a broken %% escape");
			continue;
		}
		snprintf(pointer, sizeof(pointer), "?%s", pair);
		if (!list_has(route->query, pair) || !*pair)
			field_errors_add(errors, pointer, "unknown", "%s%s",
					 route->query ? "known here: " : "none is known here",
					 route->query ? route->query : "");
		else if (request_query(req, pair))
			field_errors_add(errors, pointer, "duplicate", "given twice");
		else if (req->n_query == QUERY_MAX)
			field_errors_add(errors, pointer, "too_many", "too many parameters");
		else {
			req->query[req->n_query].name = pair;
			req->query[req->n_query++].value = value ? value : "";
		}
	}
}

/* A listener for looking on takes nothing that may change something. */
static bool may_here(const struct api_request *req, struct api_response *resp)
{
	if (!req->peer->read_only || !strcmp(req->method, "GET") || !strcmp(req->method, "HEAD"))
		return true;
	problem_set(resp, 403, "this listener is read-only: it takes GET and HEAD");
	return false;
}

/* The route of a path that the client may take; else NULL, and the answer is set. */
static const struct route *admit(const struct route *routes, size_t n, char *path_text,
				 struct api_request *req, struct api_response *resp)
{
	struct path path;
	int rc = split_path(target_path(path_text), &path);

	if (rc < 0) {
		problem_set(resp, 400, "the path has a broken %% escape");
		return NULL;
	}
	if (rc > 0) {
		problem_set(resp, 404, "no resource has this path");
		return NULL;
	}
	const struct route *route = find_route(routes, n, &path, req, resp);
	if (!route || !may_here(req, resp) || !auth_allow(req, route->role, resp))
		return NULL;
	return route;
}

static void dispatch(const struct route *routes, size_t n, char *target, struct api_request *req,
		     struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	char *query = strchr(target, '?');

	if (query)
		*query++ = '\0';
	const struct route *route = admit(routes, n, target, req, resp);
	if (!route)
		return;
	req->n_query = 0;
	if (query)
		parse_query(query, route, req, &errors);
	if (errors.n) {
		problem_query(resp, &errors);
		return;
	}
	const char *type = accept_route_type(route->path);
	if (!accept_allows(req->accept, type))
		problem_set(resp, 406, "the resource is %s", type);
	else
		route->handle(req, resp);
}

bool router_admits(const struct route *routes, size_t n, struct api_request *req,
		   struct api_response *resp)
{
	char *target = strdup(req->target);

	if (!target) {
		problem_set(resp, 500, "out of memory");
		return false;
	}
	target[strcspn(target, "?")] = '\0';
	bool admitted = admit(routes, n, target, req, resp) != NULL;
	free(target); /* path_args lie in it */
	return admitted;
}

void router_dispatch(const struct route *routes, size_t n, struct api_request *req,
		     struct api_response *resp)
{
	char *target = strdup(req->target);

	if (!target) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	dispatch(routes, n, target, req, resp);
	free(target);
}
