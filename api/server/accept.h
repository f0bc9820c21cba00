/* The Accept header. (RFC 9110 12.5.1) */
#pragma once

#include "api/server/exchange.h"

/** True if the header's value (NULL: there is none) takes an answer of this media type. */
bool accept_allows(const char *accept, const char *type);

/** Media type of the answers of the route with this pattern, when all is well. */
const char *accept_route_type(const char *path);
