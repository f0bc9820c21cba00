/* How often a worker speaks itself: a token bucket that a tenth of a second fills. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ANSWER_FULL_MS 100u

struct answer_limit {
	uint32_t per_s;	 /* 0: never */
	uint32_t tokens; /* thousandths of an answer */
	uint32_t filled_ms;
};

/** One more now (low bits of clock_now_ms)? Thread: the worker. */
static inline bool answer_allowed(struct answer_limit *l, uint32_t now_ms)
{
	uint32_t elapsed = now_ms - l->filled_ms, full = l->per_s * ANSWER_FULL_MS;
	uint32_t more = l->per_s * (elapsed < ANSWER_FULL_MS ? elapsed : ANSWER_FULL_MS);

	l->filled_ms = now_ms;
	l->tokens = l->tokens + more > full ? full : l->tokens + more;
	if (l->tokens < 1000)
		return false;
	l->tokens -= 1000;
	return true;
}
