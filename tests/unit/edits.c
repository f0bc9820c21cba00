#include "tests/unit/edits.h"

#include <stdio.h>
#include <stdlib.h>

struct edits *edits_new(void)
{
	struct edits *s = calloc(1, sizeof(*s));

	s->r.transaction = &s->t;
	s->t.several = true;
	s->t.edits = s->edits;
	return s;
}

struct control_edit *edits_add(struct edits *s, enum control_op op, const char *vip,
			       const char *dip)
{
	struct control_edit *e = &s->edits[s->n];

	snprintf(s->ids[s->n][0], ID_LEN, "%s", vip);
	snprintf(s->ids[s->n][1], ID_LEN, "%s", dip ? dip : "");
	vip_conf_defaults(&s->vips[s->n].conf);
	dip_conf_defaults(&s->dips[s->n].conf);
	*e = (struct control_edit){.op = op,
				   .vip = s->ids[s->n][0],
				   .dip = s->ids[s->n][1],
				   .vip_edit = &s->vips[s->n],
				   .dip_edit = &s->dips[s->n]};
	snprintf(e->pointer, sizeof(e->pointer), "/operations/%u/body", s->n);
	s->t.n_edits = ++s->n;
	return e;
}

void edits_put_vip(struct edits *s, const char *vip, unsigned port)
{
	edits_add(s, OP_VIP_PUT, vip, NULL);
	struct vip_edit *v = &s->vips[s->n - 1];
	v->members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	v->conf.match = (struct vip_match){.address = frames_ip(WORLD_VIP_ADDRESS),
					   .port = (uint16_t)port,
					   .protocol = VIP_TCP};
}

void edits_put_dip(struct edits *s, const char *vip, const char *dip, unsigned last,
		   uint32_t weight)
{
	uint8_t address[4] = {10, 9, 0, (uint8_t)last};

	edits_add(s, OP_DIP_PUT, vip, dip);
	struct dip_edit *d = &s->dips[s->n - 1];
	d->members = DIP_M_ADDRESS | DIP_M_WEIGHT;
	d->conf.address = ip_addr_v4(address);
	d->conf.weight = weight;
}

void edits_weight(struct edits *s, const char *vip, const char *dip, uint32_t weight)
{
	edits_add(s, OP_DIP_PATCH, vip, dip);
	s->dips[s->n - 1].members = DIP_M_WEIGHT;
	s->dips[s->n - 1].conf.weight = weight;
}

enum control_status edits_run(struct edits *s, struct world *w)
{
	world_request(w, &s->r);
	return s->r.status;
}

void edits_free(struct edits *s)
{
	control_transaction_clear(&s->t);
	free(s);
}

struct world *edits_world(unsigned n_dips)
{
	struct world *w = world_new(1, 65536);

	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
	return w;
}
