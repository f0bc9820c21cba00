#include "api/server/guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>

#include "api/server/problem.h"

/* Host and port of "localhost:8080", "127.0.0.1" or "[::1]:8080": is it this machine's loopback? */
static bool host_is_loopback(const char *host)
{
	char name[64];
	uint8_t v4[4];
	bool bracketed = *host == '[';
	size_t len = strcspn(host, bracketed ? "]" : ":");
	const char *rest = host + len;

	if (bracketed && *rest++ != ']')
		return false;
	if (*rest && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1)))
		return false;
	if (len - bracketed >= sizeof(name))
		return false;
	memcpy(name, host + bracketed, len - bracketed);
	name[len - bracketed] = '\0';
	if (bracketed)
		return !strcmp(name, "::1");
	return !strcasecmp(name, "localhost") ||
	       (inet_pton(AF_INET, name, v4) == 1 && v4[0] == 127);
}

/* Whom the request is for: a target in absolute form says so itself, whatever Host says (RFC
 * 9112 3.2.2). NULL if nothing does. False if the name cannot be this machine's. */
static bool addressed(const struct api_request *req, char *name, size_t size, const char **host)
{
	const char *scheme = req->target ? strstr(req->target, "://") : NULL;

	*host = req->host;
	if (!scheme || *req->target == '/')
		return true;
	const char *authority = scheme + strlen("://");
	size_t len = strcspn(authority, "/?#");
	if (len >= size)
		return false;
	memcpy(name, authority, len);
	name[len] = '\0';
	*host = name;
	return true;
}

static bool origin_is_ours(const struct api_request *req, const char *host)
{
	char own[88];

	if (req->peer->unix_socket)
		return false; /* no browser speaks to one */
	snprintf(own, sizeof(own), "%s://%s", req->peer->tls ? "https" : "http", host ? host : "");
	return !strcasecmp(req->origin, own);
}

static bool origin_is_configured(const struct api_request *req)
{
	for (unsigned i = 0; i < req->api->n_cors_origins; i++)
		if (!strcmp(req->origin, req->api->cors_origins[i]))
			return true;
	return false;
}

bool guard_accept(const struct api_request *req, struct api_response *resp)
{
	char name[72];
	const char *host;

	/* Where a token comes along, it is not the place that opens. */
	bool by_place = req->peer->loopback && !req->authorization;
	if (!addressed(req, name, sizeof(name), &host) ||
	    (by_place && host && !host_is_loopback(host))) {
		problem_set(resp, 403, "the request is addressed to another machine than this one");
		return false;
	}
	if (!req->origin || origin_is_ours(req, host))
		return true;
	if (origin_is_configured(req)) {
		resp->cors_origin = req->origin;
		return true;
	}
	problem_set(resp, 403, "the Origin header names a foreign web page");
	return false;
}

bool guard_preflight(const struct api_request *req, struct api_response *resp)
{
	if (!resp->cors_origin || strcmp(req->method, "OPTIONS") != 0)
		return false;
	resp->status = 204;
	return true;
}
