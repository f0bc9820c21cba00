/* What the layouts that are measured against have in common: bursts of PEER_BURST keys, hashed by
 * the same function, tables from the same allocator. */
#pragma once

#include "lookup/flow_key.h"

#define PEER_BURST 32u

/** hugemem_alloc, or exit. */
void *peer_alloc(size_t size);
