/* Tags of frames that leave for a DIP.
 *
 * The host's VLANs are its sub-interfaces (802.1Q). A frame that leaves by one gets that VLAN's tag, in
 * place of what tags it has; one that came in by one and leaves by none loses its tag. Any other tag is
 * nothing of the host's, and stays. Of a tag that is replaced the priority (PCP, DEI) stays. */
#pragma once

#include "io/steer_map.h"
#include "worker/burst.h"

#define VLAN_IDS 4096

/** Packets on their way back to clients, for which the kernel names an interface that stands on others. */
struct way_out {
	uint32_t ports; /* bit i: they leave by interface i of io/port.h, or another of these; 0: by none */
	uint16_t vlan;	/* with this tag; 0: with none of the host's VLANs */
};

/** What of the host's interfaces stands on those of io/port.h. Written by control while the workers are
 *  parked. */
struct host_links {
	uint64_t vlans[IFACES_MAX][VLAN_IDS / 64]; /* by interface: the VLANs that the host is a member of, a
						    * bit each */
	struct way_out outs[STEER_STACKED_MAX]; /* by the code of steer's mark - STEER_IFACES_MAX */
};

/** One of these ports (not 0) for packets to, or by way of, this address: so they stay in order, and
 *  several addresses' are spread. Pure. */
unsigned port_choose(uint32_t ports, const struct ip_addr *a);

/** The host's VLAN by which frame i came in, 0 = by none. Its packet has been parsed, its Ethernet header
 *  is as it came. Thread: worker. */
uint16_t vlan_of(const struct burst *b, unsigned i);

/** Give frame i, rewritten for its DIP, the tags with which it leaves. To be called if it has some, or
 *  its DIP is in a VLAN. False: it has ended. Thread: worker. */
MUST_CHECK bool vlan_leave(struct burst *b, unsigned i);

/** The same for a frame on its way back, which leaves in this VLAN (0: in none). Nothing was put in front of
 *  it. False: there is no room for the tag, and it is unchanged. */
MUST_CHECK bool vlan_leave_back(struct burst *b, unsigned i, uint16_t vlan);
