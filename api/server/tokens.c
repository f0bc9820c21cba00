/* Tokens as resources: who may do what. A token is shown once, in the answer of the request that
 * made it. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/auth.h"
#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/plan.h"
#include "api/server/problem.h"
#include "api/server/registry.h"
#include "api/server/resources.h"
#include "base/clock.h"

static json_t *print_time(int64_t s)
{
	return s ? json_integer(s) : json_null();
}

static json_t *print_token(const struct auth_token *t)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:b}", "id", t->id, "role",
			 auth_role_name(t->role), "source", t->in_file ? "file" : "database",
			 "created_s", print_time(t->created_s), "expires_s",
			 print_time(t->expires_s), "expired",
			 t->expires_s && t->expires_s <= clock_wall_s());
}

void tokens_list(struct api_request *req, struct api_response *resp)
{
	size_t n = 0;
	struct auth_token *tokens = auth_read(req->api->auth, NULL, &n);
	json_t *items = tokens ? json_array() : NULL;

	for (size_t i = 0; items && i < n; i++) {
		if (json_array_append_new(items, print_token(&tokens[i]))) {
			json_decref(items);
			items = NULL;
		}
	}
	free(tokens);
	response_items(resp, items);
}

static void answer_token(const struct api_request *req, unsigned status, const char *text,
			 struct api_response *resp)
{
	size_t n = 0;
	struct auth_token *t = auth_read(req->api->auth, req->path_args[0], &n);

	if (t && !n) {
		problem_set(resp, 404, "no token has the id '%s'", req->path_args[0]);
		free(t);
		return;
	}
	json_t *body = t ? print_token(t) : NULL;
	free(t);
	response_with_token(resp, status, body, text);
}

static bool tag_token(const struct api_request *req, char tag[ETAG_LEN])
{
	struct etag e;
	size_t n = 0;
	struct auth_token *t = auth_read(req->api->auth, req->path_args[0], &n);

	tag[0] = '\0';
	if (!t)
		return false;
	if (!n) {
		free(t);
		return true;
	}
	etag_begin(&e);
	etag_add_bytes(&e, t->id, strlen(t->id) + 1);
	etag_add_bytes(&e, &t->role, sizeof(t->role));
	etag_add_bytes(&e, &t->expires_s, sizeof(t->expires_s));
	etag_add_bytes(&e, t->hash, sizeof(t->hash));
	free(t);
	return etag_end(&e, tag);
}

void token_get(struct api_request *req, struct api_response *resp)
{
	if (!registry_settles(req, tag_token, resp))
		answer_token(req, 200, NULL, resp);
}

/* --- changes -------------------------------------------------------------------------------------
 */

static bool is_read_only(const char *name)
{
	return !strcmp(name, "source") || !strcmp(name, "created_s") || !strcmp(name, "expired");
}

static void parse_role(const json_t *value, struct auth_token *t, struct field_errors *errors)
{
	t->role = auth_role_parse(json_is_string(value) ? json_string_value(value) : "");
	if (!t->role)
		field_errors_add(errors, "/role", json_is_string(value) ? "bad_value" : "type",
				 "one of read, operate, admin");
}

static void parse_expiry(const json_t *value, struct auth_token *t, struct field_errors *errors)
{
	int64_t now_s = clock_wall_s();

	t->expires_s = json_integer_value(value);
	if (json_is_null(value))
		t->expires_s = 0;
	else if (!json_is_integer(value))
		field_errors_add(errors, "/expires_s", "type", "must be an integer, or null");
	else if (t->expires_s <= now_s)
		field_errors_add(errors, "/expires_s", "out_of_range",
				 "seconds since 1970, later than now (%lld)", (long long)now_s);
}

