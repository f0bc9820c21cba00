/* An hour of what happens to the pools of HOUR_VIPS VIPs, the same each time: every ten seconds one
 * of a DIP comes, one drains, one fails, one gets another weight. A minute after it failed a DIP is
 * back; ten minutes after it began to drain one is gone, with what flows it still has, and may come
 * again. */
#pragma once

#include "tests/bench/peers/keeper.h"

#define HOUR_VIPS 128u
#define HOUR_DIPS 32u /* of a VIP, with those that are to come */
#define HOUR_S 3600u

enum hour_use { HOUR_WORKING, HOUR_DRAINING, HOUR_FAILED, HOUR_SPARE };

struct hour_dip {
	enum hour_use use;
	uint32_t weight; /* while it works */
	uint32_t until;	 /* second in which it is back (failed) or gone (draining) */
};

struct hour_script {
	uint64_t random;
	struct hour_dip dips[HOUR_VIPS][HOUR_DIPS];
	unsigned n_changes;
};

void hour_script_start(struct hour_script *s);

/** What happens in a second: calls changed for each VIP whose pool is another one now; *gone: the
 *  index of a DIP that is lost with all its flows, or DIP_NONE. */
void hour_script_step(struct hour_script *s, uint32_t second,
		      void (*changed)(void *ctx, unsigned vip, uint16_t gone), void *ctx);

/** A VIP's pool; dips has room for HOUR_DIPS. */
struct pool hour_script_pool(const struct hour_script *s, unsigned vip, struct dcode_dip *dips);
