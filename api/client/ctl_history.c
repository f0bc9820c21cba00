/* What the configuration was, and who made it so: versions, what lies between them, the audit log.
 */
#include <string.h>

#include "api/client/ctl_commands.h"
#include "api/client/ctl_diff.h"
#include "api/client/ctl_table.h"

#define VERSIONS "/v1/config/versions"

/* --- versions ------------------------------------------------------------------------------------
 */

static void print_versions(struct ctl *c, const json_t *json)
{
	struct ctl_table *t = ctl_table_new(">VERSION TIME AUTHOR >EDITS >GENERATION ACTION");
	const json_t *v;
	size_t i;

	json_array_foreach(json_object_get(json, "items"), i, v)
	{
		ctl_table_member(t, v, "version");
		ctl_table_member(t, v, "time");
		ctl_table_member(t, v, "author");
		ctl_table_member(t, v, "edits");
		ctl_table_member(t, v, "generation");
		ctl_table_member(t, v, "action");
	}
	ctl_table_print(t, c->out, "no versions");
}

int ctl_config_versions(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, VERSIONS);
	ctl_path_query(&path, "limit", ctl_option(call, OPT_LIMIT));
	return ctl_show(c, &path, print_versions);
}

static void print_document(struct ctl *c, const json_t *json)
{
	json_dumpf(json, c->out, JSON_INDENT(2));
	fputc('\n', c->out);
}

int ctl_config_show(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, VERSIONS "/%s", call->args[0]);
	return ctl_show(c, &path, print_document);
}

/* --- what lies between ---------------------------------------------------------------------------
 */

/* "dip web/b1" of "/v1/vips/web/dips/b1". */
static void name_of(const char *path, char *buf, size_t size)
{
	const char *vip = path + (strncmp(path, "/v1/vips/", 9) ? 0 : 9);
	const char *dip = strstr(vip, "/dips/");

	snprintf(buf, size, "%s %.*s%s%s", dip ? "dip" : "vip",
		 dip ? (int)(dip - vip) : (int)strlen(vip), vip, dip ? "/" : "",
		 dip ? dip + 6 : "");
	ctl_clean(buf);
}

static void print_differences(struct ctl *c, const json_t *json)
{
	const struct ctl_diff_style style = {.colour = c->colour};
	const json_t *e;
	char what[160];
	size_t i;

	json_array_foreach(json_object_get(json, "items"), i, e)
	{
		name_of(ctl_text(e, "path"), what, sizeof(what));
		ctl_diff_object(what, json_object_get(e, "before"), json_object_get(e, "after"),
				&style, c->out);
	}
}

int ctl_config_diff(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;
	struct ctl_answer a;

	ctl_path_set(&path, VERSIONS "/%s/diff", call->args[0]);
	ctl_path_query(&path, "to", call->n_args > 1 ? call->args[1] : NULL);
	int rc = ctl_get(c, &path, &a);
	if (!rc && c->json)
		ctl_print_raw(c, &a);
	else if (!rc)
		print_differences(c, a.json);
	if (!rc && json_array_size(json_object_get(a.json, "items")))
		rc = CTL_DIFFERS;
	ctl_answer_free(&a);
	return rc;
}

/* --- the audit log -------------------------------------------------------------------------------
 */

static void print_log(struct ctl *c, const json_t *json)
{
	struct ctl_table *t = ctl_table_new("TIME AUTHOR >VERSION >FROM >TO >EDITS ACTION");
	const json_t *e;
	size_t i;

	json_array_foreach(json_object_get(json, "items"), i, e)
	{
		ctl_table_member(t, e, "time");
		ctl_table_member(t, e, "author");
		ctl_table_member(t, e, "version");
		ctl_table_member(t, e, "generation_before");
		ctl_table_member(t, e, "generation");
		ctl_table_member(t, e, "edits");
		ctl_table_member(t, e, "action");
	}
	ctl_table_print(t, c->out, "nothing was changed");
}

int ctl_audit_log(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, "/v1/audit-log");
	ctl_path_query(&path, "limit", ctl_option(call, OPT_LIMIT));
	ctl_path_query(&path, "author", ctl_option(call, OPT_AUTHOR));
	ctl_path_query(&path, "path", ctl_option(call, OPT_PATH));
	ctl_path_query(&path, "since", ctl_option(call, OPT_SINCE));
	return ctl_show(c, &path, print_log);
}
