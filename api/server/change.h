/* What PUT, PATCH and DELETE of all resources have in common: the flags of the query, the call of
 * control, and its outcome as an answer. */
#pragma once

#include "api/server/exchange.h"

/** Start a change: op, ids from the path, flags from the query. False with the answer set when the
 *  daemon does not forward yet, a flag is ill-formed, or an id cannot be one. */
MUST_CHECK bool change_init(const struct api_request *req, enum control_op op,
			    struct control_request *r, struct api_response *resp);

/** Refuse the body of r for these faults (422). */
void change_refuse(struct api_response *resp, const struct field_errors *errors);

/** Carry it out and answer: the resource with "change", or a problem. */
void change_run(const struct api_request *req, struct control_request *r,
		struct api_response *resp);
