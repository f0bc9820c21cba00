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
	static const char scheme[] = "http://";

	*host = req->host;
	if (!req->target || strncasecmp(req->target, scheme, strlen(scheme)) != 0)
		return true;
	const char *authority = req->target + strlen(scheme);
	size_t len = strcspn(authority, "/?#");
	if (len >= size)
		return false;
	memcpy(name, authority, len);
	name[len] = '\0';
	*host = name;
	return true;
}

bool guard_local(const struct api_request *req, struct api_response *resp)
{
	char own[80];
	char name[72];
	const char *host;

	if (!addressed(req, name, sizeof(name), &host) ||
	    (!req->over_unix_socket && host && !host_is_loopback(host))) {
		problem_set(resp, 403, "the request is addressed to another machine than this one");
		return false;
	}
	if (!req->origin)
		return true;
	snprintf(own, sizeof(own), "http://%s", host ? host : "");
	if (req->over_unix_socket || strcasecmp(req->origin, own) != 0) {
		problem_set(resp, 403, "the Origin header names a foreign web page");
		return false;
	}
	return true;
}
