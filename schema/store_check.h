/* What every VIP in the database must fulfil; asked before a write and after a read. For schema/
 * alone. */
#pragma once

#include "control/persist.h"

/** -EINVAL, err naming the database, the VIP and what is wrong with it. */
MUST_CHECK int store_vip_check(const struct persist_vip *v, const char *path, struct error *err);

/** The same for each VIP of a transaction, and its uids against its counters. */
MUST_CHECK int store_txn_check(const struct persist_txn *txn, const char *path, struct error *err);
