/* What a web page that a browser has open must not be able to do: reach the API by the place where the
 * browser runs, neither directly (Origin) nor by a name of its own that resolves to this machine (DNS
 * rebinding: Host); nor by a certificate that the browser holds. Pages of the origins that
 * --cors-origin names may ask, with a token. */
#pragma once

#include "api/server/exchange.h"

/** True if no foreign page has sent the request; notes in resp which configured origin has. Else the
 *  answer is set (403). Thread: any. */
MUST_CHECK bool guard_accept(const struct api_request *req, struct api_response *resp);

/** True, with the answer set (204), if a browser only asks whether a page of a configured origin may ask
 *  (CORS preflight). After guard_accept. Thread: any. */
MUST_CHECK bool guard_preflight(const struct api_request *req, struct api_response *resp);
