#include "control/survey.h"

#include <errno.h>
#include <stdlib.h>

#include "control/internal.h"

struct survey_call {
	struct survey *out;
	unsigned cap; /* of out->dips */
	int rc;
};

static void add_unresolved(struct control *c, struct survey_call *call, const struct vip_version *v,
			   const struct dip_version *d)
{
	struct survey *s = call->out;
	struct next_hop hop;

	if (s->n_dips == call->cap) {
		unsigned cap = call->cap ? 2 * call->cap : 16;
		struct survey_dip *more = realloc(s->dips, cap * sizeof(*more));
		if (!more) {
			call->rc = -ENOMEM;
			return;
		}
		s->dips = more;
		call->cap = cap;
	}
	struct survey_dip *u = &s->dips[s->n_dips++];
	*u = (struct survey_dip){.uid = d->uid,
				 .vip = s->n_vips,
				 .address = d->conf.address,
				 .taking = dip_version_weight(v, d) != 0};
	memcpy(u->id, d->conf.id, sizeof(u->id));
	c->conf.next_hops.get(c->conf.next_hops.ctx, &d->conf.address, &hop, &u->has_route);
	u->ifindex = u->has_route ? hop.ifindex : 0;
	u->not_served = u->has_route && !control_ports(c, &hop);
}

static void survey(struct control *c, void *arg)
{
	struct survey_call *call = arg;
	struct survey *s = call->out;
	struct vip_walk walk = {0};
	const struct vip_runtime *rt;

	s->vips = calloc(c->n_vips + 1, sizeof(*s->vips));
	if (!s->vips) {
		call->rc = -ENOMEM;
		return;
	}
	while (!call->rc && (rt = vip_walk_next(c, &walk))) {
		const struct vip_version *v = rt->now;
		struct survey_vip *info = &s->vips[s->n_vips];
		memcpy(info->id, v->conf.id, sizeof(info->id));
		info->match = v->conf.match;
		info->deleting = v->deleting;
		info->worn = health_is_worn(v);
		for (unsigned k = 0; !call->rc && k < v->n_dips; k++) {
			const struct dip_version *d = &v->dips[k];
			if (!d->use.up)
				continue;
			info->n_taking += dip_version_weight(v, d) != 0;
			if (!v->view->dips[d->index].resolved)
				add_unresolved(c, call, v, d);
		}
		info->n_dips = v->n_dips;
		s->n_vips++;
	}
}

static int uid_order(const void *x, const void *y)
{
	uint64_t a = ((const struct survey_dip *)x)->uid;
	uint64_t b = ((const struct survey_dip *)y)->uid;

	return (a > b) - (a < b);
}

int control_survey(struct control *c, struct survey *out)
{
	struct survey_call call = {.out = out};

	*out = (struct survey){0};
	control_call(c, survey, &call);
	if (call.rc)
		survey_free(out);
	else if (out->n_dips)
		qsort(out->dips, out->n_dips, sizeof(*out->dips), uid_order);
	return call.rc;
}

void survey_free(struct survey *s)
{
	free(s->vips);
	free(s->dips);
	*s = (struct survey){0};
}
