/* The publish: plan, commit, park, drain, swap, release.
 *
 * Why no known flow can be misplaced by it. A plan's last pass over a VIP finds every flow right
 * under the new view. From the start of that pass the VIP's flow set collects what is inserted,
 * revived with another DIP, or moved in the dense array. With all workers parked no packet is
 * between a lookup and its record, so draining the rings to empty makes control know every flow
 * that any worker has sent anywhere; what was collected is looked up under the new view, and each
 * flow that it would misplace becomes an exact entry, keyed by its full key. Then the pointer is
 * swapped. If an exact entry does not fit, or a DIP that was to leave empty has a flow again, the
 * workers are released with the old snapshot and all is planned anew. No worker holds the old
 * snapshot at the swap, so it is freed. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/announce.h"

#define EXACT_ROOM SIM_SIZE(1024u, 8u)
#define BACKLOG_SMALL 64u
#define BACKLOG_WAIT_MS 100u

static uint64_t now_us(void)
{
	return clock_now_ns() / 1000u;
}

/* --- the new snapshot ----------------------------------------------------------------------------
 */

static int add_exact(struct control *c, struct snapshot *s, const struct vip_runtime *v,
		     uint32_t slot)
{
	const struct flow_slot *f = &c->flows.slots[slot];

	if (!flow_slot_live(&c->flows, &v->flows, slot) ||
	    snapshot_exact_find(s, v->slot, &f->key, f->hash) != DIP_NONE)
		return 0;
	return snapshot_exact_add(s, v->slot, &f->key, f->hash, flow_meta_get(f).dip);
}

/* Flows that may be placed late: a flood that is forgotten as fast as it comes gives its slots to
 * thousands of flows while one plan is made, but not more of them live than there are slots. */
static uint32_t count_late(const struct flow_set *f)
{
	return f->n_fresh < f->n ? f->n_fresh : f->n;
}

static uint32_t count_exact(struct control *c, struct batch *b)
{
	uint32_t n = c->snapshot ? c->snapshot->n_exact : 0;

	for (unsigned i = 0; i < b->n; i++)
		n += b->vips[i].next->n_exact + 2 * count_late(&b->vips[i].rt->flows);
	return n;
}

/* A VIP that stays as it is keeps its exact entries as it keeps its pins, whatever has become of
 * their flows: one that was forgotten and then spoke again is where its entry sent it. */
static int carry_exact(const struct snapshot *now, struct snapshot *s)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && now && now->n_exact && i <= now->exact_mask; i++) {
		const struct exact_entry *e = &now->exact[i];
		const struct vip_view *v = s->vips[e->vip_slot];
		if (e->dip == DIP_NONE || v != now->vips[e->vip_slot] || FAULT(exact_by_slot))
			continue;
		uint64_t hash = flow_key_hash(&e->key, v->seed);
		rc = snapshot_exact_add(s, e->vip_slot, &e->key, hash, e->dip);
	}
	return rc;
}

static int snapshot_put_vip(struct control *c, struct snapshot *s, const struct vip_runtime *v,
			    const struct vip_version *version)
{
	int rc = snapshot_add_vip(s, version->view);

	for (uint32_t i = 0; rc == 0 && i < version->n_exact; i++)
		rc = add_exact(c, s, v, version->exact_slots[i]);
	return rc;
}

static int snapshot_build(struct control *c, struct batch *b, uint32_t room, struct snapshot **out)
{
	struct snapshot *s = snapshot_new(c->generation + 1, count_exact(c, b) + room);
	struct vip_walk walk = {0};
	struct vip_runtime *v;
	int rc = 0;

	if (!s)
		return -ENOMEM;
	while (rc == 0 && (v = vip_walk_next(c, &walk)))
		if (!batch_entry(b, v))
			rc = snapshot_add_vip(s, v->now->view);
	for (unsigned i = 0; rc == 0 && i < b->n; i++)
		if (!b->vips[i].remove)
			rc = snapshot_put_vip(c, s, b->vips[i].rt, b->vips[i].next);
	if (rc == 0)
		rc = carry_exact(c->snapshot, s);
	if (rc == 0)
		rc = ways_back_plan(c, b, &s->back);
	if (rc) {
		snapshot_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

/* Give each collected flow that the new view would misplace an exact entry. The slots' room was
 * made by reserve_late. -ENOSPC if the exact table is full. */
static int settle_fresh(struct control *c, struct batch_vip *b, struct snapshot *s, uint32_t room)
{
	struct flow_set *f = &b->rt->flows;
	const struct vip_view *view = b->next->view;

	if (flow_set_watch_failed(f))
		return -ENOMEM;
	for (; f->n_settled < f->n_fresh; f->n_settled++) {
		uint32_t slot = f->fresh[f->n_settled];
		if (!flow_slot_live(&c->flows, f, slot))
			continue;
		const struct flow_slot *fs = &c->flows.slots[slot];
		uint16_t dip = flow_meta_get(fs).dip;
		if (dip >= view->n_dips || !view->dips[dip].usable)
			continue;
		uint16_t now = snapshot_exact_find(s, b->rt->slot, &fs->key, fs->hash);
		if (now == DIP_NONE)
			now = vip_view_lookup(view, fs->hash);
		if (now == dip || FAULT(lose_late_flows))
			continue;
		if (b->n_late == room)
			return -ENOSPC;
		int rc = snapshot_exact_add(s, b->rt->slot, &fs->key, fs->hash, dip);
		if (rc)
			return rc;
		b->next->exact_slots[b->next->n_exact++] = slot;
		b->n_late++;
	}
	return 0;
}

static int settle_all(struct control *c, struct batch *b, struct snapshot *s, uint32_t room)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < b->n; i++)
		if (!b->vips[i].remove)
			rc = settle_fresh(c, &b->vips[i], s, room);
	return rc;
}

