#include <stdlib.h>
#include <string.h>

#include "api/server/problem.h"
#include "api/server/resources.h"
#include "schema/openapi.h"

void openapi_get(struct api_request *req, struct api_response *resp)
{
	char *text = strdup(openapi_json);

	(void)req;
	if (text)
		response_text(resp, "application/json", text, strlen(text));
	else
		problem_set(resp, 500, "out of memory");
}
