/* A local stack on a device with checksum offload (veth is one) leaves the TCP or UDP checksum
 * partial: the field holds the folded pseudo-header sum, *not* complemented, and "hardware" is to
 * add the rest. AF_XDP hands the bytes over as they are and has no hardware behind it, so the
 * backend would drop them. Whether a checksum is partial is not told to AF_XDP; auto mode finds out
 * by that sum:
 *
 * - a correct checksum equals it only if the segment happens to sum up to the right value, and then
 * the full sum is valid and nothing is done;
 * - a wrong checksum (corruption on the way) equals it once in 65,536 corrupted packets: about as
 * often as the checksum itself overlooks corruption. All others are passed on with their wrong
 * checksum.
 *
 * So the common packet costs its pseudo-header sum, some nanoseconds, and its payload is not read.
 *
 * Not told apart: Mobile IPv6 packets with a home address option (RFC 6275), whose pseudo-header
 * has another source. One in 65,536 of them would be spoilt, and sent again by its sender. */
#include "packet/checksum.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>

#define TCP_CHECK 16
#define UDP_CHECK 6
#define UDP_LENGTH 4

/* 32 bits with end-around carry: the same ones' complement sum. Added to itself with its halves
 * exchanged, a sum has in its upper half both halves and the carry. */
uint32_t checksum_fold_64(uint64_t sum)
{
	return (uint32_t)((sum + (sum >> 32 | sum << 32)) >> 32);
}

/* Sums of native-endian words are sums of big-endian words with the bytes swapped (RFC 1071 2B), so
 * words of any width may be added up as they are loaded. 32-bit words in a 64-bit sum cannot
 * overflow it. */
static ALWAYS_INLINE uint64_t sum_words(uint64_t sum, const uint8_t *b, uint32_t len)
{
	for (; len >= 8; b += 8, len -= 8) {
		uint64_t w;

		memcpy(&w, b, sizeof(w));
		sum += (w & UINT32_MAX) + (w >> 32);
	}
	if (len > 0) {
		uint64_t w = 0;

		memcpy(&w, b, len);
		sum += (w & UINT32_MAX) + (w >> 32);
	}
	return sum;
}

uint32_t checksum_add(uint32_t sum, const void *data, uint32_t len)
{
	return checksum_fold_64(sum_words(sum, data, len));
}

uint16_t checksum_fold(uint32_t sum)
{
	return (uint16_t)((sum + (sum >> 16 | sum << 16)) >> 16);
}

void checksum_update(uint8_t *field, uint32_t difference)
{
	uint16_t check;

	memcpy(&check, field, sizeof(check));
	check = (uint16_t)~check;
	check = (uint16_t)~checksum_fold(checksum_add(difference, &check, sizeof(check)));
	memcpy(field, &check, sizeof(check));
}

/* RFC 9293 3.1, RFC 8200 8.1: addresses, protocol and transport length. Read from the frame, where
 * the addresses stand side by side. */
static ALWAYS_INLINE uint32_t pseudo_sum(const uint8_t *data, const struct packet *p, uint32_t len)
{
	const uint8_t *ip = data + p->l3_offset;
	uint64_t sum = (uint64_t)htons((uint16_t)len) + htons(p->proto);

	return checksum_fold_64(p->is_v6 ? sum_words(sum, ip + 8, 32) : sum_words(sum, ip + 12, 8));
}

/* Where the bytes behind the first `front` of the transport header and payload are. */
struct rest {
	uint32_t front;
	const struct checksum_piece *pieces;
	unsigned n;
};

/* Behind an odd number of bytes the others change places. */
static uint32_t sum_pieces(uint32_t sum, const uint8_t *l4, uint32_t len, const struct rest *rest)
{
	uint32_t at = rest->front < len ? rest->front : len;

	sum = checksum_add(sum, l4, at);
	for (unsigned i = 0; i < rest->n && at < len; i++) {
		const struct checksum_piece *c = &rest->pieces[i];
		uint32_t n = c->len < len - at ? c->len : len - at;
		uint16_t part = checksum_fold(checksum_add(0, c->data, n));

		if (at & 1)
			part = (uint16_t)(part << 8 | part >> 8);
		sum = checksum_add(sum, &part, sizeof(part));
		at += n;
	}
	return sum;
}

static ALWAYS_INLINE uint32_t sum_l4(uint32_t sum, const uint8_t *l4, uint32_t len,
				     const struct rest *rest)
{
	return rest ? sum_pieces(sum, l4, len, rest) : checksum_add(sum, l4, len);
}

static ALWAYS_INLINE bool apply(enum checksum_mode mode, uint8_t *data, const struct packet *p,
				const struct rest *rest)
{
	bool udp = p->proto == IPPROTO_UDP;
	uint8_t *l4 = data + p->l4_offset;
	uint8_t *field = l4 + (udp ? UDP_CHECK : TCP_CHECK);
	uint32_t len = (uint32_t)p->l3_offset + p->l3_len - p->l4_offset;
	uint16_t old, new;

	if (mode == CHECKSUM_KEEP || (p->keep_checksum | p->kind))
		return false;
	if (udp) {
		uint16_t udp_len;

		memcpy(&udp_len, l4 + UDP_LENGTH, 2);
		len = ntohs(udp_len);
	}
	memcpy(&old, field, 2);
	uint32_t pseudo = pseudo_sum(data, p, len);
	if (likely(mode == CHECKSUM_AUTO)) {
		if (likely(old != checksum_fold(pseudo)))
			return false;
		if (checksum_fold(sum_l4(pseudo, l4, len, rest)) == UINT16_MAX)
			return false;
	} else if (udp && old == 0 && !p->is_v6) {
		return false;
	}
	memset(field, 0, 2);
	new = (uint16_t)~checksum_fold(sum_l4(pseudo, l4, len, rest));
	if (udp && new == 0)
		new = UINT16_MAX; /* 0 would mean that there is none */
	memcpy(field, &new, 2);
	return new != old;
}

bool checksum_apply(enum checksum_mode mode, uint8_t *data, const struct packet *p)
{
	return apply(mode, data, p, NULL);
}

bool checksum_apply_pieces(enum checksum_mode mode, uint8_t *data, uint32_t front,
			   const struct checksum_piece *pieces, unsigned n, const struct packet *p)
{
	struct rest rest = {.front = front - p->l4_offset, .pieces = pieces, .n = n};

	return apply(mode, data, p, &rest);
}
