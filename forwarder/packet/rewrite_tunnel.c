/* Tunnels: an outer header in front of the packet, which loses a hop and is else not touched. The
 * outer source is not an address of ours: nothing is ever sent back to it (the backend answers the
 * client directly), so it can carry hash bits instead, as Katran's does, and the backend's NIC
 * spreads flows over its queues by outer addresses alone; many NICs hash no UDP ports by default,
 * so gue has it too. Bits 24 up of the hash are used: those below name the home Dcode, which all
 * flows of one Dcode share, and those from 48 are the fingerprint.
 *
 * No UDP checksum: over IPv4 it is optional, and over IPv6 a tunnel whose packets bear checksums of
 * their own may leave it out (RFC 6935 5, RFC 6936 5). Its sum would have to go over the whole
 * packet, which is read nowhere else here. What it would have protected besides is the outer
 * header: a packet that is brought to a wrong host by a flipped bit finds no tunnel there, or no
 * VIP behind it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>

#include "packet/checksum.h"
#include "packet/rewrite_macs.h"
#include "packet/ttl.h"

#define L2_REST_MAX 10 /* behind the MACs: two tags and the EtherType */
#define ETHERTYPE_LEN 2
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd

#define OUTER_TTL 64
#define OUTER_V4_NET 0xac100000u /* 172.16.0.0/16 */
#define OUTER_V6_NET 0x01000000u /* 100::/64, discard-only (RFC 6666): its first word */
#define OUTER_HASH_SHIFT 24
#define OUTER_V4_HASH_MASK 0xffffu
#define OUTER_V6_HASH_MASK 0xffffffu
#define FLOW_LABEL_MASK 0xfffffu

#define UDP_LEN 8
#define GUE_SPORT 0xc000u /* RFC 6335 6: the dynamic ports, 49152 to 65535 */
#define GUE_SPORT_HASH_MASK 0x3fffu
#define GUE_PROTO_SHIFT 16 /* version 0, a data packet, no options: the rest of the word is 0 */

/* What an outer header says of what follows it. */
struct outer {
	uint32_t proto;
	uint32_t len; /* bytes behind the IP header */
	uint32_t tos;
};

/* Headers are written a word at a time, as the RFCs draw them, straight into the frame: built in a
 * struct and copied, the copy would wait for the struct's small stores (20 ns a packet). */
static ALWAYS_INLINE void store_32(uint8_t *at, uint32_t word)
{
	word = htonl(word);
	memcpy(at, &word, sizeof(word));
}

static ALWAYS_INLINE void store_16(uint8_t *at, uint16_t word)
{
	word = htons(word);
	memcpy(at, &word, sizeof(word));
}

/* RFC 2003 3.1. Identification 0: with DF set there is nothing to reassemble (RFC 6864 4.1). The
 * sum is of words as they are written, as sums mind no byte order (RFC 1071 2B). */
static ALWAYS_INLINE void write_v4(uint8_t *at, struct outer o, const struct rewrite_to *to)
{
	uint32_t first = htonl(0x45000000u | o.tos << 16 | (o.len + REWRITE_OUTER_V4));
	uint32_t flags = htonl(IP_DF);
	uint32_t ttl_proto = htonl((uint32_t)OUTER_TTL << 24 | o.proto << 16);
	uint32_t src =
		htonl(OUTER_V4_NET | (uint32_t)(to->hash >> OUTER_HASH_SHIFT & OUTER_V4_HASH_MASK));
	uint32_t dst;

	memcpy(&dst, &to->address->b[12], sizeof(dst));
	uint64_t sum = (uint64_t)first + flags + ttl_proto + src + dst;
	uint16_t check = (uint16_t)~checksum_fold(checksum_fold_64(sum));
	memcpy(at, &first, 4);
	memcpy(at + 4, &flags, 4);
	memcpy(at + 8, &ttl_proto, 2);
	memcpy(at + 10, &check, 2);
	memcpy(at + 12, &src, 4);
	memcpy(at + 16, &dst, 4);
}

