/* The difference that a new address and port make is a sum of its own, taken once and put into both
 * checksums that cover them (the IPv4 header's, and the transport's with its pseudo-header), by
 * RFC 1624's equation 3: HC' = ~(~HC + ~m + m'). All words are added up as they lie in memory:
 * ones' complement sums do not mind the byte order. (RFC 1071 2B)
 *
 * A sum of nothing but zeros does not occur in a packet, so a right checksum stays the very one
 * that a computation anew would yield, 0 and not 0xffff where there is a choice. Only UDP has a
 * word of its own for 0: "none". There a 0 that comes out is written as 0xffff.
 *
 * The checksum of a packet in fragments is over all of it and stands in the first: by the
 * difference it comes right there, without the others being known. */
#include "packet/nat.h"

#include <assert.h>
#include <netinet/in.h>

#include "packet/checksum.h"
#include "packet/rewrite_macs.h"
#include "packet/ttl.h"

#define V4_CHECK_AT 10
#define V4_SRC_AT 12
#define V6_SRC_AT 8
#define V6_NEXT_AT 6
#define V6_LEN 40
#define ICMP_LEN 8
#define ICMP_CHECK_AT 2
#define TCP_CHECK_AT 16
#define UDP_CHECK_AT 6

/* UDP's 0 is no checksum: nothing to update, and nothing to come out. */
static void update_udp(uint8_t *field, uint32_t difference)
{
	uint16_t check;

	memcpy(&check, field, sizeof(check));
	if (check == 0)
		return;
	checksum_update(field, difference);
	memcpy(&check, field, sizeof(check));
	if (check == 0)
		memset(field, 0xff, sizeof(check));
}

/* Replace len (even, at most 16) bytes, and add what that changes to difference. */
static uint32_t replace(uint8_t *at, const void *with, uint32_t len, uint32_t difference)
{
	uint8_t gone[16];

	assert(len <= sizeof(gone));
	for (uint32_t i = 0; i < len; i++)
		gone[i] = (uint8_t)~at[i];
	memcpy(at, with, len);
	return checksum_add(checksum_add(difference, gone, len), with, len);
}

enum end { SOURCE, DESTINATION };

static ALWAYS_INLINE void set_end(uint8_t *data, const struct packet *p, enum end end,
				  const struct ip_addr *address, uint16_t port_be)
{
	uint8_t *ip = data + p->l3_offset, *l4 = data + p->l4_offset;
	uint32_t len = p->is_v6 ? 16 : 4;
	uint8_t *at = ip + (p->is_v6 ? V6_SRC_AT : V4_SRC_AT) + (end == DESTINATION ? len : 0);

	assert(nat_fits(p, address));
	uint32_t difference = replace(at, &address->b[16 - len], len, 0);
	if (!p->is_v6)
		checksum_update(ip + V4_CHECK_AT, difference);
	if (unlikely(p->kind == PACKET_LATER))
		return; /* ports and checksum are in the first fragment */
	if (port_be)
		difference = replace(l4 + (end == DESTINATION ? 2 : 0), &port_be, 2, difference);
	if (p->proto == IPPROTO_UDP)
		update_udp(l4 + UDP_CHECK_AT, difference);
	else
		checksum_update(l4 + TCP_CHECK_AT, difference);
}

void nat_set_destination(uint8_t *data, struct packet *p, const struct ip_addr *address,
			 uint16_t port_be)
{
	set_end(data, p, DESTINATION, address, port_be);
	p->dst = *address;
	p->dport_be = port_be ? port_be : p->dport_be;
}

void nat_set_source(uint8_t *data, struct packet *p, const struct ip_addr *address,
		    uint16_t port_be)
{
	set_end(data, p, SOURCE, address, port_be);
	p->src = *address;
	p->sport_be = port_be ? port_be : p->sport_be;
}

/* An ICMP error about what the DIP has sent, which left in the VIP's name: besides the destination
 * the quote's source becomes the DIP's, or its stack would not know whose connection is meant. (RFC
 * 5508 4.2; the quoted transport checksum is not updated, which nobody checks.) ICMPv6's checksum
 * covers the addresses in front, too. */
static enum rewrite_result set_error(uint8_t *data, const struct packet *p,
				     const struct rewrite_to *to)
{
	uint8_t *ip = data + p->l3_offset, *icmp = data + p->l4_offset, *quote = icmp + ICMP_LEN;
	uint32_t len = p->is_v6 ? 16 : 4;
	uint32_t src_at = p->is_v6 ? V6_SRC_AT : V4_SRC_AT;
	uint32_t ports_at = p->is_v6 ? V6_LEN : (quote[0] & 0xf) * 4u;
	const uint8_t *address = &to->address.b[16 - len];

	if (p->is_v6 && quote[V6_NEXT_AT] != p->proto)
		return REWRITE_UNTRANSLATABLE; /* where the ports are is behind extension headers */
	uint32_t outer = replace(ip + src_at + len, address, len, 0);
	uint32_t quoted = replace(quote + src_at, address, len, 0);
	uint32_t sum = checksum_add(p->is_v6 ? outer : 0, &quoted, sizeof(quoted));
	if (!p->is_v6) {
		uint8_t check[2];

		checksum_update(ip + V4_CHECK_AT, outer);
		memcpy(check, quote + V4_CHECK_AT, sizeof(check));
		checksum_update(check, quoted);
		sum = replace(quote + V4_CHECK_AT, check, sizeof(check), sum);
	}
	if (to->nat_port_be)
		sum = replace(quote + ports_at, &to->nat_port_be, 2, sum);
	checksum_update(icmp + ICMP_CHECK_AT, sum);
	return REWRITE_OK;
}

__attribute__((noinline)) /* the other modes have the registers */
enum rewrite_result
rewrite_nat(uint8_t *data, const struct packet *p, const struct rewrite_to *to)
{
	if (ip_addr_is_v4(&to->address) == p->is_v6)
		return REWRITE_FAMILY;
	if (p->keep_checksum)
		return REWRITE_UNTRANSLATABLE;
	if (p->l3_len > to->mtu)
		return REWRITE_TOO_BIG;
	if (ttl_ends(data + p->l3_offset, p->is_v6))
		return REWRITE_TTL;
	if (unlikely(p->kind == PACKET_ICMP_ERROR)) {
		enum rewrite_result r = set_error(data, p, to);
		if (r != REWRITE_OK)
			return r;
	} else {
		set_end(data, p, DESTINATION, &to->address, to->nat_port_be);
	}
	ttl_lower(data + p->l3_offset, p->is_v6);
	rewrite_macs(data, to);
	return REWRITE_OK;
}
