/* libFuzzer target over all of packet/: whatever the bytes, the parser says what a naive one says
 * and reads nothing outside, and checksums and rewrites keep their promises. An input is 8 bytes of
 * settings (struct settings) and a frame. Every buffer is a heap block of exactly its size, so that
 * AddressSanitizer sees the first byte outside. */
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "packet/checksum.h"
#include "packet/icmp.h"
#include "packet/rewrite.h"
#include "tests/unit/frames.h"
#include "tests/unit/naive_parse.h"

#define FRAME_LEN_MAX 4096

struct settings {
	uint8_t dip_v6; /* lowest bit */
	uint8_t headroom;
	uint8_t mtu[2]; /* little-endian */
	uint8_t hash[4];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of len bytes with room in front of it, at the end of its heap block. */
static uint8_t *copy(const uint8_t *data, uint32_t len, uint32_t room)
{
	uint8_t *block = malloc((size_t)room + len + (room + len == 0));

	assert(block);
	memset(block, 0xcc, room);
	if (len > 0)
		memcpy(block + room, data, len);
	return block;
}

static uint32_t end_of_packet(const struct packet *p)
{
	return (uint32_t)p->l3_offset + p->l3_len;
}

static enum parse_result parse_copy(const uint8_t *data, uint32_t len, struct packet *p)
{
	uint8_t *block = copy(data, len, 0);
	enum parse_result r = parse_packet(block, len, p);

	free(block);
	return r;
}

static enum parse_result check_parse(const uint8_t *data, uint32_t len, struct packet *p)
{
	struct packet naive, other;
	enum parse_result r = parse_copy(data, len, p);

	assert(r == naive_parse(data, len, &naive));
	assert(naive_packet_equal(p, &naive, r));
	if (r != PARSE_OK)
		return r;
	uint32_t end = end_of_packet(p);
	assert(p->l3_offset == 14u + 4u * p->n_vlans && p->l4_offset > p->l3_offset && end <= len);
	/* Padding says nothing, and not a byte of the packet can be missing. */
	assert(parse_copy(data, end, &other) == PARSE_OK);
	assert(naive_packet_equal(p, &other, PARSE_OK));
	assert(parse_copy(data, end - 1, &other) == PARSE_MALFORMED);
	return r;
}

/* --- checksums --- */

static uint32_t l4_covered(const uint8_t *data, const struct packet *p)
{
	const uint8_t *l4 = data + p->l4_offset;

	return p->proto == IPPROTO_UDP ? (uint32_t)l4[4] << 8 | l4[5]
				       : end_of_packet(p) - p->l4_offset;
}

static uint16_t pseudo(const uint8_t *data, const struct packet *p)
{
	const uint8_t *ip = data + p->l3_offset;
	uint32_t len = l4_covered(data, p);

	return frames_sum16(ip + (p->is_v6 ? 8 : 12), p->is_v6 ? 32 : 8, len + p->proto);
}

static bool sum_is_valid(const uint8_t *data, const struct packet *p)
{
	return frames_sum16(data + p->l4_offset, l4_covered(data, p), pseudo(data, p)) == 0xffff;
}

static void check_checksum(const uint8_t *data, uint32_t len, const struct packet *p,
			   enum checksum_mode mode)
{
	uint8_t *frame = copy(data, len, 0);
	bool changed = checksum_apply(mode, frame, p);

	if (p->kind != PACKET_FLOW) {
		assert(!changed && memcmp(frame, data, len) == 0);
		free(frame);
		return;
	}
	uint32_t at = p->l4_offset + (p->proto == IPPROTO_TCP ? 16u : 6u);
	uint16_t field = (uint16_t)(data[at] << 8 | data[at + 1]);
	bool none = p->proto == IPPROTO_UDP && !p->is_v6 && field == 0;

