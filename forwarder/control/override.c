/* What an operator, or a monitoring system, says of a DIP's health in the checks' place, for a
 * time; and what else outsiders ask of health: what to check, and what has happened. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/change.h"
#include "control/internal.h"

struct queued_override {
	struct health_request *request;
	bool *done;
	struct queued_override *next;
	/* while it is carried out */
	struct vip_runtime *v;
	uint64_t dip_uid;
	struct dip_health before;
	uint64_t before_until_ms;
	uint64_t seq_before;
};

static const struct dip_version *dip_by_uid(const struct vip_version *v, uint64_t uid)
{
	for (unsigned i = 0; i < v->n_dips; i++)
		if (v->dips[i].uid == uid)
			return &v->dips[i];
	return NULL;
}

/* --- requests ------------------------------------------------------------------------------- */

void control_override_health_async(struct control *c, struct health_request *r, bool *done)
{
	struct queued_override *q = calloc(1, sizeof(*q));

	*done = false;
	pthread_mutex_lock(&c->mutex);
	if (!q || c->stop) {
		r->status = CONTROL_UNAVAILABLE;
		r->retry_after_s = 1;
		*done = true;
		free(q);
	} else {
		struct queued_override **end = &c->overrides;
		while (*end)
			end = &(*end)->next;
		q->request = r;
		q->done = done;
		*end = q;
		control_wake(c);
	}
	pthread_mutex_unlock(&c->mutex);
}

