/* Both rewrites touch the front of the frame only: the inner packet, its TTL and its checksums
 * leave as they came. The outer source of a tunnel is not an address of ours: nothing is ever sent
 * back to it (the backend answers the client directly), so it can carry hash bits instead, as
 * Katran's does, and the backend's NIC spreads flows over its queues by outer addresses alone. Bits
 * 24 up of the hash are used: those below name the home Dcode, which all flows of one Dcode share,
 * and those from 48 are the fingerprint. */
#include "packet/rewrite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>

#include "packet/checksum.h"

#define MAC_LEN 6
#define MACS_LEN 12
#define L2_REST_MAX 10 /* behind the MACs: two tags and the EtherType */

#define OUTER_TTL 64
#define OUTER_V4_NET 0xac100000u /* 172.16.0.0/16 */
#define OUTER_V6_NET 0x0100	 /* 100::/64, discard-only (RFC 6666) */
#define OUTER_HASH_SHIFT 24
#define OUTER_V4_HASH_MASK 0xffffu
#define OUTER_V6_HASH_MASK 0xffffffu
#define FLOW_LABEL_MASK 0xfffffu

static ALWAYS_INLINE void write_macs(uint8_t *data, const struct rewrite_to *to)
{
	memcpy(data, to->dst_mac, MAC_LEN);
	memcpy(data + MAC_LEN, to->src_mac, MAC_LEN);
}

enum rewrite_result rewrite_l2(uint8_t *data, uint32_t len, const struct packet *p,
			       const struct rewrite_to *to)
{
	(void)len; /* the padding is left where it is */
	if (p->l3_len > to->mtu)
		return REWRITE_TOO_BIG;
	write_macs(data, to);
	return REWRITE_OK;
}

/* RFC 2003 3.1. Identification 0: with DF set there is nothing to reassemble (RFC 6864 4.1). */
static ALWAYS_INLINE void write_v4(uint8_t *at, const struct packet *p, const struct rewrite_to *to)
{
	uint32_t source =
		OUTER_V4_NET | (uint32_t)(to->hash >> OUTER_HASH_SHIFT & OUTER_V4_HASH_MASK);
	struct iphdr h = {
		.version = 4,
		.ihl = sizeof(h) / 4,
		.tos = p->tos,
		.tot_len = htons((uint16_t)(p->l3_len + sizeof(h))),
		.frag_off = htons(IP_DF),
		.ttl = OUTER_TTL,
		.protocol = IPPROTO_IPIP,
		.saddr = htonl(source),
	};

	memcpy(&h.daddr, &to->address.b[12], sizeof(h.daddr));
	h.check = (uint16_t)~checksum_fold(checksum_add(0, &h, sizeof(h)));
	memcpy(at, &h, sizeof(h));
}

/* RFC 2473 6. The flow label is the flow's, for routers that hash it (RFC 6438). */
static ALWAYS_INLINE void write_v6(uint8_t *at, const struct packet *p, const struct rewrite_to *to)
{
	uint32_t bits = (uint32_t)(to->hash >> OUTER_HASH_SHIFT);
	struct ip6_hdr h = {
		.ip6_flow = htonl(6u << 28 | (uint32_t)p->tos << 20 | (bits & FLOW_LABEL_MASK)),
		.ip6_plen = htons(p->l3_len),
		.ip6_nxt = IPPROTO_IPV6,
		.ip6_hlim = OUTER_TTL,
	};

	h.ip6_src.s6_addr16[0] = htons(OUTER_V6_NET);
	h.ip6_src.s6_addr32[3] = htonl(bits & OUTER_V6_HASH_MASK);
	memcpy(&h.ip6_dst, to->address.b, sizeof(h.ip6_dst));
	memcpy(at, &h, sizeof(h));
}

enum rewrite_result rewrite_ipip(uint8_t **data, uint32_t *len, uint32_t headroom,
				 const struct packet *p, const struct rewrite_to *to)
{
	uint32_t outer_len = p->is_v6 ? sizeof(struct ip6_hdr) : sizeof(struct iphdr);
	uint8_t l2_rest[L2_REST_MAX];
	uint8_t *front;

	if (ip_addr_is_v4(&to->address) == p->is_v6)
		return REWRITE_FAMILY;
	if (p->l3_len + outer_len > to->mtu || p->l3_len + outer_len > UINT16_MAX)
		return REWRITE_TOO_BIG;
	if (outer_len > headroom)
		return REWRITE_NO_HEADROOM;
	front = *data - outer_len;
	/* Copied at its longest: what is too much lies where the outer header comes. */
	memcpy(l2_rest, *data + MACS_LEN, L2_REST_MAX);
	memcpy(front + MACS_LEN, l2_rest, L2_REST_MAX);
	write_macs(front, to);
	if (p->is_v6)
		write_v6(front + p->l3_offset, p, to);
	else
		write_v4(front + p->l3_offset, p, to);
	*data = front;
	*len = p->l3_offset + outer_len + p->l3_len;
	return REWRITE_OK;
}
