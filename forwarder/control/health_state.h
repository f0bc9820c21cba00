/* From the results of one DIP's checks to a verdict: consecutive results, and flap damping. Pure: time is
 * told, nothing is remembered outside. (health_state.c) */
#pragma once

#include "control/health.h"

struct health_rules {
	uint32_t rise;
	uint32_t fall;
	uint32_t half_life_s; /* of the penalty; 0 = no damping */
};

struct health_state {
	enum health_verdict verdict;
	bool last_ok;
	uint32_t consecutive; /* results like the last one */
	double penalty;       /* as of penalty_ms */
	uint64_t penalty_ms;
	bool damped;
};

/** Begin with this verdict, without results and penalty. */
void health_state_begin(struct health_state *s, enum health_verdict verdict);

/** The check asks something else from now on: results of the old one do not count. */
void health_state_forget_results(struct health_state *s);

/** One result. True if it changes the verdict. */
bool health_state_result(struct health_state *s, const struct health_rules *r, bool ok,
			 uint64_t now_ms);
