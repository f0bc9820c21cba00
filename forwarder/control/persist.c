#include "control/persist.h"

#include <stdlib.h>

void persist_vip_free(struct persist_vip *v)
{
	free(v->dcodes);
	free(v->pins);
	free(v->dips);
	v->dcodes = NULL;
	v->pins = NULL;
	v->dips = NULL;
	v->n_dcodes = 0;
	v->n_pins = 0;
	v->n_dips = 0;
}

void persist_state_free(struct persist_state *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->n_vips; i++)
		persist_vip_free(&s->vips[i]);
	free(s->vips);
	s->vips = NULL;
	s->n_vips = 0;
	free(s->agents);
	s->agents = NULL;
	s->n_agents = 0;
}
