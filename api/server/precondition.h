/* If-Match and If-None-Match. (RFC 9110 13.1) */
#pragma once

#include "api/server/etag.h"
#include "api/server/exchange.h"

/** True if the headers are well-formed; else 400 is set. */
MUST_CHECK bool precondition_accept(const struct api_request *req, struct api_response *resp);

/** True if the request sets one. */
bool precondition_given(const struct api_request *req);

/** True if a change of what has this tag now ("" = it is not there) may go on. */
bool precondition_holds(const struct api_request *req, const char *current);

/** 412: what is there now has this tag ("" = nothing is). */
void precondition_refuse(const struct api_request *req, const char *current,
			 struct api_response *resp);

/** For a GET: give the answer its tag; true if that settles it: the client has it already (304), or it is
 *  not what the client wants (412). */
bool precondition_settles(const struct api_request *req, const char *current,
			       struct api_response *resp);
