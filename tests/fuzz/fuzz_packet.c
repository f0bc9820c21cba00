/* libFuzzer target over all of packet/: whatever the bytes, the parser says what a naive one says
 * and reads nothing outside, and checksums and rewrites keep their promises. An input is 8 bytes of
 * settings (struct settings) and a frame. Every buffer is a heap block of exactly its size, so that
 * AddressSanitizer sees the first byte outside. */
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "packet/checksum.h"
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
	uint32_t at = p->l4_offset + (p->proto == IPPROTO_TCP ? 16u : 6u);
	uint16_t field = (uint16_t)(data[at] << 8 | data[at + 1]);
	bool none = p->proto == IPPROTO_UDP && !p->is_v6 && field == 0;
	uint8_t *frame = copy(data, len, 0);
	bool changed = checksum_apply(mode, frame, p);

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

static void check_outer(const uint8_t *frame, uint32_t len, const struct packet *p,
			const struct rewrite_to *to)
{
	struct packet outer;

	assert(naive_parse(frame, len, &outer) == PARSE_NOT_L4); /* IPv4 or IPv6 in itself */
	assert(outer.is_v6 == p->is_v6 && ip_addr_equal(&outer.dst, &to->address));
	assert(outer.tos == p->tos && outer.l3_offset == p->l3_offset);
	assert(end_of_packet(&outer) == len && outer.l3_len <= to->mtu);
	assert(p->is_v6 || frames_sum16(frame + p->l3_offset, 20, 0) == 0xffff);
}

static void check_ipip(const uint8_t *data, uint32_t len, const struct packet *p,
		       const struct rewrite_to *to, uint32_t headroom)
{
	uint32_t outer_len = p->is_v6 ? 40 : 20, new_len = len;
	uint8_t *block = copy(data, len, headroom), *frame = block + headroom;
	enum rewrite_result want = REWRITE_OK;

	if (ip_addr_is_v4(&to->address) == p->is_v6)
		want = REWRITE_FAMILY;
	else if (p->l3_len + outer_len > to->mtu)
		want = REWRITE_TOO_BIG;
	else if (headroom < outer_len)
		want = REWRITE_NO_HEADROOM;
	assert(rewrite_ipip(&frame, &new_len, headroom, p, to) == want);
	if (want == REWRITE_OK) {
		assert(frame == block + headroom - outer_len);
		assert(new_len == end_of_packet(p) + outer_len);
		check_macs(frame);
		assert(memcmp(frame + 12, data + 12, p->l3_offset - 12u) == 0);
		assert(memcmp(frame + p->l3_offset + outer_len, data + p->l3_offset, p->l3_len) ==
		       0);
		check_outer(frame, new_len, p, to);
	} else {
		assert(frame == block + headroom && new_len == len &&
		       memcmp(frame, data, len) == 0);
	}
	for (uint32_t i = 0; i + outer_len < headroom; i++)
		assert(block[i] == 0xcc);
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

	if (check_parse(data, len, &p) != PARSE_OK)
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
	};
	check_l2(data, len, &p, &to);
	check_ipip(data, len, &p, &to, s.headroom);
	return 0;
}
