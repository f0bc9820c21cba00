/* What verdicts and overrides make of DIPs, held against what was published: a DIP is down only if
 * some verdict or override that control may have planned with says so and min_up lets it, and
 * whenever control has nothing left to heed, it is down exactly then. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"

void verdicts_new_dip(struct sim *s, unsigned vip, uint16_t number)
{
	s->healths[number] = (struct sim_health){.vip = (uint8_t)vip,
						 .verdicts = bit(VERDICT_UNKNOWN),
						 .stored = bit(VERDICT_UNKNOWN),
						 .overrides = bit(OVERRIDE_NONE)};
}

/* --- what may be ---------------------------------------------------------------------------- */

static uint8_t overrides_of(const struct sim_health *h)
{
	bool may_be_over = h->ends_after_ms && box_now_ms() >= h->ends_after_ms;

	return h->overrides | (may_be_over ? bit(OVERRIDE_NONE) : 0);
}

static bool may_count_as_up(const struct sim_health *h)
{
	uint8_t o = overrides_of(h);

	return (o & bit(OVERRIDE_UP)) ||
	       ((o & bit(OVERRIDE_NONE)) && (h->verdicts & bit(VERDICT_UP)));
}

/* Verdicts may be heeded: as many DIPs may be up as min_up wants, or all that are wanted. */
static bool may_be_heeded(const struct sim *s, const struct sim_vip *v,
			  const struct health_conf *conf)
{
	unsigned n_up = 0;
	bool all = true;

	for (unsigned i = 0; i < SIM_DIPS; i++) {
		const struct sim_dip *d = &v->dips[i];
		const struct sim_health *h = &s->healths[d->number];
		uint8_t o = overrides_of(h);
		bool wanted = !d->deleting && d->weight && !d->down;
		if (!d->number)
			continue;
		if ((d->busy || wanted) && o != bit(OVERRIDE_DOWN))
			n_up += may_count_as_up(h);
		if (!d->busy && wanted && !(o & bit(OVERRIDE_DOWN)))
			all &= may_count_as_up(h);
	}
	return conf->type != HEALTH_NONE && (all || n_up >= conf->min_up);
}

/* After a reboot, a DIP that was down comes up when the hold is over, also if its checks are turned
 * off before. */
static bool held_down(const struct sim *s, const struct sim_vip *v, const struct sim_health *h)
{
	struct control *c = s->box->control;
	const struct vip_runtime *rt = c ? control_find_vip(c, v->id) : NULL;

	return rt && rt->held && box_now_ms() < c->hold_until_ms &&
	       (h->verdicts & bit(VERDICT_DOWN));
}

bool verdicts_may_be_down(void *ctx, uint16_t number)
{
	const struct sim *s = ctx;
	const struct sim_health *h = &s->healths[number];
	const struct sim_vip *v = &s->vips[h->vip];
	uint8_t o = overrides_of(h);

	if (o & bit(OVERRIDE_DOWN))
		return true;
	return (o & bit(OVERRIDE_NONE)) &&
	       (h->verdicts & (bit(VERDICT_DOWN) | bit(VERDICT_UNKNOWN))) &&
	       (held_down(s, v, h) || may_be_heeded(s, v, &v->conf.health) ||
		may_be_heeded(s, v, &v->health_before));
}

/* --- overrides ------------------------------------------------------------------------------ */

static void override_some(struct sim *s)
{
	struct sim_override *x = &s->override;
	unsigned vip = prng_below(&s->random, SIM_VIPS);
	struct sim_dip *d = &s->vips[vip].dips[prng_below(&s->random, SIM_DIPS)];
	unsigned dice = prng_below(&s->random, 8);

	if (x->used || !d->number)
		return;
	struct sim_health *h = &s->healths[d->number];
	*x = (struct sim_override){.used = true, .number = d->number, .before = *h};
	x->r.state = dice < 4 ? OVERRIDE_NONE : dice < 6 ? OVERRIDE_UP : OVERRIDE_DOWN;
	x->r.ttl_s = x->r.state && sim_chance(s, 2) ? 1 + prng_below(&s->random, 60) : 0;
	x->r.override_hold = sim_chance(s, 2);
	memcpy(x->r.vip, s->vips[vip].id, sizeof(x->r.vip));
	snprintf(x->r.dip, sizeof(x->r.dip), "d%u", d->number);
	snprintf(x->r.reason, sizeof(x->r.reason), "step %lu", (unsigned long)s->step);
	h->overrides = overrides_of(h) | bit(x->r.state);
	if (x->r.ttl_s) {
		h->ends_after_ms = box_now_ms() + x->r.ttl_s * 1000ull;
		h->ending |= bit(x->r.state);
	}
	sim_event(s, "override %ld of DIP %ld for %ld s", x->r.state, d->number, x->r.ttl_s, 0);
	control_override_health_async(s->box->control, &x->r, &x->done);
}

