#include "control/trace_names.h"

#include <stdio.h>

#include "control/internal.h"

/* --- what to filter by ---------------------------------------------------------------------------
 */

struct read_target {
	const char *vip, *dip;
	struct trace_target *out;
};

static void read_target(struct control *c, void *arg)
{
	struct read_target *r = arg;
	const struct vip_runtime *v = control_find_vip(c, r->vip);
	const struct dip_version *d = v && r->dip ? vip_version_dip(v->now, r->dip) : NULL;

	r->out->vip_found = v != NULL;
	r->out->dip_found = d || !r->dip;
	r->out->vip_uid = v ? v->uid : 0;
	r->out->dip = d ? d->index : 0;
}

void control_trace_target(struct control *c, const char *vip, const char *dip,
			  struct trace_target *out)
{
	struct read_target r = {.vip = vip, .dip = dip, .out = out};

	control_call(c, read_target, &r);
}

/* --- names ---------------------------------------------------------------------------------------
 */

static void name_one(const struct control *c, struct trace_name *t)
{
	static const char *const words[] = {[LOOKUP_HOME] = "home",
					    [LOOKUP_PIN] = "pin",
					    [LOOKUP_EXACT] = "exact",
					    [LOOKUP_NONE] = "none",
					    [LOOKUP_SERVER_ID] = "server_id"};
	const struct vip_runtime *v = vip_index_by_uid(c, t->vip_uid);

	t->why = words[t->reason];
	t->vip[0] = t->dip_id[0] = '\0';
	if (!v)
		return;
	snprintf(t->vip, sizeof(t->vip), "%s", v->now->conf.id);
	for (unsigned i = 0; i < v->now->n_dips; i++)
		if (v->now->dips[i].index == t->dip)
			snprintf(t->dip_id, sizeof(t->dip_id), "%s", v->now->dips[i].conf.id);
	if (t->reason == LOOKUP_HOME && t->dcode < v->now->table.n &&
	    v->now->table.dcodes[t->dcode] != t->dip)
		t->why = "reroll";
}

struct read_names {
	struct trace_name *list;
	unsigned n;
};

static void read_names(struct control *c, void *arg)
{
	const struct read_names *r = arg;

	for (unsigned i = 0; i < r->n; i++)
		name_one(c, &r->list[i]);
}

void control_trace_names(struct control *c, struct trace_name *list, unsigned n)
{
	struct read_names r = {.list = list, .n = n};

	control_call(c, read_names, &r);
}
