/* Health without checks: whether DIPs are checked is edited, and what checks would find is drawn
 * and told to control as their thread tells it. */
#include <string.h>

#include "tests/sim/sim.h"

/* --- whether there are any ------------------------------------------------------------------ */

void checks_draw(struct sim *s, struct sim_vip *v)
{
	struct health_conf *h = &v->conf.health;

	v->health_before = *h;
	if (s->mood.health == 0)
		return;
	health_conf_defaults(h);
	if (sim_chance(s, 2))
		return;
	h->type = HEALTH_TCP;
	h->port = v->conf.match.port && !v->conf.match.port_end ? 0 : 80;
	h->min_up = prng_below(&s->random, 4);
	h->slow_start_s = sim_chance(s, 2) ? 0 : 1 + prng_below(&s->random, 30);
}

/* In use when checks are turned on, a DIP counts as up until they say otherwise. Without checks
 * nothing is known of it. */
static enum health_verdict verdict_at_first(bool checked)
{
	return checked ? VERDICT_UP : VERDICT_UNKNOWN;
}

void checks_asked(struct sim *s, const struct sim_vip *v)
{
	bool before = v->health_before.type != HEALTH_NONE;
	bool after = v->conf.health.type != HEALTH_NONE;

	for (unsigned i = 0; i < s->next_dip && before != after; i++) {
		struct sim_health *h = &s->healths[i];
		if (&s->vips[h->vip] != v)
			continue;
		h->stored |= bit(verdict_at_first(after));
		if (after)
			h->verdicts = bit(verdict_at_first(after));
	}
}

static void switched(struct sim *s, struct sim_vip *v)
{
	sim_event(s, "VIP %ld is checked from now on: %ld", v - s->vips, v->checked, 0, 0);
	s->n_switches++;
	for (unsigned i = 0; i < s->next_dip; i++) {
		struct sim_health *h = &s->healths[i];
		if (&s->vips[h->vip] != v)
			continue;
		h->verdict = (uint8_t)verdict_at_first(v->checked);
		h->stored = bit(h->verdict); /* an edit is on disk before it is published */
		h->unstored = false;
	}
}

void checks_look(struct sim *s)
{
	struct control *c = s->box->control;

	for (unsigned i = 0; i < SIM_VIPS && c && !s->resync; i++) {
		struct sim_vip *v = &s->vips[i];
		const struct vip_runtime *rt = control_find_vip(c, v->id);
		bool checked = rt && rt->now->conf.health.type != HEALTH_NONE;
		if (!rt || !rt->now->view || v->checked == checked)
			continue;
		v->checked = checked;
		switched(s, v);
	}
}

/* --- telling control ------------------------------------------------------------------------ */

static void told(struct sim *s, const struct sim_target *t, enum health_verdict verdict)
{
	struct sim_health *h = &s->healths[t->number];

	sim_event(s, "DIP %ld is told to be %ld (1: up, 2: down)", t->number, verdict, 0, 0);
	if (h->verdict == verdict)
		return;
	h->verdict = (uint8_t)verdict;
	h->verdicts |= bit(verdict);
	h->stored |= bit(verdict);
	h->unstored = s->box->fail_commits != 0;
	s->n_verdicts++;
}

static void look_for_targets(struct sim *s, struct control *c)
{
	struct sim_checks *k = &s->checks;
	struct health_targets t;

	k->n = 0;
	if (control_list_health(c, &t))
		sim_wrong(s, "no memory for the DIPs that are checked");
	for (unsigned i = 0; i < t.n && k->n < SIM_TARGETS; i++)
		k->list[k->n++] = (struct sim_target){.report = {.vip_slot = t.list[i].vip_slot,
								 .dip_index = t.list[i].dip_index,
								 .vip_uid = t.list[i].vip_uid,
								 .dip_uid = t.list[i].dip_uid},
						      .number = number_of(&t.list[i].address)};
	health_targets_free(&t);
}

/* In control's own time, also in the middle of a plan or a commit. The DIPs may be gone by now, or
 * not be checked any more. */
static void report(struct control *c, void *arg)
{
	struct sim *s = arg;
	struct sim_checks *k = &s->checks;
	struct health_report list[SIM_TARGETS];
	unsigned n = 0;

	routine_hold(true);
	checks_look(s);
	if (k->look || k->n == 0)
		look_for_targets(s, c);
	for (unsigned i = 0; i < k->n; i++) {
		bool concerned =
			k->vip_uid ? k->list[i].report.vip_uid == k->vip_uid : i == k->one % k->n;
		enum health_verdict verdict = k->verdict;
		if (!concerned)
			continue;
		if (verdict == VERDICT_UNKNOWN)
			verdict = sim_chance(s, 2) ? VERDICT_UP : VERDICT_DOWN;
		list[n] = k->list[i].report;
		list[n].verdict = verdict;
		list[n++].stats = (struct health_stats){.checks_total = s->step};
		if (s->vips[s->healths[k->list[i].number].vip].checked)
			told(s, &k->list[i], verdict);
	}
	control_set_health(c, list, n);
	routine_hold(false);
}

void checks_find(struct sim *s)
{
	struct sim_checks *k = &s->checks;
	unsigned one = prng_below(&s->random, SIM_TARGETS);
	unsigned dice = prng_below(&s->random, 100);
	bool many = sim_chance(s, 4);

	if (k->call.fn && !k->call.done)
		return;
	k->look = sim_chance(s, 2);
	k->one = k->n ? one % k->n : 0;
	k->vip_uid = many && k->n ? k->list[k->one].report.vip_uid : 0;
	k->verdict = dice < 60 ? VERDICT_UP : dice < 90 ? VERDICT_DOWN : VERDICT_UNKNOWN;
	k->call = (struct queued_call){.fn = report, .arg = s};
	box_call(s->box, &k->call);
}

void checks_killed(struct sim *s)
{
	s->checks.call.fn = NULL;
	s->checks.n = 0;
	memset(&s->checks.list, 0, sizeof(s->checks.list));
}
