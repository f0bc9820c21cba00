/* What user space tells the generator's program; element 0 of map `config`. */
#pragma once

#include <linux/types.h>

struct livegen_map {
	__u32 ifindex; /* frames leave by it */
	__u32 n_flows;
	__u64 n_frames; /* generated so far; written by the program */
};
