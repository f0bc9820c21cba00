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
	if (atomic_load(&req->api->ready)) {
		response_json(resp, 200, json_pack("{s:s}", "status", "ready"));
		return;
	}
	problem_set(resp, 503, "concuryd is starting or ending");
	resp->retry_after_s = 1;
}
