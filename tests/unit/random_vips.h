/* Matches of VIPs that overlap much, and what takes what, by a naive oracle: bit by bit, and with one
 * number for how specific a match is. */
#pragma once

#include "lookup/vip_match.h"
#include "tests/unit/prng.h"

/** A prefix or an address, with a port, a range or any. */
struct vip_match random_vips_match(struct prng *rng);

/** A destination that is likely to be in some of them. */
struct ip_addr random_vips_dst(struct prng *rng, bool v4);

bool random_vips_take(const struct vip_match *m, const struct ip_addr *dst, uint16_t dport,
		      uint8_t proto);

/** Of two that take a packet the higher one gets it. */
uint64_t random_vips_rank(const struct vip_match *m);
