#include "api/server/resources.h"

void consistency_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct consistency c;
	json_t *body = json_object();
	int failed = 0;

	b->read_consistency(b->ctx, &c);
#define PUT_MEMBER(name)                                                                           \
	failed |= json_object_set_new(body, #name, json_integer((json_int_t)c.name));
	CONSISTENCY_FIELDS(PUT_MEMBER)
#undef PUT_MEMBER
	if (failed) {
		json_decref(body);
		body = NULL;
	}
	response_json(resp, 200, body);
}
