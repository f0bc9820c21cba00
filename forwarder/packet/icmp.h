/* ICMP and ICMPv6 to a VIP: errors about its flows, and echo. (RFC 792, RFC 1191, RFC 4443) */
#pragma once

#include "packet/parse.h"

/** parse_packet's part for what is at p->l4_offset, p->proto being IPPROTO_ICMP or IPPROTO_ICMPV6.
 *
 *  An error (unreachable, fragmentation needed or packet too big, time exceeded, parameter problem)
 *  about a TCP or UDP packet that the destination is said to have sent becomes PARSE_OK as a packet
 * of kind PACKET_ICMP_ERROR of that flow: src, sport_be, dport_be and proto are as in the packets
 * that the flow's client sends, dst is the VIP's either way; l4_offset is the ICMP header's. An
 * echo request is PARSE_ECHO, everything else PARSE_NOT_L4. Thread: any. Pure. */
enum parse_result icmp_parse(const uint8_t *data, struct packet *p);

/** The beginning of a TCP or UDP packet, or of its first fragment, as an error quotes it. */
struct icmp_quote {
	struct ip_addr src, dst; /* IPv4-mapped for IPv4 */
	uint32_t l4_at;		 /* its transport header, from the quote's first byte */
	uint8_t proto;		 /* IPPROTO_TCP or IPPROTO_UDP */
};

/** Read what is quoted in `room` bytes. False for anything else, and if less than the ports is
 * there. Thread: any. Pure. */
MUST_CHECK bool icmp_quote_read(const uint8_t *quote, uint32_t room, bool is_v6,
				struct icmp_quote *q);

/** Make an echo request its answer, in place, MAC addresses swapped too: the frame goes back by
 * where it came from. False, and nothing changed, for one that is not answered: with options or
 * extension headers, or from an address that is no single host's. p: of this frame, PARSE_ECHO.
 * Thread: any. */
MUST_CHECK bool icmp_answer_echo(uint8_t *data, const struct packet *p);

#define ICMP_TOO_BIG_HEADROOM 48u /* what icmp_answer_too_big puts in front at most */

/** Make a packet the answer that says that only mtu bytes fit (IPv4: fragmentation needed, quoting
 * as much as RFC 1812 4.3.2.3 allows; IPv6: packet too big, never less than 1280), from the
 * packet's destination to its source, MAC addresses swapped and tags kept: the frame goes back by
 * where it came from. *data and *len are moved to the answer; headroom: bytes free in front of
 * *data. False, and nothing changed, for what gets no answer: an ICMP error, what
 * came from or to no single host (RFC 1812 4.3.2.7, RFC 4443 2.4), or too little headroom. p: of
 * this frame, PARSE_OK. Thread: any. */
MUST_CHECK bool icmp_answer_too_big(uint8_t **data, uint32_t *len, uint32_t headroom,
				    const struct packet *p, uint32_t mtu);
