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
#include "packet/icmp.h"
#include "packet/rewrite_macs.h"
#include "packet/ttl.h"

#define V4_CHECK_AT 10
#define V4_SRC_AT 12
#define V6_SRC_AT 8
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

/* A checksum within what an ICMP checksum covers: that one must hear of its change, too. */
static uint32_t update_covered(uint8_t *field, bool udp, uint32_t difference, uint32_t sum)
{
	uint8_t check[2];

	memcpy(check, field, sizeof(check));
	if (udp)
		update_udp(check, difference);
	else
		checksum_update(check, difference);
	return replace(field, check, sizeof(check), sum);
}

/* An error is about a packet to the one that it is sent to: the quoted destination is this end's
 * where the error's source is, and the other way round. The quote becomes the packet as its sender
 * knows it, or its stack would not know whose connection is meant: address, port and the IPv4
 * header checksum (RFC 5508 4.2), and the transport checksum if so much is quoted. ICMPv6's
 * checksum covers the addresses in front as well. */
static SELDOM void set_error(uint8_t *data, const struct packet *p, enum end end,
			     const struct ip_addr *address, uint16_t port_be)
{
	uint8_t *ip = data + p->l3_offset, *icmp = data + p->l4_offset, *quote = icmp + ICMP_LEN;
	uint32_t room = (uint32_t)p->l3_offset + p->l3_len - p->l4_offset - ICMP_LEN;
	uint32_t len = p->is_v6 ? 16 : 4, src_at = p->is_v6 ? V6_SRC_AT : V4_SRC_AT;
	uint8_t *at = ip + src_at + (end == DESTINATION ? len : 0);
	uint8_t *quoted_at = quote + src_at + (end == SOURCE ? len : 0);
	const uint8_t *new = &address->b[16 - len];
	uint32_t outer = 0;
	struct icmp_quote q;

	assert(nat_fits(p, address));
	bool quotes = icmp_quote_read(quote, room, p->is_v6, &q);
	assert(quotes); /* or it would not have been parsed to a flow */
	if (memcmp(at, quoted_at, len) == 0)
		outer = replace(at, new, len, 0);
	uint32_t difference = replace(quoted_at, new, len, 0);
	uint32_t sum = checksum_add(p->is_v6 ? outer : 0, &difference, sizeof(difference));
	if (!p->is_v6) {
		checksum_update(ip + V4_CHECK_AT, outer);
		sum = update_covered(quote + V4_CHECK_AT, false, difference, sum);
	}
	if (port_be) {
		uint32_t port = replace(quote + q.l4_at + (end == SOURCE ? 2 : 0), &port_be, 2, 0);
		difference = checksum_add(difference, &port, sizeof(port));
		sum = checksum_add(sum, &port, sizeof(port));
	}
	bool udp = q.proto == IPPROTO_UDP;
	uint32_t check_at = q.l4_at + (udp ? UDP_CHECK_AT : TCP_CHECK_AT);
	if (check_at + 2 <= room)
		sum = update_covered(quote + check_at, udp, difference, sum);
	checksum_update(icmp + ICMP_CHECK_AT, sum);
}

static ALWAYS_INLINE void set(uint8_t *data, const struct packet *p, enum end end,
			      const struct ip_addr *address, uint16_t port_be)
{
	if (unlikely(p->kind == PACKET_ICMP_ERROR))
		set_error(data, p, end, address, port_be);
	else
		set_end(data, p, end, address, port_be);
}

void nat_set_destination(uint8_t *data, struct packet *p, const struct ip_addr *address,
			 uint16_t port_be)
{
	set(data, p, DESTINATION, address, port_be);
	p->dst = *address;
	p->dport_be = port_be ? port_be : p->dport_be;
}

void nat_set_source(uint8_t *data, struct packet *p, const struct ip_addr *address,
		    uint16_t port_be)
{
	set(data, p, SOURCE, address, port_be);
	p->src = *address;
	p->sport_be = port_be ? port_be : p->sport_be;
}

__attribute__((noinline)) /* the other modes have the registers */
enum rewrite_result
rewrite_nat(uint8_t *data, const struct packet *p, const struct rewrite_to *to)
{
	if (ip_addr_is_v4(to->address) == p->is_v6)
		return REWRITE_FAMILY;
	if (p->keep_checksum)
		return REWRITE_UNTRANSLATABLE;
	if (p->l3_len > to->mtu)
		return REWRITE_TOO_BIG;
	if (ttl_ends(data + p->l3_offset, p->is_v6))
		return REWRITE_TTL;
	set(data, p, DESTINATION, to->address, to->nat_port_be);
	ttl_lower(data + p->l3_offset, p->is_v6);
	rewrite_macs(data, to);
	return REWRITE_OK;
}
