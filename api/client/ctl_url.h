/* Where the API is, and the paths of its resources. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/** Where and how to ask. Strings but base are the caller's. */
struct ctl_target {
	char base[512];	       /* scheme, host and port, no slash at its end */
	const char *unix_path; /* NULL = over TCP */
	const char *token;     /* NULL = none */
	const char *ca_file;
	const char *cert;
	const char *key;
};

#define CTL_URL_DEFAULT "http://127.0.0.1:8080"

/** Read http://HOST[:PORT], https://HOST[:PORT] or unix:/PATH into base and unix_path. 0, or
 * -EINVAL with err set. */
MUST_CHECK int ctl_target_parse(const char *url, struct ctl_target *out, struct error *err);

/** A path with its query. */
struct ctl_path {
	char text[2048];
	bool bad; /* too long, or an argument that can be no id: must not be asked for */
	bool has_query;
};

/** Make one: each %s of the pattern is an argument, percent-encoded. */
void ctl_path_set(struct ctl_path *p, const char *pattern, ...);

/** Add a query parameter, percent-encoded; nothing if value is NULL. */
void ctl_path_query(struct ctl_path *p, const char *name, const char *value);
