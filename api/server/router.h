/* From a request line to the function that answers it. One table of routes says everything: methods,
 * paths and the query parameters each takes; 404, 405 with Allow and the refusal of unknown parameters
 * follow from it. */
#pragma once

#include "api/server/exchange.h"

struct route {
	const char *method;
	const char *path; /* "/v1/vips/{vip}": a {name} matches one non-empty segment */
	void (*handle)(struct api_request *req, struct api_response *resp);
	const char *query; /* names of the parameters it takes, separated by blanks; NULL = none */
	enum api_role role; /* that the client must have */
};

/** The API's routes (routes.c). */
extern const struct route api_routes[];
extern const size_t api_n_routes;

/** Find the route of req, fill its path_args and query, and call its handler if the client may; or
 *  answer 400, 401, 403, 404, 405, 406 or 429. Thread: any. */
void router_dispatch(const struct route *routes, size_t n, struct api_request *req,
		     struct api_response *resp);

/** What can be said of req before its body: true if a route takes it from this client, else the answer is
 *  set as by router_dispatch, which asks all of this again. Thread: any. */
MUST_CHECK bool router_admits(const struct route *routes, size_t n, struct api_request *req,
			      struct api_response *resp);

/** Decode %XX in place, and + as a blank if plus. False if an escape is broken or names NUL. */
bool router_percent_decode(char *text, bool plus);
