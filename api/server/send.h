/* An answer, from what the resources have made to what the HTTP library sends. */
#pragma once

#include <microhttpd.h>

#include "api/server/auth.h"
#include "api/server/connections.h"

/** Where it goes: a connection, and its place among those that are given time. */
struct send_to {
	struct MHD_Connection *connection;
	struct connections *connections;
	unsigned index;
	_Atomic unsigned *n_streams; /* counts answers that go on */
	const struct api_request *request; /* which it answers; NULL: refused before it was one */
};

/** Send it; takes over what resp owns. MHD_NO: the connection must be cut. Thread: the connection's. */
enum MHD_Result send_answer(const struct send_to *to, struct api_response *resp);