static bool parse_token(const json_t *body, struct auth_token *t, struct field_errors *errors)
{
	const char *name;
	const json_t *value;
	char pointer[FIELD_POINTER_LEN];

	if (!model_id_valid(t->id))
		field_errors_add(errors, "/id", "bad_value", "[a-z0-9]([a-z0-9._-]{0,62})");
	if (!json_is_object(body)) {
		field_errors_add(errors, "", "type", "must be an object");
		return false;
	}
	json_object_foreach((json_t *)body, name, value)
	{
		const char *text = json_string_value(value);
		codec_pointer(pointer, "", name);
		if (!strcmp(name, "role"))
			parse_role(value, t, errors);
		else if (!strcmp(name, "expires_s"))
			parse_expiry(value, t, errors);
		else if (!strcmp(name, "id") && (!text || strcmp(text, t->id) != 0))
			field_errors_add(errors, pointer, "immutable",
					 "must be the path's id, or absent");
		else if (strcmp(name, "id") != 0 && !is_read_only(name))
			field_errors_add(errors, pointer, "unknown", "no member has this name");
	}
	if (!json_object_get(body, "role"))
		field_errors_add(errors, "/role", "required", "it must be given");
	return errors->n == 0;
}

static void answer_failed(int rc, const struct error *err, struct api_response *resp)
{
	unsigned status = 507;

	if (rc == -ENOENT)
		status = 404;
	else if (rc == -EEXIST)
		status = 409;
	else if (rc == -E2BIG)
		status = 422;
	problem_set(resp, status, "%s", err->message);
}

static void answer_plan(const struct api_request *req, int rc, const struct error *err,
			struct api_response *resp)
{
	if (rc)
		answer_failed(rc, err, resp);
	else
		response_json(resp, 200, plan_print_none(req->api));
}

static void make_token(struct api_request *req, struct auth_token *t, struct api_response *resp)
{
	char text[ACCESS_TOKEN_LEN];
	struct error err = {""};
	bool created = false, dry_run;

	if (!change_read_flag(req, "dry_run", &dry_run, resp))
		return;
	if (dry_run) {
		answer_plan(req, auth_may_put(req->api->auth, t->id, &created, &err), &err, resp);
		return;
	}
	access_token_make(text);
	if (!token_hash(text, t->hash)) {
		problem_set(resp, 500, "no hash could be made");
		return;
	}
	int rc = auth_put(req->api->auth, t, &created, &err);
	if (rc) {
		answer_failed(rc, &err, resp);
		return;
	}
	answer_token(req, created ? 201 : 200, text, resp);
	gnutls_memset(text, 0, sizeof(text));
	if (resp->status == 201)
		snprintf(resp->location, sizeof(resp->location), "/v1/tokens/%s", t->id);
}

void token_put(struct api_request *req, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	struct auth_token t = {.role = ROLE_NONE};

	if (!request_is_timely(req, resp))
		return;
	json_t *body = body_parse(req, false, resp);
	if (!body)
		return;
	/* One that is too long is no id, and stays so. */
	snprintf(t.id, sizeof(t.id), "%s",
		 strlen(req->path_args[0]) < ID_LEN ? req->path_args[0] : "");
	if (!parse_token(body, &t, &errors)) {
		change_refuse(resp, &errors);
	} else if (registry_begin(req, tag_token, resp)) {
		make_token(req, &t, resp);
		registry_end(req, tag_token, resp);
	}
	json_decref(body);
}

void token_delete(struct api_request *req, struct api_response *resp)
{
	const char *id = req->path_args[0];
	struct error err = {""};
	bool dry_run;

	if (!request_is_timely(req, resp) || !change_read_flag(req, "dry_run", &dry_run, resp) ||
	    !registry_begin(req, tag_token, resp))
		return;
	int rc = dry_run ? auth_may_delete(req->api->auth, id, &err)
			 : auth_delete(req->api->auth, id, &err);
	if (dry_run)
		answer_plan(req, rc, &err, resp);
	else if (rc == -ENOENT)
		problem_set(resp, 404, "no token has the id '%s'", id);
	else if (rc)
		answer_failed(rc, &err, resp);
	else
		response_json(resp, 200, json_pack("{s:s}", "id", id));
	registry_end(req, NULL, resp);
}
