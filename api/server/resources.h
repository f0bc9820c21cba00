/* The functions that answer, one file for each resource; routes.c says which path is whose. All may run
 * in several threads at once. */
#pragma once

#include "api/server/exchange.h"

void vips_list(struct api_request *req, struct api_response *resp);
void vip_get(struct api_request *req, struct api_response *resp);
void vip_put(struct api_request *req, struct api_response *resp);
void vip_patch(struct api_request *req, struct api_response *resp);
void vip_delete(struct api_request *req, struct api_response *resp);

void dips_list(struct api_request *req, struct api_response *resp);
void dip_get(struct api_request *req, struct api_response *resp);
void dip_put(struct api_request *req, struct api_response *resp);
void dip_patch(struct api_request *req, struct api_response *resp);
void dip_delete(struct api_request *req, struct api_response *resp);

void config_get(struct api_request *req, struct api_response *resp);
void config_put(struct api_request *req, struct api_response *resp);
void config_batch_post(struct api_request *req, struct api_response *resp);
void versions_list(struct api_request *req, struct api_response *resp);
void version_get(struct api_request *req, struct api_response *resp);
void version_diff_get(struct api_request *req, struct api_response *resp);
void rollback_post(struct api_request *req, struct api_response *resp);
void audit_log_get(struct api_request *req, struct api_response *resp);
void limits_get(struct api_request *req, struct api_response *resp);

void health_get(struct api_request *req, struct api_response *resp);
void health_override_put(struct api_request *req, struct api_response *resp);
void health_override_delete(struct api_request *req, struct api_response *resp);

void flows_list(struct api_request *req, struct api_response *resp);

void agents_list(struct api_request *req, struct api_response *resp);
void agent_get(struct api_request *req, struct api_response *resp);
void agent_put(struct api_request *req, struct api_response *resp);
void agent_delete(struct api_request *req, struct api_response *resp);
void report_post(struct api_request *req, struct api_response *resp);

void tokens_list(struct api_request *req, struct api_response *resp);
void token_get(struct api_request *req, struct api_response *resp);
void token_put(struct api_request *req, struct api_response *resp);
void token_delete(struct api_request *req, struct api_response *resp);

void whoami_get(struct api_request *req, struct api_response *resp);

void status_get(struct api_request *req, struct api_response *resp);
void counters_get(struct api_request *req, struct api_response *resp);
void traffic_get(struct api_request *req, struct api_response *resp);
void consistency_get(struct api_request *req, struct api_response *resp);
void audit_post(struct api_request *req, struct api_response *resp);
void trace_get(struct api_request *req, struct api_response *resp);
void events_get(struct api_request *req, struct api_response *resp);
void metrics_get(struct api_request *req, struct api_response *resp);
void doctor_get(struct api_request *req, struct api_response *resp);
void explain_get(struct api_request *req, struct api_response *resp);
void openapi_get(struct api_request *req, struct api_response *resp);
void livez_get(struct api_request *req, struct api_response *resp);
void readyz_get(struct api_request *req, struct api_response *resp);
