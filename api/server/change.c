#include "api/server/change.h"

#include <stdio.h>

#include "api/server/codec.h"
#include "api/server/plan.h"
#include "api/server/precondition.h"
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
	[CONTROL_PRECONDITION] = {412, "what is there is not what the request expects"},
	[CONTROL_INVALID] = {422, "some members are not valid"},
	[CONTROL_UNAVAILABLE] = {503, "changes are not taken at the moment"},
	[CONTROL_NO_STORAGE] = {507, "the database could not be written; nothing has changed"},
	[CONTROL_FAILED] = {500, "the change failed; nothing has changed"},
};

unsigned change_http_status(enum control_status status)
{
	return outcomes[status].status;
}

bool change_read_flag(const struct api_request *req, const char *name, bool *out,
		      struct api_response *resp)
{
	const char *value = request_query(req, name);

	*out = value && !strcmp(value, "true");
	if (!value || *out || !strcmp(value, "false"))
		return true;
	problem_parameter(resp, name, "true or false");
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

/* --- what control calls back --------------------------------------------------------------- */

static void begin(void *ctx)
{
	scribe_begin(&((struct change_call *)ctx)->scribe);
}

static void edited(void *ctx, const struct control_seen *seen)
{
	scribe_edited(&((struct change_call *)ctx)->scribe, seen);
}

static const char *text(void *ctx, unsigned *n_edits)
{
	return scribe_text(&((struct change_call *)ctx)->scribe, n_edits);
}

/* The tag of what the request would change; "" if it is not there. */
static bool current_tag(const struct change_call *c, struct control_view *view, char tag[ETAG_LEN])
{
	struct control_view_vip v;
	bool deleting;

	tag[0] = '\0';
	if (!control_view_find(view, c->r.vip, &v))
		return true;
	if (!control_op_is_dip(c->r.op))
		return etag_of_vip(v.conf, v.deleting, tag);
	const struct dip_conf *d = control_view_find_dip(&v, c->r.dip, &deleting);
	return !d || etag_of_dip(d, deleting, tag);
}

/* A PATCH or DELETE of what is not there has nothing to compare: 404 it is. */
static enum control_status check_precondition(void *ctx, struct control_view *view,
					      struct control_transaction *t)
{
	struct change_call *c = ctx;
	bool puts = c->r.op == OP_VIP_PUT || c->r.op == OP_DIP_PUT;

	(void)t;
	if (!current_tag(c, view, c->current))
		return CONTROL_FAILED;
	if ((!c->current[0] && !puts) || precondition_holds(c->req, c->current))
		return CONTROL_OK;
	return CONTROL_PRECONDITION;
}

/* --- starting ------------------------------------------------------------------------------ */

bool change_init_several(const struct api_request *req, const char *action, struct change_call *c,
			 struct api_response *resp)
{
	*c = (struct change_call){.req = req};
	c->r.transaction = &c->t;
	c->t = (struct control_transaction){.ctx = c,
					    .begin = begin,
					    .edited = edited,
					    .text = text,
					    .action = c->action,
					    .several = true};
	snprintf(c->action, sizeof(c->action), "%s", action);
	memcpy(c->r.author, req->author, sizeof(c->r.author));
	if (!change_read_flag(req, "override_hold", &c->r.override_hold, resp) ||
	    !change_read_flag(req, "dry_run", &c->t.dry_run, resp) ||
	    !precondition_accept(req, resp))
		return false;
	return request_is_timely(req, resp);
}

bool change_init(const struct api_request *req, enum control_op op, struct change_call *c,
		 struct api_response *resp)
{
	bool dip = control_op_is_dip(op), force;

