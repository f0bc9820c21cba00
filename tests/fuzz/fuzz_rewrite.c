/* What every mode makes of a frame, against what it promises: only the bytes that it names change,
 * a checksum is as good or as bad as it was, and a frame that is refused is as it was. */
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "packet/nat.h"
#include "tests/fuzz/fuzz_packet.h"
#include "tests/unit/frames.h"
#include "tests/unit/naive_parse.h"

static const uint8_t next_hop_mac[6] = {2, 0, 0, 0, 1, 0x99}, egress_mac[6] = {2, 0, 0, 0, 1, 0};

static void check_macs(const uint8_t *frame)
{
	assert(memcmp(frame, next_hop_mac, 6) == 0 && memcmp(frame + 6, egress_mac, 6) == 0);
}

static void check_l2(const uint8_t *data, uint32_t len, const struct packet *p,
		     const struct rewrite_to *to)
{
	uint8_t *frame = fuzz_copy(data, len, 0);
	enum rewrite_result r = rewrite_l2(frame, len, p, to);

	assert(r == (p->l3_len > to->mtu ? REWRITE_TOO_BIG : REWRITE_OK));
	if (r == REWRITE_OK)
		check_macs(frame);
	assert(memcmp(frame + 12, data + 12, len - 12) == 0);
	assert(r == REWRITE_OK || memcmp(frame, data, 12) == 0);
	free(frame);
}

enum tunnel { IPIP, GUE, N_TUNNELS };

static void check_outer(const uint8_t *frame, uint32_t len, const struct packet *p,
			const struct rewrite_to *to, enum tunnel t)
{
	bool v6 = !ip_addr_is_v4(to->address);
	struct packet outer;

	/* IPv4 or IPv6 in itself is no transport that is parsed. */
	assert(naive_parse(frame, len, &outer) == (t == GUE ? PARSE_OK : PARSE_NOT_L4));
	assert(outer.is_v6 == v6 && ip_addr_equal(&outer.dst, to->address));
	assert(outer.tos == p->tos && outer.l3_offset == p->l3_offset);
	assert(fuzz_packet_end(&outer) == len && outer.l3_len <= to->mtu);
	assert(v6 || frames_sum16(frame + p->l3_offset, 20, 0) == 0xffff);
	if (t == IPIP)
		return;
	const uint8_t *udp = frame + outer.l4_offset;
	uint16_t sport = (uint16_t)(udp[0] << 8 | udp[1]);
	assert(sport >= 49152 && udp[2] == to->gue_port >> 8 && udp[3] == (to->gue_port & 255));
	assert((uint32_t)(udp[4] << 8 | udp[5]) == 8u + 4 + p->l3_len);
	assert(udp[6] == 0 && udp[7] == 0);
	assert(udp[8] == 0 && udp[9] == (p->is_v6 ? 41 : 4) && udp[10] == 0 && udp[11] == 0);
}

/* One hop less; a checksum as good or as bad as it was. */
static void check_inner(const uint8_t *ip, const uint8_t *was, const struct packet *p)
{
	uint32_t ttl_at = p->is_v6 ? 7 : 8, rest_at = p->is_v6 ? 8 : 12;
	uint32_t header_len = (was[0] & 15u) * 4;

	assert(ip[ttl_at] == was[ttl_at] - 1);
	assert(memcmp(ip, was, ttl_at) == 0);
	assert(memcmp(ip + rest_at, was + rest_at, p->l3_len - rest_at) == 0);
	if (!p->is_v6) {
		assert(ip[9] == was[9]);
		assert(frames_sum16(ip, header_len, 0) == frames_sum16(was, header_len, 0));
	}
}

