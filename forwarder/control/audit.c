/* The audit: where would a packet of each known flow go now, and is that where the flow lives?
 *
 * It asks the code that packets ask, with the flow's full key, so hash, exact table, arrays and
 * Dcodes are all in it. A chunk of flows is one step of control's loop: rings are drained, reads
 * answered and changes published between chunks as ever, and each chunk is compared with the
 * snapshot that is published at its moment.
 *
 * So flows come and go under the scan. A set's dense array grows at its end, and a removal moves
 * its last flow into the hole. The scan therefore goes from the end to the beginning: what moves
 * down has been looked at already, or will be, and no flow that is known all the while is missed.
 * (Some may be looked at twice.) */
#include "base/clock.h"
#include "base/log.h"
#include "control/announce.h"

#define AUDIT_BURST 64u

/* --- asking --------------------------------------------------------------------------------------
 */

void control_audit_async(struct control *c, struct audit *a)
{
	*a = (struct audit){0};
	pthread_mutex_lock(&c->mutex);
	if (c->stop) {
		a->done = a->refused = true;
	} else {
		a->next = c->audits;
		c->audits = a;
		control_wake(c);
	}
	pthread_mutex_unlock(&c->mutex);
}

bool control_audit(struct control *c, struct audit *a)
{
	control_audit_async(c, a);
	pthread_mutex_lock(&c->mutex);
	while (!a->done)
		pthread_cond_wait(&c->answered, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
	return !a->refused;
}

/* Under the mutex: the asker may go on, and take its struct with it, once it is released. */
static void answer(struct control *c, struct audit *list, const struct audit *result)
{
	while (list) {
		struct audit *next = list->next;
		*list = *result;
		list = next;
	}
	pthread_cond_broadcast(&c->answered);
}

void control_refuse_audits(struct control *c)
{
	static const struct audit refused = {.done = true, .refused = true};

	answer(c, c->audits, &refused);
	answer(c, c->audit.askers, &refused);
	c->audits = c->audit.askers = NULL;
}

/* --- the scan ------------------------------------------------------------------------------------
 */

static uint64_t now_us(void)
{
	return clock_now_ns() / 1000u;
}

static void misplaced(struct control *c, const struct vip_runtime *v, uint16_t lives, uint16_t goes)
{
	static struct log_limit limit = {.interval_ms = 1000, .burst = 5};
	uint64_t suppressed;

	c->audit.found.flows_misplaced++;
	c->stats.violations_total++;
	c->violation = (struct violation){c->violation.n_told, c->generation, v->slot, lives, goes};
	if (log_limit_pass(&limit, &suppressed))
		log_error("control",
			  "audit: vip %s: a flow of dip index %u would go to %u at generation %llu",
			  v->now->conf.id, lives, goes, (unsigned long long)c->generation);
}

/* n flows of the set, from its position `first`. */
static void audit_burst(struct control *c, const struct vip_runtime *v, uint32_t first, unsigned n)
{
	const struct vip_view *view = v->now->view;
	struct lookup l[AUDIT_BURST];
	uint16_t lives[AUDIT_BURST];

	for (unsigned i = 0; i < n && first >= AUDIT_BURST; i++) /* for the next burst */
		cpu_prefetch(&c->flows.slots[flow_set_ref(&v->flows, first - 1 - i)->slot]);
	for (unsigned i = 0; i < n; i++) {
		const struct flow_slot *s =
			&c->flows.slots[flow_set_ref(&v->flows, first + i)->slot];
		lives[i] = flow_meta_get(s).dip;
		bool usable = lives[i] < view->n_dips && view->dips[lives[i]].usable;
		c->audit.found.flows_checked += usable;
		c->audit.found.flows_of_down_dips += !usable;
		l[i] = (struct lookup){.vip = usable ? view : NULL, .key = s->key};
	}
	uint64_t maybe_pinned = snapshot_lookup_prepare(c->snapshot, l, n);
	snapshot_lookup_burst(c->snapshot, l, n, maybe_pinned);
	for (unsigned i = 0; i < n; i++)
		if (l[i].vip && l[i].dip != lives[i] &&
		    !flow_claim_waits(c, flow_set_ref(&v->flows, first + i)->slot))
			misplaced(c, v, lives[i], l[i].dip);
}

/* Up to `most` flows of the VIP at hand; returns how many. */
static uint32_t audit_some(struct control *c, const struct vip_runtime *v, uint32_t most)
{
	struct audit_scan *a = &c->audit;
	uint32_t done = 0;

	if (!a->begun || a->left > v->flows.n) {
		a->begun = true;
		a->left = v->flows.n;
	}
	while (a->left && done < most) {
		unsigned n = a->left < AUDIT_BURST ? a->left : AUDIT_BURST;
		a->left -= n;
		audit_burst(c, v, a->left, n);
		done += n;
	}
	return done;
}

static bool audit_begin(struct control *c)
{
	pthread_mutex_lock(&c->mutex);
	c->audit = (struct audit_scan){.askers = c->audits, .started_us = now_us()};
	c->audits = NULL;
	pthread_mutex_unlock(&c->mutex);
	return c->audit.askers != NULL;
}

static void audit_end(struct control *c)
{
	struct audit *found = &c->audit.found;

	found->generation = c->generation;
	found->duration_us = now_us() - c->audit.started_us;
	found->done = true;
	c->stats.audits_total++;
	announce_audit(c, found);
	pthread_mutex_lock(&c->mutex);
	answer(c, c->audit.askers, found);
	c->audit.askers = NULL;
	pthread_mutex_unlock(&c->mutex);
}

bool control_run_audit(struct control *c)
{
	uint32_t done = 0;

	if (!c->audit.askers && !audit_begin(c))
		return false;
	while (c->audit.slot < VIP_SLOTS && done < REF_CHUNK) {
		const struct vip_runtime *v = c->vips[c->audit.slot];
		if (v)
			done += audit_some(c, v, REF_CHUNK - done);
		if (!v || c->audit.left == 0) {
			c->audit.slot++;
			c->audit.begun = false;
		}
	}
	if (c->audit.slot == VIP_SLOTS)
		audit_end(c);
	return true;
}
