#include "api/server/precondition.h"

#include <stdio.h>
#include <string.h>

#include "api/server/problem.h"

bool precondition_accept(const struct api_request *req, struct api_response *resp)
{
	const char *bad = NULL;

	if (req->if_match && !etag_list_valid(req->if_match))
		bad = "If-Match";
	else if (req->if_none_match && !etag_list_valid(req->if_none_match))
		bad = "If-None-Match";
	if (bad)
		problem_set(resp, 400, "the header %s: entity tags in double quotes, or *", bad);
	return !bad;
}

bool precondition_given(const struct api_request *req)
{
	return req->if_match || req->if_none_match;
}

bool precondition_holds(const struct api_request *req, const char *current)
{
	if (req->if_match && !etag_list_has(req->if_match, current, false))
		return false;
	return !req->if_none_match || !etag_list_has(req->if_none_match, current, true);
}

void precondition_refuse(const struct api_request *req, const char *current,
			 struct api_response *resp)
{
	bool creates = !req->if_match && req->if_none_match && !strcmp(req->if_none_match, "*");

	if (*current && creates)
		problem_set(resp, 412, "it exists already, with the ETag %s", current);
	else if (*current)
		problem_set(resp, 412, "what is there now has the ETag %s", current);
	else
		problem_set(resp, 412, "nothing is there");
	snprintf(resp->etag, sizeof(resp->etag), "%s", current);
	if (resp->body && json_object_set_new(resp->body, "etag",
					      *current ? json_string(current) : json_null())) {
		json_decref(resp->body);
		resp->body = NULL;
	}
}

bool precondition_settles(const struct api_request *req, const char *current,
			  struct api_response *resp)
{
	snprintf(resp->etag, sizeof(resp->etag), "%s", current);
	if (req->if_match && !etag_list_has(req->if_match, current, false)) {
		precondition_refuse(req, current, resp);
		return true;
	}
	if (!req->if_none_match || !etag_list_has(req->if_none_match, current, true))
		return false;
	resp->status = 304;
	return true;
}
