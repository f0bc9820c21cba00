/* Which flow an error is about. A router that cannot deliver what a backend sent to a client
 * answers to the source, the VIP, and quotes the beginning of the packet. So the quote's source is
 * the VIP's end of the flow and its destination the client's, the reverse of all that the lookup
 * sees otherwise.
 *
 * An error whose quote does not come from the address that it was sent to is nothing that a router
 * sends: it is not believed. (What a DIP of mode nat says to a client about the client's packet is
 * of the same shape: it quotes what its destination has sent, and parses as a packet of the DIP's.)
 * More is not checked. Who knows a flow's four numbers can forge an error about it here as with any
 * host, and the backend's stack judges what the quote says beyond them (a sequence number, a lower
 * MTU), as it would without us (RFC 5927). */
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

/* The transport header, of which only the ports need be there. */
static bool read_transport(uint32_t at, uint32_t room, uint8_t proto, struct icmp_quote *q)
{
	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP) || room - at < PORTS_LEN)
		return false;
	q->l4_at = at;
	q->proto = proto;
	return true;
}

static bool read_v4(const uint8_t *ip, uint32_t room, struct icmp_quote *q)
{
	if (room < V4_LEN)
		return false;
	uint32_t header_len = (ip[0] & 0xf) * 4u;
	if (ip[0] >> 4 != 4 || header_len < V4_LEN || header_len > room ||
	    (load_16(ip + 6) & IP_OFFMASK)) /* a later fragment has no ports */
		return false;
	q->src = ip_addr_v4(ip + 12);
	q->dst = ip_addr_v4(ip + 16);
	return read_transport(header_len, room, ip[9], q);
}

static bool read_v6(const uint8_t *ip, uint32_t room, struct icmp_quote *q)
{
	uint32_t at = V6_LEN;

	if (room < V6_LEN || ip[0] >> 4 != 6)
		return false;
	uint8_t next = ip[6];
	for (unsigned n = 0;
	     next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	     next == IPPROTO_DSTOPTS || next == IPPROTO_AH;
	     n++) {
		const uint8_t *ext = ip + at;

		if (n == EXT_MAX || room - at < EXT_LEN_MIN)
			return false;
		uint32_t len = (ext[1] + 1) * 8u;
		if (next == IPPROTO_FRAGMENT) {
			if (load_16(ext + 2) & 0xfff8)
				return false;
			len = EXT_LEN_MIN;
		} else if (next == IPPROTO_AH) {
			len = (ext[1] + 2) * 4u;
		}
		if (len > room - at)
			return false;
		next = ext[0];
		at += len;
	}
	memcpy(q->src.b, ip + 8, sizeof(q->src.b));
	memcpy(q->dst.b, ip + 24, sizeof(q->dst.b));
	return read_transport(at, room, next, q);
}

bool icmp_quote_read(const uint8_t *quote, uint32_t room, bool is_v6, struct icmp_quote *q)
{
	return is_v6 ? read_v6(quote, room, q) : read_v4(quote, room, q);
}

static enum parse_result parse_error(const uint8_t *quote, uint32_t room, struct packet *p)
{
	struct icmp_quote q;

	if (!icmp_quote_read(quote, room, p->is_v6, &q) || !ip_addr_equal(&q.src, &p->dst))
		return PARSE_NOT_L4;
	p->src = q.dst;
	memcpy(&p->dport_be, quote + q.l4_at, 2);
	memcpy(&p->sport_be, quote + q.l4_at + 2, 2);
	p->proto = q.proto;
	p->segment = SEG_UNTOLD;
	p->kind = PACKET_ICMP_ERROR;
	return PARSE_OK;
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
			return parse_error(icmp + ICMP_LEN, len - ICMP_LEN, p);
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
		return parse_error(icmp + ICMP_LEN, len - ICMP_LEN, p);
	default:
		return PARSE_NOT_L4;
	}
}
