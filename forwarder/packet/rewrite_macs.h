/* What all rewrites do: a frame's new link addresses. */
#pragma once

#include "packet/rewrite.h"

#define MAC_LEN 6
#define MACS_LEN 12

static ALWAYS_INLINE void rewrite_macs(uint8_t *data, const struct rewrite_to *to)
{
	memcpy(data, to->dst_mac, MAC_LEN);
	memcpy(data + MAC_LEN, to->src_mac, MAC_LEN);
}
