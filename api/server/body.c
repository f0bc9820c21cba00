#include "api/server/body.h"

#include <strings.h>

#include "api/server/problem.h"

/* True if the media type (parameters aside) of a Content-Type is this one. */
static bool media_type_is(const char *content_type, const char *type)
{
	size_t len = strcspn(content_type, "; \t");

	return len == strlen(type) && !strncasecmp(content_type, type, len);
}

static bool check_headers(const struct api_request *req, bool merge_patch,
			  struct api_response *resp)
{
	const char *type = req->content_type;
	const char *wanted = merge_patch ? "application/json or application/merge-patch+json"
					 : "application/json";

	if (req->body_too_large) {
		problem_set(resp, 413, "at most %zu bytes are read", request_body_max(req->target));
		return false;
	}
	if (!req->body_len) {
		problem_set(resp, 400, "a JSON object is needed as body");
		return false;
	}
	if (!type || !(media_type_is(type, "application/json") ||
		       (merge_patch && media_type_is(type, "application/merge-patch+json")))) {
		problem_set(resp, 415, "the Content-Type must be %s", wanted);
		return false;
	}
	if (req->content_encoding && strcasecmp(req->content_encoding, "identity") != 0) {
		problem_set(resp, 415, "no Content-Encoding is served");
		return false;
	}
	return true;
}

json_t *body_parse(const struct api_request *req, bool merge_patch, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	json_error_t err;

	if (!check_headers(req, merge_patch, resp))
		return NULL;
	json_t *body = json_loadb(req->body, req->body_len,
				  JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &err);
	if (body)
		return body;
	if (json_error_code(&err) == json_error_numeric_overflow) {
		/* Well-formed JSON, but no member takes such a number. */
		field_errors_add(&errors, "", "out_of_range", "line %d, column %d: %s", err.line,
				 err.column, err.text);
		problem_set(resp, 422, "a number is too large");
		problem_add_errors(resp, &errors);
	} else if (json_error_code(&err) == json_error_out_of_memory) {
		problem_set(resp, 500, "out of memory");
	} else {
		problem_set(resp, 400, "not JSON: line %d, column %d: %s", err.line, err.column,
			    err.text);
	}
	return NULL;
}
