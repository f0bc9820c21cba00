/* Operators that ask for several edits in one piece, and for what would come of them: all of it
 * must be there afterwards or none, also over a kill, and nothing after a dry run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

static struct sim_dip *some_dip(struct sim *s, unsigned *vip)
{
	*vip = prng_below(&s->random, SIM_VIPS);
	struct sim_vip *v = &s->vips[*vip];
	struct sim_dip *d = &v->dips[prng_below(&s->random, SIM_DIPS)];

	return v->exists && !v->busy && !v->deleting && d->number && !d->busy && !d->deleting
		       ? d
		       : NULL;
}

/* number: 0 = of a DIP that there is not. */
static void add_edit(struct sim_change *x, const char *vip, uint16_t number, uint32_t weight)
{
	struct dip_edit *body = &x->bodies[x->t.n_edits];
	char *id = x->ids[x->t.n_edits];

	if (number)
		snprintf(id, ID_LEN, "d%u", number);
	else
		snprintf(id, ID_LEN, "nobody");
	dip_conf_defaults(&body->conf);
	body->conf.weight = weight;
	body->members = DIP_M_WEIGHT;
	x->edits[x->t.n_edits++] =
		(struct control_edit){.op = OP_DIP_PATCH, .vip = vip, .dip = id, .dip_edit = body};
}

void transaction_ask(struct sim *s)
{
	struct sim_change *x = &s->change;

	if (x->used)
		return;
	*x = (struct sim_change){.bad = sim_chance(s, 6)};
	for (unsigned tries = 0; tries < 3 * SIM_EDITS && x->n < SIM_EDITS; tries++) {
		unsigned vip;
		struct sim_dip *d = some_dip(s, &vip);
		if (!d)
			continue;
		d->busy = true;
		x->vips[x->n] = vip;
		s->vips[vip].n_edits++;
		x->dips[x->n] = d;
		x->weights[x->n] =
			(d->weight + 1 + prng_below(&s->random, 7)) % 8; /* another one */
		add_edit(x, s->vips[vip].id, d->number, x->weights[x->n]);
		x->n++;
	}
	if (x->n == 0)
		return;
	if (x->bad)
		add_edit(x, s->vips[x->vips[0]].id, 0, 1);
	x->used = true;
	x->t.several = true;
	x->t.dry_run = sim_chance(s, 3);
	x->t.edits = x->edits;
	x->r.transaction = &x->t;
	x->r.override_hold = sim_chance(s, 2);
	sim_event(s, "a transaction of %ld edits (bad: %ld, dry: %ld)", x->n, x->bad, x->t.dry_run,
		  0);
	control_change_async(s->box->control, &x->r, &x->done);
}

/* Weight of a DIP as control shows it; UINT32_MAX: there is none. */
static uint32_t weight_shown(struct sim *s, const struct sim_change *x, unsigned i)
{
	size_t n;
	struct vip_info *info =
		control_read_vips(s->box->control, s->vips[x->vips[i]].id, true, &n);
	uint32_t weight = UINT32_MAX;

	for (unsigned k = 0; n && k < info->n_dips; k++)
		if (strcmp(info->dips[k].conf.id, x->ids[i]) == 0)
			weight = info->dips[k].conf.weight;
	vip_infos_free(info, n);
	return weight;
}

void transaction_answer(struct sim *s)
{
	struct sim_change *x = &s->change;

	if (!x->used || !x->done || !s->box->at_rest)
		return;
	bool accepted = x->r.status <= CONTROL_ACCEPTED;
	sim_event(s, "answer %ld to the transaction", x->r.status, 0, 0, 0);
	if (accepted == x->bad && (accepted || x->r.status == CONTROL_INVALID))
		sim_wrong(s, "a transaction was answered with %u: %s", x->r.status, x->r.detail);
	for (unsigned i = 0; i < x->n; i++) {
		struct sim_dip *d = x->dips[i];
		if (accepted && !x->t.dry_run)
			d->weight = x->weights[i];
		d->busy = false;
		uint32_t shown = weight_shown(s, x, i);
		if (shown != d->weight)
			sim_wrong(s, "DIP %u has weight %u after a transaction, not %u", d->number,
				  shown, d->weight);
	}
	s->n_transactions += accepted;
	control_transaction_clear(&x->t);
	x->used = false;
}

void transaction_resync(struct sim *s)
{
	struct sim_change *x = &s->change;
	unsigned n_done = 0;

	if (!x->used)
		return;
	for (unsigned i = 0; i < x->n; i++) {
		uint32_t shown = weight_shown(s, x, i);
		n_done += shown == x->weights[i];
		if (shown != x->weights[i] && shown != x->dips[i]->weight)
			sim_wrong(s, "DIP %u has weight %u after a kill", x->dips[i]->number,
				  shown);
	}
	if (n_done != 0 && (n_done != x->n || x->bad || x->t.dry_run))
		sim_wrong(s, "a kill has left %u of a transaction's %u edits", n_done, x->n);
	x->used = false;
}
