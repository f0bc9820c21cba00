#include "api/server/registry.h"

#include <pthread.h>

#include "api/server/precondition.h"
#include "api/server/problem.h"
#include "base/log.h"

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

/* A DELETE of what is not there has nothing to compare: 404 it is. */
static bool may_go_on(const struct api_request *req, registry_tag *tag, struct api_response *resp)
{
	char current[ETAG_LEN] = "";

	if (!precondition_given(req))
		return true;
	if (!tag(req, current)) {
		problem_set(resp, 500, "out of memory");
		return false;
	}
	if ((!current[0] && strcmp(req->method, "PUT") != 0) || precondition_holds(req, current))
		return true;
	precondition_refuse(req, current, resp);
	return false;
}

bool registry_begin(const struct api_request *req, registry_tag *tag, struct api_response *resp)
{
	if (!precondition_accept(req, resp))
		return false;
	pthread_mutex_lock(&changing);
	if (may_go_on(req, tag, resp))
		return true;
	pthread_mutex_unlock(&changing);
	return false;
}

void registry_end(const struct api_request *req, registry_tag *tag, struct api_response *resp)
{
	if (tag && resp->status < 300 && !tag(req, resp->etag))
		resp->etag[0] = '\0';
	pthread_mutex_unlock(&changing);
	registry_tell(req, resp);
}

void registry_tell(const struct api_request *req, const struct api_response *resp)
{
	const char *dry_run = request_query(req, "dry_run");

	if (resp->status < 300 && !(dry_run && !strcmp(dry_run, "true")))
		log_info("api", "%s: %s %.*s", req->author, req->method,
			 (int)strcspn(req->target, "?"), req->target);
}

bool registry_settles(const struct api_request *req, registry_tag *tag, struct api_response *resp)
{
	char current[ETAG_LEN] = "";

	if (!precondition_accept(req, resp))
		return true;
	if (!tag(req, current)) {
		problem_set(resp, 500, "out of memory");
		return true;
	}
	return current[0] && precondition_settles(req, current, resp);
}
