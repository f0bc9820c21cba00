/* A burst's way through the forwarder, one short loop a stage: parse, match VIP, hash + prefetch, look
 * up, learn, rewrite, send. Every frame leaves by exactly one exit: sent, or dropped under a reason. */
#pragma once

#include "worker/worker.h"

/** Forward n (<= BURST_MAX) frames; takes them all. now_ms: clock_now_ms of this burst. Thread: the
 *  worker. Never allocates, logs, locks or waits. */
void pipeline_burst(struct worker *w, const struct snapshot *s, struct frame *frames, unsigned n,
		    uint64_t now_ms);

/** The same for n (0: nothing to do) fragments that were held: they were counted when they came in, and
 *  are not held again. */
void pipeline_burst_held(struct worker *w, const struct snapshot *s, struct frame *frames,
			 unsigned n, uint64_t now_ms);
