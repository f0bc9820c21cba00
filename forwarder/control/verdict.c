/* From health to lookup. A DIP's verdict (of its checks), override and admin_state say whether
 * packets may go there; slow start says how much of its weight counts. A plan takes that into the
 * version that it plans (dip_use), so what is published, persisted and shown is one thing; and a
 * version is planned anew whenever the runtime's health has changed since (health_seq) or a step of
 * time is due.
 *
 * min_up: with fewer DIPs up than that, among those that an operator wants used, verdicts are not
 * heeded at all: checks that fail everywhere are more likely wrong than all backends dead, and
 * where they are right nothing is lost by trying. Overrides and admin_state are heeded always.
 *
 * Publishes for health's sake come one at a time, each with all that has changed, and take a fourth
 * of the time at most. If the database cannot be written they go on without it: a dead DIP must not
 * get packets because a disk is full. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/events.h"
#include "control/internal.h"

#define PUBLISH_GAP_MS 100u /* between two, at least */
#define PUBLISH_SHARE 3u    /* ... and so many times as long as the last one took */

const char *const health_verdict_names[] = {"unknown", "up", "down", NULL};
const char *const health_override_names[] = {"none", "up", "down", NULL};

/* --- what counts ---------------------------------------------------------------------------- */

static const struct dip_version *find_by_uid(const struct vip_version *v,
					     const struct dip_version *d)
{
	const struct dip_version *same = v ? vip_version_dip(v, d->conf.id) : NULL;

	return same && same->uid == d->uid ? same : NULL;
}

/* The DIP's health as this version has it. Without checks there is no verdict; a DIP that was in
 * use when checks were turned on counts as up until they say otherwise. */
static struct dip_health health_of(const struct vip_runtime *v, const struct vip_version *next,
				   const struct dip_version *d, const struct dip_version *was)
{
	struct dip_health h = v->dips[d->index].health;

	if (next->conf.health.type == HEALTH_NONE) {
		h.verdict = VERDICT_UNKNOWN;
		h.since_s = 0;
	} else if (was && v->now->view && v->now->conf.health.type == HEALTH_NONE) {
		h.verdict = VERDICT_UP;
		h.since_s = 0;
	}
	if (next->supposed_uid && next->supposed_uid == d->uid)
		h.override = next->supposed;
	return h;
}

static bool counts_as_up(const struct vip_version *next, const struct dip_use *use)
{
	if (use->health.override != OVERRIDE_NONE)
		return use->health.override == OVERRIDE_UP;
	return next->conf.health.type == HEALTH_NONE || use->health.verdict == VERDICT_UP;
}

/* Among DIPs that an operator wants used for new flows. */
static bool too_few_up(const struct vip_version *next)
{
	unsigned n_wanted = 0, n_up = 0;

	for (unsigned i = 0; i < next->n_dips; i++) {
		const struct dip_version *d = &next->dips[i];
		if (d->conf.admin_state == ADMIN_DOWN || d->deleting || d->conf.weight == 0 ||
		    d->use.health.override == OVERRIDE_DOWN)
			continue;
		n_wanted++;
		n_up += counts_as_up(next, &d->use);
	}
	return n_up < n_wanted && n_up < next->conf.health.min_up;
}

/* How many HEALTH_STEPS of its weight a DIP gets, and when the next one comes. */
static uint32_t ramp_step(struct dip_use *use, uint32_t slow_start_s, uint64_t now_ms,
			  uint64_t *due_ms)
{
	uint64_t step_ms = slow_start_s * 1000ull / HEALTH_STEPS;
	uint64_t step = step_ms ? (now_ms - use->ramp_from_ms) / step_ms + 1 : HEALTH_STEPS;

	if (use->ramp_from_ms == 0)
		return HEALTH_STEPS;
	if (step >= HEALTH_STEPS) {
		use->ramp_from_ms = 0;
		return HEALTH_STEPS;
	}
	uint64_t next_ms = use->ramp_from_ms + step * step_ms;
	if (next_ms < *due_ms)
		*due_ms = next_ms;
	return (uint32_t)step;
}

