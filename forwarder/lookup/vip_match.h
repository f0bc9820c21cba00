/* Which packets are a VIP's: an address or a prefix, a port or a range or any, a protocol or any. Of
 * the VIPs that a packet fits the most specific one takes it: the longest prefix, then the narrower
 * range of ports (any port is the widest), then a protocol before any, then the lower first port. */
#pragma once

#include <stdbool.h>

#include "base/addr.h"

enum vip_protocol { VIP_TCP, VIP_UDP, VIP_ANY }; /* any: TCP and UDP */

/** How packets of a VIP are recognised. */
struct vip_match {
	struct ip_addr address; /* of a prefix: its first one */
	uint16_t port;          /* host order; 0 = any; of a range: its first one */
	uint16_t port_end;      /* the range's last one; 0 = port alone */
	enum vip_protocol protocol;
	uint8_t host_bits; /* low bits of an address that do not matter: 0 = address alone */
};

/** True if the VIP is more than one address, or a range of ports (any port is none). */
static inline bool vip_match_is_wide(const struct vip_match *m)
{
	return m->host_bits || m->port_end;
}

/** True if dst:dport (host order) over proto (IPPROTO_*) fits. */
bool vip_match_takes(const struct vip_match *m, const struct ip_addr *dst, uint16_t dport,
		     uint8_t proto);

/** True if it is the VIP's address, or one of them. */
bool vip_match_has_address(const struct vip_match *m, const struct ip_addr *a);

/** True if some packet can match both; equal: if the same packets do. */
bool vip_match_overlaps(const struct vip_match *x, const struct vip_match *y);
bool vip_match_equal(const struct vip_match *x, const struct vip_match *y);

/** Negative if x is more specific than y, positive if y is, 0 if only one of them fits a packet, or
 *  they are equal. */
int vip_match_order(const struct vip_match *x, const struct vip_match *y);

/** Ports first .. first + 2^bits - 1, first a multiple of 2^bits. 16 bits: all. */
struct port_block {
	uint16_t first;
	uint8_t bits;
};

#define PORT_BLOCKS_MAX 30u /* that a range of ports can fall into */
#define PORT_BLOCK_SIZES 17u /* 0 .. 16 bits */

/** The fewest blocks that are the ports of m together; how many. */
unsigned vip_match_blocks(const struct vip_match *m, struct port_block blocks[PORT_BLOCKS_MAX]);

/** The first port of the block of 2^bits ports that port is in. */
static ALWAYS_INLINE uint16_t port_block_first(uint16_t port, unsigned bits)
{
	return (uint16_t)(port >> bits << bits);
}
