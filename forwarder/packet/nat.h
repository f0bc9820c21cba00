/* Mode nat: a packet's destination (towards the DIP) or source (on its way back) becomes another
 * one, in place. Stateless: nothing is kept of a flow. (RFC 3022, RFC 1624) */
#pragma once

#include "packet/rewrite.h"

/** Whether the packet may get this address in the place of one of its own: the same family, and
 * its checksum is ours to update (no authentication header, no source route with a way to go).
 * Thread: any. Pure. */
static inline bool nat_fits(const struct packet *p, const struct ip_addr *address)
{
	return !p->keep_checksum && ip_addr_is_v4(address) != p->is_v6;
}

/** Write a new destination (source) into the packet: the address, and the port unless port_be is 0.
 * IPv4 and transport checksums are updated by the difference, so one that is wrong stays wrong; a
 * UDP checksum of 0 (none) stays 0. A later fragment has an address alone. Of an ICMP error it is
 * the flow's packets that it quotes whose other end changes as well, and the error's own source only
 * where that is the flow's (else it is a router's, and stays). p: of this frame, nat_fits; it follows
 * the change. Thread: any. */
void nat_set_destination(uint8_t *data, struct packet *p, const struct ip_addr *address,
			 uint16_t port_be);
void nat_set_source(uint8_t *data, struct packet *p, const struct ip_addr *address,
		    uint16_t port_be);

/** The way to the DIP: destination to->address and to->nat_port_be, one hop less, new MAC
 * addresses; of an ICMP error the quoted packet's source, port and checksums, too. VLAN tags and link padding stay as
 * they are. REWRITE_FAMILY, REWRITE_UNTRANSLATABLE, REWRITE_TTL and REWRITE_TOO_BIG leave the frame
 * unchanged. p: of this frame, PARSE_OK. Thread: any. */
enum rewrite_result rewrite_nat(uint8_t *data, const struct packet *p, const struct rewrite_to *to);
