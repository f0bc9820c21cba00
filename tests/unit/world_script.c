#include "tests/unit/world_script.h"

void script_packet(struct world *w, const struct op *o, uint8_t *went)
{
	unsigned dip = o->kind == OP_UDP ? world_udp(w, 0, o->flow)
					 : world_tcp(w, 0, o->flow, o->flags, o->payload);

	if (went)
		went[o->flow] = (uint8_t)dip;
}

void script_run(void *script)
{
	const struct script *s = script;

	for (unsigned i = 0; i < s->n_ops; i++) {
		if (s->ops[i].kind == OP_ADVANCE)
			world_advance_ms(s->ops[i].flow);
		else if (s->ops[i].kind == OP_STEP)
			control_step(s->world->control);
		else
			script_packet(s->world, &s->ops[i], NULL);
	}
}
