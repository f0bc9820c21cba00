/* Edits of steer's maps for VIPs that are more than one address or one port (steer_wide.bpf.h). */
#pragma once

#include "lookup/vip_match.h"

struct steer_wide {
	int prefixes_fd;
	int blocks_fd;
	int n_fd;
	uint32_t n; /* such VIPs */
};

/** Of one that is there, or is not, nothing is changed: 0. Else 0, or what the kernel says, and nothing
 *  is changed. Thread: control. */
MUST_CHECK int steer_wide_add(struct steer_wide *w, const struct vip_match *m);
MUST_CHECK int steer_wide_del(struct steer_wide *w, const struct vip_match *m);
