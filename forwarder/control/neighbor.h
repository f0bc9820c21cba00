/* Next hops of DIPs from the kernel: route, then neighbour, kept alive; over rtnetlink (libmnl).
 * (rtnetlink(7)) */
#pragma once

#include "base/addr.h"
#include "base/error.h"

#define NEXT_HOP_PORTS_MAX 16

struct next_hop {
	bool resolved;	    /* everything below is known */
	int ifindex;	    /* egress interface by the route; frames leave by one of ports */
	uint8_t dst_mac[6]; /* of the next hop (the DIP itself or the router before it) */
	uint8_t src_mac[6]; /* of the egress interface */
	uint16_t vlan;	    /* tag that frames have; 0: none of the host's VLANs */
	unsigned mtu;	    /* of the egress interface or the route's, the smaller */
	unsigned n_ports;
	int ports[NEXT_HOP_PORTS_MAX]; /* ifindexes: the egress interface, or what it stands on: a VLAN's
					* parent, the slaves of a bond that are in use */
};

struct neighbor;

/** Opens rtnetlink sockets and subscribes to neighbour, route and link changes of the current
 * network namespace. Thread: control from here on. */
MUST_CHECK int neighbor_open(struct neighbor **out, struct error *err);
void neighbor_close(struct neighbor *n);

/** Readable when neighbor_poll has something to do. */
int neighbor_fd(const struct neighbor *n);

/** Keep the next hop of this address known from now on (counted: watch twice, unwatch twice). The
 *  kernel is asked to resolve it and to keep it (NTF_USE, NTF_EXT_MANAGED where known). -ENOMEM or
 * 0. */
MUST_CHECK int neighbor_watch(struct neighbor *n, const struct ip_addr *a);
void neighbor_unwatch(struct neighbor *n, const struct ip_addr *a);

/** What is known of a watched address now (nothing of one that is not watched, which a dry run asks for;
 * resolved = false if nothing; with a static MAC the
 * caller puts it in itself: has_route tells whether ifindex, src_mac and mtu are valid). What was
 * resolved stays so for up to 4 s while the kernel has no entry or no route, and no longer once it
 * has probed in vain or its route says that packets may not go there. */
void neighbor_get(const struct neighbor *n, const struct ip_addr *a, struct next_hop *hop,
		  bool *has_route);

/** Have the kernel resolve a neighbour that is not watched, or probe it if that was long ago. */
void neighbor_resolve(struct neighbor *n, int ifindex, const struct ip_addr *a);

/** Read events, re-resolve, send the periodic requests (call it at least once a second). True if
 * some watched next hop, or what VLANs there are, changed since the last call. Never blocks. */
bool neighbor_poll(struct neighbor *n, uint64_t now_ms);
