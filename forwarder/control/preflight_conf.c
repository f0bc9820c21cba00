/* VIPs and DIPs to look at: as the database has them, or as the running control has. */
#include <stdlib.h>

#include "control/preflight.h"

/* Room for so many; false without memory. */
static bool make_room(struct preflight *p, size_t n_vips, size_t n_dips)
{
	p->vips = calloc(n_vips + 1, sizeof(*p->vips));
	p->dips = calloc(n_dips + 1, sizeof(*p->dips));
	p->n_vips = p->n_dips = 0;
	if (p->vips && p->dips)
		return true;
	preflight_drop(p);
	return false;
}

static void add_vip(struct preflight *p, const struct vip_conf *conf)
{
	((struct vip_conf *)p->vips)[p->n_vips++] = *conf;
}

/* Of the VIP that was added last. One that is down on purpose is not missed. */
static void add_dip(struct preflight *p, const struct dip_conf *conf)
{
	struct preflight_dip *d = (struct preflight_dip *)&p->dips[p->n_dips];

	if (conf->admin_state == ADMIN_DOWN)
		return;
	*d = (struct preflight_dip){
		.vip = p->n_vips - 1, .address = conf->address, .has_mac = conf->has_mac};
	memcpy(d->id, conf->id, sizeof(d->id));
	p->n_dips++;
}

bool preflight_take_state(struct preflight *p, const struct persist_state *s)
{
	size_t n_dips = 0;

	for (unsigned i = 0; i < s->n_vips; i++)
		n_dips += s->vips[i].n_dips;
	if (!make_room(p, s->n_vips, n_dips))
		return false;
	for (unsigned i = 0; i < s->n_vips; i++) {
		add_vip(p, &s->vips[i].conf);
		for (unsigned k = 0; k < s->vips[i].n_dips; k++)
			add_dip(p, &s->vips[i].dips[k].conf);
	}
	return true;
}

bool preflight_take_infos(struct preflight *p, const struct vip_info *v, size_t n)
{
	size_t n_dips = 0;

	for (size_t i = 0; i < n; i++)
		n_dips += v[i].n_dips;
	if (!make_room(p, n, n_dips))
		return false;
	for (size_t i = 0; i < n; i++) {
		add_vip(p, &v[i].conf);
		for (unsigned k = 0; k < v[i].n_dips; k++)
			add_dip(p, &v[i].dips[k].conf);
	}
	return true;
}

void preflight_drop(struct preflight *p)
{
	free((void *)p->vips);
	free((void *)p->dips);
	p->vips = NULL;
	p->dips = NULL;
	p->n_vips = p->n_dips = 0;
}
