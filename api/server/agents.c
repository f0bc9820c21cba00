/* Agents as resources: who may report for which DIP. A token is shown once, in the answer of the
 * request that made it. */
#include <stdio.h>
#include <stdlib.h>

#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/plan.h"
#include "api/server/problem.h"
#include "api/server/registry.h"
#include "api/server/resources.h"
#include "api/server/token.h"

/* What is only read, and ignored in a request. */
static const char *const read_only[] = {"instance",	      "sequence",     "synced",
					"last_report_age_ms", "load",	      "orphans_total",
					"reports_total",      "refused_total"};

static json_t *print_load(const struct agent_load *l)
{
	return json_pack("{s:I, s:I, s:I}", "connections", (json_int_t)l->connections, "cpus",
			 (json_int_t)l->cpus, "load_percent", (json_int_t)l->load_percent);
}

/* Of one that has not reported yet, null stands for what is not known. */
static json_t *print_agent(const struct agent_info *a)
{
	bool heard = a->instance[0] != '\0';

	return json_pack(
		"{s:s, s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:I, s:I, s:I}", "id", a->id, "vip",
		a->vip, "dip", a->dip, "instance", heard ? json_string(a->instance) : json_null(),
		"sequence", heard ? json_integer((json_int_t)a->sequence) : json_null(), "synced",
		(int)a->synced, "last_report_age_ms",
		heard ? json_integer((json_int_t)a->last_report_age_ms) : json_null(), "load",
		heard ? print_load(&a->load) : json_null(), "orphans_total",
		(json_int_t)a->orphans_total, "reports_total", (json_int_t)a->reports_total,
		"refused_total", (json_int_t)a->refused_total);
}

void agents_list(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	size_t n = 0;
	struct agent_info *agents = b->read_agents(b->ctx, NULL, &n);
	json_t *items = json_array();

	for (size_t i = 0; items && i < n; i++) {
		if (json_array_append_new(items, print_agent(&agents[i]))) {
			json_decref(items);
			items = NULL;
		}
	}
	free(agents);
	response_items(resp, items);
}

/* The agent as it is now, with one more member if token is given. */
static void answer_agent(const struct api_request *req, unsigned status, const char *token,
			 struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	size_t n = 0;
	struct agent_info *agent = b->read_agents(b->ctx, req->path_args[0], &n);

	if (!n) {
		problem_set(resp, 404, "no agent has the id '%s'", req->path_args[0]);
		return;
	}
	json_t *body = print_agent(agent);
	free(agent);
	response_with_token(resp, status, body, token);
}

static bool tag_agent(const struct api_request *req, char tag[ETAG_LEN])
{
	const struct api_backend *b = &req->api->backend;
	uint8_t hash[TOKEN_HASH_LEN] = {0};
	struct etag e;
	size_t n = 0;
	struct agent_info *a = b->read_agents(b->ctx, req->path_args[0], &n);

	tag[0] = '\0';
	if (!n || !b->agent_token(b->ctx, req->path_args[0], hash)) {
		free(a);
		return true;
	}
	etag_begin(&e);
	etag_add_bytes(&e, a->id, strlen(a->id) + 1);
	etag_add_bytes(&e, a->vip, strlen(a->vip) + 1);
	etag_add_bytes(&e, a->dip, strlen(a->dip) + 1);
	etag_add_bytes(&e, hash, sizeof(hash));
	free(a);
	return etag_end(&e, tag);
}

void agent_get(struct api_request *req, struct api_response *resp)
{
	if (!registry_settles(req, tag_agent, resp))
		answer_agent(req, 200, NULL, resp);
}

/* --- changes -------------------------------------------------------------------------------------
 */

struct agent_body {
	const char *vip, *dip, *token; /* within the document */
};

static bool is_read_only(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(read_only); i++)
		if (!strcmp(read_only[i], name))
			return true;
	return false;
}

static void parse_member(const char *name, const json_t *value, const char *id,
			 struct agent_body *out, struct field_errors *errors)
{
	const char *text = json_string_value(value);
	char pointer[FIELD_POINTER_LEN];

	codec_pointer(pointer, "", name);
	if (is_read_only(name))
		return;
	if (strcmp(name, "id") != 0 && strcmp(name, "vip") != 0 && strcmp(name, "dip") != 0 &&
	    strcmp(name, "token") != 0)
		field_errors_add(errors, pointer, "unknown", "no member has this name");
	else if (!text)
		field_errors_add(errors, pointer, "type", "must be a string");
	else if (!strcmp(name, "id") && strcmp(text, id) != 0)
		field_errors_add(errors, pointer, "immutable", "must be the path's id, or absent");
	else if (!strcmp(name, "vip"))
		out->vip = text;
	else if (!strcmp(name, "dip"))
		out->dip = text;
	else if (!strcmp(name, "token") && !token_text_valid(text))
		field_errors_add(errors, pointer, "bad_value",
				 "%d to %d visible ASCII characters, or absent for a fresh one",
				 TOKEN_MIN, TOKEN_MAX);
	else if (!strcmp(name, "token"))
		out->token = text;
}

