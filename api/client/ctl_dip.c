/* concuryctl dip */
#include <string.h>

#include "api/client/ctl_change.h"
#include "api/client/ctl_commands.h"
#include "api/client/ctl_table.h"

#define DIPS "/v1/vips/%s/dips"
#define DIP DIPS "/%s"

static void print_dips(struct ctl *c, const json_t *json)
{
	struct ctl_table *t = ctl_table_new("DIP ADDRESS >WEIGHT ADMIN STATE >DCODES >FLOWS "
					    ">PACKETS >BYTES DRAIN");
	const json_t *d;
	size_t i;

	json_array_foreach(json_object_get(json, "items"), i, d)
	{
		const json_t *drain = json_object_get(d, "drain");
		ctl_table_member(t, d, "id");
		ctl_table_member(t, d, "address");
		ctl_table_member(t, d, "weight");
		ctl_table_member(t, d, "admin_state");
		ctl_table_member(t, d, "state");
		ctl_table_member(t, d, "dcodes");
		ctl_table_count(t, d, "flows");
		ctl_table_count(t, d, "packets");
		ctl_table_bytes(t, d, "bytes");
		if (json_is_string(json_object_get(drain, "deadline")))
			ctl_table_add(t, "until %s",
				      json_string_value(json_object_get(drain, "deadline")));
		else
			ctl_table_add(t, "%s", json_is_object(drain) ? "yes" : "-");
	}
	ctl_table_print(t, c->out, "no DIPs");
}

int ctl_dip_list(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, DIPS, call->args[0]);
	return ctl_show(c, &path, print_dips);
}

int ctl_dip_show(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, DIP, call->args[0], call->args[1]);
	return ctl_show_resource(c, &path);
}

int ctl_dip_add(struct ctl *c, const struct ctl_call *call)
{
	json_t *body = ctl_change_body(call, 3);
	struct ctl_request r = {.method = "PUT", .body = body, .create_only = true};
	struct ctl_path path;
	int rc = CTL_USAGE;

	if (body && json_object_set_new(body, "address", json_string(call->args[2])))
		ctl_complain(CTL_USAGE, "the address is not text");
	else if (body) {
		ctl_path_set(&path, DIP, call->args[0], call->args[1]);
		rc = ctl_change(c, call, &r, &path, "added");
	}
	json_decref(body);
	return rc;
}

static int patch(struct ctl *c, const struct ctl_call *call, json_t *body, const char *what)
{
	struct ctl_request r = {
		.method = "PATCH", .body = body, .type = "application/merge-patch+json"};
	struct ctl_path path;

	if (!body)
		return CTL_USAGE;
	ctl_path_set(&path, DIP, call->args[0], call->args[1]);
	int rc = ctl_change(c, call, &r, &path, what);
	json_decref(body);
	return rc;
}

int ctl_dip_set(struct ctl *c, const struct ctl_call *call)
{
	return patch(c, call, ctl_change_body(call, 2), "changed");
}

int ctl_dip_up(struct ctl *c, const struct ctl_call *call)
{
	return patch(c, call, json_pack("{s:s}", "admin_state", "up"), "up");
}

int ctl_dip_down(struct ctl *c, const struct ctl_call *call)
{
	return patch(c, call, json_pack("{s:s}", "admin_state", "down"), "down");
}

int ctl_dip_drain(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_request r = {.method = "DELETE"};
	struct ctl_path path, own;

	ctl_path_set(&path, DIP, call->args[0], call->args[1]);
	own = path;
	int rc = ctl_change(c, call, &r, &path, "drained and removed");
	return rc || !ctl_option(call, OPT_WAIT) ? rc : ctl_wait_gone(c, &own);
}

int ctl_dip_cut(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_request r = {.method = "DELETE"};
	struct ctl_path path;
	int rc = CTL_OK;

	if (!ctl_option(call, OPT_DRY_RUN))
		rc = ctl_confirm(c, "Remove DIP %s of %s with all of its connections?",
				 call->args[1], call->args[0]);
	if (rc)
		return rc;
	ctl_path_set(&path, DIP, call->args[0], call->args[1]);
	ctl_path_query(&path, "force", "true");
	return ctl_change(c, call, &r, &path, "cut");
}

int ctl_dip_cancel(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, DIP, call->args[0], call->args[1]);
	return ctl_put_back(c, call, &path);
}
