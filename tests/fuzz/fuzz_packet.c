/* libFuzzer target over all of packet/: whatever the bytes, the parser says what a naive one says
 * and reads nothing outside, checksums, rewrites (fuzz_rewrite.c) and answers keep their promises,
 * and a frame in several buffers (fuzz_split.c) says what it says in one. An input is 8 bytes of
 * settings (struct settings) and a frame. */
#include "tests/fuzz/fuzz_packet.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "packet/checksum.h"
#include "packet/icmp.h"
#include "tests/unit/frames.h"
#include "tests/unit/naive_parse.h"

#define FRAME_LEN_MAX 4096

struct settings {
	uint8_t dip; /* lowest bit: of IPv6; next: with a port of its own; next: in buffers */
	uint8_t headroom;
	uint8_t mtu[2]; /* little-endian */
	uint8_t hash[4];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

uint8_t *fuzz_copy(const uint8_t *data, uint32_t len, uint32_t room)
{
	uint8_t *block = malloc((size_t)room + len + (room + len == 0));

	assert(block);
	memset(block, 0xcc, room);
	if (len > 0)
		memcpy(block + room, data, len);
	return block;
}

static enum parse_result parse_copy(const uint8_t *data, uint32_t len, struct packet *p)
{
	uint8_t *block = fuzz_copy(data, len, 0);
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
	if (r != PARSE_OK && r != PARSE_FRAGMENT)
		return r;
	uint32_t end = fuzz_packet_end(p);
	assert(p->l3_offset == 14u + 4u * p->n_vlans && p->l4_offset > p->l3_offset && end <= len);
	/* Padding says nothing, and not a byte of the packet can be missing. */
	assert(parse_copy(data, end, &other) == r);
	assert(naive_packet_equal(p, &other, r));
	assert(parse_copy(data, end - 1, &other) == PARSE_MALFORMED);
	return r;
}

/* --- checksums --- */

static uint32_t l4_covered(const uint8_t *data, const struct packet *p)
{
	const uint8_t *l4 = data + p->l4_offset;

	return p->proto == IPPROTO_UDP ? (uint32_t)l4[4] << 8 | l4[5]
				       : fuzz_packet_end(p) - p->l4_offset;
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
	uint8_t *frame = fuzz_copy(data, len, 0);
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

/* --- answers --- */

/* Its addresses and MAC addresses swapped; twice is what it was, but for the type and the TTL. */
static void check_echo(const uint8_t *data, uint32_t len, const struct packet *p)
{
	uint8_t *frame = fuzz_copy(data, len, 0);

	if (!icmp_answer_echo(frame, p)) {
		assert(memcmp(frame, data, len) == 0);
	} else {
		struct packet answer;

		assert(naive_parse(frame, len, &answer) == PARSE_NOT_L4);
		assert(ip_addr_equal(&answer.src, &p->dst) && ip_addr_equal(&answer.dst, &p->src));
		assert(memcmp(frame, data + 6, 6) == 0 && memcmp(frame + 6, data, 6) == 0);
		assert(p->is_v6 || frames_sum16(frame + p->l3_offset, 20, 0) == 0xffff);
		assert(frames_sum16(frame + p->l4_offset, fuzz_packet_end(p) - p->l4_offset, 0) ==
		       frames_sum16(data + p->l4_offset, fuzz_packet_end(p) - p->l4_offset, 0));
	}
	free(frame);
}

static void check_too_big(const uint8_t *data, uint32_t len, const struct packet *p,
			  uint32_t headroom, uint32_t mtu)
{
	uint8_t *block = fuzz_copy(data, len, headroom), *frame = block + headroom;
	uint32_t front = p->is_v6 ? 48 : 28, new_len = len;
	struct packet answer;

	if (!icmp_answer_too_big(&frame, &new_len, headroom, p, mtu)) {
		assert(frame == block + headroom && new_len == len);
		assert(memcmp(frame, data, len) == 0);
	} else {
		assert(p->kind != PACKET_ICMP_ERROR && p->kind != PACKET_LATER);
		assert(front <= headroom);
		assert(frame == block + headroom - front);
		naive_parse(frame, new_len, &answer);
		assert(answer.l3_offset == p->l3_offset && fuzz_packet_end(&answer) == new_len);
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
	if (s.dip & 4)
		fuzz_split(data, len, s.hash);
	if (r == PARSE_ECHO)
		check_echo(data, len, &p);
	if (r != PARSE_OK && r != PARSE_FRAGMENT)
		return 0;
	if (r == PARSE_FRAGMENT && p.kind == PACKET_LATER) { /* as the first will have told */
		p.sport_be = p.dport_be = 0;
		p.proto = p.proto ? p.proto : IPPROTO_UDP;
	}
	for (int mode = CHECKSUM_AUTO; mode <= CHECKSUM_COMPLETE; mode++)
		check_checksum(data, len, &p, (enum checksum_mode)mode);
	memcpy(&bits, s.hash, sizeof(bits));
	struct ip_addr dip = frames_ip(s.dip & 1 ? "2001:db8:d::40" : "10.20.30.40");
	struct rewrite_to to = {
		.address = &dip,
		.mtu = s.mtu[0] | (uint32_t)s.mtu[1] << 8,
		.hash = (uint64_t)bits << 24,
		.gue_port = 6080,
		.nat_port_be = s.dip & 2 ? (uint16_t)bits : 0,
	};
	check_too_big(data, len, &p, s.headroom, to.mtu);
	fuzz_rewrites(data, len, &p, &to, s.headroom);
	return 0;
}
