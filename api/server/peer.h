/* Where a connection comes from. */
#pragma once

#include <microhttpd.h>

#include "api/server/exchange.h"
#include "api/server/listener.h"

/** What connection c, just accepted by l, proves by itself. A Unix peer whose user cannot be known is
 *  nobody's (uid UINT32_MAX). Thread: the connection's. */
void peer_read(const struct listener *l, struct MHD_Connection *c, struct api_peer *out);
