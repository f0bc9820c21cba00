/* Who changed what: the change log entry by entry, newest first, with filters.
 * What was refused is not in it. Entries are looked at some hundred at a time,
 * so that a filter that few pass holds no more of them than that. */
#include <stdio.h>

#include "api/server/past.h"
#include "api/server/problem.h"
#include "api/server/resources.h"
#include "api/server/timestamp.h"
#include "api/server/versions.h"

#define PATHS_MAX 100 /* shown of an entry */
#define CHUNK 256

struct filter {
	const char *author, *path; /* NULL: any */
	int64_t since_ms;
	uint64_t generation;
};

static bool passes(const struct filter *f, const struct history_entry *e)
{
	return e->wall_ms >= f->since_ms && (!f->author || !strcmp(f->author, e->author)) &&
	       (!f->path || past_touches(e, f->path));
}

static json_t *print_entry(const struct history_entry *e)
{
	return json_pack("{s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "version",
			 (json_int_t)e->version, "time", timestamp_print(e->wall_ms), "author",
			 problem_text(e->author), "action", problem_text(e->action),
			 "generation_before", (json_int_t)e->generation_before, "generation",
			 (json_int_t)e->generation, "edits", (json_int_t)e->n_edits, "paths",
			 past_paths(e, PATHS_MAX));
}

/* Add what passes of the entries below *before, the newest first, until there
 * are `limit`. *before becomes the last one that was looked at; 0 when none is
 * left. False without memory. */
static bool collect(const struct api_backend *b, const struct filter *f, size_t limit,
		    uint64_t *before, json_t *items)
{
	bool ok = true;

	while (ok && *before && json_array_size(items) < limit) {
		struct history_view v;
		if (b->read_history(b->ctx, f->generation, 1, *before - 1, CHUNK, &v))
			return false;
		size_t i = v.n;
		while (ok && i > 0 && json_array_size(items) < limit) {
			const struct history_entry *e = v.entries[--i];
			if (passes(f, e))
				ok = json_array_append_new(items, print_entry(e)) == 0;
		}
		*before = v.n && v.entries[i]->version > v.oldest ? v.entries[i]->version : 0;
		history_view_free(&v);
	}
	return ok;
}

static void read_filter(const struct api_request *req, struct filter *f,
			struct field_errors *errors)
{
	const char *since = request_query(req, "since");

	*f = (struct filter){.author = request_query(req, "author"),
			     .path = request_query(req, "path"),
			     .since_ms = INT64_MIN,
			     .generation = req->api->backend.generation(req->api->backend.ctx)};
	if (since && !timestamp_parse(since, &f->since_ms))
		field_errors_add(errors, "?since", "bad_value",
				 "a time such as 2026-11-30T00:41:47Z");
}

void audit_log_get(struct api_request *req, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	struct listing page;
	struct filter f;
	uint64_t before;
	char next[24];

	versions_read_page(req, &page, &before, &errors);
	read_filter(req, &f, &errors);
	if (errors.n) {
		problem_query(resp, &errors);
		return;
	}
	json_t *items = json_array();
	if (!items || !collect(&req->api->backend, &f, page.limit, &before, items)) {
		json_decref(items);
		items = NULL;
	}
	snprintf(next, sizeof(next), "%llu", (unsigned long long)before);
	listing_answer(req, items, before ? next : NULL, resp);
}
