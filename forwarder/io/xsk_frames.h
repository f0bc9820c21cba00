/* How frames lie in packet memory, by the interfaces' MTUs and drivers. Nothing here but
 * arithmetic. */
#pragma once

#include "io/port_xsk.h"

struct xsk_frames {
	uint32_t chunk; /* bytes, see umem.h */
	bool multi;	/* a frame may take several chunks */
};

/** For n interfaces in a mode, which may be auto. Thread: any. */
struct xsk_frames xsk_frames_plan(const struct xsk_iface *ifaces, unsigned n, enum xdp_mode mode);

/** 0 if the interface can receive in zero-copy mode all frames that its MTU allows, else
 * -EOPNOTSUPP with err set. Thread: any. */
MUST_CHECK int xsk_frames_check_zerocopy(const struct xsk_frames *f, const struct xsk_iface *i,
					 struct error *err);

/** The longest frame (bytes, with its Ethernet header and tags), and the longest IP packet, that
 * come through. Thread: any. */
uint32_t xsk_frames_longest(const struct xsk_frames *f);
unsigned xsk_frames_mtu(const struct xsk_frames *f);
