/* TCP segments of a crowd: one small message each, or none. Frames are made and read whole, checksums
 * included, so that a frame that a forwarder has damaged counts as lost. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SEGMENT_MAX 66u /* bytes of a frame */

/* What one end says to the other. */
struct words {
	uint32_t number;  /* of the connection */
	uint32_t turn;	  /* of the exchange in it, from 0 */
	uint32_t backend; /* who says it; 0: the client */
};
#define WORDS_LEN ((uint32_t)sizeof(struct words))

struct segment {
	uint8_t src_mac[6], dst_mac[6];
	uint32_t src, dst; /* IPv4, host order */
	uint16_t sport, dport;
	uint32_t seq, ack;
	uint8_t flags; /* FRAMES_* */
	bool has_words;
	struct words words;
};

/** Write the frame; returns its length, at most SEGMENT_MAX. */
uint32_t segment_build(uint8_t frame[SEGMENT_MAX], const struct segment *s);

/** Read a frame; false if it is none of these or its TCP checksum is wrong. */
bool segment_read(const uint8_t *frame, uint32_t len, struct segment *s);
