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

bool guard_local(const struct api_request *req, struct api_response *resp)
{
	char own[80];

	if (!req->over_unix_socket && req->host && !host_is_loopback(req->host)) {
		problem_set(resp, 403, "the Host header names another machine than this one");
		return false;
	}
	if (!req->origin)
		return true;
	snprintf(own, sizeof(own), "http://%s", req->host ? req->host : "");
	if (req->over_unix_socket || strcasecmp(req->origin, own) != 0) {
		problem_set(resp, 403, "the Origin header names a foreign web page");
		return false;
	}
	return true;
}
