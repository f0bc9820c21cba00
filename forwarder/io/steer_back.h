/* The ways back of mode nat, as steer sees them: which packets of DIPs go to workers, and which next
 * hops towards clients they need. */
#pragma once

#include "base/error.h"
#include "io/port.h"
#include "io/steer_map.h"

/** Part of struct steer. Thread: control, once steer is open. */
struct steer_backs {
	int ways_fd;
	int used_fd;
	int wanted_fd;
	int parts_fd;
	int outs_fd;
	int outs[STEER_STACKED_MAX]; /* what is in that map */
	uint32_t n; /* ways */
	unsigned n_told;
	volatile __u32 *told[IFACES_MAX]; /* n in each program */
	/* the walk over the next hops in use */
	uint64_t walk_ms; /* when it began */
	bool walking;
	struct steer_hop_key at; /* how far it has come */
};

/** See struct steering. */
MUST_CHECK int steer_add_back(struct steer_backs *s, const struct back_key *key,
			      const struct ip_addr *vip, struct error *err);
MUST_CHECK int steer_del_back(struct steer_backs *s, const struct back_key *key,
			      struct error *err);
MUST_CHECK int steer_set_outs(struct steer_backs *s, const int ifindexes[STEER_STACKED_MAX],
			      struct error *err);
unsigned steer_take_hops(struct steer_backs *s, struct back_hop *hops, unsigned n);
