/* Octets as hexadecimal text. */
#pragma once

#include "base/cpu.h"

/** Octets of a text of two digits each, in letters of any size, and nothing else. Returns how many,
 * 1 to max, or -EINVAL, with out untouched. Thread: any. */
MUST_CHECK int hex_parse(const char *text, uint8_t *out, unsigned max);
