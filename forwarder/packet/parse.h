/* From a frame to what the lookup needs. Every byte read is inside the frame. (IEEE 802.1Q, RFC
 * 791, RFC 8200, RFC 9293, RFC 768) */
#pragma once

#include <stdbool.h>

#include "base/addr.h"

enum parse_result {
	PARSE_OK,
	PARSE_MALFORMED, /* truncated, bad length or header field, or a chain too long to walk */
	PARSE_FRAGMENT,	 /* a part of a packet, its first or a later one: see kind */
	PARSE_NOT_IP,	 /* neither IPv4 nor IPv6 under at most two VLAN tags */
	PARSE_NOT_L4,	 /* neither TCP nor UDP, nor an ICMP error about one of them */
	PARSE_ECHO,	 /* an ICMP or ICMPv6 echo request */
	PARSE_SCATTERED, /* the first of its buffers holds too little */
};

/* What a TCP packet tells about its flow. FIN, RST and payload are reported as they are found, also
 * together: RST says more than FIN, FIN more than payload. Only a SYN alone (no ACK, FIN or RST)
 * opens a connection, with or without payload: a SYN+ACK never comes from a client, and no backend
 * answers SYN+FIN or SYN+RST with a connection. Such oddities are forwarded all the same, for the
 * backend to judge. 0 is a bare ACK (or a segment that says as little). */
#define SEG_SYN 0x01
#define SEG_FIN 0x02
#define SEG_RST 0x04
#define SEG_PAYLOAD 0x08
/* What a UDP packet tells: it begins with a QUIC Initial packet, so it opens a connection. */
#define SEG_INITIAL 0x10
/* It tells nothing of its flow, so nothing is learned of it: an ICMP error, or a packet that goes to
 * another DIP by its connection ID. */
#define SEG_UNTOLD 0x20

/* How a packet belongs to the flow that its addresses and ports name. */
enum packet_kind {
	PACKET_FLOW,	   /* a TCP or UDP packet of it */
	PACKET_ICMP_ERROR, /* an error about what was sent to its client, which it quotes */
	PACKET_FIRST,	   /* the first fragment of such a packet: all its headers are there */
	PACKET_LATER,	   /* another fragment of it: its ports are in the first */
};

struct packet {
	struct ip_addr src, dst; /* IPv4-mapped for IPv4 */
	uint16_t sport_be, dport_be;
	uint16_t l3_offset; /* IP header, from the frame's first byte: 14, 18 or 22 */
	uint16_t l4_offset;
	uint16_t l3_len;      /* IP total length by its header; bytes behind it are link padding */
	uint16_t vlan_tci_be; /* outer tag's TCI, 0 if untagged */
	uint32_t fragment_id; /* of fragments: the same for all of a packet */
	/* the first four are 0 mostly, and written at once */
	uint8_t n_vlans;
	uint8_t kind; /* enum packet_kind */
	bool is_v6;
	bool keep_checksum; /* the pseudo-header is not of src and dst (a source route with a way to
			     * go), or an authentication header covers it: leave it alone */
	uint8_t proto;	    /* IPPROTO_TCP, IPPROTO_UDP: the flow's */
	uint8_t segment;    /* SEG_*; of UDP, SEG_INITIAL or 0; of an ICMP error, SEG_UNTOLD */
	uint8_t tos;	    /* IPv4 TOS or IPv6 traffic class */
};

/** Parse a whole frame of len bytes at data. *p is fully valid for PARSE_OK, and for PARSE_FRAGMENT of
 *  kind PACKET_FIRST; of kind PACKET_LATER it lacks the ports and, where other headers stand between,
 *  proto (0), and its segment is SEG_UNTOLD. For PARSE_NOT_L4 and PARSE_ECHO src, dst, is_v6,
 *  l3_offset, l3_len, tos and the VLAN fields are valid, and for PARSE_ECHO l4_offset too; for the
 *  others nothing in it may be used. Thread: any. Pure. */
enum parse_result parse_packet(const uint8_t *data, uint32_t len, struct packet *p);

/* So much of a frame must be in the first of its buffers: its headers, and what is quoted to a sender for
 * whom it was too big. */
#define PARSE_FRONT_MIN 1500u

/** The same of a frame of len bytes of which only the first front are at data. PARSE_SCATTERED if they are
 *  fewer than PARSE_FRONT_MIN; extension headers that go on behind them are PARSE_MALFORMED. */
enum parse_result parse_front(const uint8_t *data, uint32_t front, uint32_t len, struct packet *p);
