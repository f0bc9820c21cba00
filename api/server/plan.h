/* The answer of a dry run. */
#pragma once

#include <jansson.h>

#include "api/server/exchange.h"

/** {"plan": {...}} of a dry run that went well; NULL without memory. */
MUST_CHECK json_t *plan_print(const struct control_transaction *t, const struct change_info *c);

/** The same of a change that forwarding has nothing to do with. */
MUST_CHECK json_t *plan_print_none(const struct api_context *api);
