/* The answer of a dry run. */
#pragma once

#include <jansson.h>

#include "control/control.h"

/** {"plan": {...}} of a request with `dry_run` that went well; NULL without memory. */
MUST_CHECK json_t *plan_print(const struct control_request *r);
