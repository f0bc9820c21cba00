#include "api/client/ctl_change.h"

#include "api/client/ctl_members.h"
#include "api/client/ctl_plan.h"
#include "api/client/ctl_table.h"

json_t *ctl_change_body(const struct ctl_call *call, unsigned first)
{
	json_t *body = json_object();
	struct error err = {"out of memory"};

	if (body && (first >= call->n_args ||
		     !ctl_members_read(call->args + first, call->n_args - first, body, &err)))
		return body;
	json_decref(body);
	ctl_complain(CTL_USAGE, "%s", err.message);
	return NULL;
}

static long long number(const json_t *object, const char *name)
{
	return (long long)json_integer_value(json_object_get(object, name));
}

static void print_count(struct ctl *c, const json_t *object, const char *name, const char *text)
{
	if (json_object_get(object, name))
		fprintf(c->out, ", %lld %s", number(object, name), text);
}

static void print_change(struct ctl *c, const json_t *change)
{
	char pause[32], build[32];

	fprintf(c->out, ": generation %lld", number(change, "generation"));
	print_count(c, change, "dcodes_moved", "Dcodes moved");
	print_count(c, change, "flows_pinned", "flows pinned");
	print_count(c, change, "flows_moved", "flows moved");
	if (json_object_get(change, "pause_us"))
		fprintf(c->out, " (built in %s us, paused for %s us)",
			ctl_human_count((uint64_t)number(change, "build_us"), build, sizeof(build)),
			ctl_human_count((uint64_t)number(change, "pause_us"), pause,
					sizeof(pause)));
}

static void print_warnings(struct ctl *c, const json_t *answer)
{
	char text[512];
	const json_t *w;
	size_t i;

	json_array_foreach(json_object_get(answer, "warnings"), i, w)
	{
		snprintf(text, sizeof(text), "%s",
			 json_string_value(w) ? json_string_value(w) : "");
		ctl_clean(text);
		fprintf(c->out, "warning: %s\n", text);
	}
}

int ctl_change(struct ctl *c, const struct ctl_call *call, struct ctl_request *r,
	       struct ctl_path *path, const char *what)
{
	bool dry = ctl_option(call, OPT_DRY_RUN) != NULL;
	struct ctl_answer a;

	ctl_path_query(path, "dry_run", dry ? "true" : NULL);
	ctl_path_query(path, "override_hold", ctl_option(call, OPT_OVERRIDE_HOLD) ? "true" : NULL);
	r->path = path;
	if (!r->if_match)
		r->if_match = ctl_option(call, OPT_IF_MATCH);
	int rc = ctl_ask(c, r, &a);
	if (!rc && c->json) {
		ctl_print_raw(c, &a);
	} else if (!rc) {
		if (a.status == 202) /* it is still there */
			fprintf(c->out, "drains, %lld flows remain",
				number(a.json, "flows_remaining"));
		else
			fprintf(c->out, "%s%s", dry ? "would be " : "", what);
		if (json_object_get(a.json, "change"))
			print_change(c, json_object_get(a.json, "change"));
		fputc('\n', c->out);
		if (json_object_get(a.json, "plan"))
			ctl_plan_print(c, json_object_get(a.json, "plan"));
		print_warnings(c, a.json);
	}
	ctl_answer_free(&a);
	return rc;
}