static bool parse_agent(json_t *body, const char *id, struct agent_body *out,
			struct field_errors *errors)
{
	*out = (struct agent_body){.vip = NULL};
	if (!model_id_valid(id))
		field_errors_add(errors, "/id", "bad_value", "[a-z0-9]([a-z0-9._-]{0,62})");
	if (!json_is_object(body)) {
		field_errors_add(errors, "", "type", "must be an object");
		return false;
	}
	for (void *at = json_object_iter(body); at; at = json_object_iter_next(body, at))
		parse_member(json_object_iter_key(at), json_object_iter_value(at), id, out, errors);
	if (!json_object_get(body, "vip"))
		field_errors_add(errors, "/vip", "required", "it must be given");
	if (!json_object_get(body, "dip"))
		field_errors_add(errors, "/dip", "required", "it must be given");
	return errors->n == 0;
}

static void answer_failed(enum control_status status, const struct error *err,
			  struct api_response *resp)
{
	unsigned code = 500;

	if (status == CONTROL_NOT_FOUND)
		code = 404;
	else if (status == CONTROL_CONFLICT)
		code = 409;
	else if (status == CONTROL_NO_STORAGE)
		code = 507;
	problem_set(resp, code, "%s", err->message[0] ? err->message : "nothing has changed");
}

static void bind_agent(struct api_request *req, const struct agent_body *a,
		       struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	uint8_t hash[TOKEN_HASH_LEN];
	char fresh[TOKEN_TEXT_LEN] = "";
	struct error err = {""};
	bool created = false, dry_run;

	if (!change_read_flag(req, "dry_run", &dry_run, resp))
		return;
	if (!a->token)
		token_make(fresh);
	if (!token_hash(a->token ? a->token : fresh, hash)) {
		problem_set(resp, 500, "no hash could be made");
		return;
	}
	enum control_status status = b->put_agent(b->ctx, req->path_args[0], a->vip, a->dip,
						  dry_run ? NULL : hash, &created, &err);
	if (status != CONTROL_OK) {
		answer_failed(status, &err, resp);
		return;
	}
	if (dry_run) {
		response_json(resp, 200, plan_print_none(req->api));
		return;
	}
	answer_agent(req, created ? 201 : 200, a->token ? NULL : fresh, resp);
	if (resp->status == 201)
		snprintf(resp->location, sizeof(resp->location), "/v1/agents/%s",
			 req->path_args[0]);
}

void agent_put(struct api_request *req, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	struct agent_body a;

	if (!request_is_timely(req, resp))
		return;
	json_t *body = body_parse(req, false, resp);
	if (!body)
		return;
	if (!parse_agent(body, req->path_args[0], &a, &errors)) {
		change_refuse(resp, &errors);
	} else if (registry_begin(req, tag_agent, resp)) {
		bind_agent(req, &a, resp);
		registry_end(req, tag_agent, resp);
	}
	json_decref(body);
}

static bool is_bound(const struct api_request *req, const char *id)
{
	const struct api_backend *b = &req->api->backend;
	size_t n = 0;

	free(b->read_agents(b->ctx, id, &n));
	return n != 0;
}

static void forget_agent(const struct api_request *req, bool dry_run, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	const char *id = req->path_args[0];
	struct error err = {""};
	enum control_status status = CONTROL_NOT_FOUND;

	if (dry_run && is_bound(req, id))
		status = CONTROL_OK;
	else if (!dry_run && model_id_valid(id))
		status = b->delete_agent(b->ctx, id, &err);
	if (status == CONTROL_OK && dry_run)
		response_json(resp, 200, plan_print_none(req->api));
	else if (status == CONTROL_OK)
		response_json(resp, 200, json_pack("{s:s}", "id", id));
	else if (status == CONTROL_NOT_FOUND)
		problem_set(resp, 404, "no agent has the id '%s'", id);
	else
		answer_failed(status, &err, resp);
}

void agent_delete(struct api_request *req, struct api_response *resp)
{
	bool dry_run;

	if (!request_is_timely(req, resp) || !change_read_flag(req, "dry_run", &dry_run, resp) ||
	    !registry_begin(req, tag_agent, resp))
		return;
	forget_agent(req, dry_run, resp);
	registry_end(req, NULL, resp);
}
