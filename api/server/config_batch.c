/* POST of a list of operations: all or nothing, one publish. */
#include <stdio.h>
#include <stdlib.h>

#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/config.h"
#include "api/server/limits.h"
#include "api/server/problem.h"
#include "api/server/resources.h"

struct operation {
	const char *method, *path; /* the body's */
	char vip[ID_LEN], dip[ID_LEN];
	union {
		struct vip_edit vip_edit;
		struct dip_edit dip_edit;
	};
};

struct post {
	struct change_call call;
	unsigned n;
	struct operation *operations;
	struct control_edit *edits;
};

/* --- reading ------------------------------------------------------------------------------- */

static bool take_id(const char **at, char id[ID_LEN])
{
	size_t n = strcspn(*at, "/?");

	if (n >= ID_LEN)
		return false;
	memcpy(id, *at, n);
	id[n] = '\0';
	*at += n;
	return model_id_valid(id);
}

/* "/v1/vips/web/dips/b1?force=true". */
static bool parse_path(struct operation *o, bool *is_dip, bool *force)
{
	static const char vips[] = "/v1/vips/", dips[] = "/dips/";
	const char *at = o->path;

	if (strncmp(at, vips, strlen(vips)) != 0)
		return false;
	at += strlen(vips);
	if (!take_id(&at, o->vip))
		return false;
	*is_dip = strncmp(at, dips, strlen(dips)) == 0;
	if (*is_dip) {
		at += strlen(dips);
		if (!take_id(&at, o->dip))
			return false;
	}
	*force = !strcmp(at, "?force=true");
	return !*at || *force || !strcmp(at, "?force=false");
}

static bool parse_method(const char *method, bool is_dip, enum control_op *op)
{
	static const char *const methods[] = {
		[OP_VIP_PUT] = "PUT", [OP_VIP_PATCH] = "PATCH", [OP_VIP_DELETE] = "DELETE"};

	for (unsigned i = 0; i < ARRAY_LEN(methods); i++) {
		if (strcmp(methods[i], method) != 0)
			continue;
		*op = (enum control_op)(i + (is_dip ? OP_DIP_PUT : 0));
		return true;
	}
	return false;
}

static const char *string_member(const json_t *o, const char *name, struct field_errors *errors)
{
	const json_t *value = json_object_get(o, name);
	char pointer[16];

	snprintf(pointer, sizeof(pointer), "/%s", name);
	if (!value)
		field_errors_add(errors, pointer, "required", "it has no default");
	else if (!json_is_string(value))
		field_errors_add(errors, pointer, "type", "must be a string");
	return json_string_value(value);
}

static void check_members(const json_t *object, struct field_errors *errors)
{
	char pointer[FIELD_POINTER_LEN];
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value)
	{
		if (!strcmp(name, "method") || !strcmp(name, "path") || !strcmp(name, "body"))
			continue;
		codec_pointer(pointer, "", name);
		field_errors_add(errors, pointer, "unknown", "no such member");
	}
}

static void parse_body(const json_t *body, struct operation *o, struct control_edit *e,
		       struct field_errors *errors)
{
	bool replace = e->op == OP_VIP_PUT || e->op == OP_DIP_PUT;
	bool deletes = e->op == OP_VIP_DELETE || e->op == OP_DIP_DELETE;
	bool ok = true;

	if (deletes && body)
		field_errors_add(errors, "/body", "unknown", "DELETE takes none");
	if (deletes)
		return;
	if (!body) {
		field_errors_add(errors, "/body", "required", "it has no default");
		return;
	}
	memcpy(errors->prefix, e->pointer, sizeof(e->pointer));
	if (control_op_is_dip(e->op))
		ok = codec_parse_dip(body, o->dip, replace, &o->dip_edit, errors);
	else
		ok = codec_parse_vip(body, o->vip, replace, &o->vip_edit, errors);
	if (!ok)
		return; /* the faults are told */
	e->vip_edit = &o->vip_edit;
	e->dip_edit = &o->dip_edit;
}

static void parse_operation(const json_t *object, unsigned at, struct operation *o,
			    struct control_edit *e, struct field_errors *errors)
{
	bool is_dip = false, force = false;

