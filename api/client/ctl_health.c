/* concuryctl health: what checks say of DIPs, and what an operator says instead. */
#include <stdlib.h>
#include <string.h>

#include "api/client/ctl_change.h"
#include "api/client/ctl_commands.h"
#include "api/client/ctl_table.h"

#define DIPS "/v1/vips/%s/dips"
#define OVERRIDE DIPS "/%s/health-override"

static void add_dip(struct ctl_table *t, const json_t *dip)
{
	const json_t *h = json_object_get(dip, "health");
	const json_t *o = json_object_get(h, "override");
	bool damped = json_is_true(json_object_get(h, "damped"));
	bool ignored = json_is_true(json_object_get(h, "ignored"));

	ctl_table_member(t, dip, "id");
	ctl_table_member(t, dip, "state");
	ctl_table_add(t, "%s%s%s", ctl_text(h, "state"), damped ? ", damped" : "",
		      ignored ? ", ignored" : "");
	ctl_table_member(t, h, "since");
	ctl_table_member(t, h, "latency_us");
	ctl_table_count(t, h, "checks_total");
	ctl_table_count(t, h, "checks_failed_total");
	if (json_is_object(o))
		ctl_table_add(t, "%s: %s", ctl_text(o, "state"), ctl_text(o, "reason"));
	else
		ctl_table_add(t, "-");
	ctl_table_member(t, h, "last_error");
}

static void print_health(struct ctl *c, const json_t *json)
{
	struct ctl_table *t =
		ctl_table_new("DIP STATE CHECKS-SAY SINCE >LATENCY-US >CHECKS >FAILED "
			      "OVERRIDE LAST-ERROR");
	const json_t *d;
	size_t i;

	json_array_foreach(json_object_get(json, "items"), i, d)
	{
		add_dip(t, d);
	}
	ctl_table_print(t, c->out, "no DIPs");
}

static void print_one(struct ctl *c, const json_t *json)
{
	struct ctl_table *t = ctl_table_new("AT STATE CAUSE");
	json_t *rest = json_copy((json_t *)json);
	const json_t *h;
	size_t i;

	json_object_del(rest, "history");
	ctl_print_members(c, rest);
	fputc('\n', c->out);
	json_array_foreach(json_object_get(json, "history"), i, h)
	{
		ctl_table_member(t, h, "at");
		ctl_table_member(t, h, "state");
		ctl_table_member(t, h, "cause");
	}
	ctl_table_print(t, c->out, "no transitions");
	json_decref(rest);
}

int ctl_health_show(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	if (call->n_args > 1) {
		ctl_path_set(&path, DIPS "/%s/health", call->args[0], call->args[1]);
		return ctl_show(c, &path, print_one);
	}
	ctl_path_set(&path, DIPS, call->args[0]);
	return ctl_show(c, &path, print_health);
}

int ctl_health_override(struct ctl *c, const struct ctl_call *call)
{
	const char *reason = ctl_option(call, OPT_REASON), *ttl = ctl_option(call, OPT_TTL);
	struct ctl_path path;

	if (!reason)
		return ctl_complain(CTL_USAGE, "--reason TEXT is needed");
	if (ttl && (!*ttl || strlen(ttl) > 9 || strspn(ttl, "0123456789") != strlen(ttl)))
		return ctl_complain(CTL_USAGE,
				    "--ttl '%.32s': a number of seconds is needed, as in --ttl 300",
				    ttl);
	json_t *body = json_pack("{s:s, s:s, s:o}", "state", call->args[2], "reason", reason,
				 "ttl_s", ttl ? json_integer(strtoll(ttl, NULL, 10)) : json_null());
	if (!body)
		return ctl_complain(CTL_USAGE, "the state or the reason is not text");
	ctl_path_set(&path, OVERRIDE, call->args[0], call->args[1]);
	int rc = ctl_change(c, call, &(struct ctl_request){.method = "PUT", .body = body}, &path,
			    "overridden");
	json_decref(body);
	return rc;
}

int ctl_health_clear(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, OVERRIDE, call->args[0], call->args[1]);
	return ctl_change(c, call, &(struct ctl_request){.method = "DELETE"}, &path,
			  "counted by its checks again");
}
