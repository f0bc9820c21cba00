/* What we say ourselves, in the VIP's name. Both answers are made of the frame that asked, in
 * place: it goes back to the MAC address that it came from by the interface that it came in by, so
 * neither a route nor a neighbour is needed. */
#include <arpa/inet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>

#include "packet/checksum.h"
#include "packet/icmp.h"

#define MAC_LEN 6
#define MACS_LEN 12
#define L2_MAX 22 /* with two tags */
#define ICMP_LEN 8
#define V4_LEN 20
#define V6_LEN 40
#define TTL 64
#define V4_ANSWER_MAX 576u /* RFC 1812 4.3.2.3 */
#define V6_MTU_MIN 1280u   /* RFC 4443 2.4 (c) */

static void store_16(uint8_t *at, uint16_t v)
{
	v = htons(v);
	memcpy(at, &v, sizeof(v));
}

static void store_32(uint8_t *at, uint32_t v)
{
	v = htonl(v);
	memcpy(at, &v, sizeof(v));
}

/* Checksums are folded in network order. */
static void store_check(uint8_t *at, uint32_t sum)
{
	uint16_t check = (uint16_t)~checksum_fold(sum);

	memcpy(at, &check, sizeof(check));
}

static void swap(uint8_t *x, uint8_t *y, unsigned n)
{
	uint8_t kept[16];

	memcpy(kept, x, n);
	memcpy(x, y, n);
	memcpy(y, kept, n);
}

/* Whether the address can be one host's that is not this one's own. */
static bool is_host(const struct ip_addr *a)
{
	static const uint8_t loopback[16] = {[15] = 1}, none[16];

	if (ip_addr_is_v4(a))
		return a->b[12] != 0 && a->b[12] != 127 && a->b[12] < 224;
	return a->b[0] != 0xff && memcmp(a->b, loopback, 16) != 0 && memcmp(a->b, none, 16) != 0;
}

bool icmp_answer_echo(uint8_t *data, const struct packet *p)
{
	uint8_t *ip = data + p->l3_offset, *icmp = data + p->l4_offset;
	uint32_t header_len = p->is_v6 ? V6_LEN : V4_LEN;

	if (p->l4_offset - p->l3_offset != (int)header_len || !is_host(&p->src) ||
	    !is_host(&p->dst) || (data[MAC_LEN] & 1))
		return false;
	swap(data, data + MAC_LEN, MAC_LEN);
	uint8_t from = icmp[0], to = p->is_v6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY;
	icmp[0] = to;
	/* RFC 1624 (4), with which a message of zeros comes out right: a wrong checksum stays
	 * wrong. The pseudo-header's sum is the same either way. */
	uint16_t check;
	memcpy(&check, icmp + 2, sizeof(check));
	check = checksum_fold((uint32_t)check + htons((uint16_t)(from << 8)) +
			      (uint16_t)~htons((uint16_t)(to << 8)));
	memcpy(icmp + 2, &check, sizeof(check));
	if (p->is_v6) {
		ip[7] = TTL;
		swap(ip + 8, ip + 24, 16);
		return true;
	}
	ip[8] = TTL;
	swap(ip + 12, ip + 16, 4);
	store_16(ip + 10, 0);
	store_check(ip + 10, checksum_add(0, ip, V4_LEN));
	return true;
}

/* A frame's link header, its way back, in front of an answer. */
static void turn_link(const uint8_t *data, uint8_t *front, uint32_t len)
{
	uint8_t link[L2_MAX];

	memcpy(link, data, len);
	memcpy(front, link + MAC_LEN, MAC_LEN);
	memcpy(front + MAC_LEN, link, MAC_LEN);
	memcpy(front + MACS_LEN, link + MACS_LEN, len - MACS_LEN);
}

static void write_v4(uint8_t *ip, uint32_t quoted, const struct packet *p, uint32_t mtu)
{
	uint8_t *icmp = ip + V4_LEN;

	store_32(ip, 0x45c00000u | (V4_LEN + ICMP_LEN + quoted)); /* TOS: RFC 1812 4.3.2.5 */
	store_32(ip + 4, IP_DF);
	store_32(ip + 8, (uint32_t)TTL << 24 | IPPROTO_ICMP << 16);
	memcpy(ip + 12, &p->dst.b[12], 4);
	memcpy(ip + 16, &p->src.b[12], 4);
	store_check(ip + 10, checksum_add(0, ip, V4_LEN));
	store_32(icmp, (uint32_t)ICMP_DEST_UNREACH << 24 | ICMP_FRAG_NEEDED << 16);
	store_32(icmp + 4, mtu);
	store_check(icmp + 2, checksum_add(0, icmp, ICMP_LEN + quoted));
}

static void write_v6(uint8_t *ip, uint32_t quoted, const struct packet *p, uint32_t mtu)
{
	uint8_t *icmp = ip + V6_LEN;
	uint32_t sum;

	store_32(ip, 6u << 28);
	store_32(ip + 4, (ICMP_LEN + quoted) << 16 | IPPROTO_ICMPV6 << 8 | TTL);
	memcpy(ip + 8, p->dst.b, 16);
	memcpy(ip + 24, p->src.b, 16);
	store_32(icmp, (uint32_t)ICMP6_PACKET_TOO_BIG << 24);
	store_32(icmp + 4, mtu > V6_MTU_MIN ? mtu : V6_MTU_MIN);
	sum = checksum_add(0, ip + 8, 32);
	sum += htons((uint16_t)(ICMP_LEN + quoted)) + (uint32_t)htons(IPPROTO_ICMPV6);
	store_check(icmp + 2, checksum_add(sum, icmp, ICMP_LEN + quoted));
}

bool icmp_answer_too_big(uint8_t **data, uint32_t *len, uint32_t headroom, const struct packet *p,
			 uint32_t mtu)
{
	uint32_t front_len = ICMP_LEN + (p->is_v6 ? V6_LEN : V4_LEN);
	uint32_t most = (p->is_v6 ? V6_MTU_MIN : V4_ANSWER_MAX) - front_len;
	uint32_t quoted = p->l3_len < most ? p->l3_len : most;

	if (p->kind == PACKET_ICMP_ERROR || p->kind == PACKET_LATER || front_len > headroom ||
	    !is_host(&p->src) || !is_host(&p->dst) || ((*data)[MAC_LEN] & 1))
		return false;
	uint8_t *front = *data - front_len;
	turn_link(*data, front, p->l3_offset);
	if (p->is_v6)
		write_v6(front + p->l3_offset, quoted, p, mtu);
	else
		write_v4(front + p->l3_offset, quoted, p, mtu);
	*data = front;
	*len = p->l3_offset + front_len + quoted;
	return true;
}
