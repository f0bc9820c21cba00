/* MEMBER=VALUE on the command line, as JSON. */
#pragma once

#include <jansson.h>

#include "base/error.h"

/** A member, for completion and help. */
struct ctl_member {
	const char *name;  /* "idle_timeout_s.udp" */
	const char *words; /* the values it takes; "" = see help */
};

extern const struct ctl_member ctl_vip_members[]; /* up to one without a name */
extern const struct ctl_member ctl_dip_members[];

/** Set in *object what the words say. "a.b=1" is {"a": {"b": 1}}. A value is JSON if it is a
 * number, true, false, null, or begins with a quote, bracket or brace; else it is a string, and so is
 * any server_id but null. 0, or -EINVAL with err set. */
MUST_CHECK int ctl_members_read(const char *const *words, unsigned n, json_t *object,
				struct error *err);

/** Read "10.9.0.100:80/tcp", "[fd09::100]:443" or "10.9.0.100:any" into address, port and protocol
 * (tcp, if it is not said). 0, or -EINVAL with err set. */
MUST_CHECK int ctl_members_service(const char *text, json_t *object, struct error *err);
