#include "api/server/resources.h"
#include "api/server/router.h"

#define VIP "/v1/vips/{vip}"
#define DIP VIP "/dips/{dip}"
#define AGENT "/v1/agents/{agent}"

const struct route api_routes[] = {
	{"GET", "/v1/vips", vips_list, NULL},
	{"GET", VIP, vip_get, NULL},
	{"PUT", VIP, vip_put, "force override_hold"},
	{"PATCH", VIP, vip_patch, "override_hold"},
	{"DELETE", VIP, vip_delete, "force override_hold"},
	{"GET", VIP "/dips", dips_list, NULL},
	{"GET", DIP, dip_get, NULL},
	{"PUT", DIP, dip_put, "override_hold"},
	{"PATCH", DIP, dip_patch, "override_hold"},
	{"DELETE", DIP, dip_delete, "force override_hold"},
	{"GET", "/v1/agents", agents_list, NULL},
	{"GET", AGENT, agent_get, NULL},
	{"PUT", AGENT, agent_put, NULL},
	{"DELETE", AGENT, agent_delete, NULL},
	{"POST", AGENT "/reports", report_post, NULL},
	{"GET", "/v1/status", status_get, NULL},
	{"GET", "/v1/counters", counters_get, NULL},
	{"GET", "/v1/consistency", consistency_get, NULL},
	{"POST", "/v1/audit", audit_post, NULL},
	{"GET", "/v1/explain", explain_get, "vip src sport dport protocol"},
	{"GET", "/v1/events", events_get, "since kind vip"},
	{"GET", "/metrics", metrics_get, NULL},
	{"GET", "/openapi.json", openapi_get, NULL},
	{"GET", "/livez", livez_get, NULL},
	{"GET", "/readyz", readyz_get, NULL},
};

const size_t api_n_routes = ARRAY_LEN(api_routes);
