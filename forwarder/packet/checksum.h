/* Internet checksums (RFC 1071), and the completion of partial ones. (DESIGN 7; AF_XDP on veth hands
 * over frames of local stacks whose checksum the kernel has left for hardware to finish.) */
#pragma once

#include "packet/parse.h"

enum checksum_mode {
	CHECKSUM_AUTO,     /* complete a partial checksum, leave everything else alone */
	CHECKSUM_KEEP,     /* never touch one */
	CHECKSUM_COMPLETE, /* always compute it anew */
};

/** Ones' complement sum of len bytes added to sum, not folded. */
uint32_t checksum_add(uint32_t sum, const void *data, uint32_t len);

/** Fold to 16 bits; the complement is the checksum. In network order like the data. */
uint16_t checksum_fold(uint32_t sum);

/** Apply mode to the TCP or UDP checksum of a parsed frame. Auto: only where the field equals the
 *  folded, uncomplemented pseudo-header sum *and* the full sum is invalid is it completed, so a
 *  corrupted packet is never made valid. UDP over IPv4 with checksum 0 stays 0. True if the frame
 *  was changed. */
bool checksum_apply(enum checksum_mode mode, uint8_t *data, const struct packet *p);
