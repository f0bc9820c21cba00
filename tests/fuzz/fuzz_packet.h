/* The parts of the target over packet/. Every buffer is a heap block of exactly its size, so that
 * AddressSanitizer sees the first byte outside. */
#pragma once

#include "packet/rewrite.h"

/** A copy of len bytes with room, filled with 0xcc, in front of it, at the end of its heap block.
 */
uint8_t *fuzz_copy(const uint8_t *data, uint32_t len, uint32_t room);

/** From the frame's first byte to the packet's last. */
static inline uint32_t fuzz_packet_end(const struct packet *p)
{
	return (uint32_t)p->l3_offset + p->l3_len;
}

/** Every rewrite of a frame that parsed to p; aborts where one breaks its promise. MAC addresses
 * are filled in. */
void fuzz_rewrites(const uint8_t *data, uint32_t len, const struct packet *p, struct rewrite_to *to,
		   uint32_t headroom);

/** What of a frame in several buffers is done by the first alone, and its checksum; hash: 4 bytes
 * that say where it is cut. Aborts where it is another than that of the whole frame. */
void fuzz_split(const uint8_t *data, uint32_t len, const uint8_t *hash);