static enum rewrite_result expect_tunnel(const uint8_t *data, const struct packet *p,
					 const struct rewrite_to *to, uint32_t headroom,
					 uint32_t outer_len)
{
	if (data[p->l3_offset + (p->is_v6 ? 7 : 8)] < 2)
		return REWRITE_TTL;
	if (p->l3_len + outer_len > to->mtu)
		return REWRITE_TOO_BIG;
	return headroom < outer_len ? REWRITE_NO_HEADROOM : REWRITE_OK;
}

static void check_tunnel(const uint8_t *data, uint32_t len, const struct packet *p,
			 const struct rewrite_to *to, uint32_t headroom, enum tunnel t)
{
	bool outer_v6 = !ip_addr_is_v4(to->address);
	uint32_t outer_len = (outer_v6 ? 40 : 20) + (t == GUE ? 12 : 0), new_len = len;
	uint8_t *block = fuzz_copy(data, len, headroom), *frame = block + headroom;
	enum rewrite_result want = expect_tunnel(data, p, to, headroom, outer_len);

	assert((t == GUE ? rewrite_gue : rewrite_ipip)(&frame, &new_len, headroom, p, to) == want);
	if (want == REWRITE_OK) {
		const uint8_t *type = frame + p->l3_offset - 2;

		assert(frame == block + headroom - outer_len);
		assert(new_len == fuzz_packet_end(p) + outer_len);
		check_macs(frame);
		assert(memcmp(frame + 12, data + 12, p->l3_offset - 14u) == 0);
		assert((type[0] << 8 | type[1]) == (outer_v6 ? 0x86dd : 0x0800));
		check_outer(frame, new_len, p, to, t);
		check_inner(frame + p->l3_offset + outer_len, data + p->l3_offset, p);
	} else {
		assert(frame == block + headroom && new_len == len &&
		       memcmp(frame, data, len) == 0);
	}
	for (uint32_t i = 0; i + outer_len < headroom; i++)
		assert(block[i] == 0xcc);
	free(block);
}

/* --- nat --- */

#define V4_LEN 20u
#define V6_LEN 40u
#define ICMP_LEN 8u
#define TTL_AT(v6) ((v6) ? 7u : 8u)
#define ADDRESS_AT(v6) ((v6) ? 8u : 12u)
#define ADDRESS_LEN(v6) ((v6) ? 16u : 4u)

/* The sum that covers addresses and transport, checksum included: 0 and 0xffff are the same. */
static uint32_t covered_sum(const uint8_t *data, const struct packet *p)
{
	const uint8_t *l4 = data + p->l4_offset;
	uint32_t len = fuzz_packet_end(p) - p->l4_offset, sum = 0;
	bool icmp = p->kind == PACKET_ICMP_ERROR;

	if (p->kind == PACKET_FLOW && p->proto == IPPROTO_UDP)
		len = (uint32_t)l4[4] << 8 | l4[5];
	if (!icmp || p->is_v6)
		sum = frames_sum16(data + p->l3_offset + ADDRESS_AT(p->is_v6),
				   2 * ADDRESS_LEN(p->is_v6), 0);
	return frames_sum16(l4, len, sum) % 0xffff;
}

static uint32_t header_sum(const uint8_t *ip)
{
	return frames_sum16(ip, (ip[0] & 15u) * 4, 0) % 0xffff;
}

static void put_address(uint8_t *at, const struct ip_addr *address, bool v6)
{
	memcpy(at, &address->b[16 - ADDRESS_LEN(v6)], ADDRESS_LEN(v6));
}

/* The checksum fields are taken from what came out: their sums are looked at apart. */
static void take(uint8_t *want, const uint8_t *got, uint32_t at)
{
	memcpy(want + at, got + at, 2);
}

/* Where the quoted transport header is: behind extension headers, whose lengths parsing has proven.
 */
static uint32_t quoted_header_len(const uint8_t *quote, bool v6)
{
	uint8_t next = quote[6];
	uint32_t at = V6_LEN;

	if (!v6)
		return (quote[0] & 15u) * 4;
	while (next != IPPROTO_TCP && next != IPPROTO_UDP) {
		const uint8_t *ext = quote + at;

		at += next == IPPROTO_FRAGMENT ? 8
		      : next == IPPROTO_AH     ? (ext[1] + 2) * 4u
					       : (ext[1] + 1) * 8u;
		next = ext[0];
	}
	return at;
}

