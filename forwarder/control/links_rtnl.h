/* What rtnetlink says about interfaces, and on which others they stand. (rtnetlink(7)) */
#pragma once

#include <net/if.h>

#include "control/neighbor_rtnl.h"

struct nlmsghdr;

enum rtnl_link_kind { LINK_OTHER, LINK_VLAN, LINK_BOND };

/** An Ethernet interface. Without padding of unknown content: compared as bytes. */
struct rtnl_link {
	int ifindex;
	unsigned mtu;
	uint32_t kind;	/* enum rtnl_link_kind */
	int parent;	/* VLAN: the interface that it is on; 0: none of this network namespace */
	int active;	/* bond: the one slave in use; 0: none, or a mode that uses several */
	int master;	/* what it is a part of (a bond, a bridge ...); 0: of nothing */
	uint16_t vlan_id; /* VLAN: 1 .. 4094; 0: another tag than 802.1Q's */
	uint8_t mac[6];
	uint8_t up;	/* by the administrator */
	uint8_t carries; /* a bond's slave: in use */
	char name[IF_NAMESIZE];
	uint16_t zero; /* no padding */
};
_Static_assert(sizeof(struct rtnl_link) == 6 * 4 + 8 + 2 + IF_NAMESIZE + 2, "no padding");

/** Hand all Ethernet interfaces to each(), in no order; it ends the walk by a negative errno. 0, that,
 *  or what went wrong (-EINTR: they have changed meanwhile). Thread: r's. */
MUST_CHECK int rtnl_get_links(struct rtnl *r, int (*each)(void *ctx, const struct rtnl_link *l),
			      void *ctx);

/** What an RTM_NEWLINK says. False: it is not about an Ethernet interface. Thread: any. Pure. */
MUST_CHECK bool rtnl_read_link(const struct nlmsghdr *m, struct rtnl_link *out);
