/* Time-outs, flows of what is gone, and changes that fall due by themselves. */
#include "base/clock.h"
#include "control/internal.h"

/* Flows ended in one go, so that a mass time-out does not keep control from its rings. */
#define EXPIRE_BATCH SIM_SIZE(4096u, 8u)

/* A purge costs a plan and a commit: this often at most for each VIP. */
#define PURGE_INTERVAL_MS 1000u

static uint32_t list_timeout_s(const struct vip_conf *conf, enum flow_list list)
{
	if (FAULT(rst_ends_at_once) && (list == LIST_CLOSING || list == LIST_CLOSING_PINNED))
		return 0;
	switch (list) {
	case LIST_CLOSING:
		return conf->idle_closing_s > conf->closing_pin_s ? conf->idle_closing_s
								  : conf->closing_pin_s;
	case LIST_CLOSING_PINNED:
		return conf->closing_pin_s;
	case LIST_HALF_OPEN:
		return conf->idle_half_open_s;
	case LIST_UDP:
	case LIST_UNPROVEN_UDP:
		return conf->idle_udp_s;
	default:
		return conf->idle_established_s;
	}
}

/* When something may have been heard of the flow for the last time: its last record, the last
 * record that a worker lost in its hash bucket, or the start of this process, whichever is later.
 */
static uint32_t last_heard_ms(const struct control *c, const struct flow_slot *s, uint32_t seen_ms)
{
	uint32_t last = seen_ms;

	if ((int32_t)(c->floor_ms - last) > 0 && !FAULT(clock_runs_while_away))
		last = c->floor_ms;
	for (unsigned w = 0; w < c->conf.n_workers && !FAULT(clock_runs_over_loss); w++) {
		uint32_t lost = atomic_load_explicit(
			&c->conf.workers[w]->learn.lost_ms[loss_bucket(s->hash)],
			memory_order_relaxed);
		if (lost && (int32_t)(lost - last) > 0)
			last = lost;
	}
	return last;
}

static uint32_t expire_list(struct control *c, struct vip_runtime *v, enum flow_list list,
			    uint32_t now)
{
	struct flow_table *t = &c->flows;
	uint32_t limit_ms = list_timeout_s(&v->now->conf, list) * 1000u + v->now->view->refresh_ms;
	uint32_t n = 0;

	if (FAULT(deadline_without_slack))
		limit_ms -= v->now->view->refresh_ms;
	while (v->flows.lists[list].n && n < EXPIRE_BATCH) {
		uint32_t slot = v->flows.lists[list].head;
		struct flow_meta m = flow_meta_get(&t->slots[slot]);
		if ((int32_t)(now - m.seen_ms) < (int32_t)limit_ms)
			break;
		uint32_t last = last_heard_ms(c, &t->slots[slot], m.seen_ms);
		if ((int32_t)(now - last) >= (int32_t)limit_ms) {
			flow_table_remove(t, slot);
		} else {
			m.seen_ms = last;
			flow_table_update(t, slot, m);
		}
		n++;
	}
	return n;
}

/* Free the flows of DIPs that were cut, some at a time. They are lost: their next packet goes
 * elsewhere and is learned there. */
static void free_cut_flows(struct control *c, struct vip_runtime *v)
{
	for (uint32_t n = 0; v->cut_pos < v->flows.n && n < EXPIRE_BATCH * 4; n++) {
		const struct flow_ref *r = flow_set_ref(&v->flows, v->cut_pos);
		bool kept = !FAULT(down_rehomes_idle) || v->now->view->dips[r->dip].usable;
		if (r->dip < v->n_dips && v->dips[r->dip].used && kept) {
			v->cut_pos++;
			continue;
		}
		c->stats.flows_lost_total++;
		flow_table_remove(&c->flows, r->slot);
	}
	if (v->cut_pos >= v->flows.n)
		v->cut_scan = false;
}

static void free_zombies(struct control *c)
{
	for (unsigned i = 0; i < c->n_zombies;) {
		struct vip_runtime *v = c->zombies[i];
		for (uint32_t n = 0; v->flows.n && n < EXPIRE_BATCH * 4; n++)
			flow_table_remove(&c->flows, flow_set_ref(&v->flows, v->flows.n - 1)->slot);
		if (v->flows.n) {
			i++;
			continue;
		}
		vip_runtime_free(c, v);
		c->zombies[i] = c->zombies[--c->n_zombies];
	}
}

void control_expire(struct control *c, uint64_t now_ms)
{
	struct vip_walk walk = {0};
	struct vip_runtime *v;

	while ((v = vip_walk_next(c, &walk))) {
		for (int l = 0; l < N_FLOW_LISTS; l++)
			expire_list(c, v, l, (uint32_t)now_ms);
		quic_ids_listen_now_and_then(c, v, now_ms);
		if (v->cut_scan)
			free_cut_flows(c, v);
	}
	free_zombies(c);
	control_agents_sweep(c);
}

/* --- what falls due ------------------------------------------------------------------------ */

/* What drains has no flow left, nor a connection that its server IDs keep without one. */
static bool vip_is_drained(const struct vip_runtime *v, const struct vip_version *version)
{
	return v->flows.n == 0 && quic_ids_all_quiet(v, version);
}

static bool dip_is_drained(const struct vip_runtime *v, const struct vip_version *version,
			   const struct dip_version *d)
{
	return v->flows.dip_flows[d->index] == 0 && quic_ids_quiet(v, version, d);
}

static bool vip_due(const struct vip_runtime *v, uint64_t now_ms)
{
	const struct vip_version *now = v->now;

	if (v->refold || ((v->flows.dead_pins || v->claims) && now_ms >= v->purge_after_ms))
		return true;
	if (now->deleting && (vip_is_drained(v, now) ||
			      (now->drain_deadline_ms && now_ms >= now->drain_deadline_ms)))
		return true;
	for (unsigned i = 0; i < now->n_dips; i++) {
		const struct dip_version *d = &now->dips[i];
		if (d->deleting && (dip_is_drained(v, now, d) ||
				    (d->drain_deadline_ms && now_ms >= d->drain_deadline_ms)))
			return true;
	}
	return false;
}

/* Drained or overdue DIPs leave the next version; a drained or overdue VIP goes whole. */
void control_take_due(struct control *c, struct batch_vip *b, uint64_t now_ms)
{
	struct vip_runtime *v = b->rt;
	struct vip_version *next = b->next;

	if (b->remove)
		return;
	quic_ids_listen_drains(c, v, next, now_ms);
	if (next->deleting && (vip_is_drained(v, next) ||
			       (next->drain_deadline_ms && now_ms >= next->drain_deadline_ms))) {
		b->remove = true;
		b->cut = v->flows.n != 0;
		return;
	}
	for (unsigned i = next->n_dips; i-- > 0;) {
		struct dip_version *d = &next->dips[i];
		bool overdue = d->drain_deadline_ms && now_ms >= d->drain_deadline_ms;
		if (d->deleting && (overdue || dip_is_drained(v, next, d)))
			(void)batch_remove_dip(c, b, d, overdue); /* no memory: next time */
	}
}

void control_collect_due(struct control *c, struct batch *b, uint64_t now_ms)
{
	struct vip_walk walk = {0};
	struct vip_runtime *v;

	while ((v = vip_walk_next(c, &walk))) {
		if (!vip_due(v, now_ms))
			continue;
		struct batch_vip *entry = batch_get(b, v);
		if (!entry)
			continue;
		control_take_due(c, entry, now_ms);
		v->purge_after_ms = now_ms + PURGE_INTERVAL_MS;
	}
}
