/* Versions of the configuration: the list of them, each as it was, what lies
 * between two, and the way back. A version is the state after one accepted
 * request; the one before the oldest that is kept can be had too, since it is
 * what undoing all leads to. */
#include <errno.h>
#include <stdio.h>

#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/config.h"
#include "api/server/past.h"
#include "api/server/problem.h"
#include "api/server/resources.h"
#include "api/server/timestamp.h"
#include "api/server/versions.h"

#define PAGE_USUAL 100
#define PAGE_MAX 1000

/* Entries from..to; NULL fields and false with the answer set on failure. */
static bool read_log(const struct api_request *req, uint64_t generation, uint64_t from, uint64_t to,
		     struct history_view *out, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;

	if (!b->read_history(b->ctx, generation, from, to, SIZE_MAX, out))
		return true;
	problem_set(resp, 500, "out of memory");
	return false;
}

/* True if the state after this version is known. */
static bool is_kept(const struct history_view *v, uint64_t version)
{
	return version <= v->newest && version + 1 >= v->oldest;
}

static void refuse_version(const struct history_view *v, uint64_t version,
			   struct api_response *resp)
{
	unsigned long long oldest = v->oldest ? v->oldest - 1 : 0;

	problem_set(resp, 404, "version %llu is not there: %llu to %llu are",
		    (unsigned long long)version, oldest, (unsigned long long)v->newest);
}

static void refuse_damaged(int rc, uint64_t version, struct api_response *resp)
{
	if (rc == -ENOMEM)
		problem_set(resp, 500, "out of memory");
	else
		problem_set(resp, 500, "the log's entry of version %llu is damaged",
			    (unsigned long long)version);
}

static bool path_version(const struct api_request *req, uint64_t *version,
			 struct api_response *resp)
{
	if (past_parse_version(req->path_args[0], version))
		return true;
	problem_set(resp, 404, "a version is a number");
	return false;
}

/* --- the list
 * ------------------------------------------------------------------------------
 */

static json_t *print_version(const struct history_entry *e)
{
	return json_pack("{s:I, s:o, s:o, s:o, s:I, s:I}", "version", (json_int_t)e->version,
			 "time", timestamp_print(e->wall_ms), "author", problem_text(e->author),
			 "action", problem_text(e->action), "generation", (json_int_t)e->generation,
			 "edits", (json_int_t)e->n_edits);
}

/* Newest first. */
static json_t *print_versions(const struct history_view *v)
{
	json_t *items = json_array();
	bool ok = items != NULL;

	for (size_t i = v->n; ok && i > 0; i--)
		ok = json_array_append_new(items, print_version(v->entries[i - 1])) == 0;
	if (ok)
		return items;
	json_decref(items);
	return NULL;
}

void versions_read_page(const struct api_request *req, struct listing *page, uint64_t *before,
			struct field_errors *errors)
{
	listing_read(req, PAGE_USUAL, PAGE_MAX, page, errors);
	*before = UINT64_MAX;
	if (page->cursor[0] && (!past_parse_version(page->cursor, before) || *before == 0))
		field_errors_add(errors, "?cursor", "bad_value", "what another page gave as next");
}

void versions_list(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct field_errors errors = {.n = 0};
	struct listing page;
	struct history_view v;
	uint64_t before;
	char next[24];

	versions_read_page(req, &page, &before, &errors);
	if (errors.n) {
		problem_query(resp, &errors);
		return;
	}
	if (b->read_history(b->ctx, b->generation(b->ctx), 1, before - 1, page.limit, &v)) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	bool more = v.n && v.entries[0]->version > v.oldest;
	snprintf(next, sizeof(next), "%llu", v.n ? (unsigned long long)v.entries[0]->version : 0);
	listing_answer(req, print_versions(&v), more ? next : NULL, resp);
	history_view_free(&v);
}

/* --- one, as it was
 * ------------------------------------------------------------------------ */

static void take_copy(void *arg, struct control_view *view)
{
	*(struct config_copy **)arg = config_copy_new(view);
}

/* Undo what came after it. NULL with the answer set. */
static json_t *undo(const struct history_view *v, const struct config_copy *copy,
		    struct api_response *resp)
{
	json_t *config = config_copy_print(copy);
	json_t *state = config ? past_from_config(config) : NULL;
	json_t *was = NULL;
	int rc = state ? 0 : -ENOMEM;
	size_t i = v->n;

	while (rc == 0 && i > 0)
		rc = past_undo(state, v->entries[--i]);
	if (rc == 0 && !past_is_whole(state))
		rc = -EINVAL;
	if (rc == 0)
		was = past_to_config(state);
	if (!was)
		refuse_damaged(rc ? rc : -ENOMEM, v->n ? v->entries[i]->version : 0, resp);
	json_decref(config);
	json_decref(state);
	return was;
}

