/* Scenarios about health: what checks say, right or wrong. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/scene.h"

enum { N_FLOWS = 200, N_DIPS = 4 };

static void open_checked(struct scene *s, uint32_t min_up)
{
	struct vip_conf conf;

	vip_conf_defaults(&conf);
	conf.health.type = HEALTH_TCP;
	conf.health.min_up = min_up;
	conf.match.port = 80;
	conf.match.protocol = VIP_TCP;
	scene_open(s, 1, 4096, VIP_TCP, &conf, N_DIPS);
}

/* Checks say the same of DIPs first to last. */
static void say(struct scene *s, unsigned first, unsigned last, enum health_verdict verdict)
{
	const struct vip_runtime *v = control_find_vip(s->w->control, "v");
	struct health_report list[N_DIPS] = {0};
	char id[8];
	unsigned n = 0;

	for (unsigned i = first; i <= last; i++) {
		snprintf(id, sizeof(id), "b%u", i);
		const struct dip_version *d = vip_version_dip(v->now, id);
		list[n++] = (struct health_report){.vip_slot = v->slot,
						   .dip_index = d->index,
						   .vip_uid = v->uid,
						   .dip_uid = d->uid,
						   .verdict = verdict};
	}
	control_set_health(s->w->control, list, n);
	scene_wait_s(s, 1);
}

static bool usable(const struct scene *s, const char *dip)
{
	const struct vip_version *now = control_find_vip(s->w->control, "v")->now;

	return now->view->dips[vip_version_dip(now, dip)->index].usable;
}

static uint32_t homes(const struct scene *s, uint16_t *out, uint32_t room)
{
	const struct vip_view *view = control_find_vip(s->w->control, "v")->now->view;

	MUST(view->n_dcodes && view->n_dcodes <= room, "there is a table");
	for (uint32_t i = 0; i < view->n_dcodes; i++)
		out[i] = vip_view_home(view, i);
	return view->n_dcodes;
}

/* Two false alarms: idle flows, pinned or not, know nothing of them, and each DIP has exactly the
 * Dcodes that it had. */
void scenario_health_flap(void)
{
	static uint16_t before[65536], after[65536];
	struct scene s;

	open_checked(&s, 1);
	say(&s, 1, N_DIPS, VERDICT_UP);
	scene_connect(&s, 0, N_FLOWS);
	(void)scene_pin(&s, 1, N_FLOWS);
	uint32_t n = homes(&s, before, ARRAY_LEN(before));
	for (unsigned alarm = 1; alarm <= 2; alarm++) {
		say(&s, alarm, alarm + 1, VERDICT_DOWN);
		MUST(!usable(&s, alarm == 1 ? "b1" : "b3"), "a DIP that fails its checks is down");
		say(&s, alarm, alarm + 1, VERDICT_UP);
	}
	MUST(homes(&s, after, ARRAY_LEN(after)) == n && !memcmp(before, after, n * sizeof(*after)),
	     "each DIP has its Dcodes again");
	scene_must_stay(&s, 0, N_FLOWS);
	scene_close(&s);
}

/* What checks goes wrong, and says of all DIPs but one that they are down. */
void scenario_all_checks_fail(void)
{
	struct scene s;

	open_checked(&s, 2);
	say(&s, 1, N_DIPS, VERDICT_UP);
	scene_connect(&s, 0, N_FLOWS);
	say(&s, 1, N_DIPS - 1, VERDICT_DOWN);
	scene_must_stay(&s, 0, N_FLOWS);
	say(&s, 1, N_DIPS, VERDICT_UP);
	scene_must_stay(&s, 0, N_FLOWS);
	scene_close(&s);
}

/* A DIP is down when the process dies: the next one sends it nothing before a check has passed, and
 * what was sent elsewhere stays there. */
void scenario_verdict_over_kill(void)
{
	struct scene s;

	open_checked(&s, 1);
	say(&s, 1, N_DIPS, VERDICT_UP);
	say(&s, 1, 1, VERDICT_DOWN);
	scene_connect(&s, 0, N_FLOWS);
	world_restart(s.w, WORLD_KILL);
	scene_wait_s(&s, 1);
	MUST(!usable(&s, "b1"), "the DIP is still down");
	scene_connect(&s, N_FLOWS, N_FLOWS);
	for (unsigned i = 0; i < 2 * N_FLOWS; i++)
		MUST(s.dips[i] != 1, "no flow goes to it");
	scene_must_stay(&s, 0, 2 * N_FLOWS);
	scene_close(&s);
}
