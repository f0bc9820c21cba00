/* What DIPs that are gone have carried, by their id: one that is made again goes on from there, so
 * that who follows its counters never sees them fall while the process lives. The last ones are
 * kept. */
#include <stdio.h>
#include <stdlib.h>

#include "control/internal.h"

#define RETIRED_MAX SIM_SIZE(4096u, 16u) /* for each VIP */

struct retired_dip {
	char id[ID_LEN];
	struct dip_traffic traffic;
};

static struct retired_dip *find(const struct vip_runtime *v, const char *id)
{
	for (uint32_t i = 0; i < v->n_retired; i++)
		if (strcmp(v->retired[i].id, id) == 0)
			return &v->retired[i];
	return NULL;
}

/* A new entry, or the oldest one's; NULL without memory. */
static struct retired_dip *add(struct vip_runtime *v)
{
	if (v->n_retired == RETIRED_MAX) {
		struct retired_dip *oldest = &v->retired[v->oldest_retired];
		v->oldest_retired = (v->oldest_retired + 1) % RETIRED_MAX;
		return oldest;
	}
	struct retired_dip *grown = realloc(v->retired, (v->n_retired + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	v->retired = grown;
	return &grown[v->n_retired++];
}

void retired_keep(struct vip_runtime *v, const char *id, const struct dip_traffic *t)
{
	struct retired_dip *r = find(v, id);

	if (!r && !t->packets && !t->return_packets && !t->flows_opened)
		return;
	if (!r)
		r = add(v);
	if (!r)
		return;
	snprintf(r->id, sizeof(r->id), "%s", id);
	r->traffic = *t;
}

void retired_recall(const struct vip_runtime *v, const char *id, struct dip_runtime *d)
{
	const struct retired_dip *r = find(v, id);

	d->carried = r ? r->traffic : (struct dip_traffic){0};
}
