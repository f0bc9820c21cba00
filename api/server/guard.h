/* Whose requests are served where no token is asked for: a web page that a browser on this machine has
 * open must not be able to reach the API, neither directly (Origin) nor by a name of its own that
 * resolves to this machine (DNS rebinding: Host). */
#pragma once

#include "api/server/exchange.h"

/** True if the request's Host (or the authority of its target) and Origin are those of a local client;
 *  else the answer is set (403). Thread: any. */
bool guard_local(const struct api_request *req, struct api_response *resp);
