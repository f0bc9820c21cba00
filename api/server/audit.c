#include "api/server/problem.h"
#include "api/server/resources.h"

void audit_post(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct audit a;

	if (!b->audit(b->ctx, &a)) {
		problem_set(resp, 503, "concuryd is ending");
		resp->retry_after_s = 1;
		return;
	}
	response_json(resp, 200,
		      json_pack("{s:I, s:I, s:I, s:I, s:I}", "generation", (json_int_t)a.generation,
				"flows_checked", (json_int_t)a.flows_checked, "flows_misplaced",
				(json_int_t)a.flows_misplaced, "flows_of_down_dips",
				(json_int_t)a.flows_of_down_dips, "duration_us",
				(json_int_t)a.duration_us));
}
