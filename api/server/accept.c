#include "api/server/accept.h"

#include <stdlib.h>
#include <strings.h>

/* What answers something else than JSON. */
static const struct {
	const char *path, *type;
} others[] = {
	{"/metrics", "text/plain"},
	{"/v1/events", "text/event-stream"},
	{"/v1/trace", "application/x-pcapng"},
};

const char *accept_route_type(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (!strcmp(others[i].path, path))
			return others[i].type;
	return "application/json";
}

/* How well a range of n bytes names the type: 0 not at all, 3 exactly. */
static int range_rank(const char *range, size_t n, const char *type)
{
	size_t group = strcspn(type, "/") + 1;

	if (n == strlen(type) && !strncasecmp(range, type, n))
		return 3;
	if (n == group + 1 && range[group] == '*' && !strncasecmp(range, type, group))
		return 2;
	return n == 3 && !strncmp(range, "*/*", 3);
}

/* The weight among a range's parameters: false if it is 0, which forbids. */
static bool has_weight(const char *at, const char *end)
{
	for (; at < end; at++) {
		if (*at != ';')
			continue;
		const char *name = at + 1 + strspn(at + 1, " \t");
		if (!strncasecmp(name, "q=", 2))
			return strtod(name + 2, NULL) > 0;
	}
	return true;
}

/* The range that names the type best decides. */
bool accept_allows(const char *accept, const char *type)
{
	int best = 0;
	bool allowed = false;

	if (!accept || !accept[strspn(accept, " \t,")])
		return true;
	for (const char *at = accept; *at;) {
		at += strspn(at, " \t,");
		const char *end = at + strcspn(at, ",");
		int rank = range_rank(at, strcspn(at, ";, \t"), type);
		if (rank > best) {
			best = rank;
			allowed = has_weight(at, end);
		}
		at = end;
	}
	return allowed;
}
