/* concuryctl config: the whole desired state as a file. What would change is shown before it is
 * changed, and is what is changed: the ETag of the state that was compared goes with the request.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/client/ctl_commands.h"
#include "api/client/ctl_diff.h"
#include "api/client/ctl_plan.h"

#define CONFIG "/v1/config"

/* --- get -----------------------------------------------------------------------------------------
 */

static void print_config(struct ctl *c, const json_t *json)
{
	json_dumpf(json, c->out, JSON_INDENT(2));
	fputc('\n', c->out);
}

int ctl_config_get(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	(void)call;
	ctl_path_set(&path, CONFIG);
	return ctl_show(c, &path, print_config);
}

/* --- apply ---------------------------------------------------------------------------------------
 */

/* The document of a file; NULL with what is wrong told. */
static json_t *read_document(const char *name)
{
	bool is_stdin = !strcmp(name, "-");
	FILE *f = is_stdin ? stdin : fopen(name, "re");
	json_t *json = NULL;
	json_error_t err;

	if (!f) {
		ctl_complain(CTL_FAILED, "%s: %s", name, strerror(errno));
		return NULL;
	}
	json = json_loadf(f, JSON_REJECT_DUPLICATES, &err);
	if (!json)
		ctl_complain(CTL_FAILED, "%s:%d:%d: %s", is_stdin ? "standard input" : name,
			     err.line, err.column, err.text);
	if (!is_stdin)
		fclose(f);
	return json;
}

static long long number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* What is to become the configuration, and the request that makes it so. */
struct aim {
	const json_t *wanted;
	const char *method;
	const char *path;
	const json_t *body;
	const char *if_match;
};

/* Send it, or have it only planned. */
static int send(struct ctl *c, const struct ctl_call *call, const struct aim *aim, bool dry,
		struct ctl_answer *out)
{
	struct ctl_path path;
	const struct ctl_request r = {
		.method = aim->method, .path = &path, .body = aim->body, .if_match = aim->if_match};

	ctl_path_set(&path, aim->path);
	ctl_path_query(&path, "prune", ctl_option(call, OPT_PRUNE));
	ctl_path_query(&path, "dry_run", dry ? "true" : NULL);
	ctl_path_query(&path, "override_hold", ctl_option(call, OPT_OVERRIDE_HOLD) ? "true" : NULL);
	return ctl_ask(c, &r, out);
}

/* Show what the document would change. *n: differences that the document and the plan tell of. */
static int preview(struct ctl *c, const struct ctl_call *call, const struct aim *aim,
		   const json_t *current, unsigned *n)
{
	const char *prune = ctl_option(call, OPT_PRUNE);
	const struct ctl_diff_style style = {.colour = c->colour,
					     .keep = prune && !strcmp(prune, "none")};
	struct ctl_answer a;
	int rc = send(c, call, aim, true, &a);
	const json_t *plan = json_object_get(a.json, "plan");
	*n = (unsigned)json_array_size(json_object_get(plan, "vips"));
	if (!rc && c->json) {
		if (ctl_option(call, OPT_DRY_RUN))
			ctl_print_raw(c, &a);
	} else if (!rc) {
		unsigned n_lines = ctl_diff_print(current, aim->wanted, &style, c->out);
		if (*n && !n_lines)
			fputs("~ members that the file does not name get their defaults\n", c->out);
		*n += n_lines;
		if (*n) {
			fputc('\n', c->out);
			ctl_plan_print(c, plan);
		}
	}
	ctl_answer_free(&a);
	return rc;
}

static void print_tally(struct ctl *c, const json_t *answer, const char *name)
{
	static const char *const words[] = {"created", "changed", "draining", "removed"};
	const json_t *t = json_object_get(answer, name);

	fprintf(c->out, "%s:", name);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		fprintf(c->out, "%s %lld %s", i ? "," : "", number(t, words[i]), words[i]);
	fputs("; ", c->out);
}

static bool is_nothing(const json_t *answer)
{
	const char *name, *word;
	json_t *t, *n;
	bool nothing = true;

	json_object_foreach((json_t *)answer, name, t)
	{
		if (strcmp(name, "vips") != 0 && strcmp(name, "dips") != 0)
			continue;
		json_object_foreach(t, word, n)
		{
			nothing = nothing && json_integer_value(n) == 0;
		}
	}
	return nothing;
}

static int put(struct ctl *c, const struct ctl_call *call, const struct aim *aim)
{
	struct ctl_answer a;
	int rc = send(c, call, aim, false, &a);

	if (!rc && c->json) {
		ctl_print_raw(c, &a);
	} else if (!rc && is_nothing(a.json)) {
		fputs("nothing to change\n", c->out);
	} else if (!rc) {
		print_tally(c, a.json, "vips");
		print_tally(c, a.json, "dips");
		fprintf(c->out, "generation %lld\n",
			number(json_object_get(a.json, "change"), "generation"));
	}
	ctl_answer_free(&a);
	return rc;
}

/* Show, ask, do. */
static int apply(struct ctl *c, const struct ctl_call *call, struct aim *aim)
{
	const char *etag = ctl_option(call, OPT_IF_MATCH);
	struct ctl_path path;
	struct ctl_answer current;
	unsigned n = 0;

	ctl_path_set(&path, CONFIG);
	int rc = ctl_get(c, &path, &current);
	aim->if_match = etag ? etag : current.etag[0] ? current.etag : NULL;
	if (!rc)
		rc = preview(c, call, aim, current.json, &n);
	if (!rc && ctl_option(call, OPT_DRY_RUN)) {
		if (!n && !c->json)
			fputs("nothing would change\n", c->out);
		rc = n ? CTL_DIFFERS : CTL_OK;
	} else if (!rc) {
		rc = n ? ctl_confirm(c, "Apply?") : CTL_OK;
		if (!rc)
			rc = put(c, call, aim);
	}
	aim->if_match = NULL;
	ctl_answer_free(&current);
	return rc;
}

int ctl_config_apply(struct ctl *c, const struct ctl_call *call)
{
	const char *name = ctl_option(call, OPT_FILE);

	if (!name)
		return ctl_complain(CTL_USAGE, "--file FILE is needed (\"-\" is standard input)");
	json_t *wanted = read_document(name);
	if (!wanted)
		return CTL_FAILED;
	struct aim aim = {.wanted = wanted, .method = "PUT", .path = CONFIG, .body = wanted};
	int rc = apply(c, call, &aim);
	json_decref(wanted);
	return rc;
}

int ctl_config_rollback(struct ctl *c, const struct ctl_call *call)
{
	const char *version = call->args[0];
	struct ctl_path path;
	struct ctl_answer was;

	if (strlen(version) > 18 || strspn(version, "0123456789") != strlen(version))
		return ctl_complain(CTL_USAGE, "%.32s: the number of a version", version);
	json_t *body = json_pack("{s:I}", "to", (json_int_t)strtoll(version, NULL, 10));
	ctl_path_set(&path, CONFIG "/versions/%s", version);
	int rc = ctl_get(c, &path, &was);
	struct aim aim = {
		.wanted = was.json, .method = "POST", .path = CONFIG ":rollback", .body = body};
	if (!rc && !body)
		rc = ctl_complain(CTL_FAILED, "out of memory");
	else if (!rc)
		rc = apply(c, call, &aim);
	ctl_answer_free(&was);
	json_decref(body);
	return rc;
}
