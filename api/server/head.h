/* What is refused by the head of a request, before its body comes. */
#pragma once

#include <microhttpd.h>

#include "api/server/exchange.h"

#define TARGET_MAX 8192u
/* So much more than a body may have is read and thrown away, so that the client hears the answer instead of a
 * reset; beyond it the connection is cut. */
#define DRAIN_MAX (16u << 20)

/** True if a body is announced. Thread: the connection's. */
MUST_CHECK bool head_has_body(struct MHD_Connection *c);

/** True if the body may come (target NULL: it was too long; version: "HTTP/1.1" or so); else the answer is set (400, 413, 414), after
 *  which the library closes the connection. Thread: the connection's. */
MUST_CHECK bool head_accept(struct MHD_Connection *c, const char *target, const char *version,
			    struct api_response *resp);
