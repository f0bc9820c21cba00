/* How much there can be of what. */
#pragma once

#include "api/server/exchange.h"

#define OPERATIONS_MAX 16384u /* of one batch */
