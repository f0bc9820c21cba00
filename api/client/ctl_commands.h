/* The commands, a file each for a group; and what groups share. Each returns an enum ctl_exit. */
#pragma once

#include "api/client/ctl.h"

/* vip, dip */
int ctl_vip_list(struct ctl *c, const struct ctl_call *call);
int ctl_vip_show(struct ctl *c, const struct ctl_call *call);
int ctl_vip_create(struct ctl *c, const struct ctl_call *call);
int ctl_vip_set(struct ctl *c, const struct ctl_call *call);
int ctl_vip_delete(struct ctl *c, const struct ctl_call *call);
int ctl_vip_cancel(struct ctl *c, const struct ctl_call *call);
int ctl_dip_list(struct ctl *c, const struct ctl_call *call);
int ctl_dip_show(struct ctl *c, const struct ctl_call *call);
int ctl_dip_add(struct ctl *c, const struct ctl_call *call);
int ctl_dip_set(struct ctl *c, const struct ctl_call *call);
int ctl_dip_up(struct ctl *c, const struct ctl_call *call);
int ctl_dip_down(struct ctl *c, const struct ctl_call *call);
int ctl_dip_drain(struct ctl *c, const struct ctl_call *call);
int ctl_dip_cut(struct ctl *c, const struct ctl_call *call);
int ctl_dip_cancel(struct ctl *c, const struct ctl_call *call);

/* the whole configuration, health, access */
int ctl_config_get(struct ctl *c, const struct ctl_call *call);
int ctl_config_apply(struct ctl *c, const struct ctl_call *call);
int ctl_config_versions(struct ctl *c, const struct ctl_call *call);
int ctl_config_show(struct ctl *c, const struct ctl_call *call);
int ctl_config_diff(struct ctl *c, const struct ctl_call *call);
int ctl_config_rollback(struct ctl *c, const struct ctl_call *call);
int ctl_audit_log(struct ctl *c, const struct ctl_call *call);
int ctl_health_show(struct ctl *c, const struct ctl_call *call);
int ctl_health_override(struct ctl *c, const struct ctl_call *call);
int ctl_health_clear(struct ctl *c, const struct ctl_call *call);
int ctl_token_list(struct ctl *c, const struct ctl_call *call);
int ctl_token_create(struct ctl *c, const struct ctl_call *call);
int ctl_token_delete(struct ctl *c, const struct ctl_call *call);

/* what the forwarder does */
int ctl_status(struct ctl *c, const struct ctl_call *call);
int ctl_counters(struct ctl *c, const struct ctl_call *call);
int ctl_consistency(struct ctl *c, const struct ctl_call *call);
int ctl_audit(struct ctl *c, const struct ctl_call *call);
int ctl_flows(struct ctl *c, const struct ctl_call *call);
int ctl_explain(struct ctl *c, const struct ctl_call *call);
int ctl_events(struct ctl *c, const struct ctl_call *call);
int ctl_trace(struct ctl *c, const struct ctl_call *call);
int ctl_limits(struct ctl *c, const struct ctl_call *call);
int ctl_doctor(struct ctl *c, const struct ctl_call *call);
int ctl_top(struct ctl *c, const struct ctl_call *call);

/* the program itself */
int ctl_completion(struct ctl *c, const struct ctl_call *call);
int ctl_complete(struct ctl *c, const struct ctl_call *call);
int ctl_man(struct ctl *c, const struct ctl_call *call);

/** One line for each member of a document, on c->out. */
void ctl_print_members(struct ctl *c, const json_t *json);

/** Show a resource, with its ETag. */
MUST_CHECK int ctl_show_resource(struct ctl *c, const struct ctl_path *path);

/** Wait until a resource that drains is gone, telling how many flows remain. */
MUST_CHECK int ctl_wait_gone(struct ctl *c, const struct ctl_path *path);

/** Cancel a drain: put the resource back as it is. */
MUST_CHECK int ctl_put_back(struct ctl *c, const struct ctl_call *call, struct ctl_path *path);
