/* What the kernel says about a network interface. */
#pragma once

#include "io/port_xsk.h"

/** Fill *out for the interface called name. 0, or negative with err set: -ENODEV, -EINVAL (not
 *  Ethernet), or what the kernel says. Thread: any. */
MUST_CHECK int netdev_read(const char *name, struct xsk_iface *out, struct error *err);

struct netdev_link {
	char name[IF_NAMESIZE]; /* its name now */
	bool up;                /* set up by the administrator */
	bool carrier;
};

/** How the interface of this index is now; false if the network namespace has none (any more).
 *  Thread: any. */
bool netdev_read_link(int ifindex, struct netdev_link *out);
