/* concuryctl flows: the known flows of a VIP, page after page. */
#include <stdlib.h>
#include <string.h>

#include "api/client/ctl_commands.h"
#include "api/client/ctl_table.h"

#define LIMIT 100u
#define LIMIT_MAX 100000000u
#define PAGE_MAX 1000u /* what the API takes */

static void add_flow(struct ctl_table *t, const json_t *f)
{
	json_int_t age = json_integer_value(json_object_get(f, "age_s"));
	json_int_t idle = json_integer_value(json_object_get(f, "idle_s"));
	bool exact = json_is_true(json_object_get(f, "exact"));
	bool pinned = json_is_true(json_object_get(f, "pinned"));
	char buf[32];

	ctl_table_member(t, f, "client");
	ctl_table_member(t, f, "client_port");
	ctl_table_member(t, f, "port");
	ctl_table_member(t, f, "protocol");
	ctl_table_member(t, f, "dip");
	ctl_table_member(t, f, "state");
	ctl_table_add(t, "%s", exact ? "exact" : pinned ? "yes" : "-");
	ctl_table_add(t, "%s", ctl_human_seconds((uint64_t)age, buf, sizeof(buf)));
	ctl_table_add(t, "%s", ctl_human_seconds((uint64_t)idle, buf, sizeof(buf)));
}

static void set_path(struct ctl_path *path, const struct ctl_call *call, unsigned limit,
		     const char *cursor)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", limit);
	ctl_path_set(path, "/v1/vips/%s/flows", call->args[0]);
	ctl_path_query(path, "limit", number);
	ctl_path_query(path, "dip", ctl_option(call, OPT_DIP));
	ctl_path_query(path, "client", ctl_option(call, OPT_CLIENT));
	ctl_path_query(path, "state", ctl_option(call, OPT_STATE));
	ctl_path_query(path, "pinned", ctl_option(call, OPT_PINNED) ? "true" : NULL);
	ctl_path_query(path, "cursor", *cursor ? cursor : NULL);
}

/* Up to *left flows more. A page may be short, or empty, though there are more. */
static int take_page(struct ctl *c, const struct ctl_call *call, struct ctl_table *t,
		     unsigned *left, char *cursor, size_t size)
{
	struct ctl_path path;
	struct ctl_answer a;
	const json_t *f;
	size_t i;

	set_path(&path, call, *left < PAGE_MAX ? *left : PAGE_MAX, cursor);
	int rc = ctl_get(c, &path, &a);
	const json_t *items = json_object_get(a.json, "items");
	const char *next = json_string_value(json_object_get(a.json, "next"));
	if (!rc && c->json)
		ctl_print_raw(c, &a);
	json_array_foreach(items, i, f)
	{
		add_flow(t, f);
	}
	size_t n = json_array_size(items);
	*left -= n < *left ? (unsigned)n : *left;
	snprintf(cursor, size, "%s", !rc && next ? next : "");
	ctl_answer_free(&a);
	return rc;
}

int ctl_flows(struct ctl *c, const struct ctl_call *call)
{
	const char *limit = ctl_option(call, OPT_LIMIT);
	struct ctl_table *t =
		ctl_table_new("CLIENT >CLIENT-PORT >PORT PROTOCOL DIP STATE PINNED >AGE >IDLE");
	char cursor[256] = "";
	unsigned left = LIMIT;
	int rc;

	if (limit)
		left = strlen(limit) < 10 && strspn(limit, "0123456789") == strlen(limit)
			       ? (unsigned)strtoul(limit, NULL, 10)
			       : 0;
	if (!left || left > LIMIT_MAX) {
		ctl_table_free(t);
		return ctl_complain(CTL_USAGE, "--limit %.32s: 1 to %u", limit, LIMIT_MAX);
	}
	do
		rc = take_page(c, call, t, &left, cursor, sizeof(cursor));
	while (!rc && left && *cursor);
	if (rc || c->json) {
		ctl_table_free(t);
		return rc;
	}
	ctl_table_print(t, c->out, "no flows");
	if (*cursor)
		fputs("(there are more: see --limit)\n", c->out);
	return CTL_OK;
}
