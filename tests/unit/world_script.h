/* What happens in a world, as a list: packets, time, steps of control. */
#pragma once

#include "tests/unit/world.h"

#define SCRIPT_FLOWS_MAX 64
#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

enum op_kind { OP_TCP, OP_UDP, OP_ADVANCE, OP_STEP };

struct op {
	enum op_kind kind;
	uint32_t flow; /* OP_ADVANCE: milliseconds */
	uint8_t flags;
	uint32_t payload;
};

struct script {
	struct world *world;
	const struct op *ops;
	unsigned n_ops;
};

/** Send the packet of an operation; went[flow], if wanted (flow < SCRIPT_FLOWS_MAX), says to which
 * DIP. */
void script_packet(struct world *w, const struct op *o, uint8_t *went);

/** Run a struct script from beginning to end. */
void script_run(void *script);
