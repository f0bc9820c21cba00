#include "api/server/change.h"

#include <stdio.h>

#include "api/server/codec.h"
#include "api/server/problem.h"

static const struct {
	unsigned status;
	const char *detail; /* where control says nothing */
} outcomes[] = {
	[CONTROL_OK] = {200, ""},
	[CONTROL_CREATED] = {201, ""},
	[CONTROL_ACCEPTED] = {202, ""},
	[CONTROL_NOT_FOUND] = {404, "no such VIP or DIP"},
	[CONTROL_CONFLICT] = {409, "the change contradicts what is there"},
	[CONTROL_INVALID] = {422, "some members are not valid"},
	[CONTROL_UNAVAILABLE] = {503, "changes are not taken at the moment"},
	[CONTROL_NO_STORAGE] = {507, "the database could not be written; nothing has changed"},
	[CONTROL_FAILED] = {500, "the change failed; nothing has changed"},
};

static bool op_is_dip(enum control_op op)
{
	return op == OP_DIP_PUT || op == OP_DIP_PATCH || op == OP_DIP_DELETE;
}

static bool read_flag(const struct api_request *req, const char *name, bool *out,
		      struct api_response *resp)
{
	const char *value = request_query(req, name);

	*out = value && !strcmp(value, "true");
	if (!value || *out || !strcmp(value, "false"))
		return true;
	problem_set(resp, 400, "query parameter %s: true or false", name);
	return false;
}

/* An id that cannot be one: of what is to be made it is a faulty member, else it is not there. */
static bool check_id(const char *id, const char *what, bool creates, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};

	if (model_id_valid(id))
		return true;
	if (!creates) {
		problem_set(resp, 404, "no %s has the id '%s'", what, id);
		return false;
	}
	field_errors_add(&errors, "/id", "bad_value", "[a-z0-9]([a-z0-9._-]{0,62})");
	change_refuse(resp, &errors);
	return false;
}

bool change_init(const struct api_request *req, enum control_op op, struct control_request *r,
		 struct api_response *resp)
{
	bool dip = op_is_dip(op);

	memset(r, 0, sizeof(*r));
	r->op = op;
	if (!read_flag(req, "force", &r->force, resp) ||
	    !read_flag(req, "override_hold", &r->override_hold, resp))
		return false;
	if (!check_id(req->path_args[0], "VIP", op == OP_VIP_PUT, resp))
		return false;
	if (dip && !check_id(req->path_args[1], "DIP", op == OP_DIP_PUT, resp))
		return false;
	if (!atomic_load(&req->api->ready)) {
		problem_set(resp, 503, "concuryd is starting or ending");
		resp->retry_after_s = 1;
		return false;
	}
	snprintf(r->vip, sizeof(r->vip), "%s", req->path_args[0]);
	if (dip)
		snprintf(r->dip, sizeof(r->dip), "%s", req->path_args[1]);
	return true;
}

void change_refuse(struct api_response *resp, const struct field_errors *errors)
{
	const struct field_error *first = &errors->list[0];

	problem_set(resp, 422, "%s%s%s", first->pointer, first->pointer[0] ? ": " : "",
		    first->detail);
	problem_add_errors(resp, errors);
}

/* The resource as control left it; of one that is gone only the id may be known. */
static json_t *changed_resource(const struct control_request *r)
{
	bool dip = op_is_dip(r->op);

	if (dip && r->dip_info.conf.id[0])
		return codec_print_dip(&r->dip_info);
	if (!dip && r->vip_info.conf.id[0])
		return codec_print_vip(&r->vip_info);
	return json_pack("{s:s}", "id", dip ? r->dip : r->vip);
}

static void answer_changed(const struct control_request *r, unsigned status,
			   struct api_response *resp)
{
	bool deleted = r->op == OP_VIP_DELETE || r->op == OP_DIP_DELETE;
	json_t *body = changed_resource(r);

	/* json_object_set_new refuses NULL on either side, so memory that ran out shows here. */
	if ((deleted && json_object_set_new(body, "flows_remaining",
					    json_integer((json_int_t)r->flows_remaining))) ||
	    json_object_set_new(body, "change", codec_print_change(&r->change))) {
		json_decref(body);
		body = NULL;
	}
	response_json(resp, status, body);
	if (status != 201)
		return;
	if (op_is_dip(r->op))
		snprintf(resp->location, sizeof(resp->location), "/v1/vips/%s/dips/%s", r->vip,
			 r->dip);
	else
		snprintf(resp->location, sizeof(resp->location), "/v1/vips/%s", r->vip);
}

void change_run(const struct api_request *req, struct control_request *r, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;

	b->change(b->ctx, r);
	unsigned status = outcomes[r->status].status;
	if (status < 300) {
		answer_changed(r, status, resp);
		return;
	}
	problem_set(resp, status, "%s", r->detail[0] ? r->detail : outcomes[r->status].detail);
	problem_add_errors(resp, &r->errors);
	if (status == 503)
		resp->retry_after_s = r->retry_after_s ? r->retry_after_s : 1;
}
