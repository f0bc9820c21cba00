/* One pass from the front, each field read only after the bytes that hold it are known to be there.
 * Two lengths bound it: the frame's (what the driver received) and the IP header's (what the sender
 * meant). What lies behind the second is link padding and is never looked at.
 *
 * Judged here is what the lookup, the rewrites and the checksum rely on, and no more. The IPv4
 * header checksum is not verified: a corrupted header costs a wrong lookup at worst, the packet
 * keeps its bad checksum through l2, and whoever takes it off a tunnel drops it, so the backend's
 * kernel decides, for free. Options and flags that only the backend's stack acts on are its
 * business too.
 *
 * Nothing is put together here, so overlapping fragments and those that would make too long a
 * packet are the backend's to refuse. But a packet's first fragment says where all of it goes, so
 * it must hold the whole transport header, and no other may write over the flags that it shows:
 * what RFC 1858 and RFC 7112 have filters drop is malformed here. */
#include "packet/parse.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>

#include "packet/icmp.h"
#include "packet/quic.h"

#define ETH_LEN 14
#define ETH_TYPE 12
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_CTAG 0x8100 /* 802.1Q */
#define ETHERTYPE_STAG 0x88a8 /* 802.1ad */
#define VLANS_MAX 2
#define VLAN_LEN 4

#define V4_LEN 20
#define V6_LEN 40
#define TCP_LEN 20
#define TCP_FLAGS_END 14
#define UDP_LEN 8
#define ICMP_LEN 8

/* The longest chain that RFC 8200 4.1 recommends has 6; each header is walked in the packet's own
 * cache lines, so the bound is on time, not on memory. */
#define EXT_MAX 8
#define EXT_LEN_MIN 8
#define IP6F_OFFSET 0xfff8u
#define IP6F_MORE 1u
#define AH_LEN_MIN 12

/* Of several buffers, the first has so much behind the headers that are walked over: more than is
 * read of a transport header. */
#define FRONT_L4 64u
_Static_assert(PARSE_FRONT_MIN >= ETH_LEN + VLANS_MAX * VLAN_LEN + 60 + FRONT_L4,
	       "without extension headers, all are in front");

static ALWAYS_INLINE uint16_t load_16(const uint8_t *b)
{
	uint16_t be;

	memcpy(&be, b, sizeof(be));
	return ntohs(be);
}

_Static_assert(SEG_RST == TH_RST && SEG_FIN == TH_FIN << 1 && SEG_SYN == 1 && SEG_PAYLOAD == 8,
	       "tcp_segment shifts flags into place");

static ALWAYS_INLINE uint8_t tcp_segment(uint8_t flags, bool payload)
{
	bool opens = (flags & (TH_SYN | TH_ACK | TH_FIN | TH_RST)) == TH_SYN;

	return (uint8_t)((flags & TH_RST) | (flags & TH_FIN) << 1 | opens | payload << 3);
}

/* No more than the header is looked at, which tells of echo requests: errors are never that long.
 */
static SELDOM enum parse_result icmp_parse_front(const uint8_t *data, struct packet *p)
{
	uint16_t len = p->l3_len, headers = (uint16_t)(p->l4_offset - p->l3_offset + ICMP_LEN);

	if (headers < len)
		p->l3_len = headers;
	enum parse_result r = icmp_parse(data, p);
	p->l3_len = len;
	return r;
}

/* The transport header at p->l4_offset, of a packet that ends with its IP length, or of which (not
 * whole) the first part does. */
static ALWAYS_INLINE enum parse_result parse_l4(const uint8_t *data, struct packet *p, bool whole,
						bool split)
{
	const uint8_t *l4 = data + p->l4_offset;
	uint32_t len = (uint32_t)p->l3_offset + p->l3_len - p->l4_offset;

	if (p->proto == IPPROTO_TCP) {
		if (len < TCP_LEN)
			return PARSE_MALFORMED;
		uint32_t header_len = (l4[12] & 0xf0u) >> 2; /* in words of 4 */
		if (header_len < TCP_LEN || header_len > len)
			return PARSE_MALFORMED;
		p->segment = tcp_segment(l4[13], len > header_len);
	} else if (p->proto == IPPROTO_UDP) {
		if (len < UDP_LEN)
			return PARSE_MALFORMED;
		uint32_t udp_len = load_16(l4 + 4);
		if (udp_len < UDP_LEN || (whole && udp_len > len))
			return PARSE_MALFORMED; /* less than len is legal: surplus area */
		if (!whole && udp_len > len)
			udp_len = len;
		p->segment = quic_is_initial(l4 + UDP_LEN, udp_len - UDP_LEN) ? SEG_INITIAL : 0;
	} else if (whole && (p->proto == IPPROTO_ICMP || p->proto == IPPROTO_ICMPV6)) {
		return split ? icmp_parse_front(data, p) : icmp_parse(data, p);
	} else {
		return PARSE_NOT_L4;
	}
	memcpy(&p->sport_be, l4, 2);
	memcpy(&p->dport_be, l4 + 2, 2);
	return PARSE_OK;
}

