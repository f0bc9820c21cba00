/* Which VIPs steer takes packets of: edits of its maps. */
#pragma once

#include "io/steer_wide.h"

/** Part of struct steer. Thread: control, once steer is open. */
struct steer_vips {
	int addrs_fd;
	int vips_fd;
	struct steer_wide wide;
};

/** Of one that is there, or is not, nothing is changed: 0. Else 0, or what the kernel says, and
 *  nothing is changed. */
MUST_CHECK int steer_vips_add(struct steer_vips *s, const struct vip_match *m);
MUST_CHECK int steer_vips_del(struct steer_vips *s, const struct vip_match *m);