	snprintf(errors->prefix, sizeof(errors->prefix), "/operations/%u", at);
	if (!json_is_object(object)) {
		field_errors_add(errors, "", "type", "must be an object");
		return;
	}
	check_members(object, errors);
	o->method = string_member(object, "method", errors);
	o->path = string_member(object, "path", errors);
	bool has_path = o->path && parse_path(o, &is_dip, &force);
	if (o->path && !has_path)
		field_errors_add(errors, "/path", "bad_value",
				 "/v1/vips/{vip} or /v1/vips/{vip}/dips/{dip}, and ?force=true");
	bool has_method = o->method && parse_method(o->method, is_dip, &e->op);
	if (o->method && !has_method)
		field_errors_add(errors, "/method", "bad_value", "one of: PUT, PATCH, DELETE");
	if (!has_path || !has_method)
		return;
	e->force = force;
	e->vip = o->vip;
	e->dip = o->dip;
	snprintf(e->pointer, sizeof(e->pointer), "/operations/%u/body", at);
	parse_body(json_object_get(object, "body"), o, e, errors);
}

/* False without memory. */
static bool parse_operations(const json_t *body, struct post *p, struct field_errors *errors)
{
	const json_t *list = json_object_get(body, "operations");
	size_t n = json_array_size(list);
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)body, name, value)
	{
		char pointer[FIELD_POINTER_LEN];
		codec_pointer(pointer, "", name);
		if (strcmp(name, "operations") != 0)
			field_errors_add(errors, pointer, "unknown", "no such member");
	}
	if (!json_is_array(list))
		field_errors_add(errors, "/operations", list ? "type" : "required",
				 "must be an array");
	if (n > OPERATIONS_MAX) {
		field_errors_add(errors, "/operations", "limit", "operations: %u at the most",
				 OPERATIONS_MAX);
		return true;
	}
	p->operations = calloc(n + 1, sizeof(*p->operations));
	p->edits = calloc(n + 1, sizeof(*p->edits));
	if (!p->operations || !p->edits)
		return false;
	for (p->n = 0; p->n < n; p->n++)
		parse_operation(json_array_get(list, p->n), p->n, &p->operations[p->n],
				&p->edits[p->n], errors);
	errors->prefix[0] = '\0';
	return true;
}

/* --- answering ----------------------------------------------------------------------------- */

static json_t *print_tag(const struct control_edit *e)
{
	char tag[ETAG_LEN];
	bool ok = true;

	if (e->vip_conf)
		ok = etag_of_vip(e->vip_conf, e->deleting, tag);
	else if (e->dip_conf)
		ok = etag_of_dip(e->dip_conf, e->deleting, tag);
	else
		return json_null();
	return ok ? json_string(tag) : NULL;
}

static json_t *print_result(const struct operation *o, const struct control_edit *e)
{
	return json_pack("{s:s, s:s, s:i, s:o, s:I}", "method", o->method, "path", o->path,
			 "status", (int)change_http_status(e->status), "etag", print_tag(e),
			 "flows_remaining", (json_int_t)e->flows_remaining);
}

static void answer_post(const struct post *p, struct api_response *resp)
{
	json_t *results = json_array();

	for (unsigned i = 0; results && i < p->n; i++) {
		if (json_array_append_new(results, print_result(&p->operations[i], &p->edits[i]))) {
			json_decref(results);
			results = NULL;
		}
	}
	response_json(resp, 200,
		      json_pack("{s:o, s:o}", "results", results, "change",
				codec_print_change(&p->call.r.change)));
	resp->generation = p->call.r.change.generation;
}

static enum control_status prepare(void *ctx, struct control_view *view,
				   struct control_transaction *t)
{
	(void)t;
	return config_check_whole(ctx, view);
}

static void post_run(struct post *p, struct api_response *resp)
{
	p->call.t.prepare = prepare;
	p->call.t.want_conf = true;
	p->call.t.n_edits = p->n;
	p->call.t.edits = p->edits;
	if (change_run_several(&p->call, resp))
		answer_post(p, resp);
}

void config_batch_post(struct api_request *req, struct api_response *resp)
{
	struct post *p = calloc(1, sizeof(*p));
	struct field_errors errors = {.n = 0};
	json_t *body = NULL;

	if (!p) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	if (change_init_several(req, "POST /v1/config:batch", &p->call, resp))
		body = body_parse(req, false, resp);
	if (body && !json_is_object(body))
		field_errors_add(&errors, "", "type", "must be an object");
	if (body && !errors.n && !parse_operations(body, p, &errors))
		problem_set(resp, 500, "out of memory");
	else if (body && errors.n)
		change_refuse(resp, &errors);
	else if (body)
		post_run(p, resp);
	change_end(&p->call);
	json_decref(body);
	free(p->operations);
	free(p->edits);
	free(p);
}
