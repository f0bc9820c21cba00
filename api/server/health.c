/* A DIP's health: what has happened to it, and what an operator or a monitoring system says in its
 * checks' place. */
#include <stdio.h>
#include <string.h>

#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/plan.h"
#include "api/server/problem.h"
#include "api/server/registry.h"
#include "api/server/resources.h"

static const struct dip_info *find_dip(const struct vip_info *vip, const char *id)
{
	for (unsigned i = 0; i < vip->n_dips; i++)
		if (!strcmp(vip->dips[i].conf.id, id))
			return &vip->dips[i];
	return NULL;
}

/* The DIP's health as it is now, or NULL with the answer set. */
static json_t *print_now(const struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	json_t *body = NULL;
	size_t n = 0;
	struct vip_info *vip = b->read_vips(b->ctx, req->path_args[0], true, &n);
	const struct dip_info *dip = n ? find_dip(vip, req->path_args[1]) : NULL;

	if (!n)
		problem_set(resp, 404, "no VIP has the id '%s'", req->path_args[0]);
	else if (!dip)
		problem_set(resp, 404, "the VIP '%s' has no DIP '%s'", req->path_args[0],
			    req->path_args[1]);
	else
		body = codec_print_dip_health(&dip->health);
	if (dip && !body)
		response_json(resp, 200, NULL); /* no memory */
	b->free_vips(vip, n);
	return body;
}

void health_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct health_history history = {.found = false};
	json_t *body = print_now(req, resp), *list;

	if (!body)
		return;
	b->read_health_history(b->ctx, req->path_args[0], req->path_args[1], &history);
	list = json_array();
	for (unsigned i = 0; list && i < history.n; i++) {
		if (json_array_append_new(list, codec_print_health_event(&history.list[i]))) {
			json_decref(list);
			list = NULL;
		}
	}
	if (json_object_set_new(body, "history", list)) {
		json_decref(body);
		body = NULL;
	}
	response_json(resp, 200, body);
}

/* --- overrides -----------------------------------------------------------------------------------
 */

static void parse_state(const json_t *value, struct health_request *r, struct field_errors *errors)
{
	const char *text = json_string_value(value);

	if (!value)
		field_errors_add(errors, "/state", "required", "it must be given");
	else if (!text)
		field_errors_add(errors, "/state", "type", "must be a string");
	else if (!strcmp(text, "up"))
		r->state = OVERRIDE_UP;
	else if (!strcmp(text, "down"))
		r->state = OVERRIDE_DOWN;
	else
		field_errors_add(errors, "/state", "bad_value", "one of: up, down");
}

static void parse_reason(const json_t *value, struct health_request *r, struct field_errors *errors)
{
	const char *text = json_string_value(value);

	if (!value)
		field_errors_add(errors, "/reason", "required",
				 "say why, for whoever wonders later");
	else if (!text)
		field_errors_add(errors, "/reason", "type", "must be a string");
	else if (!text[0] || strlen(text) != json_string_length(value) ||
		 strlen(text) >= sizeof(r->reason))
		field_errors_add(errors, "/reason", "bad_value", "1 to %zu bytes, none of them NUL",
				 sizeof(r->reason) - 1);
	else
		snprintf(r->reason, sizeof(r->reason), "%s", text);
}

static void parse_ttl(const json_t *value, struct health_request *r, struct field_errors *errors)
{
	json_int_t ttl = json_integer_value(value);

	if (!value || json_is_null(value))
		return;
	if (!json_is_integer(value))
		field_errors_add(errors, "/ttl_s", "type", "must be an integer or null");
	else if (ttl < 1 || ttl > HEALTH_TTL_MAX_S)
		field_errors_add(errors, "/ttl_s", "out_of_range", "1 to %u", HEALTH_TTL_MAX_S);
	else
		r->ttl_s = (uint32_t)ttl;
}

static bool parse_override(json_t *body, struct health_request *r, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	const char *name;
	json_t *value;
	char pointer[FIELD_POINTER_LEN];

	if (!json_is_object(body)) {
		field_errors_add(&errors, "", "type", "must be an object");
	} else {
		json_object_foreach(body, name, value)
		{
			if (!strcmp(name, "state") || !strcmp(name, "reason") ||
			    !strcmp(name, "ttl_s") || !strcmp(name, "until"))
				continue; /* until: as it was read */
			codec_pointer(pointer, "", name);
			field_errors_add(&errors, pointer, "unknown", "no such member");
		}
		parse_state(json_object_get(body, "state"), r, &errors);
		parse_reason(json_object_get(body, "reason"), r, &errors);
		parse_ttl(json_object_get(body, "ttl_s"), r, &errors);
	}
	if (errors.n == 0)
		return true;
	problem_set(resp, 422, "%s%s%s", errors.list[0].pointer,
		    errors.list[0].pointer[0] ? ": " : "", errors.list[0].detail);
	problem_add_errors(resp, &errors);
	return false;
}

/* Does not move in memory. */
struct override_call {
	struct health_request r;
	struct control_transaction plan; /* of a dry run */
	struct change_info change;
};

static bool begin(const struct api_request *req, struct override_call *call,
		  struct api_response *resp)
{
	struct health_request *r = &call->r;
	bool dry_run;

	*call = (struct override_call){.plan = {.dry_run = true}};
	if (!change_read_flag(req, "override_hold", &r->override_hold, resp) ||
	    !change_read_flag(req, "dry_run", &dry_run, resp) || !request_is_timely(req, resp))
		return false;
	snprintf(r->vip, sizeof(r->vip), "%s", req->path_args[0]);
	snprintf(r->dip, sizeof(r->dip), "%s", req->path_args[1]);
	r->plan = dry_run ? &call->plan : NULL;
	r->change = &call->change;
	return true;
}

static void answer_refused(const struct health_request *r, struct api_response *resp)
{
	problem_set(resp, change_http_status((enum control_status)r->status), "%s",
		    r->detail[0] ? r->detail : "nothing has changed");
	if (r->status == CONTROL_UNAVAILABLE)
		resp->retry_after_s = r->retry_after_s ? r->retry_after_s : 1;
}

static void run(const struct api_request *req, struct override_call *call,
		struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct health_request *r = &call->r;

	b->override_health(b->ctx, r);
	if (r->status != CONTROL_OK) {
		answer_refused(r, resp);
	} else if (r->plan) {
		response_json(resp, 200, plan_print(&call->plan, &call->change));
	} else {
		json_t *body = print_now(req, resp);
		if (body)
			response_json(resp, 200, body);
	}
	control_transaction_clear(&call->plan);
	registry_tell(req, resp);
}

void health_override_put(struct api_request *req, struct api_response *resp)
{
	struct override_call call;

	if (!begin(req, &call, resp))
		return;
	json_t *body = body_parse(req, false, resp);
	if (!body)
		return;
	if (parse_override(body, &call.r, resp))
		run(req, &call, resp);
	json_decref(body);
}

void health_override_delete(struct api_request *req, struct api_response *resp)
{
	struct override_call call;

	if (begin(req, &call, resp))
		run(req, &call, resp);
}
