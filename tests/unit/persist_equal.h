/* Whether what one store has kept is what another one has: in whatever order VIPs, DIPs and agents stand. */
#pragma once

#include "control/persist.h"

bool persist_vip_equal(const struct persist_vip *x, const struct persist_vip *y);

/** All but the database's own id. */
bool persist_state_equal(const struct persist_state *x, const struct persist_state *y);
