/* Frames in and out of the interface eth0 of a namespace, in bursts. */
#pragma once

#include <stdint.h>

#define LANE_BURST 32u
#define LANE_FRAME_MAX 128u

struct lane {
	int fd;
	unsigned n; /* queued */
	uint8_t frames[LANE_BURST][LANE_FRAME_MAX];
	uint32_t len[LANE_BURST];
};

/** Open it in the namespace of that name. What the namespace's kernel sends itself is not seen. Exits
 *  on failure. */
void lane_open(struct lane *l, const char *netns);
void lane_close(struct lane *l);

/** Room for the next frame, of LANE_FRAME_MAX bytes; say how long it has become. */
uint8_t *lane_frame(struct lane *l);
void lane_queue(struct lane *l, uint32_t len);
/** Send what is queued. A frame that the interface has no room for is lost, as on any wire. */
void lane_flush(struct lane *l);

/** All that has come in since the last call, each frame's first LANE_FRAME_MAX bytes. */
void lane_poll(struct lane *l, void (*take)(void *ctx, const uint8_t *frame, uint32_t len),
	       void *ctx);
