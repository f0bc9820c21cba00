/* concuryctl token: who may use the API. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/client/ctl_commands.h"
#include "api/client/ctl_table.h"

#define TOKEN "/v1/tokens/%s"

static void add_time(struct ctl_table *t, const json_t *token, const char *name)
{
	const json_t *s = json_object_get(token, name);
	time_t at = (time_t)json_integer_value(s);
	char text[32];
	struct tm tm;

	if (!json_is_integer(s) || !gmtime_r(&at, &tm) ||
	    !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		snprintf(text, sizeof(text), "-");
	ctl_table_add(t, "%s", text);
}

static void print_tokens(struct ctl *c, const json_t *json)
{
	struct ctl_table *t = ctl_table_new("TOKEN ROLE FROM CREATED EXPIRES EXPIRED");
	const json_t *o;
	size_t i;

	json_array_foreach(json_object_get(json, "items"), i, o)
	{
		ctl_table_member(t, o, "id");
		ctl_table_member(t, o, "role");
		ctl_table_member(t, o, "source");
		add_time(t, o, "created_s");
		add_time(t, o, "expires_s");
		ctl_table_member(t, o, "expired");
	}
	ctl_table_print(t, c->out, "no tokens");
}

int ctl_token_list(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	(void)call;
	ctl_path_set(&path, "/v1/tokens");
	return ctl_show(c, &path, print_tokens);
}

/* Only the token itself on standard output: so it can be put into a file. */
static int make(struct ctl *c, const struct ctl_path *path, const json_t *body)
{
	struct ctl_request r = {.method = "PUT", .path = path, .body = body};
	struct ctl_answer a;
	int rc = ctl_ask(c, &r, &a);

	if (!rc && c->json)
		ctl_print_raw(c, &a);
	else if (!rc)
		fprintf(c->out, "%s\n", ctl_text(a.json, "token"));
	ctl_answer_free(&a);
	return rc;
}

int ctl_token_create(struct ctl *c, const struct ctl_call *call)
{
	const char *ttl = ctl_option(call, OPT_TTL), *role = ctl_option(call, OPT_ROLE);
	json_t *body = json_pack("{s:s}", "role", role ? role : "read");
	struct ctl_path path;

	if (!body)
		return ctl_complain(CTL_USAGE, "--role: not text");
	if (ttl && (!*ttl || strlen(ttl) > 9 || strspn(ttl, "0123456789") != strlen(ttl))) {
		json_decref(body);
		return ctl_complain(CTL_USAGE,
				    "--ttl '%.32s': a number of seconds is needed, as in --ttl 300",
				    ttl);
	}
	int rc = ttl ? json_object_set_new(body, "expires_s",
					   json_integer(time(NULL) + strtoll(ttl, NULL, 10)))
		     : 0;
	ctl_path_set(&path, TOKEN, call->args[0]);
	rc = rc ? ctl_complain(CTL_FAILED, "out of memory") : make(c, &path, body);
	json_decref(body);
	return rc;
}

int ctl_token_delete(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;
	struct ctl_answer a;
	int rc = ctl_confirm(c, "Withdraw token %s?", call->args[0]);

	if (rc)
		return rc;
	ctl_path_set(&path, TOKEN, call->args[0]);
	rc = ctl_ask(c, &(struct ctl_request){.method = "DELETE", .path = &path}, &a);
	if (!rc && c->json)
		ctl_print_raw(c, &a);
	else if (!rc)
		fputs("withdrawn\n", c->out);
	ctl_answer_free(&a);
	return rc;
}