void verdicts_answers(struct sim *s)
{
	struct sim_override *x = &s->override;
	struct sim_health *h = &s->healths[x->number];

	checks_look(s);
	if (!x->used || !x->done)
		return;
	sim_event(s, "answer %ld to the override of DIP %ld", x->r.status, x->number, 0, 0);
	if (x->r.status == CONTROL_FAILED && !strstr(x->r.detail, "told to fail"))
		sim_wrong(s, "an override failed: %s", x->r.detail);
	if (x->r.status == CONTROL_OK) {
		/* Without it a DIP comes up, which waits for the end of a start-up hold. */
		if (x->r.state != OVERRIDE_NONE)
			h->overrides = bit(x->r.state);
		h->ended_by_ms = x->r.ttl_s ? box_now_ms() + x->r.ttl_s * 1000ull + 1 : UINT64_MAX;
		h->ending = x->r.ttl_s ? bit(x->r.state) : 0;
		if (!x->r.ttl_s)
			h->ends_after_ms = 0;
		s->n_overrides++;
	} else {
		h->overrides = x->before.overrides;
		h->ends_after_ms = x->before.ends_after_ms;
		h->ended_by_ms = x->before.ended_by_ms;
		h->ending = x->before.ending;
	}
	x->used = false;
}

void verdicts_step(struct sim *s)
{
	if (!s->box->control || s->resync)
		return;
	if (sim_chance(s, 6))
		override_some(s);
	else
		checks_find(s);
}

/* --- what must be --------------------------------------------------------------------------- */

static const struct sim_dip *slot_of(const struct sim_vip *v, uint16_t number)
{
	for (unsigned i = 0; i < SIM_DIPS; i++)
		if (v->dips[i].number == number)
			return &v->dips[i];
	return NULL; /* its slot was given away: it drains */
}

/* Control has heeded all that it was told: now the DIP's health is certain. */
static void settle_dip(struct sim *s, const struct sim_vip *v, const struct dip_health *is,
		       uint16_t number)
{
	struct sim_health *h = &s->healths[number];

	if (v->conf.health.type != HEALTH_NONE && is->verdict != h->verdict)
		sim_wrong(s, "DIP %u was told to be %s, and has verdict %s", number,
			  health_verdict_names[h->verdict], health_verdict_names[is->verdict]);
	if (!(overrides_of(h) & bit(is->override)) ||
	    (is->override && h->ends_after_ms && box_now_ms() >= h->ended_by_ms))
		sim_wrong(s, "DIP %u is overridden to be %s", number,
			  health_override_names[is->override]);
	h->verdicts = bit(h->verdict);
	h->overrides = bit(is->override);
	if (!h->unstored)
		h->stored = h->verdicts;
}

static bool counts_as_up(const struct sim_vip *v, const struct sim_health *h)
{
	if (h->overrides != bit(OVERRIDE_NONE))
		return h->overrides == bit(OVERRIDE_UP);
	return v->conf.health.type == HEALTH_NONE || h->verdict == VERDICT_UP;
}

static bool min_up_missed(const struct sim *s, const struct sim_vip *v)
{
	unsigned n_wanted = 0, n_up = 0;

	for (unsigned i = 0; i < SIM_DIPS; i++) {
		const struct sim_dip *d = &v->dips[i];
		const struct sim_health *h = &s->healths[d->number];
		if (!d->number || d->deleting || !d->weight || d->down ||
		    h->overrides == bit(OVERRIDE_DOWN))
			continue;
		n_wanted++;
		n_up += counts_as_up(v, h);
	}
	return v->conf.health.type != HEALTH_NONE && n_up < n_wanted &&
	       n_up < v->conf.health.min_up;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x100000001b3u;
}

/* A published view stays as it is. */
static uint64_t homes_now(const struct sim *s, struct sim_vip *v, const struct vip_view *view)
{
	if (v->homes_at == s->generation && s->generation)
		return v->homes_then;
	v->homes_then = 0;
	for (uint32_t k = 0; k < view->n_dcodes; k++)
		v->homes_then = mix(v->homes_then, vip_view_home(view, k));
	v->homes_at = s->generation;
	return v->homes_then;
}

/* With nothing asked for meanwhile, and the same DIPs up again, each has exactly the Dcodes that it
 * had. */
static void check_dcodes(struct sim *s, struct sim_vip *v, const struct vip_view *view,
			 uint64_t dips, uint64_t up)
{
	uint64_t of = mix(dips, v->n_edits), homes = homes_now(s, v, view);
	unsigned i = 0;

	if (v->homes_of != of)
		v->n_homes = 0;
	while (i < v->n_homes && v->homes[i].up != up)
		i++;
	if (i == v->n_homes && i < SIM_HOMES)
		v->homes[v->n_homes++] = (struct sim_homes){.up = up, .homes = homes};
	if (i < v->n_homes && v->homes[i].homes != homes)
		sim_wrong(s, "VIP %s: the same DIPs are up again, with other Dcodes", v->id);
	s->n_dcode_checks += i < v->n_homes && v->homes_of == of && v->homes_up != up;
	v->homes_of = of;
	v->homes_up = up;
}

