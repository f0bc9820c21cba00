/* What is done to a packet before it leaves for its DIP, in place. */
#pragma once

#include "packet/parse.h"

enum rewrite_result {
	REWRITE_OK,
	REWRITE_TOO_BIG,     /* does not fit the egress MTU */
	REWRITE_NO_HEADROOM, /* the driver left too little room in front (a bug or a bad MTU) */
	REWRITE_FAMILY,	     /* the DIP is of the other family, which the mode does not bridge */
	REWRITE_TTL,	     /* the packet has no hop left */
	REWRITE_UNTRANSLATABLE, /* nat: its checksum is not ours to update */
};

/** Where a packet goes. */
struct rewrite_to {
	const struct ip_addr *address; /* the DIP (tunnels: outer destination) */
	const uint8_t *dst_mac; /* next hop */
	const uint8_t *src_mac; /* egress interface */
	uint32_t mtu;		/* IP bytes the egress interface carries */
	uint64_t hash;		/* the flow's: spreads outer sources */
	uint16_t gue_port;	/* gue: the UDP port at the DIP, host order */
	uint16_t nat_port_be;	/* nat: the port at the DIP; 0: that of the packet */
};

/** l2 (direct server return): new MAC addresses; VLAN tags and link padding stay as they are, and
 * so does the TTL: on the backends' segment this is a switch, and to client and backend one hop
 * that is not there. len is the frame's length. p: of this frame, PARSE_OK. Unless REWRITE_OK the
 * frame is unchanged. Thread: any. */
enum rewrite_result rewrite_l2(uint8_t *data, uint32_t len, const struct packet *p,
			       const struct rewrite_to *to);

/* The two tunnels. The packet's own TTL or hop limit is lowered by one, as by every router that
 * puts what it forwards into a tunnel (RFC 2003 3.1, RFC 2473 3.1): a packet that a backend sends
 * back here ends some day. What has none left is REWRITE_TTL. The outer header is of the DIP's
 * family, whichever the packet's is; its hop limit is 64, its source 172.16.0.0/16 or 100::/64 with
 * bits of the flow's hash, so that a backend's NIC spreads flows over its queues; DSCP and ECN are
 * copied (RFC 6040, normal mode); IPv4: DF, identification 0. VLAN tags are kept, link padding
 * behind the inner packet is cut off. *data and *len are moved to the new frame; headroom: bytes
 * free in front of *data. p: of this frame, PARSE_OK. Unless REWRITE_OK the frame, *data and *len
 * are unchanged. Thread: any. */

/** ipip: IPv4 or IPv6 in IPv4 (RFC 2003, RFC 4213) or in IPv6 (RFC 2473). */
enum rewrite_result rewrite_ipip(uint8_t **data, uint32_t *len, uint32_t headroom,
				 const struct packet *p, const struct rewrite_to *to);

/** gue: the same behind UDP and a header of generic UDP encapsulation, variant 0 without options
 * (draft-ietf-intarea-gue-09), that says which of the two the packet is. The UDP source port is one
 * of 49152 to 65535 by the flow's hash; the UDP checksum is 0 (none), over IPv6 by RFC 6935. */
enum rewrite_result rewrite_gue(uint8_t **data, uint32_t *len, uint32_t headroom,
				const struct packet *p, const struct rewrite_to *to);

#define REWRITE_OUTER_V4 20u
#define REWRITE_OUTER_V6 40u
#define REWRITE_GUE_LEN 12u /* UDP 8, GUE 4 */
#define REWRITE_OUTER_MAX (REWRITE_OUTER_V6 + REWRITE_GUE_LEN)

/** Bytes that a tunnel to dip puts in front of an IP packet: by so much a packet must be shorter
 * than the egress MTU. Thread: any. Pure. */
static inline uint32_t rewrite_ipip_overhead(const struct ip_addr *dip)
{
	return ip_addr_is_v4(dip) ? REWRITE_OUTER_V4 : REWRITE_OUTER_V6;
}

static inline uint32_t rewrite_gue_overhead(const struct ip_addr *dip)
{
	return rewrite_ipip_overhead(dip) + REWRITE_GUE_LEN;
}
