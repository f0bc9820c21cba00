/* Agents and tokens: resources that are no part of the configuration. One change of them at a time, so that
 * its precondition holds at the moment of the change. */
#pragma once

#include "api/server/etag.h"

/** The tag of what the request's path names; "" = it is not there. False without memory. */
typedef bool registry_tag(const struct api_request *req, char tag[ETAG_LEN]);

/** Begin a change. False with the answer set: the headers are ill-formed, or the precondition does not hold. */
MUST_CHECK bool registry_begin(const struct api_request *req, registry_tag *tag,
			       struct api_response *resp);
/** End what registry_begin has begun. tag: what is there now is part of the answer if that is a success;
 *  NULL: it is not. */
void registry_end(const struct api_request *req, registry_tag *tag, struct api_response *resp);

/** Log who has changed what, as the change log does for the configuration. Nothing of what was refused, or
 *  only planned. */
void registry_tell(const struct api_request *req, const struct api_response *resp);

/** For a GET: give the answer its tag. True if that settles it (304, 412). What is not there has none. */
bool registry_settles(const struct api_request *req, registry_tag *tag, struct api_response *resp);
