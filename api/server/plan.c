#include "api/server/plan.h"

static const char *action_word(bool created, bool removed)
{
	return created ? "create" : removed ? "remove" : "change";
}

static json_t *print_dip(const struct plan_dip *d, uint32_t n_dcodes)
{
	bool moves = d->created || d->removed || d->changed || d->dcodes != d->dcodes_before;

	return json_pack("{s:s, s:s, s:I, s:I, s:f}", "id", d->id, "action",
			 moves ? action_word(d->created, d->removed) : "keep", "dcodes_before",
			 (json_int_t)d->dcodes_before, "dcodes", (json_int_t)d->dcodes, "share",
			 n_dcodes ? (double)d->dcodes / n_dcodes : 0.0);
}

static json_t *print_vip(const struct plan_info *p)
{
	json_t *dips = json_array();

	for (unsigned i = 0; dips && i < p->n_dips; i++) {
		if (json_array_append_new(dips, print_dip(&p->dips[i], p->n_dcodes))) {
			json_decref(dips);
			dips = NULL;
		}
	}
	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "id", p->id,
			 "action", action_word(p->created, p->removed), "flows_known",
			 (json_int_t)p->flows_known, "flows_pinned", (json_int_t)p->flows_pinned,
			 "flows_moved", (json_int_t)p->flows_moved, "dcodes_moved",
			 (json_int_t)p->dcodes_moved, "pin_bytes", (json_int_t)p->pin_bytes,
			 "dcode_bytes", (json_int_t)p->dcode_bytes, "build_us",
			 (json_int_t)p->build_us, "dips", dips);
}

json_t *plan_print(const struct control_transaction *t, const struct change_info *c)
{
	uint64_t pin_bytes = 0, dcode_bytes = 0;
	json_t *vips = json_array();

	for (unsigned i = 0; i < t->n_plans; i++) {
		pin_bytes += t->plans[i].pin_bytes;
		dcode_bytes += t->plans[i].dcode_bytes;
		if (vips && json_array_append_new(vips, print_vip(&t->plans[i]))) {
			json_decref(vips);
			vips = NULL;
		}
	}
	return json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}}", "plan", "generation",
			 (json_int_t)c->generation, "flows_known", (json_int_t)c->flows_known,
			 "flows_pinned", (json_int_t)c->flows_pinned, "flows_moved",
			 (json_int_t)c->flows_moved, "dcodes_moved", (json_int_t)c->dcodes_moved,
			 "pin_bytes", (json_int_t)pin_bytes, "dcode_bytes", (json_int_t)dcode_bytes,
			 "build_us", (json_int_t)c->build_us, "vips", vips);
}

json_t *plan_print_none(const struct api_context *api)
{
	const struct control_transaction none = {.n_plans = 0};
	const struct change_info info = {.generation = api->backend.generation(api->backend.ctx)};

	return plan_print(&none, &info);
}
