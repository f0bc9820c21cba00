/* What is done to a packet before it leaves for its DIP, in place. */
#pragma once

#include "packet/parse.h"

enum rewrite_result {
	REWRITE_OK,
	REWRITE_TOO_BIG,     /* does not fit the egress MTU */
	REWRITE_NO_HEADROOM, /* the driver left too little room in front (a bug or a bad MTU) */
	REWRITE_FAMILY,	     /* ipip: the DIP is of the other family */
};

/** Where a packet goes. */
struct rewrite_to {
	struct ip_addr address; /* the DIP (ipip: outer destination) */
	const uint8_t *dst_mac; /* next hop */
	const uint8_t *src_mac; /* egress interface */
	uint32_t mtu;		/* IP bytes the egress interface carries */
	uint64_t hash;		/* the flow's: spreads the outer source */
};

/** l2 (direct server return): new MAC addresses; VLAN tags and link padding stay as they are. len
 * is the frame's length. p: of this frame, PARSE_OK. Unless REWRITE_OK the frame is unchanged.
 * Thread: any. */
enum rewrite_result rewrite_l2(uint8_t *data, uint32_t len, const struct packet *p,
			       const struct rewrite_to *to);

/** ipip (RFC 2003 4in4, RFC 2473 6in6): push an outer header in front of the inner one, which is
 * not touched (a router between would have decremented its TTL; we do not route). The outer source
 * is 172.16.0.0/16 or 100::/64 with bits of the flow's hash, so that a backend's NIC spreads flows
 * over its queues; DSCP and ECN are copied (RFC 6040, normal mode); DF is set. *data and *len are
 * moved to the new frame start; headroom: bytes free in front of *data. VLAN tags are kept. Link
 * padding behind the inner packet is cut off. p: of this frame, PARSE_OK. Unless REWRITE_OK the
 * frame, *data and *len are unchanged. Thread: any. */
enum rewrite_result rewrite_ipip(uint8_t **data, uint32_t *len, uint32_t headroom,
				 const struct packet *p, const struct rewrite_to *to);