static SELDOM enum parse_result parse_first(const uint8_t *data, struct packet *p)
{
	enum parse_result r = parse_l4(data, p, false, false);

	p->kind = PACKET_FIRST;
	return r == PARSE_OK ? PARSE_FRAGMENT : r;
}

/* at: bytes of the packet in front of this part, as a multiple of 8. At 8 it would write over the
 * flags of a TCP header. (RFC 1858 3) */
static SELDOM enum parse_result parse_later(struct packet *p, uint32_t at)
{
	p->kind = PACKET_LATER;
	p->segment = SEG_UNTOLD;
	if (p->proto != IPPROTO_TCP && p->proto != IPPROTO_UDP && p->proto != 0)
		return PARSE_NOT_L4;
	return p->proto == IPPROTO_TCP && at < TCP_FLAGS_END ? PARSE_MALFORMED : PARSE_FRAGMENT;
}

/* Whether IPv4 options hold a source route that has not reached its end, so that the packet's final
 * destination is not the one in its header. (RFC 791 3.1) */
static bool v4_source_routed(const uint8_t *opt, uint32_t len)
{
	while (len >= 3 && opt[0] != IPOPT_EOL) {
		uint32_t opt_len = opt[0] == IPOPT_NOP ? 1 : opt[1];

		if (opt_len == 0 || opt_len > len)
			return false; /* the backend's stack drops it */
		if (opt[0] == IPOPT_LSRR || opt[0] == IPOPT_SSRR)
			return opt_len >= 3 && opt[2] <= opt_len;
		opt += opt_len;
		len -= opt_len;
	}
	return false;
}

static SELDOM enum parse_result parse_v4_fragment(const uint8_t *data, struct packet *p)
{
	const uint8_t *ip = data + p->l3_offset;
	uint32_t at = (load_16(ip + 6) & IP_OFFMASK) * 8u;

	p->fragment_id = load_16(ip + 4);
	p->keep_checksum =
		v4_source_routed(ip + V4_LEN, (uint32_t)p->l4_offset - p->l3_offset - V4_LEN);
	if (at > 0)
		return p->proto ? parse_later(p, at) : PARSE_NOT_L4;
	return parse_first(data, p);
}

static ALWAYS_INLINE enum parse_result parse_v4(const uint8_t *data, uint32_t len, struct packet *p,
						bool split)
{
	const uint8_t *ip = data + p->l3_offset;
	uint32_t room = len - p->l3_offset;

	if (room < V4_LEN)
		return PARSE_MALFORMED;
	uint32_t header_len = (ip[0] & 0xf) * 4u;
	uint32_t total_len = load_16(ip + 2);
	if (ip[0] >> 4 != 4 || header_len < V4_LEN || total_len < header_len || total_len > room)
		return PARSE_MALFORMED;
	p->src = ip_addr_v4(ip + 12);
	p->dst = ip_addr_v4(ip + 16);
	p->tos = ip[1];
	p->proto = ip[9];
	p->l3_len = (uint16_t)total_len;
	p->l4_offset = (uint16_t)(p->l3_offset + header_len);
	if (unlikely(load_16(ip + 6) & (IP_MF | IP_OFFMASK)))
		return parse_v4_fragment(data, p);
	if (unlikely(header_len > V4_LEN))
		p->keep_checksum = v4_source_routed(ip + V4_LEN, header_len - V4_LEN);
	return parse_l4(data, p, true, split);
}

static ALWAYS_INLINE bool v6_is_extension(uint8_t next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	       next == IPPROTO_DSTOPTS || next == IPPROTO_AH;
}

/* A fragment header, of which a packet has one at the most: first or later, or (RFC 6946) both,
 * which makes the packet a whole one. PARSE_OK if the chain goes on behind it. */
static SELDOM enum parse_result v6_fragment(const uint8_t *ext, struct packet *p, bool *seen)
{
	uint32_t at = load_16(ext + 2) & IP6F_OFFSET;

	if (*seen)
		return PARSE_MALFORMED;
	*seen = true;
	p->fragment_id = (uint32_t)load_16(ext + 4) << 16 | load_16(ext + 6);
	if (at > 0) {
		p->proto = v6_is_extension(ext[0]) ? 0 : ext[0];
		return parse_later(p, at);
	}
	if (load_16(ext + 2) & IP6F_MORE)
		p->kind = PACKET_FIRST;
	return PARSE_OK;
}

/* Walk the extension headers of an IPv6 packet of total bytes; sets proto, l4_offset and
 * keep_checksum. PARSE_OK when the chain ends at something else than an extension header, and
 * PARSE_FRAGMENT if a later fragment begins in it. */
