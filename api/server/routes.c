#include "api/server/resources.h"
#include "api/server/router.h"

#define VIP "/v1/vips/{vip}"
#define DIP VIP "/dips/{dip}"
#define VERSIONS "/v1/config/versions"
#define AGENT "/v1/agents/{agent}"
#define TOKEN "/v1/tokens/{token}"

const struct route api_routes[] = {
	{"GET", "/v1/vips", vips_list, "address port protocol state limit cursor", ROLE_READ},
	{"GET", VIP, vip_get, NULL, ROLE_READ},
	{"PUT", VIP, vip_put, "force override_hold dry_run", ROLE_OPERATE},
	{"PATCH", VIP, vip_patch, "override_hold dry_run", ROLE_OPERATE},
	{"DELETE", VIP, vip_delete, "force override_hold dry_run", ROLE_OPERATE},
	{"GET", VIP "/dips", dips_list, "address state limit cursor", ROLE_READ},
	{"GET", DIP, dip_get, NULL, ROLE_READ},
	{"PUT", DIP, dip_put, "override_hold dry_run", ROLE_OPERATE},
	{"PATCH", DIP, dip_patch, "override_hold dry_run", ROLE_OPERATE},
	{"DELETE", DIP, dip_delete, "force override_hold dry_run", ROLE_OPERATE},
	{"GET", "/v1/config", config_get, NULL, ROLE_READ},
	{"PUT", "/v1/config", config_put, "prune override_hold dry_run", ROLE_OPERATE},
	{"POST", "/v1/config:batch", config_batch_post, "override_hold dry_run", ROLE_OPERATE},
	{"GET", VERSIONS, versions_list, "limit cursor", ROLE_READ},
	{"GET", VERSIONS "/{version}", version_get, NULL, ROLE_READ},
	{"GET", VERSIONS "/{version}/diff", version_diff_get, "to", ROLE_READ},
	{"POST", "/v1/config:rollback", rollback_post, "override_hold dry_run", ROLE_OPERATE},
	{"GET", "/v1/audit-log", audit_log_get, "author path since limit cursor", ROLE_READ},
	{"GET", "/v1/limits", limits_get, NULL, ROLE_READ},
	{"GET", DIP "/health", health_get, NULL, ROLE_READ},
	{"PUT", DIP "/health-override", health_override_put, "override_hold dry_run", ROLE_OPERATE},
	{"DELETE", DIP "/health-override", health_override_delete, "override_hold dry_run", ROLE_OPERATE},
	{"GET", VIP "/flows", flows_list, "limit cursor dip client pinned state", ROLE_READ},
	{"GET", "/v1/agents", agents_list, NULL, ROLE_READ},
	{"GET", AGENT, agent_get, NULL, ROLE_READ},
	{"PUT", AGENT, agent_put, "dry_run", ROLE_OPERATE},
	{"DELETE", AGENT, agent_delete, "dry_run", ROLE_OPERATE},
	{"POST", AGENT "/reports", report_post, NULL, ROLE_AGENT},
	{"GET", "/v1/tokens", tokens_list, NULL, ROLE_ADMIN},
	{"GET", TOKEN, token_get, NULL, ROLE_ADMIN},
	{"PUT", TOKEN, token_put, "dry_run", ROLE_ADMIN},
	{"DELETE", TOKEN, token_delete, "dry_run", ROLE_ADMIN},
	{"GET", "/v1/whoami", whoami_get, NULL, ROLE_READ},
	{"GET", "/v1/status", status_get, NULL, ROLE_READ},
	{"GET", "/v1/counters", counters_get, NULL, ROLE_READ},
	{"GET", "/v1/traffic", traffic_get, "vip", ROLE_READ},
	{"GET", "/v1/consistency", consistency_get, NULL, ROLE_READ},
	{"POST", "/v1/audit", audit_post, NULL, ROLE_OPERATE},
	{"GET", "/v1/doctor", doctor_get, NULL, ROLE_READ},
	{"GET", "/v1/explain", explain_get, "vip src sport dst dport protocol cid", ROLE_READ},
	{"GET", "/v1/events", events_get, "since kind vip", ROLE_READ},
	{"GET", "/v1/trace", trace_get, "vip src sport dst dport dip packets seconds snap",
	 ROLE_OPERATE},
	{"GET", "/metrics", metrics_get, NULL, ROLE_READ},
	{"GET", "/livez", livez_get, NULL, ROLE_NONE},
	{"GET", "/readyz", readyz_get, NULL, ROLE_NONE},
	{"GET", "/openapi.json", openapi_get, NULL, ROLE_NONE},
};

const size_t api_n_routes = ARRAY_LEN(api_routes);