static void check_vip(struct sim *s, struct sim_vip *v, const struct vip_runtime *rt)
{
	const struct vip_version *now = rt->now;
	uint64_t dips = now->view->uid, is_up = 0;

	for (unsigned i = 0; i < SIM_DIPS; i++)
		if (v->dips[i].busy)
			return;
	if (!health_conf_equal(&now->conf.health, &v->conf.health))
		sim_wrong(s, "VIP %s is not checked as it was asked", v->id);
	for (unsigned i = 0; i < now->n_dips; i++)
		settle_dip(s, v, &rt->dips[now->dips[i].index].health,
			   number_of(&now->dips[i].conf.address));
	bool missed = min_up_missed(s, v);
	for (unsigned i = 0; i < now->n_dips; i++) {
		uint16_t number = number_of(&now->dips[i].conf.address);
		const struct sim_health *h = &s->healths[number];
		const struct sim_dip *d = slot_of(v, number);
		bool down = d ? d->down : s->model->dips[number].may_be_down;
		bool up = !down &&
			  (counts_as_up(v, h) || (missed && h->overrides != bit(OVERRIDE_DOWN)));
		if (now->view->dips[now->dips[i].index].usable != up)
			sim_wrong(s, "DIP %u must be %s, and is not", number, up ? "up" : "down");
		is_up = mix(is_up, up ? number : 0u);
		dips = mix(mix(dips, number), d && !d->deleting);
	}
	s->n_health_checks += v->conf.health.type != HEALTH_NONE;
	if (v->conf.health.slow_start_s == 0)
		check_dcodes(s, v, now->view, dips, is_up);
}

void verdicts_check(struct sim *s, bool end)
{
	struct control *c = s->box->control;

	if (!c || !s->box->at_rest || s->resync || s->override.used)
		return;
	for (unsigned i = 0; i < SIM_VIPS; i++) {
		struct sim_vip *v = &s->vips[i];
		const struct vip_runtime *rt = control_find_vip(c, v->id);
		if (!rt || v->busy || (rt->held && box_now_ms() < c->hold_until_ms))
			continue;
		if (!health_is_due(rt, box_now_ms()))
			check_vip(s, v, rt);
		else if (end && box_now_ms() >= c->health_after_ms)
			sim_wrong(s, "VIP %s: control does not come to heed its health", v->id);
	}
}

/* --- the disk, and the end of a process ----------------------------------------------------- */

void verdicts_disk_fails(struct sim *s)
{
	for (unsigned i = 0; i < s->next_dip; i++) {
		struct sim_health *h = &s->healths[i];
		h->unstored |= h->stored != bit(h->verdict);
	}
}

void verdicts_killed(struct sim *s)
{
	s->override.used = false;
	for (unsigned i = 0; i < SIM_VIPS; i++)
		s->vips[i].homes_at = 0;
	for (unsigned i = 0; i < s->next_dip; i++) {
		struct sim_health *h = &s->healths[i];
		h->verdicts |= h->stored;
		if (!h->ending)
			continue;
		h->overrides |= h->ending;
		/* Wall time in whole seconds decides now, and may be stepped: at any time. */
		h->ends_after_ms = 1;
		h->ended_by_ms = UINT64_MAX;
	}
}

static void resync_dip(struct sim *s, uint16_t number, const struct dip_health *is)
{
	struct sim_health *h = &s->healths[number];

	if (!(h->stored & bit(is->verdict)))
		sim_wrong(s, "DIP %u has verdict %s after a restart, and was last told to be %s",
			  number, health_verdict_names[is->verdict],
			  health_verdict_names[h->verdict]);
	if (!(overrides_of(h) & bit(is->override)))
		sim_wrong(s, "DIP %u is overridden to be %s after a restart", number,
			  health_override_names[is->override]);
	h->verdict = (uint8_t)is->verdict;
	h->verdicts = h->stored = bit(is->verdict);
	h->unstored = false;
}

void verdicts_resync(struct sim *s)
{
	for (unsigned i = 0; i < SIM_VIPS; i++) {
		const struct vip_runtime *rt = control_find_vip(s->box->control, s->vips[i].id);
		for (unsigned k = 0; rt && k < rt->now->n_dips; k++) {
			const struct dip_version *d = &rt->now->dips[k];
			resync_dip(s, number_of(&d->conf.address), &rt->dips[d->index].health);
		}
	}
}