/* RFC 2473 6. The flow label is the flow's, for routers that hash it (RFC 6438). */
static ALWAYS_INLINE void write_v6(uint8_t *at, struct outer o, const struct rewrite_to *to)
{
	uint32_t bits = (uint32_t)(to->hash >> OUTER_HASH_SHIFT);

	store_32(at, 6u << 28 | o.tos << 20 | (bits & FLOW_LABEL_MASK));
	store_32(at + 4, o.len << 16 | o.proto << 8 | OUTER_TTL);
	store_32(at + 8, OUTER_V6_NET);
	store_32(at + 12, 0);
	store_32(at + 16, 0);
	store_32(at + 20, bits & OUTER_V6_HASH_MASK);
	memcpy(at + 24, to->address->b, sizeof(to->address->b));
}

static ALWAYS_INLINE void write_gue(uint8_t *at, uint32_t inner_proto, uint32_t len,
				    const struct rewrite_to *to)
{
	uint32_t sport = GUE_SPORT | (uint32_t)(to->hash >> OUTER_HASH_SHIFT & GUE_SPORT_HASH_MASK);

	store_32(at, sport << 16 | to->gue_port);
	store_32(at + 4, len << 16);
	store_32(at + UDP_LEN, inner_proto << GUE_PROTO_SHIFT);
}

/* Room for the outer headers: the link header moves to the new front, and names the outer family.
 */
static ALWAYS_INLINE uint8_t *move_front(uint8_t *data, const struct packet *p, uint32_t overhead,
					 bool outer_v6)
{
	uint8_t *front = data - overhead;
	uint64_t tags;
	uint16_t type;

	/* Copied at its longest: what is too much lies where the outer header comes. */
	_Static_assert(sizeof(tags) + sizeof(type) == L2_REST_MAX, "");
	memcpy(&tags, data + MACS_LEN, sizeof(tags));
	memcpy(&type, data + MACS_LEN + sizeof(tags), sizeof(type));
	memcpy(front + MACS_LEN, &tags, sizeof(tags));
	memcpy(front + MACS_LEN + sizeof(tags), &type, sizeof(type));
	store_16(front + p->l3_offset - ETHERTYPE_LEN, outer_v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4);
	return front;
}

static ALWAYS_INLINE enum rewrite_result tunnel(uint8_t **data, uint32_t *len, uint32_t headroom,
						const struct packet *p, const struct rewrite_to *to,
						uint32_t shim_len, bool outer_v6)
{
	uint32_t outer_len = outer_v6 ? REWRITE_OUTER_V6 : REWRITE_OUTER_V4;
	uint32_t overhead = outer_len + shim_len;
	uint32_t inner_proto = p->is_v6 ? IPPROTO_IPV6 : IPPROTO_IPIP;
	struct outer o = {.proto = shim_len ? IPPROTO_UDP : inner_proto,
			  .len = shim_len + p->l3_len,
			  .tos = p->tos};

	if (unlikely(ttl_ends(*data + p->l3_offset, p->is_v6)))
		return REWRITE_TTL;
	if (p->l3_len + overhead > to->mtu || p->l3_len + overhead > UINT16_MAX)
		return REWRITE_TOO_BIG;
	if (overhead > headroom)
		return REWRITE_NO_HEADROOM;
	ttl_lower(*data + p->l3_offset, p->is_v6);
	uint8_t *front = move_front(*data, p, overhead, outer_v6);
	uint8_t *outer = front + p->l3_offset;
	rewrite_macs(front, to);
	if (outer_v6)
		write_v6(outer, o, to);
	else
		write_v4(outer, o, to);
	if (shim_len)
		write_gue(outer + outer_len, inner_proto, o.len, to);
	*data = front;
	*len = p->l3_offset + overhead + p->l3_len;
	return REWRITE_OK;
}

enum rewrite_result rewrite_ipip(uint8_t **data, uint32_t *len, uint32_t headroom,
				 const struct packet *p, const struct rewrite_to *to)
{
	return ip_addr_is_v4(to->address) ? tunnel(data, len, headroom, p, to, 0, false)
					  : tunnel(data, len, headroom, p, to, 0, true);
}

enum rewrite_result rewrite_gue(uint8_t **data, uint32_t *len, uint32_t headroom,
				const struct packet *p, const struct rewrite_to *to)
{
	return ip_addr_is_v4(to->address)
		       ? tunnel(data, len, headroom, p, to, REWRITE_GUE_LEN, false)
		       : tunnel(data, len, headroom, p, to, REWRITE_GUE_LEN, true);
}
