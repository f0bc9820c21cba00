/* From a frame to what the lookup needs. Every byte read is inside the frame. (DESIGN 2; IEEE 802.1Q,
 * RFC 791, RFC 8200, RFC 9293, RFC 768) */
#pragma once

#include <stdbool.h>

#include "base/addr.h"

enum parse_result {
	PARSE_OK,
	PARSE_MALFORMED,   /* truncated, bad length or header field, or a chain too long to walk */
	PARSE_FRAGMENT,    /* any fragment, first or later */
	PARSE_NOT_IP,      /* neither IPv4 nor IPv6 under at most two VLAN tags */
	PARSE_NOT_L4,      /* neither TCP nor UDP */
};

/* What a TCP packet tells about its flow. */
#define SEG_SYN 0x01     /* SYN without ACK */
#define SEG_FIN 0x02
#define SEG_RST 0x04
#define SEG_PAYLOAD 0x08 /* carries data */

struct packet {
	struct ip_addr src, dst; /* IPv4-mapped for IPv4 */
	uint16_t sport_be, dport_be;
	uint16_t l3_offset; /* IP header, from the frame's first byte: 14, 18 or 22 */
	uint16_t l4_offset;
	uint16_t l3_len;    /* IP total length by its header; bytes behind it are link padding */
	uint16_t vlan_tci_be; /* outer tag's TCI, 0 if untagged */
	uint8_t n_vlans;
	uint8_t proto;      /* IPPROTO_TCP, IPPROTO_UDP */
	uint8_t segment;    /* SEG_* for TCP, 0 for UDP */
	bool is_v6;
	uint8_t tos;        /* IPv4 TOS or IPv6 traffic class */
};

/** Parse a whole frame of len bytes at data. *p is fully valid for PARSE_OK; for PARSE_FRAGMENT and
 *  PARSE_NOT_L4 src, dst, is_v6 and l3_offset are. Thread: any. Pure. */
enum parse_result parse_packet(const uint8_t *data, uint32_t len, struct packet *p);
