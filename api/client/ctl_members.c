#include "api/client/ctl_members.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX 8192

/* What the API takes it knows itself and says so; this is for completion. */
const struct ctl_member ctl_vip_members[] = {
	{"mode", "l2 ipip gue nat"},
	{"affinity", "flow client"},
	{"on_learn_overflow", "forward drop"},
	{"fragments", "flow client"},
	{"clamp_mss", "false true"},
	{"quic", "flow server-id"},
	{"quic_config_rotation", ""},
	{"drain_timeout_s", ""},
	{"closing_pin_s", ""},
	{"idle_timeout_s.established", ""},
	{"idle_timeout_s.half_open", ""},
	{"idle_timeout_s.closing", ""},
	{"idle_timeout_s.udp", ""},
	{"gue_port", ""},
	{"health", "null"},
	{"health.type", "none tcp http https udp dns agent"},
	{"health.interval_ms", ""},
	{"health.timeout_ms", ""},
	{"health.rise", ""},
	{"health.fall", ""},
	{"health.jitter_percent", ""},
	{"health.min_up", ""},
	{"health.slow_start_s", ""},
	{"health.damping_half_life_s", ""},
	{"health.port", ""},
	{"health.path", ""},
	{"health.host", ""},
	{"health.method", "GET HEAD OPTIONS"},
	{"health.expect_status", ""},
	{"health.expect_body", ""},
	{"health.verify", "true false"},
	{"health.send", ""},
	{"health.expect", ""},
	{"health.name", ""},
	{"health.query_type", "A AAAA NS SOA MX TXT"},
	{"health.expect_rcode", "noerror formerr servfail nxdomain notimp refused"},
	{0},
};

const struct ctl_member ctl_dip_members[] = {{"port", "null"},
					     {"weight", ""},
					     {"mac", "null"},
					     {"server_id", "null"},
					     {"admin_state", "up down"},
					     {0}};

static json_t *read_value(const char *text, struct error *err)
{
	json_error_t e;
	bool json = *text && (strchr("\"[{", *text) || !strcmp(text, "true") ||
			      !strcmp(text, "false") || !strcmp(text, "null"));
	size_t sign = *text == '-';

	json |= text[sign] && strspn(text + sign, "0123456789") == strlen(text + sign);
	if (!json)
		return json_string(text);
	json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e);
	if (!value)
		error_set(err, -EINVAL, "%.100s: %s", text, e.text);
	return value;
}

/* The object that a name like "a.b.c" lies in; *name becomes "c". NULL without memory, or where
 * something else than an object is in the way. */
static json_t *descend(json_t *object, char **name)
{
	for (char *dot; object && (dot = strchr(*name, '.')) != NULL; *name = dot + 1) {
		*dot = '\0';
		json_t *inner = json_object_get(object, *name);
		if (!inner) {
			inner = json_object();
			if (json_object_set_new(object, *name, inner))
				return NULL;
		}
		object = json_is_object(inner) ? inner : NULL;
	}
	return object;
}

int ctl_members_read(const char *const *words, unsigned n, json_t *object, struct error *err)
{
	char copy[WORD_MAX];

	for (unsigned i = 0; i < n; i++) {
		if ((size_t)snprintf(copy, sizeof(copy), "%s", words[i]) >= sizeof(copy))
			return error_set(err, -EINVAL, "%.64s...: too long", words[i]);
		char *name = copy, *value = strchr(copy, '=');
		if (!value || value == copy)
			return error_set(err, -EINVAL, "%.64s: MEMBER=VALUE is needed", words[i]);
		*value++ = '\0';
		error_set(err, -EINVAL, "%.64s: not a value", words[i]);
		bool is_text = !strcmp(name, "server_id") && strcmp(value, "null") != 0;
		json_t *v = is_text ? json_string(value) : read_value(value, err);
		if (!v)
			return -EINVAL;
		json_t *inner = descend(object, &name);
		if (!inner || json_object_set_new(inner, name, v)) {
			if (!inner)
				json_decref(v);
			return error_set(err, -EINVAL, "%.64s: it is set before as something else",
					 words[i]);
		}
	}
	return 0;
}

/* "80", "8000-8099" or "any"; false for success. What is too large is the API's to say. */
static bool read_ports(const char *text, int *first, int *last)
{
	size_t n = text ? strspn(text, "0123456789") : 0;

	if (text && !strcmp(text, "any"))
		return false;
	if (!n || n > 5 || (text[n] && text[n] != '-'))
		return true;
	*first = atoi(text);
	if (!text[n])
		return false;
	size_t m = strspn(text + n + 1, "0123456789");
	if (!m || m > 5 || text[n + 1 + m])
		return true;
	*last = atoi(text + n + 1);
	return false;
}

int ctl_members_service(const char *text, json_t *object, struct error *err)
{
	char copy[128];

	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return error_set(err, -EINVAL, "%.64s...: too long", text);
	char *port = strrchr(copy, ':'), *address = copy;
	if (port)
		*port++ = '\0';
	char *protocol = port ? strchr(port, '/') : NULL;
	if (protocol)
		*protocol++ = '\0';
	size_t len = strlen(address);
	bool bracket = *address == '[';
	if (bracket && len > 1 && address[len - 1] == ']') {
		address[len - 1] = '\0';
		address++;
	} else if (bracket || (port && strchr(address, ':'))) {
		return error_set(err, -EINVAL, "%.64s: an IPv6 address stands in [brackets]", text);
	}
	int first = 0, last = 0;
	if (!*address || read_ports(port, &first, &last))
		return error_set(err, -EINVAL,
				 "%.64s: ADDRESS[/LENGTH]:PORT[-PORT][/PROTOCOL] is needed (port "
				 "\"any\" for all)",
				 text);
	if (json_object_set_new(object, "address", json_string(address)) ||
	    json_object_set_new(object, "port", json_integer(first)) ||
	    (last && json_object_set_new(object, "port_end", json_integer(last))) ||
	    json_object_set_new(object, "protocol", json_string(protocol ? protocol : "tcp")))
		return error_set(err, -EINVAL, "%.64s: not text", text);
	return 0;
}
