#include "api/server/auth.h"
#include "api/server/resources.h"

void whoami_get(struct api_request *req, struct api_response *resp)
{
	response_json(
		resp, 200,
		json_pack("{s:s, s:s}", "author", req->author, "role", auth_role_name(req->role)));
}
