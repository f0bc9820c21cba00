/* The forwarding modes of lookup/ and what packet/ does for each. */
#pragma once

#include <assert.h>

#include "lookup/snapshot.h"
#include "packet/rewrite.h"

/** Bytes that a VIP's mode puts in front of an IP packet to a DIP of this address: by so much a
 *  packet must be shorter than the egress MTU. Thread: any. Pure. */
static inline uint32_t modes_overhead(enum vip_mode mode, const struct ip_addr *dip)
{
	switch (mode) {
	case VIP_L2:
	case VIP_NAT:
		return 0;
	case VIP_IPIP:
		return rewrite_ipip_overhead(dip);
	case VIP_GUE:
		return rewrite_gue_overhead(dip);
	}
	assert(!"a mode");
	return 0;
}
