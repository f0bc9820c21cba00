/* What VIPs and DIPs have in common: to be shown whole, waited for, and put back. */
#include <stdlib.h>
#include <time.h>

#include "api/client/ctl_change.h"
#include "api/client/ctl_commands.h"
#include "api/client/ctl_table.h"

#define LOOK_MS 500

/* One line for each member, inner ones with their outer's name before a dot. */
static void print_members(struct ctl *c, const json_t *object, const char *before)
{
	const char *name;
	json_t *m;

	json_object_foreach((json_t *)object, name, m)
	{
		char path[128];
		snprintf(path, sizeof(path), "%s%s%s", before, *before ? "." : "", name);
		if (json_is_object(m) && json_object_size(m)) {
			print_members(c, m, path);
			continue;
		}
		char *text = json_is_string(m) ? NULL : json_dumps(m, JSON_ENCODE_ANY);
		fprintf(c->out, "%-28s ", path);
		for (const char *at = text ? text : json_string_value(m); at && *at; at++)
			fputc((unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at, c->out);
		fputc('\n', c->out);
		free(text);
	}
}

void ctl_print_members(struct ctl *c, const json_t *json)
{
	print_members(c, json, "");
}

int ctl_show_resource(struct ctl *c, const struct ctl_path *path)
{
	struct ctl_answer a;
	int rc = ctl_get(c, path, &a);

	if (!rc && c->json)
		ctl_print_raw(c, &a);
	else if (!rc) {
		print_members(c, a.json, "");
		if (a.etag[0])
			fprintf(c->out, "%-28s %s\n", "(ETag)", a.etag);
	}
	ctl_answer_free(&a);
	return rc;
}

/* One look; *last: the flows that were told of. */
static int look(struct ctl *c, const struct ctl_path *path, bool *gone, json_int_t *last)
{
	struct ctl_answer a;

	ctl_http_ask(c->http, &(struct ctl_request){.method = "GET", .path = path}, &a);
	*gone = a.status == 404;
	int rc = *gone ? CTL_OK : ctl_tell(c, &a);
	json_int_t flows = json_integer_value(json_object_get(a.json, "flows"));
	if (!rc && !*gone && !json_object_get(a.json, "drain"))
		rc = ctl_complain(CTL_FAILED, "it does not drain any more: it was put back");
	if (!rc && !*gone && flows != *last && !c->json) {
		fprintf(c->out, "%lld flows remain\n", (long long)flows);
		fflush(c->out);
		*last = flows;
	}
	ctl_answer_free(&a);
	return rc;
}

int ctl_wait_gone(struct ctl *c, const struct ctl_path *path)
{
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
	json_int_t last = -1;
	bool gone = false;
	int rc;

	while ((rc = look(c, path, &gone, &last)) == CTL_OK && !gone)
		nanosleep(&pause, NULL);
	return rc;
}

int ctl_put_back(struct ctl *c, const struct ctl_call *call, struct ctl_path *path)
{
	struct ctl_request r = {.method = "PUT"};
	struct ctl_answer a;
	int rc = ctl_get(c, path, &a);

	if (!rc && !json_object_get(a.json, "drain")) {
		rc = ctl_complain(CTL_CONFLICT, "it does not drain");
	} else if (!rc) {
		/* Nobody's change in between is undone. */
		r.if_match = a.etag[0] ? a.etag : NULL;
		r.body = a.json;
		rc = ctl_change(c, call, &r, path, "drains no more");
	}
	ctl_answer_free(&a);
	return rc;
}
