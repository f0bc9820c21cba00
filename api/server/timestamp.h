/* Moments as the API writes them: RFC 3339, UTC, to the millisecond. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/** "2026-11-30T00:41:47.123Z"; null if the year has no four digits. NULL without memory. */
json_t *timestamp_print(int64_t wall_ms);

/** Read one, with any offset and with or without a fraction. False if it is none. */
bool timestamp_parse(const char *text, int64_t *wall_ms);