/* A quote is told the address and port that its sender, or the one it was sent to, has in truth.
 * Its transport checksum covers more than is quoted: what goes and what comes must weigh the same.
 */
static void retell(uint8_t *want, const uint8_t *got, const uint8_t *data, const struct packet *p,
		   const struct ip_addr *address, uint16_t port_be, bool its_destination)
{
	uint32_t at = p->l4_offset + ICMP_LEN, v6 = p->is_v6;
	uint32_t l4 = at + quoted_header_len(want + at, v6), end = fuzz_packet_end(p);
	uint32_t check = l4 + (p->proto == IPPROTO_TCP ? 16 : 6);
	uint32_t ends_at = at + ADDRESS_AT(v6), ends_len = 2 * ADDRESS_LEN(v6);

	put_address(want + ends_at + (its_destination ? ADDRESS_LEN(v6) : 0), address, v6);
	if (port_be)
		memcpy(want + l4 + (its_destination ? 2 : 0), &port_be, 2);
	take(want, got, p->l4_offset + 2u);
	if (!v6) {
		take(want, got, at + 10);
		assert(header_sum(got + at) == header_sum(data + at));
	}
	if (check + 2 > end || (p->proto == IPPROTO_UDP && !(data[check] | data[check + 1])))
		return;
	take(want, got, check);
	uint32_t was = frames_sum16(data + ends_at, ends_len, 0);
	uint32_t is = frames_sum16(got + ends_at, ends_len, 0);
	was = frames_sum16(data + l4, 4, was);
	is = frames_sum16(got + l4, 4, is);
	assert(frames_sum16(data + check, 2, was) % 0xffff ==
	       frames_sum16(got + check, 2, is) % 0xffff);
	assert(p->proto == IPPROTO_TCP || got[check] | got[check + 1]);
}

/* Whether the one end of the packet is what is translated: of an error a router's is not. */
static bool is_flows_end(const uint8_t *data, const struct packet *p, bool destination)
{
	uint32_t len = ADDRESS_LEN(p->is_v6), src = ADDRESS_AT(p->is_v6);
	const uint8_t *ip = data + p->l3_offset, *quote = data + p->l4_offset + ICMP_LEN;

	if (p->kind != PACKET_ICMP_ERROR || destination)
		return true;
	return memcmp(ip + src, quote + src + len, len) == 0;
}

/* The one end's address and port, its checksums taken from what came out. */
static void translate(uint8_t *want, const uint8_t *got, const struct packet *p,
		      const struct ip_addr *address, uint16_t port_be, bool destination)
{
	uint32_t address_at = ADDRESS_AT(p->is_v6) + (destination ? ADDRESS_LEN(p->is_v6) : 0);

	if (is_flows_end(want, p, destination))
		put_address(want + p->l3_offset + address_at, address, p->is_v6);
	if (!p->is_v6)
		take(want, got, p->l3_offset + 10u);
	if (p->kind == PACKET_ICMP_ERROR || p->kind == PACKET_LATER)
		return;
	uint8_t *l4 = want + p->l4_offset;
	if (port_be)
		memcpy(l4 + (destination ? 2 : 0), &port_be, 2);
	if (p->proto == IPPROTO_TCP)
		take(want, got, p->l4_offset + 16u);
	else if (l4[6] || l4[7])
		take(want, got, p->l4_offset + 6u);
	assert(p->proto == IPPROTO_TCP ||
	       !(l4[6] | l4[7]) == !(got[p->l4_offset + 6] | got[p->l4_offset + 7]));
}

