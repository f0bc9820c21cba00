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
	uint8_t mac[6];
};

/** True if the network namespace has no interface of this index (any more). False also when that cannot be told
 *  just now, as without descriptors. Thread: any. */
bool netdev_is_gone(int ifindex);

/** How the interface of this index is now; false if the network namespace has none (any more), or that cannot
 *  be told. Thread: any. */
bool netdev_read_link(int ifindex, struct netdev_link *out);

/** A non-blocking socket that becomes readable when an interface of this network namespace changes: the
 *  caller closes it. Negative with err set if there is none. */
MUST_CHECK int netdev_open_events(struct error *err);

/** Read away what has come; what it says is not looked at. */
void netdev_drain_events(int fd);