	if (!change_read_flag(req, "force", &force, resp) ||
	    !check_id(req->path_args[0], "VIP", op == OP_VIP_PUT, resp) ||
	    (dip && !check_id(req->path_args[1], "DIP", op == OP_DIP_PUT, resp)) ||
	    !change_init_several(req, "", c, resp))
		return false;
	c->t.several = false;
	c->t.prepare = precondition_given(req) ? check_precondition : NULL;
	c->r.op = op;
	c->r.force = force;
	snprintf(c->r.vip, sizeof(c->r.vip), "%s", req->path_args[0]);
	if (dip)
		snprintf(c->r.dip, sizeof(c->r.dip), "%s", req->path_args[1]);
	snprintf(c->action, sizeof(c->action), "%s /v1/vips/%s%s%s", req->method, c->r.vip,
		 dip ? "/dips/" : "", c->r.dip);
	return true;
}

void change_refuse(struct api_response *resp, const struct field_errors *errors)
{
	const struct field_error *first = &errors->list[0];

	problem_set(resp, 422, "%s%s%s", first->pointer, first->pointer[0] ? ": " : "",
		    first->detail);
	problem_add_errors(resp, errors);
}

/* --- answering ----------------------------------------------------------------------------- */

/* The resource as control left it; of one that is gone only the id may be known. */
static json_t *changed_resource(const struct control_request *r)
{
	bool dip = control_op_is_dip(r->op);

	if (dip && r->dip_info.conf.id[0])
		return codec_print_dip(&r->dip_info);
	if (!dip && r->vip_info.conf.id[0])
		return codec_print_vip(&r->vip_info);
	return json_pack("{s:s}", "id", dip ? r->dip : r->vip);
}

static bool set_tag(const struct control_request *r, bool deleted, struct api_response *resp)
{
	if (deleted && r->status != CONTROL_ACCEPTED)
		return true; /* it is gone */
	if (control_op_is_dip(r->op))
		return etag_of_dip(&r->dip_info.conf, r->dip_info.deleting, resp->etag);
	return etag_of_vip(&r->vip_info.conf, r->vip_info.deleting, resp->etag);
}

static void answer_changed(const struct control_request *r, unsigned status,
			   struct api_response *resp)
{
	bool deleted = r->op == OP_VIP_DELETE || r->op == OP_DIP_DELETE;
	bool gone = deleted && r->status != CONTROL_ACCEPTED;
	json_t *body = changed_resource(r);

	/* json_object_set_new refuses NULL on either side, so memory that ran out shows here. */
	if ((gone && json_object_set_new(body, "state", json_string("removed"))) ||
	    (deleted && json_object_set_new(body, "flows_remaining",
					    json_integer((json_int_t)r->flows_remaining))) ||
	    json_object_set_new(body, "change", codec_print_change(&r->change)) ||
	    !set_tag(r, deleted, resp)) {
		json_decref(body);
		body = NULL;
	}
	response_json(resp, status, body);
	resp->generation = r->change.generation;
	if (status != 201)
		return;
	if (control_op_is_dip(r->op))
		snprintf(resp->location, sizeof(resp->location), "/v1/vips/%s/dips/%s", r->vip,
			 r->dip);
	else
		snprintf(resp->location, sizeof(resp->location), "/v1/vips/%s", r->vip);
}

static void answer_refused(const struct change_call *c, struct api_response *resp)
{
	const struct control_request *r = &c->r;
	unsigned status = outcomes[r->status].status;

	if (r->status == CONTROL_PRECONDITION) {
		precondition_refuse(c->req, c->current, resp);
		return;
	}
	problem_set(resp, status, "%s", r->detail[0] ? r->detail : outcomes[r->status].detail);
	problem_add_errors(resp, &r->errors);
	if (status == 503)
		resp->retry_after_s = r->retry_after_s ? r->retry_after_s : 1;
}

bool change_run_several(struct change_call *c, struct api_response *resp)
{
	const struct api_backend *b = &c->req->api->backend;

	b->change(b->ctx, &c->r);
	if (outcomes[c->r.status].status >= 300)
		answer_refused(c, resp);
	else if (c->t.dry_run)
		response_json(resp, 200, plan_print(&c->t, &c->r.change));
	else
		return true;
	return false;
}

void change_run(struct change_call *c, struct api_response *resp)
{
	if (change_run_several(c, resp))
		answer_changed(&c->r, outcomes[c->r.status].status, resp);
	change_end(c);
}

void change_end(struct change_call *c)
{
	control_transaction_clear(&c->t);
	scribe_free(&c->scribe);
}