void health_decide(const struct control *c, const struct vip_runtime *v, struct vip_version *next)
{
	bool published = v->now && v->now->view;
	uint64_t now_ms = clock_now_ms();
	/* Bringing a DIP up moves flows that are not known yet: that waits, unless it was asked
	 * for. */
	bool held = v->held && published && now_ms < c->hold_until_ms;
	const struct health_conf *conf = &next->conf.health;

	next->health_seq = v->health_seq;
	next->health_due_ms = held ? c->hold_until_ms : UINT64_MAX;
	for (unsigned i = 0; i < next->n_dips; i++) {
		struct dip_version *d = &next->dips[i];
		d->use.health = health_of(v, next, d, find_by_uid(v->now, d));
		uint64_t until_ms = v->dips[d->index].override_until_ms;
		if (until_ms && until_ms < next->health_due_ms)
			next->health_due_ms = until_ms;
	}
	next->min_up_missed =
		conf->type != HEALTH_NONE && too_few_up(next) && !FAULT(heed_below_min_up);
	for (unsigned i = 0; i < next->n_dips; i++) {
		struct dip_version *d = &next->dips[i];
		const struct dip_version *was = find_by_uid(v->now, d);
		bool ignored = next->min_up_missed && d->use.health.override != OVERRIDE_DOWN;
		bool was_down = published && was && !was->use.up;

		d->use.up =
			d->conf.admin_state == ADMIN_UP && (counts_as_up(next, &d->use) || ignored);
		if (held && was_down && !ignored && d->use.health.override != OVERRIDE_UP &&
		    d->conf.admin_state == was->conf.admin_state)
			d->use.up = false;
		if (!d->use.up || !was || conf->slow_start_s == 0)
			d->use.ramp_from_ms = 0;
		else
			d->use.ramp_from_ms = was_down && !ignored ? now_ms : was->use.ramp_from_ms;
		d->use.weight =
			dip_version_weight(next, d) *
			ramp_step(&d->use, conf->slow_start_s, now_ms, &next->health_due_ms);
		if (FAULT(down_gives_up_dcodes) && !d->use.up)
			d->use.weight = 0;
	}
}

bool health_is_due(const struct vip_runtime *v, uint64_t now_ms)
{
	return v->now->health_seq != v->health_seq || now_ms >= v->now->health_due_ms;
}

/* --- telling -------------------------------------------------------------------------------- */

static void remember(struct dip_runtime *r, const char *state, const char *cause)
{
	if (!r->history)
		r->history = calloc(1, sizeof(*r->history));
	if (!r->history)
		return;
	struct health_history *h = r->history;
	if (h->n < HEALTH_HISTORY_MAX)
		h->n++;
	memmove(&h->list[1], &h->list[0], (h->n - 1) * sizeof(h->list[0]));
	h->list[0] = (struct health_event){.at_ms = clock_wall_ms()};
	snprintf(h->list[0].state, sizeof(h->list[0].state), "%s", state);
	snprintf(h->list[0].cause, sizeof(h->list[0].cause), "%s", cause);
}

void health_tell(struct control *c, struct vip_runtime *v, const struct dip_version *d,
		 const char *state, const char *cause)
{
	static struct log_limit limit = {.interval_ms = 1000, .burst = 50};
	const struct event_note note = {.kind = EVENT_health,
					.vip = v->now->conf.id,
					.dip = d->conf.id,
					.generation = c->generation};
	uint64_t n_suppressed = 0;

	remember(&v->dips[d->index], state, cause);
	events_emit(c->events, &note, "DIP %s is %s: %s", d->conf.id, state, cause);
	if (!log_limit_pass(&limit, &n_suppressed))
		return;
	if (n_suppressed)
		log_warning("health", "%llu changes were not logged, there were so many",
			    (unsigned long long)n_suppressed);
	log_info("health", "vip %s: dip %s is %s: %s", v->now->conf.id, d->conf.id, state, cause);
}

bool health_is_worn(const struct vip_version *v)
{
	bool any_down = false;

	for (unsigned i = 0; v && v->min_up_missed && i < v->n_dips; i++)
		any_down |= v->dips[i].use.health.verdict == VERDICT_DOWN;
	return any_down;
}

static void tell_min_up(struct control *c, const struct vip_version *was,
			const struct vip_version *next)
{
	const struct event_note note = {
		.kind = EVENT_health, .vip = next->conf.id, .generation = c->generation};

	if (health_is_worn(was) == health_is_worn(next))
		return;
	if (health_is_worn(next)) {
		events_emit(c->events, &note,
			    "fewer than min_up (%u) DIPs are up: all are used, whatever their "
			    "checks say",
			    next->conf.health.min_up);
		log_warning("health",
			    "vip %s: fewer than min_up (%u) DIPs are up: all are used, whatever "
			    "their checks say",
			    next->conf.id, next->conf.health.min_up);
		return;
	}
	events_emit(c->events, &note, "enough DIPs are up: checks are heeded again");
	log_info("health", "vip %s: enough DIPs are up: checks are heeded again", next->conf.id);
}

static bool targets_differ(const struct vip_version *was, const struct vip_version *next)
{
	if (!was || !was->view || was->n_dips != next->n_dips ||
	    !health_conf_equal(&was->conf.health, &next->conf.health))
		return true;
	for (unsigned i = 0; i < next->n_dips; i++)
		if (was->dips[i].uid != next->dips[i].uid)
			return true;
	return false;
}

void health_install(struct control *c, struct vip_runtime *v, const struct vip_version *next)
{
	const struct vip_version *was = v->now;
	enum health_type type = next->conf.health.type;

	if (!was || was->conf.health.type == HEALTH_NONE || type == HEALTH_NONE)
		for (unsigned i = 0; i < next->n_dips; i++) {
			struct dip_runtime *r = &v->dips[next->dips[i].index];
			r->health.verdict = next->dips[i].use.health.verdict;
			r->health.since_s = next->dips[i].use.health.since_s;
			if (type == HEALTH_NONE)
				r->stats.damped = false;
		}
	tell_min_up(c, was, next);
	if (targets_differ(was, next))
		atomic_fetch_add(&c->health_epoch, 1);
}

