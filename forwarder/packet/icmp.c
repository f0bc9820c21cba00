/* Which flow an error is about. A router that cannot deliver what a backend sent to a client
 * answers to the source, the VIP, and quotes the beginning of the packet. So the quote's source is
 * the VIP's end of the flow and its destination the client's, the reverse of all that the lookup
 * sees otherwise.
 *
 * An error whose quote does not come from the address that it was sent to is nothing that a router
 * sends: it is not believed. More is not checked. Who knows a flow's four numbers can forge an
 * error about it here as with any host, and the backend's stack judges what the quote says beyond
 * them (a sequence number, a lower MTU), as it would without us (RFC 5927). */
#include "packet/icmp.h"

#include <arpa/inet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>

#define ICMP_LEN 8
#define V4_LEN 20
#define V6_LEN 40
#define PORTS_LEN 4
#define EXT_MAX 8
#define EXT_LEN_MIN 8

static uint16_t load_16(const uint8_t *b)
{
	uint16_t be;

	memcpy(&be, b, sizeof(be));
	return ntohs(be);
}

/* The quoted transport header, of which only the ports need be there. */
static enum parse_result quoted_flow(const uint8_t *l4, uint32_t room, uint8_t proto,
				     const struct ip_addr *from, const struct ip_addr *to,
				     struct packet *p)
{
	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP) || room < PORTS_LEN ||
	    !ip_addr_equal(from, &p->dst))
		return PARSE_NOT_L4;
	p->src = *to;
	memcpy(&p->dport_be, l4, 2);
	memcpy(&p->sport_be, l4 + 2, 2);
	p->proto = proto;
	p->segment = SEG_UNTOLD;
	p->kind = PACKET_ICMP_ERROR;
	return PARSE_OK;
}

static enum parse_result quoted_v4(const uint8_t *ip, uint32_t room, struct packet *p)
{
	if (room < V4_LEN)
		return PARSE_NOT_L4;
	uint32_t header_len = (ip[0] & 0xf) * 4u;
	if (ip[0] >> 4 != 4 || header_len < V4_LEN || header_len > room ||
	    (load_16(ip + 6) & IP_OFFMASK)) /* a later fragment has no ports */
		return PARSE_NOT_L4;
	struct ip_addr from = ip_addr_v4(ip + 12), to = ip_addr_v4(ip + 16);
	return quoted_flow(ip + header_len, room - header_len, ip[9], &from, &to, p);
}

static enum parse_result quoted_v6(const uint8_t *ip, uint32_t room, struct packet *p)
{
	uint32_t at = V6_LEN;

	if (room < V6_LEN || ip[0] >> 4 != 6)
		return PARSE_NOT_L4;
	uint8_t next = ip[6];
	for (unsigned n = 0;
	     next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	     next == IPPROTO_DSTOPTS || next == IPPROTO_AH;
	     n++) {
		const uint8_t *ext = ip + at;

		if (n == EXT_MAX || room - at < EXT_LEN_MIN)
			return PARSE_NOT_L4;
		uint32_t len = (ext[1] + 1) * 8u;
		if (next == IPPROTO_FRAGMENT) {
			if (load_16(ext + 2) & 0xfff8)
				return PARSE_NOT_L4;
			len = EXT_LEN_MIN;
		} else if (next == IPPROTO_AH) {
			len = (ext[1] + 2) * 4u;
		}
		if (len > room - at)
			return PARSE_NOT_L4;
		next = ext[0];
		at += len;
	}
	struct ip_addr from, to;
	memcpy(from.b, ip + 8, sizeof(from.b));
	memcpy(to.b, ip + 24, sizeof(to.b));
	return quoted_flow(ip + at, room - at, next, &from, &to, p);
}

enum parse_result icmp_parse(const uint8_t *data, struct packet *p)
{
	const uint8_t *icmp = data + p->l4_offset;
	uint32_t len = (uint32_t)p->l3_offset + p->l3_len - p->l4_offset;

	if (p->is_v6 != (p->proto == IPPROTO_ICMPV6) || len < ICMP_LEN)
		return PARSE_NOT_L4;
	if (p->is_v6) {
		switch (icmp[0]) {
		case ICMP6_ECHO_REQUEST:
			return PARSE_ECHO;
		case ICMP6_DST_UNREACH:
		case ICMP6_PACKET_TOO_BIG:
		case ICMP6_TIME_EXCEEDED:
		case ICMP6_PARAM_PROB:
			return quoted_v6(icmp + ICMP_LEN, len - ICMP_LEN, p);
		default:
			return PARSE_NOT_L4;
		}
	}
	switch (icmp[0]) {
	case ICMP_ECHO:
		return PARSE_ECHO;
	case ICMP_DEST_UNREACH:
	case ICMP_TIME_EXCEEDED:
	case ICMP_PARAMETERPROB:
		return quoted_v4(icmp + ICMP_LEN, len - ICMP_LEN, p);
	default:
		return PARSE_NOT_L4;
	}
}
