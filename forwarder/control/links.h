/* The host's Ethernet interfaces as the kernel had them last, and what packets that leave by one of them
 * take in truth: a VLAN's are its parent's with a tag, a bond's are a slave's. */
#pragma once

#include <stdbool.h>

#include "control/links_rtnl.h"
#include "worker/vlan.h"

struct links {
	unsigned n, cap;
	struct rtnl_link *list; /* by ifindex */
	unsigned n_next;	/* of those that are being read */
	struct rtnl_link *next;
};

/** The way out by an interface. */
struct link_way {
	uint8_t mac[6]; /* that frames have as their source */
	uint16_t vlan;	/* tag that they have; 0: none */
	unsigned mtu;
	unsigned n_ports;
	int ports[IFACES_MAX]; /* the interfaces by any of which they may leave */
};

/** The order of a list of links, for qsort. */
static inline int links_order(const void *x, const void *y)
{
	int a = ((const struct rtnl_link *)x)->ifindex, b = ((const struct rtnl_link *)y)->ifindex;

	return (a > b) - (a < b);
}

/** Empty: {0}. Read all anew; true if something in it has changed that is about VLANs or bonds. On an
 *  error (negative) what was there stays. Thread: the owner's, as of all here. */
MUST_CHECK int links_read(struct links *ls, struct rtnl *r);
void links_free(struct links *ls);

/** NULL: there is none of this index. */
const struct rtnl_link *links_find(const struct links *ls, int ifindex);

/** 0, or -ENODEV: it is gone, down, or stands on something that cannot be sent by: a tag upon a tag, a tag
 *  of 802.1ad, a bond without a slave in use. */
MUST_CHECK int links_way(const struct links *ls, int ifindex, struct link_way *out);

/** The VLANs that the host is a member of by this interface: of sub-interfaces that are up. */
void links_vlans(const struct links *ls, int ifindex, uint64_t ids[VLAN_IDS / 64]);

/** The VLANs and bonds by which packets can leave: the index of each, at most n. Returns how many. */
unsigned links_stacked(const struct links *ls, int *ifindexes, unsigned n);

/** Names of what is to be served for the interface of this name: itself; of a VLAN its parent; of a bond
 *  all its slaves, at most n. Returns how many; -ENODEV: there is no such one. */
int links_below(const struct links *ls, const char *name, char names[][IF_NAMESIZE], int n);
