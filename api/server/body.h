/* A request's body as JSON. */
#pragma once

#include "api/server/exchange.h"

/** Parse the body, which must be JSON by its Content-Type (merge_patch: application/merge-patch+json
 *  too) and by its bytes. NULL with the answer set (400, 413, 415, 422) when it is not. Free with
 *  json_decref. Thread: any. */
MUST_CHECK json_t *body_parse(const struct api_request *req, bool merge_patch,
			      struct api_response *resp);
