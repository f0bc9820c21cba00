/* concuryctl vip */
#include <string.h>

#include "api/client/ctl_change.h"
#include "api/client/ctl_commands.h"
#include "api/client/ctl_members.h"
#include "api/client/ctl_table.h"

#define VIP "/v1/vips/%s"

static void print_ports(struct ctl_table *t, const json_t *v)
{
	json_int_t port = json_integer_value(json_object_get(v, "port"));
	json_int_t end = json_integer_value(json_object_get(v, "port_end"));

	if (!port)
		ctl_table_add(t, "any");
	else if (!end)
		ctl_table_member(t, v, "port");
	else
		ctl_table_add(t, "%lld-%lld", (long long)port, (long long)end);
}

static void print_vips(struct ctl *c, const json_t *json)
{
	struct ctl_table *t = ctl_table_new("VIP ADDRESS >PORT PROTOCOL MODE STATE >FLOWS >PINNED "
					    ">PACKETS >BYTES");
	const json_t *v;
	size_t i;

	json_array_foreach(json_object_get(json, "items"), i, v)
	{
		ctl_table_member(t, v, "id");
		ctl_table_member(t, v, "address");
		print_ports(t, v);
		ctl_table_member(t, v, "protocol");
		ctl_table_member(t, v, "mode");
		ctl_table_member(t, v, "state");
		ctl_table_count(t, v, "flows");
		ctl_table_count(t, v, "flows_pinned");
		ctl_table_count(t, v, "packets");
		ctl_table_bytes(t, v, "bytes");
	}
	ctl_table_print(t, c->out, "no VIPs");
}

int ctl_vip_list(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;
	int rc;

	(void)call;
	ctl_path_set(&path, "/v1/vips");
	rc = ctl_show(c, &path, print_vips);
	return rc;
}

int ctl_vip_show(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, VIP, call->args[0]);
	return ctl_show_resource(c, &path);
}

int ctl_vip_create(struct ctl *c, const struct ctl_call *call)
{
	json_t *body = ctl_change_body(call, 2);
	struct ctl_request r = {.method = "PUT", .body = body, .create_only = true};
	struct ctl_path path;
	struct error err;
	int rc = CTL_USAGE;

	if (body && ctl_members_service(call->args[1], body, &err))
		ctl_complain(CTL_USAGE, "%s", err.message);
	else if (body) {
		ctl_path_set(&path, VIP, call->args[0]);
		ctl_path_query(&path, "force", ctl_option(call, OPT_FORCE) ? "true" : NULL);
		rc = ctl_change(c, call, &r, &path, "created");
	}
	json_decref(body);
	return rc;
}

int ctl_vip_set(struct ctl *c, const struct ctl_call *call)
{
	json_t *body = ctl_change_body(call, 1);
	struct ctl_request r = {
		.method = "PATCH", .body = body, .type = "application/merge-patch+json"};
	struct ctl_path path;

	if (!body)
		return CTL_USAGE;
	ctl_path_set(&path, VIP, call->args[0]);
	int rc = ctl_change(c, call, &r, &path, "changed");
	json_decref(body);
	return rc;
}

int ctl_vip_delete(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_request r = {.method = "DELETE"};
	struct ctl_path path, own;
	bool force = ctl_option(call, OPT_FORCE) != NULL;
	int rc = CTL_OK;

	if (force && !ctl_option(call, OPT_DRY_RUN))
		rc = ctl_confirm(c, "Remove VIP %s with all of its connections?", call->args[0]);
	if (rc)
		return rc;
	ctl_path_set(&path, VIP, call->args[0]);
	own = path;
	ctl_path_query(&path, "force", force ? "true" : NULL);
	rc = ctl_change(c, call, &r, &path, force ? "removed" : "drained and removed");
	return rc || !ctl_option(call, OPT_WAIT) ? rc : ctl_wait_gone(c, &own);
}

int ctl_vip_cancel(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, VIP, call->args[0]);
	return ctl_put_back(c, call, &path);
}