void control_override_health(struct control *c, struct health_request *r)
{
	bool done;

	control_override_health_async(c, r, &done);
	pthread_mutex_lock(&c->mutex);
	while (!done)
		pthread_cond_wait(&c->answered, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
}

void control_refuse_overrides(struct control *c)
{
	while (c->overrides) {
		struct queued_override *q = c->overrides;
		c->overrides = q->next;
		q->request->status = CONTROL_UNAVAILABLE;
		q->request->retry_after_s = 1;
		*q->done = true;
		free(q);
	}
}

static void refuse(struct health_request *r, enum control_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void refuse(struct health_request *r, enum control_status status, const char *fmt, ...)
{
	va_list ap;

	r->status = (int)status;
	va_start(ap, fmt);
	vsnprintf(r->detail, sizeof(r->detail), fmt, ap);
	va_end(ap);
}

/* Where it belongs, or NULL and refused. */
static struct vip_runtime *find(struct control *c, struct batch *b, struct health_request *r,
				const struct dip_version **d)
{
	struct vip_runtime *v = control_find_vip(c, r->vip);
	uint64_t now_ms = clock_now_ms();

	*d = v ? vip_version_dip(v->now, r->dip) : NULL;
	if (!v) {
		refuse(r, CONTROL_NOT_FOUND, "there is no VIP \"%s\"", r->vip);
		return NULL;
	}
	if (!*d) {
		refuse(r, CONTROL_NOT_FOUND, "VIP \"%s\" has no DIP \"%s\"", r->vip, r->dip);
		return NULL;
	}
	if (v->held && !r->override_hold && now_ms < c->hold_until_ms) {
		refuse(r, CONTROL_UNAVAILABLE,
		       "connections are being learned again after a start without known flows "
		       "(override_hold=true does it all the same)");
		r->retry_after_s = (uint32_t)((c->hold_until_ms - now_ms + 999) / 1000);
		return NULL;
	}
	if (batch_get(b, v))
		return v;
	refuse(r, CONTROL_FAILED, "out of memory");
	return NULL;
}

static void apply(struct control *c, struct batch *b, struct queued_override *q)
{
	struct health_request *r = q->request;
	const struct dip_version *d;

	r->detail[0] = '\0';
	q->v = find(c, b, r, &d);
	if (!q->v)
		return;
	struct dip_runtime *rt = &q->v->dips[d->index];
	q->dip_uid = d->uid;
	q->before = rt->health;
	q->before_until_ms = rt->override_until_ms;
	q->seq_before = q->v->health_seq;
	rt->health.override = r->state;
	rt->override_until_ms = r->state && r->ttl_s ? clock_now_ms() + r->ttl_s * 1000ull + 1 : 0;
	rt->health.override_until_s = deadline_to_wall(rt->override_until_ms);
	snprintf(rt->health.reason, sizeof(rt->health.reason), "%s",
		 r->state == OVERRIDE_NONE ? "" : r->reason);
	q->v->health_seq++;
	r->status = CONTROL_OK;
}

/* Only the override: its checks may have said something new meanwhile. If not, and what was refused
 * is not on disk, there is nothing to publish. */
static void undo(struct queued_override *q, bool on_disk)
{
	const struct dip_version *d = dip_by_uid(q->v->now, q->dip_uid);

	if (!d)
		return;
	struct dip_runtime *rt = &q->v->dips[d->index];
	rt->health.override = q->before.override;
	rt->health.override_until_s = q->before.override_until_s;
	memcpy(rt->health.reason, q->before.reason, sizeof(rt->health.reason));
	rt->override_until_ms = q->before_until_ms;
	if (!on_disk && q->v->health_seq == q->seq_before + 1)
		q->v->health_seq = q->seq_before;
	else
		q->v->health_seq++;
}

static const char *state_word(const struct dip_runtime *r)
{
	if (r->health.override != OVERRIDE_NONE)
		return health_override_names[r->health.override];
	return health_verdict_names[r->health.verdict];
}

static void tell(struct control *c, const struct queued_override *q)
{
	const struct dip_version *d = dip_by_uid(q->v->now, q->dip_uid);
	const struct health_request *r = q->request;
	char cause[HEALTH_CAUSE_LEN + 32];

	if (!d || (r->state == OVERRIDE_NONE && q->before.override == OVERRIDE_NONE))
		return;
	if (r->state == OVERRIDE_NONE)
		snprintf(cause, sizeof(cause), "the override was taken back");
	else
		snprintf(cause, sizeof(cause), "override: %s", r->reason);
	health_tell(c, q->v, d, state_word(&q->v->dips[d->index]), cause);
}

static struct queued_override *take(struct control *c)
{
	pthread_mutex_lock(&c->mutex);
	struct queued_override *q = c->overrides;
	if (q)
		c->overrides = q->next;
	pthread_mutex_unlock(&c->mutex);
	return q;
}

static void finish(struct control *c, struct queued_override *q)
{
	pthread_mutex_lock(&c->mutex);
	*q->done = true;
	pthread_cond_broadcast(&c->answered);
	pthread_mutex_unlock(&c->mutex);
	free(q);
}

/* What would come of it. The override is the planned version's, not the DIP's: nobody else sees it.
 */
static void plan(struct control *c, struct queued_override *q)
{
	struct health_request *r = q->request;
	struct batch b = {.dry = true};
	struct error err = {""};
	const struct dip_version *d;

	r->detail[0] = '\0';
	struct vip_runtime *v = find(c, &b, r, &d);
	if (v) {
		struct vip_version *next = batch_entry(&b, v)->next;
		next->supposed_uid = d->uid;
		next->supposed = r->state;
		r->status = CONTROL_OK;
		if (change_plan(c, &b, r->plan, r->change, &err))
			refuse(r, CONTROL_FAILED, "the plan failed: %s",
			       err.message[0] ? err.message : "out of memory");
	}
	batch_destroy(c, &b);
	finish(c, q);
}

/* One publish each: they are an operator's, and few. */
bool control_run_overrides(struct control *c)
{
	struct queued_override *q = take(c);
	struct batch b = {0};
	struct error err = {""};

	if (!q)
		return false;
	if (q->request->plan) {
		plan(c, q);
		return true;
	}
	apply(c, &b, q);
	if (q->v) {
		int rc = control_publish(c, &b, &err);
		if (rc)
			refuse(q->request,
			       rc == -ENOSPC || rc == -EROFS ? CONTROL_NO_STORAGE : CONTROL_FAILED,
			       "the override could not be stored: %s", err.message);
		if (rc)
			undo(q, rc != -ENOSPC && rc != -EROFS);
		else
			tell(c, q);
	}
	batch_destroy(c, &b);
	finish(c, q);
	return true;
}

void health_expire_overrides(struct control *c, struct vip_runtime *v, uint64_t now_ms)
{
	for (unsigned i = 0; i < v->now->n_dips; i++) {
		const struct dip_version *d = &v->now->dips[i];
		struct dip_runtime *r = &v->dips[d->index];
		if (r->override_until_ms == 0 || now_ms < r->override_until_ms)
			continue;
		r->health.override = OVERRIDE_NONE;
		r->health.override_until_s = 0;
		r->health.reason[0] = '\0';
		r->override_until_ms = 0;
		v->health_seq++;
		health_tell(c, v, d, state_word(r), "the override's time is over");
	}
}

/* --- what to check -------------------------------------------------------------------------- */

struct list_targets {
	struct health_targets *out;
	int rc;
};

static uint64_t agent_last_ms(const struct control *c, const struct vip_runtime *v,
			      uint64_t dip_uid)
{
	for (unsigned i = 0; i < c->agents.n; i++) {
		const struct agent *a = &c->agents.list[i];
		if (a->conf.vip_uid == v->uid && a->conf.dip_uid == dip_uid)
			return a->instance[0] ? a->last_ms : 0;
	}
	return 0;
}

/* What is asked of a DIP: the same for all of its VIP, but for the ports that some have of their
 * own. */
static unsigned find_question(const struct vip_runtime *v, const struct dip_version *d,
			      unsigned first, struct health_targets *out)
{
	const struct vip_conf *conf = &v->now->conf;
	uint16_t port =
		conf->health.port ? (uint16_t)conf->health.port : dip_conf_port(&d->conf, conf);
	unsigned i = first;

	while (i < out->n_vips && out->vips[i].port != port)
		i++;
	if (i == out->n_vips)
		out->vips[out->n_vips++] = (struct health_vip){.conf = conf->health, .port = port};
	return i;
}

static void list_vip(const struct control *c, const struct vip_runtime *v,
		     struct health_targets *out)
{
	const struct health_conf *conf = &v->now->conf.health;
	unsigned first = out->n_vips;

	for (unsigned i = 0; i < v->now->n_dips; i++) {
		const struct dip_version *d = &v->now->dips[i];
		unsigned question = find_question(v, d, first, out);
		out->list[out->n++] = (struct health_target){
			.vip_slot = v->slot,
			.dip_index = d->index,
			.vip_uid = v->uid,
			.dip_uid = d->uid,
			.vip = question,
			.address = d->conf.address,
			.verdict = v->dips[d->index].health.verdict,
			.agent_ms = conf->type == HEALTH_AGENT ? agent_last_ms(c, v, d->uid) : 0};
	}
}

static int target_order(const void *x, const void *y)
{
	uint64_t a = ((const struct health_target *)x)->dip_uid;
	uint64_t b = ((const struct health_target *)y)->dip_uid;

	return (a > b) - (a < b);
}

/* At most: each DIP with a port of its own may be asked something else. */
static unsigned count_questions(const struct vip_version *v)
{
	unsigned n = 1;

	for (unsigned i = 0; i < v->n_dips; i++)
		n += v->dips[i].conf.port != 0;
	return n;
}

static void list_targets(struct control *c, void *arg)
{
	struct list_targets *l = arg;
	struct health_targets *out = l->out;
	unsigned n = 0, n_vips = 0;
	struct vip_walk walk = {0}, again = {0};
	struct vip_runtime *v;

	while ((v = vip_walk_next(c, &walk))) {
		if (v->now->conf.health.type == HEALTH_NONE)
			continue;
		n += v->now->n_dips;
		n_vips += count_questions(v->now);
	}
	out->list = calloc(n + 1, sizeof(*out->list));
	out->vips = calloc(n_vips + 1, sizeof(*out->vips));
	if (!out->list || !out->vips) {
		l->rc = -ENOMEM;
		return;
	}
	while ((v = vip_walk_next(c, &again)))
		if (v->now->conf.health.type != HEALTH_NONE)
			list_vip(c, v, out);
	qsort(out->list, out->n, sizeof(*out->list), target_order);
}

int control_list_health(struct control *c, struct health_targets *out)
{
	struct list_targets l = {.out = out};

	*out = (struct health_targets){0};
	control_call(c, list_targets, &l);
	return l.rc;
}

void health_targets_free(struct health_targets *t)
{
	free(t->list);
	free(t->vips);
	*t = (struct health_targets){0};
}

uint64_t control_health_epoch(struct control *c)
{
	return atomic_load(&c->health_epoch);
}

/* --- what has happened ---------------------------------------------------------------------- */

struct read_history {
	const char *vip, *dip;
	struct health_history *out;
};

static void read_history(struct control *c, void *arg)
{
	const struct read_history *r = arg;
	struct vip_runtime *v = control_find_vip(c, r->vip);
	const struct dip_version *d = v ? vip_version_dip(v->now, r->dip) : NULL;

	if (!d)
		return;
	if (v->dips[d->index].history)
		*r->out = *v->dips[d->index].history;
	r->out->found = true;
}

void control_read_health_history(struct control *c, const char *vip, const char *dip,
				 struct health_history *out)
{
	struct read_history r = {.vip = vip, .dip = dip, .out = out};

	*out = (struct health_history){0};
	control_call(c, read_history, &r);
}
