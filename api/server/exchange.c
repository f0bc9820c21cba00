#include "api/server/exchange.h"

#include <stdlib.h>

#include "api/server/problem.h"

size_t request_body_max(const char *target)
{
	static const char config[] = "/v1/config";
	const char *rest = target + strlen(config);

	if (strncmp(target, config, strlen(config)) != 0)
		return BODY_MAX;
	return *rest == '\0' || strchr("?:/", *rest) ? CONFIG_BODY_MAX : BODY_MAX;
}

bool request_is_timely(const struct api_request *req, struct api_response *resp)
{
	if (atomic_load(&req->api->ready))
		return true;
	problem_set(resp, 503, "concuryd is starting or ending");
	resp->retry_after_s = 1;
	return false;
}

const char *request_query(const struct api_request *req, const char *name)
{
	for (unsigned i = 0; i < req->n_query; i++)
		if (!strcmp(req->query[i].name, name))
			return req->query[i].value;
	return NULL;
}

void response_json(struct api_response *resp, unsigned status, json_t *body)
{
	if (!body) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	json_decref(resp->body);
	resp->status = status;
	resp->body = body;
	resp->problem = false;
}

void response_text(struct api_response *resp, const char *type, char *text, size_t len)
{
	json_decref(resp->body);
	resp->body = NULL;
	free(resp->text);
	resp->status = 200;
	resp->problem = false;
	resp->text = text;
	resp->text_len = len;
	resp->text_type = type;
}

void response_stream(struct api_response *resp, const char *type, const struct api_stream *stream)
{
	response_text(resp, type, NULL, 0);
	resp->stream = *stream;
}

void response_items(struct api_response *resp, json_t *items)
{
	response_json(resp, 200, items ? json_pack("{s:o}", "items", items) : NULL);
}
