#include "api/server/limits.h"

#include "api/server/connections.h"
#include "api/server/head.h"
#include "api/server/http.h"
#include "api/server/resources.h"

void limits_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	uint64_t flows, capacity;

	b->read_capacity(b->ctx, &flows, &capacity);
	const struct {
		const char *name;
		uint64_t most;
	} limits[] = {
		{"vips", VIPS_MAX},
		{"dips_per_vip", DIPS_PER_VIP_MAX},
		{"dips", DIPS_MAX},
		{"flows", capacity},
		{"weight", WEIGHT_MAX},
		{"id_bytes", ID_LEN - 1},
		{"operations", OPERATIONS_MAX},
		{"body_bytes", BODY_MAX},
		{"config_body_bytes", CONFIG_BODY_MAX},
		{"target_bytes", TARGET_MAX},
		{"query_parameters", QUERY_MAX},
		{"errors", FIELD_ERRORS_MAX},
		{"report_connections", AGENT_ENTRIES_MAX},
		{"listeners", LISTENERS_MAX},
		{"connections_per_listener", CONNECTIONS_MAX},
	};
	json_t *body = json_object();
	for (size_t i = 0; body && i < ARRAY_LEN(limits); i++) {
		if (json_object_set_new(body, limits[i].name,
					json_integer((json_int_t)limits[i].most))) {
			json_decref(body);
			body = NULL;
		}
	}
	response_json(resp, 200, body);
}
