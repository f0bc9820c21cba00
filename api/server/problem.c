#include "api/server/problem.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
	unsigned status;
	const char *slug;
	const char *title;
} kinds[] = {
	{400, "bad-request", "The request cannot be understood"},
	{401, "unauthorized", "The request bears no token that is known here"},
	{403, "forbidden", "The client may not do this"},
	{404, "not-found", "There is no such resource"},
	{405, "method-not-allowed", "The resource does not have this method"},
	{406, "not-acceptable", "The resource has no form of these media types"},
	{409, "conflict", "The request conflicts with the current state"},
	{412, "precondition-failed", "What is there is not what the request expects"},
	{413, "too-large", "The body is too large"},
	{414, "target-too-long", "The request line is too long"},
	{415, "unsupported-media-type", "The body's media type is not served here"},
	{422, "invalid", "Members of the body are not valid"},
	{429, "too-many-requests", "The client has asked too often"},
	{500, "internal", "Something is wrong inside"},
	{503, "unavailable", "Not now"},
	{507, "no-storage", "The change could not be stored"},
};

const char problem_out_of_memory[] = "{\"type\": \"/problems/internal\", \"title\": \"Something is "
				     "wrong inside\", \"status\": 500, \"detail\": \"out of "
				     "memory\"}\n";

json_t *problem_text(const char *text)
{
	char ascii[512];
	size_t n = 0;
	json_t *s = json_string(text);

	if (s)
		return s;
	for (; n < sizeof(ascii) - 1 && text[n]; n++)
		ascii[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
	ascii[n] = '\0';
	return json_string(ascii);
}

void problem_set(struct api_response *resp, unsigned status, const char *fmt, ...)
{
	char detail[512];
	char type[64];
	size_t k = 0;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	while (k < ARRAY_LEN(kinds) - 1 && kinds[k].status != status)
		k++;
	snprintf(type, sizeof(type), "/problems/%s", kinds[k].slug);
	json_decref(resp->body);
	resp->status = status;
	resp->problem = true;
	resp->body = json_pack("{s:s, s:s, s:i, s:o}", "type", type, "title", kinds[k].title,
			       "status", (int)status, "detail", problem_text(detail));
}

static json_t *error_entry(const struct field_error *e)
{
	bool query = e->pointer[0] == '?';

	return json_pack("{s:o, s:s, s:o}", query ? "parameter" : "pointer",
			 problem_text(e->pointer + query), "code", e->code, "detail",
			 problem_text(e->detail));
}

void problem_add_errors(struct api_response *resp, const struct field_errors *errors)
{
	json_t *list = json_array();
	bool ok = list != NULL;

	if (!errors->n || !resp->body) {
		json_decref(list);
		return;
	}
	for (unsigned i = 0; ok && i < errors->n; i++)
		ok = json_array_append_new(list, error_entry(&errors->list[i])) == 0;
	if (!ok) {
		json_decref(list);
		list = NULL;
	}
	if (json_object_set_new(resp->body, "errors", list) ||
	    (errors->n_more &&
	     json_object_set_new(resp->body, "errors_omitted", json_integer(errors->n_more)))) {
		json_decref(resp->body);
		resp->body = NULL;
	}
}

void problem_query(struct api_response *resp, const struct field_errors *errors)
{
	problem_set(resp, 400, "query parameter %s: %s", errors->list[0].pointer + 1,
		    errors->list[0].detail);
	problem_add_errors(resp, errors);
}

void problem_parameter(struct api_response *resp, const char *name, const char *wanted)
{
	struct field_errors errors = {.n = 0};
	char pointer[FIELD_POINTER_LEN];

	snprintf(pointer, sizeof(pointer), "?%s", name);
	field_errors_add(&errors, pointer, "bad_value", "%s", wanted);
	problem_query(resp, &errors);
}
