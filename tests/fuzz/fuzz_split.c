/* Frames that come in several buffers: what is told of one by its first buffer alone, and a
 * checksum over all of them, are those of the same frame in one piece. */
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "packet/checksum.h"
#include "tests/fuzz/fuzz_packet.h"
#include "tests/unit/naive_parse.h"

#define PIECES_MAX 8u
#define FRONT_L4 64u /* behind the headers that are walked over (parse_front) */

/* Where an IPv6 packet's extension headers end; the first that is not wholly in front of `end` ends
 * it, too. */
static uint32_t chain_end(const uint8_t *data, uint32_t l3, uint32_t end)
{
	uint8_t next = data[l3 + 6];
	uint32_t at = l3 + 40;

	while (next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	       next == IPPROTO_DSTOPTS || next == IPPROTO_AH) {
		const uint8_t *ext = data + at;
		bool later = false;

		if (at + 8 > end)
			return at + 8;
		if (next == IPPROTO_FRAGMENT) {
			later = ext[2] || ext[3] & 0xf8;
			at += 8;
		} else {
			at += next == IPPROTO_AH ? (ext[1] + 2) * 4u : (ext[1] + 1) * 8u;
		}
		if (later)
			break; /* the rest of the chain is in the packet's first fragment */
		next = ext[0];
	}
	return at;
}

/* The same as of the whole frame, but that errors of ICMP are never so long, and that extension
 * headers have to end in front. */
static void check_front(const uint8_t *data, uint32_t len, uint32_t front)
{
	uint8_t *first = fuzz_copy(data, front, 0);
	struct packet p, whole;
	enum parse_result r = parse_front(first, front, len, &p);
	enum parse_result want = naive_parse(data, len, &whole);

	free(first);
	if (front < PARSE_FRONT_MIN) {
		assert(r == PARSE_SCATTERED);
		return;
	}
	if (want != PARSE_MALFORMED && want != PARSE_NOT_IP && whole.is_v6 &&
	    chain_end(data, whole.l3_offset, front - FRONT_L4) > front - FRONT_L4) {
		assert(r == PARSE_MALFORMED);
		return;
	}
	if (want == PARSE_OK && whole.kind == PACKET_ICMP_ERROR) {
		uint32_t at = whole.l3_offset + (whole.is_v6 ? 8u : 12u), n = whole.is_v6 ? 16 : 4;

		assert(r == PARSE_NOT_L4);
		assert(memcmp(p.src.b + 16 - n, data + at, n) == 0 &&
		       ip_addr_equal(&p.dst, &whole.dst));
		return;
	}
	assert(r == want);
	assert(naive_packet_equal(&p, &whole, r));
}

/* The frame behind `front` in heap blocks of their own, as long as the hash says. */
static unsigned cut(struct checksum_piece *pieces, uint8_t **blocks, const uint8_t *data,
		    uint32_t len, uint32_t front, const uint8_t *hash)
{
	unsigned n = 0;

	for (uint32_t at = front; at < len; at += pieces[n++].len) {
		uint32_t some = 1u + hash[n % 4] * (n + 1), left = len - at;

		some = some < left && n < PIECES_MAX - 1 ? some : left;
		blocks[n] = fuzz_copy(data + at, some, 0);
		pieces[n] = (struct checksum_piece){blocks[n], some};
	}
	return n;
}

static void check_pieces(const uint8_t *data, uint32_t len, const struct packet *p, uint32_t front,
			 const uint8_t *hash)
{
	struct checksum_piece pieces[PIECES_MAX];
	uint8_t *blocks[PIECES_MAX];
	unsigned n = cut(pieces, blocks, data, len, front, hash);

	for (int mode = CHECKSUM_AUTO; mode <= CHECKSUM_COMPLETE; mode++) {
		uint8_t *want = fuzz_copy(data, len, 0), *first = fuzz_copy(data, front, 0);
		bool changed = checksum_apply((enum checksum_mode)mode, want, p);

		assert(checksum_apply_pieces((enum checksum_mode)mode, first, front, pieces, n,
					     p) == changed);
		assert(memcmp(first, want, front) == 0);
		assert(memcmp(want + front, data + front, len - front) == 0);
		free(first);
		free(want);
	}
	for (unsigned i = 0; i < n; i++)
		free(blocks[i]);
}

static uint32_t at_most(uint32_t n, uint32_t max)
{
	return n < max ? n : max;
}

void fuzz_split(const uint8_t *data, uint32_t len, const uint8_t *hash)
{
	struct packet p;

	check_front(data, len, at_most(PARSE_FRONT_MIN - 2 + hash[3] * 2u, len));
	/* Behind the longest header whose checksum there is, wherever that ends. */
	if (naive_parse(data, len, &p) == PARSE_OK)
		check_pieces(data, len, &p, at_most(p.l4_offset + 20u + hash[3], len), hash);
}