static int reserve_late(struct batch *b, uint32_t room)
{
	for (unsigned i = 0; i < b->n; i++) {
		struct vip_version *next = b->vips[i].next;
		uint32_t *grown =
			realloc(next->exact_slots, (next->n_exact + room) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		next->exact_slots = grown;
		b->vips[i].n_late = 0;
	}
	return 0;
}

/* With all parked and drained: a new VIP must not take packets of flows that have opened since it
 * was allowed. */
static bool veto_takeover(const struct batch_vip *b)
{
	for (unsigned i = 0; i < b->n_taken && !b->remove; i++)
		if (b->taken[i]->flows.n)
			return true;
	return false;
}

/* With all parked and drained: what was to leave empty but has a flow again stays (and goes on
 * draining). True if something did. */
static bool veto_removals(struct batch_vip *b)
{
	bool veto = false;

	if (FAULT(remove_with_flows))
		return false;
	if (b->remove && !b->cut && b->rt->flows.n) {
		b->remove = false;
		veto = true;
	}
	for (unsigned i = 0; i < b->n_gone;) {
		struct gone_dip *g = &b->gone[i];
		if (g->cut || b->rt->flows.dip_flows[g->d.index] == 0 ||
		    !vip_version_add_dip(b->next, &g->d)) {
			i++;
			continue;
		}
		*g = b->gone[--b->n_gone];
		veto = true;
	}
	return veto;
}

/* --- park and swap -------------------------------------------------------------------------------
 */

static void drain_backlog(struct control *c)
{
	uint64_t start = clock_now_ms();

	while (control_backlog(c) >= BACKLOG_SMALL && clock_now_ms() - start < BACKLOG_WAIT_MS)
		control_drain(c, UINT64_MAX);
}

static void swap_snapshot(struct control *c, struct snapshot *s)
{
	for (unsigned i = 0; i < c->conf.n_workers; i++)
		worker_set_snapshot(c->conf.workers[i], s);
}

/* What was planned can still be published as it is: 0. -EAGAIN: with what was put back. -ECANCELED:
 * not at all. */
static int veto_all(const struct control *c, struct batch *b)
{
	bool again = false, never = false;

	for (unsigned i = 0; i < b->n; i++) {
		again |= veto_removals(&b->vips[i]);
		never |= veto_takeover(&b->vips[i]);
	}
	never |= again && !batch_fits(c, b); /* somebody counts on the room */
	return never ? -ECANCELED : again ? -EAGAIN : 0;
}

/* 0: published. -EAGAIN: plan again. Else nothing happened. */
static int park_and_swap(struct control *c, struct batch *b, uint32_t room)
{
	struct snapshot *s;
	int rc = reserve_late(b, room);

	if (rc == 0)
		rc = snapshot_build(c, b, room, &s);
	if (rc)
		return rc;
	ways_back_open(c, s->back);
	drain_backlog(c);
	rc = settle_all(c, b, s, room);
	if (rc)
		goto fail;

	uint64_t start = now_us();
	FAULT_POINT();
	workers_hold(c->conf.workers, c->conf.n_workers);
	FAULT_POINT();
	if (!FAULT(swap_unparked))
		rc = workers_wait_parked(c->conf.workers, c->conf.n_workers, -1);
	FAULT_POINT();
	if (rc == 0) {
		if (!FAULT(skip_ring_drain))
			control_drain(c, UINT64_MAX); /* C3 of the park protocol: worker.c */
		FAULT_POINT();
		rc = veto_all(c, b);
		if (rc == 0)
			rc = settle_all(c, b, s, room);
	}
	if (rc == 0)
		swap_snapshot(c, s);
	FAULT_POINT();
	workers_release(c->conf.workers, c->conf.n_workers);
	FAULT_POINT();
	if (rc)
		goto fail;

	struct consistency *st = &c->stats;
	st->last_pause_us = now_us() - start;
	if (st->last_pause_us > st->max_pause_us)
		st->max_pause_us = st->last_pause_us;
	histogram_add(&st->publish_pause_us, st->last_pause_us);
	st->publishes_total++;
	if (!FAULT(swap_unparked))
		snapshot_free(c->snapshot);
	c->snapshot = s;
	c->generation = s->generation;
	ways_back_install(c, s->back);
	return 0;
fail:
	ways_back_undo(c, s->back);
	snapshot_free(s);
	return rc == -ENOSPC ? -EAGAIN : rc;
}

/* --- plan, and again if need be ------------------------------------------------------------------
 */

static void unplan(struct control *c, struct batch_vip *b)
{
	struct vip_version *next = b->next;

	flow_set_unwatch(&c->flows, &b->rt->flows);
	dcode_table_destroy(&next->table);
	next->table = (struct dcode_table){0};
	vip_view_unref(next->view);
	next->view = NULL;
	free(next->pins);
	next->pins = NULL;
	free(next->exact_slots);
	next->exact_slots = NULL;
	next->n_pins = next->n_exact = next->n_accidents = 0;
	b->n_late = 0;
}

/* Flows that this change takes from a DIP that they could still use. */
static uint64_t count_moved(const struct batch_vip *b)
{
	const struct vip_version *now = b->rt->now;
	uint64_t n = 0;

	if (!now || !now->view)
		return 0;
	for (uint32_t i = 1; i < now->view->n_dips; i++)
		if (now->view->dips[i].usable &&
		    (b->remove || i >= b->next->view->n_dips || !b->next->view->dips[i].usable))
			n += b->rt->flows.dip_flows[i];
	return n;
}

int batch_plan(struct control *c, struct batch *b, struct error *err)
{
	for (unsigned i = 0; i < b->n; i++) {
		struct batch_vip *v = &b->vips[i];
		if (!v->remove) {
			uint64_t start = now_us();
			int rc = plan_vip(c, v->rt, v->next);
			if (rc)
				return error_set(err, rc, "out of memory while planning %s",
						 v->next->conf.id);
			v->build_us = now_us() - start;
		}
		v->n_moved = count_moved(v);
	}
	return 0;
}

static int plan_all(struct control *c, struct batch *b, struct error *err)
{
	int rc = batch_plan(c, b, err);

	for (unsigned i = 0; rc == 0 && i < b->n; i++) {
		if (b->vips[i].remove)
			continue;
		c->stats.last_build_us = b->vips[i].build_us;
		histogram_add(&c->stats.publish_build_us, b->vips[i].build_us);
	}
	return rc;
}

/* The database has now what nobody sees. The VIPs of this batch are written anew with the next
 * publish, which is due at once; those that it made are deleted by the next commit. */
static int forget_commit(struct control *c, const struct batch *b, struct error *err)
{
	c->committed_in_vain = true;
	for (unsigned i = 0; i < b->n; i++) {
		if (!b->vips[i].created) {
			b->vips[i].rt->refold = true;
			continue;
		}
		uint32_t *grown = realloc(c->stale_uids, (c->n_stale + 1) * sizeof(*grown));
		if (!grown)
			return error_set(err, -ENOMEM, "out of memory while publishing");
		c->stale_uids = grown;
		c->stale_uids[c->n_stale++] = b->vips[i].rt->uid;
	}
	return error_set(err, -ECANCELED, "flows have opened that a new VIP would take over");
}

static int publish_until_done(struct control *c, struct batch *b, struct error *err)
{
	uint32_t room = EXACT_ROOM;

	for (;;) {
		int rc = plan_all(c, b, err);
		if (rc == 0 && !FAULT(persist_after_publish))
			rc = commit_batch(c, b, err);
		if (rc)
			return rc;
		FAULT_POINT();
		rc = park_and_swap(c, b, room);
		c->agents_astray |= rc != 0;
		if (rc == 0 && FAULT(persist_after_publish) && commit_batch(c, b, err))
			return 0;
		if (rc == 0)
			return 0;
		if (rc == -ECANCELED)
			return forget_commit(c, b, err);
		/* Committed but not published: the next round commits what it publishes. Only
		 * memory can end this loop otherwise, and then start-up heals the difference. */
		if (rc != -EAGAIN)
			return error_set(err, rc, "out of memory while publishing");
		room *= 4;
		for (unsigned i = 0; i < b->n; i++)
			unplan(c, &b->vips[i]);
	}
}

int control_publish(struct control *c, struct batch *b, struct error *err)
{
	int rc;

	if (b->n == 0 && !c->committed_in_vain)
		return 0;
	if (b->n == 0)
		return commit_batch(c, b, err);
	struct vip_runtime **zombies =
		realloc(c->zombies, (c->n_zombies + b->n) * sizeof(struct vip_runtime *));
	if (!zombies)
		return error_set(err, -ENOMEM, "out of memory");
	c->zombies = zombies;
	rc = publish_until_done(c, b, err);
	if (rc)
		return rc;
	batch_install(c, b);
	atomic_store(&c->generation_shown, c->generation);
	FAULT_POINT();
	commit_late(c, b);
	batch_install_flags(c, b);
	announce_publish(c, b);
	return 0;
}
