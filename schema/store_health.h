/* The health checks of VIPs in the database: one row for each VIP that has some. For schema/ alone. */
#pragma once

#include "schema/store_db.h"

/** Columns of vip_health besides vip_uid, in the order of health_members, for statements. */
#define STORE_HEALTH_COLUMNS                                                                       \
	"type, interval_ms, timeout_ms, rise, fall, jitter_percent, min_up, slow_start_s,"         \
	" damping_half_life_s, port, path, host, method, expect_status, expect_body, verify, send," \
	" expect, name, query_type, expect_rcode"

/** Write the row of a VIP, or delete it if the VIP has no checks, within a transaction. SQLite's result
 *  code, SQLITE_OK or SQLITE_DONE if it went well. */
MUST_CHECK int store_health_put(const struct store_db *d, const struct persist_vip *v);

/** Fill conf.health of every VIP read (sorted by uid). 0, -EINVAL: a row says what cannot be; -EIO. */
MUST_CHECK int store_health_load(const struct store_db *d, struct persist_state *s,
				 struct error *err);