	assert(changed == (memcmp(frame, data, len) != 0));
	assert(memcmp(frame, data, at) == 0);
	assert(memcmp(frame + at + 2, data + at + 2, len - at - 2) == 0);
	if (mode == CHECKSUM_KEEP || p->keep_checksum)
		assert(!changed);
	else if (mode == CHECKSUM_AUTO)
		assert(changed == (field == pseudo(data, p) && !sum_is_valid(data, p)));
	if (changed || (mode == CHECKSUM_COMPLETE && !p->keep_checksum && !none))
		assert(sum_is_valid(frame, p));
	assert(!checksum_apply(mode, frame, p)); /* once is enough */
	free(frame);
}

/* --- rewrites --- */

static const uint8_t next_hop_mac[6] = {2, 0, 0, 0, 1, 0x99}, egress_mac[6] = {2, 0, 0, 0, 1, 0};

static void check_macs(const uint8_t *frame)
{
	assert(memcmp(frame, next_hop_mac, 6) == 0 && memcmp(frame + 6, egress_mac, 6) == 0);
}

static void check_l2(const uint8_t *data, uint32_t len, const struct packet *p,
		     const struct rewrite_to *to)
{
	uint8_t *frame = copy(data, len, 0);
	enum rewrite_result r = rewrite_l2(frame, len, p, to);

	assert(r == (p->l3_len > to->mtu ? REWRITE_TOO_BIG : REWRITE_OK));
	if (r == REWRITE_OK)
		check_macs(frame);
	assert(memcmp(frame + 12, data + 12, len - 12) == 0);
	assert(r == REWRITE_OK || memcmp(frame, data, 12) == 0);
	free(frame);
}

enum tunnel { IPIP, GUE, N_TUNNELS };

#define GUE_PORT 6080

static void check_outer(const uint8_t *frame, uint32_t len, const struct packet *p,
			const struct rewrite_to *to, enum tunnel t)
{
	bool v6 = !ip_addr_is_v4(&to->address);
	struct packet outer;

	/* IPv4 or IPv6 in itself is no transport that is parsed. */
	assert(naive_parse(frame, len, &outer) == (t == GUE ? PARSE_OK : PARSE_NOT_L4));
	assert(outer.is_v6 == v6 && ip_addr_equal(&outer.dst, &to->address));
	assert(outer.tos == p->tos && outer.l3_offset == p->l3_offset);
	assert(end_of_packet(&outer) == len && outer.l3_len <= to->mtu);
	assert(v6 || frames_sum16(frame + p->l3_offset, 20, 0) == 0xffff);
	if (t == IPIP)
		return;
	const uint8_t *udp = frame + outer.l4_offset;
	uint16_t sport = (uint16_t)(udp[0] << 8 | udp[1]);
	assert(sport >= 49152 && udp[2] == GUE_PORT >> 8 && udp[3] == (GUE_PORT & 255));
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
	bool outer_v6 = !ip_addr_is_v4(&to->address);
	uint32_t outer_len = (outer_v6 ? 40 : 20) + (t == GUE ? 12 : 0), new_len = len;
	uint8_t *block = copy(data, len, headroom), *frame = block + headroom;
	enum rewrite_result want = expect_tunnel(data, p, to, headroom, outer_len);

	assert((t == GUE ? rewrite_gue : rewrite_ipip)(&frame, &new_len, headroom, p, to) == want);
	if (want == REWRITE_OK) {
		const uint8_t *type = frame + p->l3_offset - 2;

		assert(frame == block + headroom - outer_len);
		assert(new_len == end_of_packet(p) + outer_len);
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

/* --- answers --- */

/* Its addresses and MAC addresses swapped; twice is what it was, but for the type and the TTL. */
static void check_echo(const uint8_t *data, uint32_t len, const struct packet *p)
{
	uint8_t *frame = copy(data, len, 0);

	if (!icmp_answer_echo(frame, p)) {
		assert(memcmp(frame, data, len) == 0);
	} else {
		struct packet answer;

		assert(naive_parse(frame, len, &answer) == PARSE_NOT_L4);
		assert(ip_addr_equal(&answer.src, &p->dst) && ip_addr_equal(&answer.dst, &p->src));
		assert(memcmp(frame, data + 6, 6) == 0 && memcmp(frame + 6, data, 6) == 0);
		assert(p->is_v6 || frames_sum16(frame + p->l3_offset, 20, 0) == 0xffff);
		assert(frames_sum16(frame + p->l4_offset, end_of_packet(p) - p->l4_offset, 0) ==
		       frames_sum16(data + p->l4_offset, end_of_packet(p) - p->l4_offset, 0));
	}
	free(frame);
}

static void check_too_big(const uint8_t *data, uint32_t len, const struct packet *p,
			  uint32_t headroom, uint32_t mtu)
{
	uint8_t *block = copy(data, len, headroom), *frame = block + headroom;
	uint32_t front = p->is_v6 ? 48 : 28, new_len = len;
	struct packet answer;

	if (!icmp_answer_too_big(&frame, &new_len, headroom, p, mtu)) {
		assert(frame == block + headroom && new_len == len);
		assert(memcmp(frame, data, len) == 0);
	} else {
		assert(p->kind != PACKET_ICMP_ERROR && front <= headroom);
		assert(frame == block + headroom - front);
		naive_parse(frame, new_len, &answer);
		assert(answer.l3_offset == p->l3_offset && end_of_packet(&answer) == new_len);
		assert(answer.l3_len <= (p->is_v6 ? 1280 : 576));
		assert(memcmp(frame, data + 6, 6) == 0 && memcmp(frame + 6, data, 6) == 0);
		assert(memcmp(frame + p->l3_offset + front, data + p->l3_offset,
			      answer.l3_len - front) == 0);
		assert(p->is_v6 || frames_sum16(frame + p->l3_offset, 20, 0) == 0xffff);
	}
	free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct settings s;
	struct packet p;

	if (size < sizeof(s) || size - sizeof(s) > FRAME_LEN_MAX)
		return 0;
	memcpy(&s, data, sizeof(s));
	data += sizeof(s);
	uint32_t len = (uint32_t)(size - sizeof(s)), bits;

	enum parse_result r = check_parse(data, len, &p);
	if (r == PARSE_ECHO)
		check_echo(data, len, &p);
	if (r != PARSE_OK)
		return 0;
	for (int mode = CHECKSUM_AUTO; mode <= CHECKSUM_COMPLETE; mode++)
		check_checksum(data, len, &p, (enum checksum_mode)mode);
	memcpy(&bits, s.hash, sizeof(bits));
	struct rewrite_to to = {
		.address = frames_ip(s.dip_v6 & 1 ? "2001:db8:d::40" : "10.20.30.40"),
		.dst_mac = next_hop_mac,
		.src_mac = egress_mac,
		.mtu = s.mtu[0] | (uint32_t)s.mtu[1] << 8,
		.hash = (uint64_t)bits << 24,
		.gue_port = GUE_PORT,
	};
	check_too_big(data, len, &p, s.headroom, to.mtu);
	check_l2(data, len, &p, &to);
	for (enum tunnel t = IPIP; t < N_TUNNELS; t++)
		check_tunnel(data, len, &p, &to, s.headroom, t);
	return 0;
}
