/* What XDP program an interface carries, for those who look before they touch. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct xdp_probe {
	uint32_t id;   /* 0: the interface carries none */
	bool ours;     /* it is a steer program */
	bool generic;  /* attached above the driver */
	char name[16]; /* "" when the kernel does not tell (it takes privileges) */
};

/** 0, or negative with err set when the kernel cannot be asked. Thread: any. */
MUST_CHECK int xdp_probe_read(int ifindex, struct xdp_probe *out, struct error *err);
