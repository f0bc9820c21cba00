/* Internet checksums (RFC 1071), and the completion of partial ones: AF_XDP on veth hands over
 * frames of local stacks whose checksum the kernel has left for hardware to finish. */
#pragma once

#include "packet/parse.h"

enum checksum_mode {
	CHECKSUM_AUTO,	   /* complete a partial checksum, leave everything else alone */
	CHECKSUM_KEEP,	   /* never touch one */
	CHECKSUM_COMPLETE, /* always compute it anew (hides corruption: only for a trusted link) */
};

/** Ones' complement sum of len bytes added to sum, not folded; any len. An odd last byte counts as
 * if a zero followed, so only the last of several pieces may be odd. Thread: any. Pure. */
uint32_t checksum_add(uint32_t sum, const void *data, uint32_t len);

/** Fold the sum of up to 2^32 32-bit words, as they lie in memory. Thread: any. Pure. */
uint32_t checksum_fold_64(uint64_t sum);

/** Fold to 16 bits; the complement is the checksum. In network order like the data. 0 only for a
 * sum of 0. */
uint16_t checksum_fold(uint32_t sum);

/** Bring the checksum at field up to date with the sum of what went, complemented, and what came in its
 *  place. (RFC 1624 3) Thread: any. */
void checksum_update(uint8_t *field, uint32_t difference);

/** Apply mode to the TCP or UDP checksum of a frame that parsed as PARSE_OK. Auto: only where the
 * field equals the folded, uncomplemented pseudo-header sum *and* the full sum is invalid is it
 * completed, so a corrupted packet is not made valid. UDP over IPv4 with checksum 0 stays as it is,
 * and so does the checksum of a packet with keep_checksum or of another kind than PACKET_FLOW (of a
 * fragment: it is over the whole packet, and whoever cuts a packet up completes it before). True
 * if the frame was changed. Thread: any. */
bool checksum_apply(enum checksum_mode mode, uint8_t *data, const struct packet *p);

struct checksum_piece {
	const uint8_t *data;
	uint32_t len;
};

/** The same for a frame of which only the first front bytes are at data, and the rest in n pieces. */
bool checksum_apply_pieces(enum checksum_mode mode, uint8_t *data, uint32_t front,
			   const struct checksum_piece *pieces, unsigned n, const struct packet *p);
