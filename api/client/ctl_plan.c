#include "api/client/ctl_plan.h"

#include "api/client/ctl_table.h"

static long long number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

void ctl_plan_print(struct ctl *c, const json_t *plan)
{
	struct ctl_table *t = ctl_table_new("VIP DIP ACTION >DCODES >WAS >SHARE >PINNED >MOVED");
	const json_t *v, *d;
	size_t i, k;

	json_array_foreach(json_object_get(plan, "vips"), i, v)
	{
		ctl_table_member(t, v, "id");
		ctl_table_add(t, " ");
		ctl_table_member(t, v, "action");
		ctl_table_member(t, v, "dcodes_moved");
		ctl_table_add(t, " ");
		ctl_table_add(t, " ");
		ctl_table_count(t, v, "flows_pinned");
		ctl_table_count(t, v, "flows_moved");
		json_array_foreach(json_object_get(v, "dips"), k, d)
		{
			ctl_table_add(t, " ");
			ctl_table_member(t, d, "id");
			ctl_table_member(t, d, "action");
			ctl_table_member(t, d, "dcodes");
			ctl_table_member(t, d, "dcodes_before");
			ctl_table_add(t, "%.1f%%",
				      100 * json_number_value(json_object_get(d, "share")));
			ctl_table_add(t, " ");
			ctl_table_add(t, " ");
		}
	}
	ctl_table_print(t, c->out, "no table is built anew");
	if (number(plan, "flows_moved"))
		fprintf(c->out, "%lld connections LOSE their backend\n",
			number(plan, "flows_moved"));
}