static enum parse_result v6_walk(const uint8_t *ip, uint32_t total, struct packet *p)
{
	uint8_t next = ip[6];
	uint32_t at = V6_LEN;
	bool fragmented = false;

	for (unsigned n = 0; v6_is_extension(next); n++) {
		const uint8_t *ext = ip + at;
		uint32_t room = total - at;
		uint32_t ext_len;

		if (n == EXT_MAX || room < EXT_LEN_MIN)
			return PARSE_MALFORMED;
		if (next == IPPROTO_HOPOPTS && n > 0)
			return PARSE_MALFORMED; /* RFC 8200 4.1: only right behind the IPv6 header
						 */
		if (next == IPPROTO_FRAGMENT) {
			enum parse_result r = v6_fragment(ext, p, &fragmented);

			if (r != PARSE_OK)
				return r;
			ext_len = EXT_LEN_MIN;
		} else if (next == IPPROTO_AH) {
			ext_len = (ext[1] + 2) * 4u;
			if (ext_len < AH_LEN_MIN)
				return PARSE_MALFORMED;
			p->keep_checksum = true;
		} else {
			ext_len = (ext[1] + 1) * 8u;
		}
		if (next == IPPROTO_ROUTING && ext[3] > 0)
			p->keep_checksum = true;
		if (ext_len > room)
			return PARSE_MALFORMED;
		next = ext[0];
		at += ext_len;
	}
	p->proto = next;
	p->l4_offset = (uint16_t)(p->l3_offset + at);
	return PARSE_OK;
}

/* split: only front bytes are at data. */
static ALWAYS_INLINE enum parse_result parse_v6(const uint8_t *data, uint32_t len, struct packet *p,
						bool split, uint32_t front)
{
	const uint8_t *ip = data + p->l3_offset;
	uint32_t room = len - p->l3_offset;

	if (room < V6_LEN || ip[0] >> 4 != 6)
		return PARSE_MALFORMED;
	uint32_t total_len = V6_LEN + load_16(ip + 4);
	/* Above UINT16_MAX neither l3_len nor an outer header could say it. No link here carries
	 * it. */
	if (total_len > room || total_len > UINT16_MAX)
		return PARSE_MALFORMED;
	memcpy(p->src.b, ip + 8, sizeof(p->src.b));
	memcpy(p->dst.b, ip + 24, sizeof(p->dst.b));
	p->is_v6 = true;
	p->tos = (uint8_t)(load_16(ip) >> 4);
	p->proto = ip[6];
	p->l3_len = (uint16_t)total_len;
	p->l4_offset = (uint16_t)(p->l3_offset + V6_LEN);
	if (unlikely(v6_is_extension(p->proto))) {
		uint32_t end = split ? front - p->l3_offset - FRONT_L4 : total_len;
		enum parse_result r = v6_walk(ip, end < total_len ? end : total_len, p);

		if (r != PARSE_OK)
			return r;
		if (p->kind == PACKET_FIRST)
			return parse_first(data, p);
	}
	return parse_l4(data, p, true, split);
}

static ALWAYS_INLINE enum parse_result parse(const uint8_t *data, uint32_t len, struct packet *p,
					     bool split, uint32_t front)
{
	uint32_t l3 = ETH_LEN;

	if (len < ETH_LEN)
		return PARSE_MALFORMED;
	uint16_t type = load_16(data + ETH_TYPE);
	p->n_vlans = 0;
	p->kind = PACKET_FLOW;
	p->is_v6 = false;
	p->keep_checksum = false;
	p->vlan_tci_be = 0;
	while (unlikely(type == ETHERTYPE_CTAG || type == ETHERTYPE_STAG)) {
		if (p->n_vlans == VLANS_MAX)
			return PARSE_NOT_IP;
		if (len < l3 + VLAN_LEN)
			return PARSE_MALFORMED;
		if (p->n_vlans == 0)
			memcpy(&p->vlan_tci_be, data + l3, 2);
		type = load_16(data + l3 + 2);
		l3 += VLAN_LEN;
		p->n_vlans++;
	}
	p->l3_offset = (uint16_t)l3;
	if (type == ETHERTYPE_IPV4)
		return parse_v4(data, len, p, split);
	if (type == ETHERTYPE_IPV6)
		return parse_v6(data, len, p, split, front);
	return PARSE_NOT_IP;
}

enum parse_result parse_packet(const uint8_t *data, uint32_t len, struct packet *p)
{
	return parse(data, len, p, false, len);
}

SELDOM enum parse_result parse_front(const uint8_t *data, uint32_t front, uint32_t len,
				     struct packet *p)
{
	return front < PARSE_FRONT_MIN ? PARSE_SCATTERED : parse(data, len, p, true, front);
}
