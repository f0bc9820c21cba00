/* What a dry run foretells. */
#pragma once

#include "api/client/ctl.h"

/** Print a plan of the API: what becomes of each VIP and its DIPs, and of connections. */
void ctl_plan_print(struct ctl *c, const json_t *plan);