static enum rewrite_result expect_nat(const uint8_t *data, const struct packet *p,
				      const struct rewrite_to *to)
{
	if (ip_addr_is_v4(to->address) == p->is_v6)
		return REWRITE_FAMILY;
	if (p->keep_checksum)
		return REWRITE_UNTRANSLATABLE;
	if (p->l3_len > to->mtu)
		return REWRITE_TOO_BIG;
	if (data[p->l3_offset + TTL_AT(p->is_v6)] < 2)
		return REWRITE_TTL;
	return REWRITE_OK;
}

/* Sums that were right stay right, and wrong ones as wrong; a UDP checksum of none covers nothing,
 * and that of a packet in fragments is in the first.
 */
static void check_sums(const uint8_t *frame, const uint8_t *data, const struct packet *p)
{
	const uint8_t *l4 = data + p->l4_offset;
	bool none = p->kind == PACKET_LATER ||
		    (p->kind != PACKET_ICMP_ERROR && p->proto == IPPROTO_UDP && !(l4[6] | l4[7]));

	assert(none || covered_sum(frame, p) == covered_sum(data, p));
	assert(p->is_v6 || header_sum(frame + p->l3_offset) == header_sum(data + p->l3_offset));
}

static void check_nat(const uint8_t *data, uint32_t len, const struct packet *p,
		      const struct rewrite_to *to)
{
	uint8_t *frame = fuzz_copy(data, len, 0), *want = fuzz_copy(data, len, 0);
	enum rewrite_result r = rewrite_nat(frame, p, to);
	struct packet q;

	assert(r == expect_nat(data, p, to));
	if (r == REWRITE_OK) {
		translate(want, frame, p, to->address, to->nat_port_be, true);
		if (p->kind == PACKET_ICMP_ERROR)
			retell(want, frame, data, p, to->address, to->nat_port_be, false);
		want[p->l3_offset + TTL_AT(p->is_v6)]--;
		memcpy(want, next_hop_mac, 6);
		memcpy(want + 6, egress_mac, 6);
		check_sums(frame, data, p);
		bool part = p->kind == PACKET_FIRST || p->kind == PACKET_LATER;
		assert(naive_parse(frame, len, &q) == (part ? PARSE_FRAGMENT : PARSE_OK));
		assert(q.kind == p->kind);
		assert(ip_addr_equal(&q.dst, to->address) && ip_addr_equal(&q.src, &p->src));
		if (p->kind != PACKET_LATER)
			assert(q.dport_be == (to->nat_port_be ? to->nat_port_be : p->dport_be));
	}
	assert(memcmp(frame, want, len) == 0);
	free(want);
	free(frame);
}

static void check_back(const uint8_t *data, uint32_t len, const struct packet *p,
		       const struct rewrite_to *to)
{
	if (!nat_fits(p, to->address))
		return;
	uint8_t *frame = fuzz_copy(data, len, 0), *want = fuzz_copy(data, len, 0);
	struct packet q = *p;

	nat_set_source(frame, &q, to->address, to->nat_port_be);
	translate(want, frame, p, to->address, to->nat_port_be, false);
	if (p->kind == PACKET_ICMP_ERROR)
		retell(want, frame, data, p, to->address, to->nat_port_be, true);
	check_sums(frame, data, p);
	assert(memcmp(frame, want, len) == 0);
	assert(ip_addr_equal(&q.src, to->address));
	assert(q.sport_be == (to->nat_port_be ? to->nat_port_be : p->sport_be));
	free(want);
	free(frame);
}

void fuzz_rewrites(const uint8_t *data, uint32_t len, const struct packet *p, struct rewrite_to *to,
		   uint32_t headroom)
{
	to->dst_mac = next_hop_mac;
	to->src_mac = egress_mac;
	check_l2(data, len, p, to);
	for (enum tunnel t = IPIP; t < N_TUNNELS; t++)
		check_tunnel(data, len, p, to, headroom, t);
	check_nat(data, len, p, to);
	check_back(data, len, p, to);
}