/* The configuration after a version. NULL with the answer set: 404 if it is not
 * kept.
 *
 * The published state and its generation are taken in one go, and of the log
 * what has come after the version up to that generation: so it does not matter
 * what happens meanwhile, but that the version may be trimmed. */
static json_t *config_after(const struct api_request *req, uint64_t version,
			    struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct config_copy *copy = NULL;
	struct history_view v;
	json_t *was = NULL;

	b->look(b->ctx, take_copy, &copy);
	if (!copy) {
		problem_set(resp, 500, "out of memory");
		return NULL;
	}
	uint64_t generation = config_copy_generation(copy);
	if (read_log(req, generation, version + 1, UINT64_MAX, &v, resp)) {
		resp->generation = generation;
		if (is_kept(&v, version))
			was = undo(&v, copy, resp);
		else
			refuse_version(&v, version, resp);
		history_view_free(&v);
	}
	config_copy_free(copy);
	return was;
}

void version_get(struct api_request *req, struct api_response *resp)
{
	uint64_t version;
	json_t *was;

	if (!path_version(req, &version, resp))
		return;
	was = config_after(req, version, resp);
	if (was)
		response_json(resp, 200, was);
}

/* --- what lies between
 * --------------------------------------------------------------------- */

static void answer_diff(const struct history_view *v, uint64_t from, uint64_t to,
			struct api_response *resp)
{
	json_t *changes = json_object();
	int rc = changes ? 0 : -ENOMEM;
	size_t i = 0;

	while (rc == 0 && i < v->n)
		rc = past_add_changes(changes, v->entries[i++]);
	if (rc)
		refuse_damaged(rc, i ? v->entries[i - 1]->version : 0, resp);
	else
		response_json(resp, 200,
			      json_pack("{s:I, s:I, s:o}", "from", (json_int_t)from, "to",
					(json_int_t)to, "items", past_print_changes(changes)));
	json_decref(changes);
}

void version_diff_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	const char *other_text = request_query(req, "to");
	struct history_view v;
	uint64_t version, other;

	if (!path_version(req, &version, resp))
		return;
	other = version ? version - 1 : 0;
	if (other_text && !past_parse_version(other_text, &other)) {
		problem_parameter(resp, "to", "the number of a version");
		return;
	}
	uint64_t from = version < other ? version : other;
	uint64_t to = version < other ? other : version;
	if (!read_log(req, b->generation(b->ctx), from + 1, to, &v, resp))
		return;
	if (!is_kept(&v, version))
		refuse_version(&v, version, resp);
	else if (!is_kept(&v, other))
		refuse_version(&v, other, resp);
	else
		answer_diff(&v, from, to, resp);
	history_view_free(&v);
}

/* --- the way back
 * -------------------------------------------------------------------------- */

static bool parse_rollback(const json_t *body, uint64_t *to, struct field_errors *errors)
{
	const json_t *number = json_object_get(body, "to");
	char pointer[FIELD_POINTER_LEN];
	const char *name;
	json_t *value;

	if (!json_is_object(body)) {
		field_errors_add(errors, "", "type", "must be an object");
		return false;
	}
	json_object_foreach((json_t *)body, name, value)
	{
		if (!strcmp(name, "to"))
			continue;
		codec_pointer(pointer, "", name);
		field_errors_add(errors, pointer, "unknown", "no such member");
	}
	if (!number)
		field_errors_add(errors, "/to", "required", "it has no default");
	else if (!json_is_integer(number))
		field_errors_add(errors, "/to", "type", "must be an integer");
	else if (json_integer_value(number) < 0)
		field_errors_add(errors, "/to", "out_of_range", "the number of a version");
	*to = (uint64_t)json_integer_value(number);
	return errors->n == 0;
}

/* A version that is not there is a fault of the body. */
static void refuse_to(struct api_response *resp)
{
	const char *detail = json_string_value(json_object_get(resp->body, "detail"));
	struct field_errors errors = {.n = 0};

	field_errors_add(&errors, "/to", "not_found", "%s", detail ? detail : "");
	change_refuse(resp, &errors);
}

void rollback_post(struct api_request *req, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	char action[64];
	uint64_t to = 0;
	json_t *was = NULL;
	json_t *body = body_parse(req, false, resp);

	if (!body)
		return;
	if (!parse_rollback(body, &to, &errors)) {
		change_refuse(resp, &errors);
	} else {
		was = config_after(req, to, resp);
		if (!was && resp->status == 404)
			refuse_to(resp);
	}
	json_decref(body);
	if (!was)
		return;
	snprintf(action, sizeof(action), "POST /v1/config:rollback to %llu",
		 (unsigned long long)to);
	config_apply(req, was, PRUNE_DRAIN, action, resp);
	json_decref(was);
}
