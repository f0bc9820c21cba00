/* Liveness (the process answers) and readiness (it forwards, so traffic may be sent to it). */
#include "api/server/problem.h"
#include "api/server/resources.h"

void livez_get(struct api_request *req, struct api_response *resp)
{
	(void)req;
	response_json(resp, 200, json_pack("{s:s}", "status", "alive"));
}

void readyz_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;

	if (!atomic_load(&req->api->ready))
		problem_set(resp, 503, "concuryd is starting or ending");
	else if (!b->serving(b->ctx))
		problem_set(
			resp, 503,
			"an interface is down or has lost the steer program: GET /v1/status says "
			"which, in warnings");
	else
		response_json(resp, 200, json_pack("{s:s}", "status", "ready"));
	resp->retry_after_s = resp->status == 200 ? 0 : 1;
}
