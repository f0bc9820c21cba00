/* concuryctl events. A stream that breaks off is taken up again behind the last event that was
 * shown. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/client/ctl_commands.h"
#include "api/client/ctl_sse.h"
#include "api/client/ctl_table.h"

#define QUIET_MS 700u	  /* without --follow: so long nothing came, so this was all */
#define SILENCE_MS 60000u /* the server says within a quarter of it that it lives */
#define AGAIN_MS 1000u

struct watch {
	struct ctl *c;
	struct ctl_sse *sse;
};

/* A line for each: the time of day, the kind, whom it is about, and what it says. */
static void print_event(struct ctl *c, const struct ctl_sse_event *e)
{
	json_t *json = json_loads(e->data, 0, NULL);
	const char *vip = json_string_value(json_object_get(json, "vip"));
	const char *dip = json_string_value(json_object_get(json, "dip"));
	const char *when = json_string_value(json_object_get(json, "time"));
	json_int_t count = json_integer_value(json_object_get(json, "count"));
	char text[512], kind[64], where[160];

	snprintf(text, sizeof(text), "%s", ctl_text(json, "text"));
	snprintf(kind, sizeof(kind), "%s", e->kind);
	snprintf(where, sizeof(where), "%s%s%s", vip ? vip : "", dip ? "/" : "", dip ? dip : "");
	ctl_clean(text);
	ctl_clean(kind);
	ctl_clean(where);
	fprintf(c->out, "%s  %-10s  %-12s  %s", when ? when : "-", kind, *where ? where : "-",
		text);
	if (count > 1)
		fprintf(c->out, " (%lld times)", (long long)count);
	fputc('\n', c->out);
	json_decref(json);
}

static bool on_event(void *ctx, const struct ctl_sse_event *e)
{
	struct ctl *c = ctx;

	if (c->json)
		fprintf(c->out, "%s\n", e->data);
	else
		print_event(c, e);
	return fflush(c->out) == 0;
}

static bool on_data(void *ctx, const char *data, size_t len)
{
	struct watch *w = ctx;

	return ctl_sse_feed(w->sse, data, len);
}

/* One stream, to its end. */
static int stream(struct watch *w, const struct ctl_path *path, bool follow, bool *came)
{
	char last[192];
	const char *const none[] = {"Accept: text/event-stream", NULL};
	const char *const headers[] = {"Accept: text/event-stream", last, NULL};
	const char *id = ctl_sse_last_id(w->sse);
	struct ctl_answer a;

	snprintf(last, sizeof(last), "Last-Event-ID: %s", id);
	ctl_sse_restart(w->sse);
	ctl_http_stream(w->c->http, path, *id ? headers : none, follow ? SILENCE_MS : QUIET_MS,
			on_data, w, &a);
	*came = a.status == 200;
	/* What broke off after it had come is no mistake. */
	int rc = *came ? CTL_OK : ctl_tell(w->c, &a);
	ctl_answer_free(&a);
	return rc;
}

int ctl_events(struct ctl *c, const struct ctl_call *call)
{
	const struct timespec pause = {.tv_sec = AGAIN_MS / 1000};
	bool follow = ctl_option(call, OPT_FOLLOW) != NULL, came = true;
	const char *since = ctl_option(call, OPT_SINCE);
	struct watch w = {.c = c, .sse = ctl_sse_new(on_event, c)};
	struct ctl_path path;

	if (!w.sse)
		return ctl_complain(CTL_FAILED, "out of memory");
	ctl_path_set(&path, "/v1/events");
	ctl_path_query(&path, "since", since ? since : follow ? NULL : "0");
	ctl_path_query(&path, "kind", ctl_option(call, OPT_KIND));
	ctl_path_query(&path, "vip", ctl_option(call, OPT_VIP));
	if (path.bad) {
		ctl_sse_free(w.sse);
		return ctl_complain(CTL_USAGE, "an option is too long");
	}
	int rc = stream(&w, &path, follow, &came);
	while (follow && (came || rc == CTL_UNREACHABLE) && !ferror(c->out)) {
		nanosleep(&pause, NULL);
		rc = stream(&w, &path, follow, &came);
	}
	ctl_sse_free(w.sse);
	return rc;
}
