#include "api/server/problem.h"
#include "api/server/resources.h"
#include "api/server/timestamp.h"
#include "api/server/traffic_history.h"

static bool is_there(const struct api_backend *b, const char *vip)
{
	size_t n = 0;
	struct vip_info *found = b->read_vips(b->ctx, vip, false, &n);

	b->free_vips(found, n);
	return n > 0;
}

void traffic_get(struct api_request *req, struct api_response *resp)
{
	const char *vip = request_query(req, "vip");
	int64_t times_ms[TRAFFIC_POINTS];
	struct traffic_point points[TRAFFIC_POINTS];

	if (vip && !is_there(&req->api->backend, vip)) {
		problem_set(resp, 404, "no VIP has this id");
		return;
	}
	unsigned n = traffic_history_read(req->api->traffic, vip, times_ms, points);
	json_t *items = json_array();
	for (unsigned i = 0; items && i < n; i++) {
		json_t *item =
			json_pack("{s:o, s:I, s:I, s:I, s:I}", "time", timestamp_print(times_ms[i]),
				  "packets", (json_int_t)points[i].packets, "bytes",
				  (json_int_t)points[i].bytes, "flows", (json_int_t)points[i].flows,
				  "flows_pinned", (json_int_t)points[i].flows_pinned);
		if (json_array_append_new(items, item)) {
			json_decref(items);
			items = NULL;
		}
	}
	response_json(resp, 200,
		      items ? json_pack("{s:i, s:o}", "interval_s", (int)TRAFFIC_INTERVAL_S,
					"items", items)
			    : NULL);
}
