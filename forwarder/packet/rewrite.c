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

#include "packet/checksum.h"

#define MAC_LEN 6
#define MACS_LEN 12
#define L2_REST_MAX 10 /* behind the MACs: two tags and the EtherType */

#define V4_LEN 20
#define V6_LEN 40
#define OUTER_TTL 64
#define OUTER_V4_NET 0xac100000u /* 172.16.0.0/16 */
#define OUTER_V6_NET 0x01000000u /* 100::/64, discard-only (RFC 6666): its first word */
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

/* Outer headers are written a word at a time, as the RFCs draw them, straight into the frame: built
 * in a struct and copied, the copy would wait for the struct's small stores (20 ns a packet). */
static ALWAYS_INLINE void store_32(uint8_t *at, uint32_t word)
{
	word = htonl(word);
	memcpy(at, &word, sizeof(word));
}

/* RFC 2003 3.1. Identification 0: with DF set there is nothing to reassemble (RFC 6864 4.1). */
static ALWAYS_INLINE void write_v4(uint8_t *at, const struct packet *p, const struct rewrite_to *to)
{
	uint32_t first = 0x45000000u | (uint32_t)p->tos << 16 | (p->l3_len + V4_LEN);
	uint32_t ttl_proto = (uint32_t)OUTER_TTL << 24 | IPPROTO_IPIP << 16;
	uint32_t src = OUTER_V4_NET | (uint32_t)(to->hash >> OUTER_HASH_SHIFT & OUTER_V4_HASH_MASK);
	uint32_t dst;

	memcpy(&dst, &to->address.b[12], sizeof(dst));
	dst = ntohl(dst);
	uint32_t sum = (first >> 16) + (first & 0xffff) + IP_DF + (ttl_proto >> 16) + (src >> 16) +
		       (src & 0xffff) + (dst >> 16) + (dst & 0xffff);
	uint16_t check = (uint16_t)~checksum_fold(sum);
	store_32(at, first);
	store_32(at + 4, IP_DF);
	store_32(at + 8, ttl_proto | check);
	store_32(at + 12, src);
	store_32(at + 16, dst);
}

/* RFC 2473 6. The flow label is the flow's, for routers that hash it (RFC 6438). */
static ALWAYS_INLINE void write_v6(uint8_t *at, const struct packet *p, const struct rewrite_to *to)
{
	uint32_t bits = (uint32_t)(to->hash >> OUTER_HASH_SHIFT);

	store_32(at, 6u << 28 | (uint32_t)p->tos << 20 | (bits & FLOW_LABEL_MASK));
	store_32(at + 4, (uint32_t)p->l3_len << 16 | IPPROTO_IPV6 << 8 | OUTER_TTL);
	store_32(at + 8, OUTER_V6_NET);
	store_32(at + 12, 0);
	store_32(at + 16, 0);
	store_32(at + 20, bits & OUTER_V6_HASH_MASK);
	memcpy(at + 24, to->address.b, sizeof(to->address.b));
}

enum rewrite_result rewrite_ipip(uint8_t **data, uint32_t *len, uint32_t headroom,
				 const struct packet *p, const struct rewrite_to *to)
{
	uint32_t outer_len = p->is_v6 ? V6_LEN : V4_LEN;
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