/* --- reports -------------------------------------------------------------------------------- */

static struct vip_runtime *report_target(struct control *c, const struct health_report *r)
{
	struct vip_runtime *v = r->vip_slot < VIP_SLOTS ? c->vips[r->vip_slot] : NULL;

	if (!v || v->uid != r->vip_uid || v->now->conf.health.type == HEALTH_NONE ||
	    r->dip_index >= v->n_dips)
		return NULL;
	const struct dip_runtime *d = &v->dips[r->dip_index];
	return d->used && d->uid == r->dip_uid ? v : NULL;
}

static void tell_verdict(struct control *c, struct vip_runtime *v, const struct health_report *r)
{
	char cause[HEALTH_CAUSE_LEN + 64];
	const struct health_stats *s = &r->stats;
	const struct dip_version *d = NULL;

	for (unsigned i = 0; !d && i < v->now->n_dips; i++)
		if (v->now->dips[i].uid == r->dip_uid)
			d = &v->now->dips[i];
	if (!d)
		return;

	if (r->verdict == VERDICT_DOWN)
		snprintf(cause, sizeof(cause), "%u check%s failed, the last: %s", s->consecutive,
			 s->consecutive == 1 ? "" : "s in a row", s->last_error);
	else
		snprintf(cause, sizeof(cause), "%u check%s passed", s->consecutive,
			 s->consecutive == 1 ? "" : "s in a row");
	health_tell(c, v, d, health_verdict_names[r->verdict], cause);
}

struct set_health {
	const struct health_report *list;
	unsigned n;
};

static void set_health(struct control *c, void *arg)
{
	const struct set_health *s = arg;

	for (unsigned i = 0; i < s->n; i++) {
		const struct health_report *r = &s->list[i];
		struct vip_runtime *v = report_target(c, r);
		if (!v)
			continue;
		struct dip_runtime *rt = &v->dips[r->dip_index];
		rt->stats = r->stats;
		if (r->verdict == VERDICT_UNKNOWN || r->verdict == rt->health.verdict)
			continue;
		rt->health.verdict = r->verdict;
		rt->health.since_s = clock_wall_s();
		v->health_seq++;
		tell_verdict(c, v, r);
	}
}

void control_set_health(struct control *c, const struct health_report *list, unsigned n)
{
	struct set_health s = {.list = list, .n = n};

	control_call(c, set_health, &s);
}

/* --- publishing ----------------------------------------------------------------------------- */

static int collect(struct control *c, struct batch *b, uint64_t now_ms)
{
	int rc = 0;

	for (unsigned i = 0, left = c->n_vips; left && rc == 0; i++) {
		struct vip_runtime *v = c->vips[i];
		if (!v)
			continue;
		left--;
		health_expire_overrides(c, v, now_ms);
		if (health_is_due(v, now_ms) && !batch_get(b, v))
			rc = -ENOMEM;
	}
	return rc;
}

static int publish(struct control *c, bool persist, struct error *err)
{
	struct batch b = {.unstored = !persist};
	int rc = collect(c, &b, clock_now_ms());

	rc = rc ? error_set(err, rc, "out of memory") : control_publish(c, &b, err);
	batch_destroy(c, &b);
	return rc;
}

static bool any_due(struct control *c, uint64_t now_ms)
{
	bool due = false;

	for (unsigned i = 0, left = c->n_vips; left && !due; i++) {
		if (!c->vips[i])
			continue;
		left--;
		due = health_is_due(c->vips[i], now_ms);
	}
	return due;
}

bool control_run_health(struct control *c)
{
	static struct log_limit limit = {.interval_ms = 60000, .burst = 1};
	uint64_t start_ms = clock_now_ms(), n_suppressed;
	struct error err = {""};

	if (start_ms < c->health_after_ms || !any_due(c, start_ms))
		return false;
	int rc = publish(c, true, &err);
	if (rc == -ENOSPC || rc == -EROFS || rc == -EIO) {
		if (log_limit_pass(&limit, &n_suppressed))
			log_warning("health", "published, but not on disk: %s", err.message);
		rc = publish(c, false, &err);
	}
	if (rc && log_limit_pass(&limit, &n_suppressed))
		log_warning("health", "a publish failed, it is tried again: %s", err.message);
	uint64_t took_ms = clock_now_ms() - start_ms;
	uint64_t gap_ms = took_ms * PUBLISH_SHARE;
	c->health_after_ms =
		start_ms + took_ms + (gap_ms > PUBLISH_GAP_MS ? gap_ms : PUBLISH_GAP_MS);
	return true;
}

void control_fill_health(const struct vip_runtime *v, const struct dip_version *d,
			 struct dip_health_info *out)
{
	const struct dip_runtime *r = &v->dips[d->index];

	*out = (struct dip_health_info){.checked = v->now->conf.health.type != HEALTH_NONE,
					.ignored = v->now->min_up_missed &&
						   r->health.override != OVERRIDE_DOWN,
					.now = r->health,
					.stats = r->stats};
}
