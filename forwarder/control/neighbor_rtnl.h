/* The rtnetlink messages that neighbor.c needs, and nothing of its policy. (rtnetlink(7)) */
#pragma once

#include <linux/neighbour.h>
#include <stdbool.h>

#include "base/addr.h"
#include "base/error.h"

struct mnl_socket;

struct rtnl {
	struct mnl_socket *requests; /* asks one thing at a time and reads the answer */
	struct mnl_socket *events;   /* subscribed, not blocking */
	uint32_t seq;
	uint8_t buf[32768]; /* an answer, or a batch of events */
};

struct rtnl_route {
	int ifindex;
	struct ip_addr via; /* the gateway, or the address itself when it is on the link */
	unsigned mtu;	    /* of the route; 0 = it names none */
};

struct rtnl_neigh {
	int ifindex;
	struct ip_addr address;
	uint16_t state; /* NUD_*; NUD_NONE: the kernel has no such entry */
	bool has_mac;
	uint8_t mac[6];
};

/** Open both sockets in the current network namespace. 0, or negative with err set. */
MUST_CHECK int rtnl_open(struct rtnl *r, struct error *err);
void rtnl_close(struct rtnl *r);
int rtnl_events_fd(const struct rtnl *r);

/** How the kernel would route a packet to a. 0; -ENETUNREACH: no route (it may come);
 *  -EHOSTUNREACH: there is an answer and it is no (local to this host, blackhole, prohibited, not
 *  unicast); or another negative errno. Thread of all from here on: control. */
MUST_CHECK int rtnl_get_route(struct rtnl *r, const struct ip_addr *a, struct rtnl_route *out);

/** A neighbour entry; 0 with NUD_NONE if there is none. */
MUST_CHECK int rtnl_get_neigh(struct rtnl *r, int ifindex, const struct ip_addr *a,
			      struct rtnl_neigh *out);

/** Tell the kernel that the neighbour is in use: it resolves the entry, or probes a stale one.
 *  managed: from now on it does so by itself, where it knows how (5.16 and later); false ends that.
 *  Not for NUD_PERMANENT entries, which NTF_USE would demote. 0 or a negative errno, which may be
 *  ignored where the request is repeated anyway. */
int rtnl_use_neigh(struct rtnl *r, int ifindex, const struct ip_addr *a, bool managed);

struct rtnl_event_handler {
	void *ctx;
	void (*neigh)(void *ctx, const struct rtnl_neigh *n);
	void (*links)(void *ctx);  /* an interface changed */
	void (*routes)(void *ctx); /* a route, rule, address or next-hop object changed */
};

/** Hand over all events that wait. 0, or -ENOBUFS: the kernel had to drop some, ask anew. */
MUST_CHECK int rtnl_read_events(struct rtnl *r, const struct rtnl_event_handler *h);
