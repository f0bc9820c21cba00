/* Start-up: from the database and the state file to the first snapshot.
 *
 * A kept state file holds every flow that the last process knew, and its rings what it had not
 * applied yet; flows are checked against the VIP's seed and DIPs, so a torn or foreign slot is
 * freed. The pins of the database become known established flows unless they are known already:
 * they are the only flows that their hash alone would not place right. (A kept file does not make
 * them known for sure: the process that made it may have died before it got so far.) Every VIP is
 * then planned and committed anew, so whatever a crash left between commit and publish is healed
 * before the first packet. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/log.h"
#include "control/internal.h"

/* Without known flows a pool change could move connections that have not spoken yet: hold voluntary
 * changes for one refresh interval, in which every active flow is learned again. It is one interval
 * of one process: what spoke while none ran was not heard, so a kill begins it anew. */
#define HOLD_MS 5000u

/* What was going on goes on: an override's time, a slow start. */
static void boot_health(struct vip_runtime *v, const struct persist_vip *p, struct dip_version *d)
{
	const struct dip_health *h = &d->use.health;
	int64_t up_s = clock_wall_s() - h->since_s;
	uint64_t now_ms = clock_now_ms();

	v->dips[d->index].override_until_ms =
		deadline_from_wall(h->override_until_s, HEALTH_TTL_MAX_S);
	if (h->verdict == VERDICT_UP && h->since_s && up_s >= 0 &&
	    up_s < (int64_t)p->conf.health.slow_start_s && now_ms > (uint64_t)up_s * 1000)
		d->use.ramp_from_ms = now_ms - (uint64_t)up_s * 1000;
}

static int boot_dips(struct control *c, struct vip_runtime *v, const struct persist_vip *p)
{
	struct vip_version *now = v->now;

	for (unsigned i = 0; i < p->n_dips; i++) {
		const struct persist_dip *pd = &p->dips[i];
		struct dip_version d = {.conf = pd->conf,
					.uid = pd->uid,
					.deleting = pd->deleting,
					.use = {.health = pd->health},
					.drain_shown_s = pd->drain_deadline_s,
					.drain_deadline_ms = deadline_from_wall(
						pd->drain_deadline_s, p->conf.drain_timeout_s)};
		int rc = vip_runtime_take_index(c, v, pd->index, &d);
		if (rc)
			return rc;
		v->dips[d.index].heard_ms = clock_now_ms(); /* as far as is known */
		boot_health(v, p, &d);
		if (!vip_version_add_dip(now, &d))
			return -ENOMEM;
		rc = c->conf.next_hops.watch(c->conf.next_hops.ctx, &d.conf.address);
		if (rc)
			return rc;
	}
	return 0;
}

static int boot_vip(struct control *c, struct persist_vip *p)
{
	struct vip_runtime *v = vip_runtime_new(c, p->uid, &p->conf, p->seed);

	if (!v)
		return -ENOMEM;
	v->slot = p->slot;
	c->vips[v->slot] = v;
	vip_index_add(&c->index, v);
	c->n_vips++;
	v->pin_seed = p->pin_seed;
	v->now = vip_version_copy(NULL);
	if (!v->now)
		return -ENOMEM;
	v->now->conf = p->conf;
	v->now->deleting = p->deleting;
	v->now->drain_shown_s = p->drain_deadline_s;
	v->now->drain_deadline_ms =
		deadline_from_wall(p->drain_deadline_s, p->conf.drain_timeout_s);
	v->now->table = (struct dcode_table){.dcodes = p->dcodes, .n = p->n_dcodes};
	p->dcodes = NULL; /* taken over */
	return boot_dips(c, v, p);
}

enum slot_state { SLOT_GOOD, SLOT_STALE, SLOT_DAMAGED };

/* A flow of a VIP or DIP that has gone is stale, as a kill may leave it; what cannot have been
 * written by us, or stands here twice, is damaged. */
static enum slot_state slot_judge(const struct control *c, const struct vip_runtime *v,
				  const struct flow_slot *s)
{
	struct flow_meta m = flow_meta_get(s);

	if (!v)
		return s->vip_uid < c->next_vip_uid ? SLOT_STALE : SLOT_DAMAGED;
	if (m.phase > FLOW_CLOSING || flow_key_hash(&s->key, v->seed) != s->hash ||
	    flow_table_find(&c->flows, &v->flows, &s->key, s->hash) != FLOW_NONE)
		return SLOT_DAMAGED;
	if (m.dip >= v->n_dips || !v->dips[m.dip].used || FAULT(restart_forgets_flows))
		return SLOT_STALE;
	return SLOT_GOOD;
}

static int boot_slots(struct control *c)
{
	struct vip_runtime *v = NULL;
	uint32_t n[SLOT_DAMAGED + 1] = {0};

	for (uint32_t i = 0; i < c->flows.capacity; i++) {
		struct flow_slot *s = &c->flows.slots[i];
		if (flow_meta_get(s).phase == FLOW_FREE)
			continue;
		if (!v || v->uid != s->vip_uid)
			v = vip_index_by_uid(c, s->vip_uid);
		enum slot_state state = slot_judge(c, v, s);
		n[state]++;
		if (state == SLOT_DAMAGED) /* said before it is freed: a kill forgets the slot */
			state_file_set_learned(c->conf.state, false);
		if (flow_table_adopt(&c->flows, i, state == SLOT_GOOD ? &v->flows : NULL))
			return -ENOMEM;
	}
	log_info("control", "%u known flows taken over, %u stale slots dropped", n[SLOT_GOOD],
		 n[SLOT_STALE]);
	if (n[SLOT_DAMAGED])
		log_warning("control",
			    "%u flow slots were damaged: their connections are learned anew",
			    n[SLOT_DAMAGED]);
	return 0;
}

static void boot_pins(struct control *c, struct vip_runtime *v, const struct persist_vip *p)
{
	uint32_t now = (uint32_t)clock_now_ms();

	for (uint32_t i = 0; i < p->n_pins && !FAULT(reboot_forgets_pins); i++) {
		const struct persist_pin *pin = &p->pins[i];
		uint64_t hash = flow_key_hash(&pin->key, v->seed);
		struct flow_meta m = {.seen_ms = now,
				      .dip = pin->dip,
				      .phase = FLOW_ESTABLISHED,
				      .flags = pin->key.proto == IPPROTO_UDP ? FLOW_UDP : 0};
		if (pin->dip >= v->n_dips || !v->dips[pin->dip].used ||
		    flow_table_find(&c->flows, &v->flows, &pin->key, hash) != FLOW_NONE)
			continue;
		(void)flow_table_insert(&c->flows, &v->flows, &pin->key, hash, m, now);
	}
}

static void nothing_submit(void *ctx, const struct persist_txn *txn)
{
	(void)ctx;
	(void)txn;
}

static int nothing_poll(void *ctx, struct error *err)
{
	(void)ctx;
	(void)err;
	return 1;
}

/* Plan, commit and set the first snapshot; the workers do not run yet, so they count as parked. A
 * database that cannot be written does not keep the forwarder from forwarding. */
static int boot_batch(struct control *c, struct error *err)
{
	struct batch b = {0};
	struct vip_walk walk = {0};
	struct vip_runtime *v;
	int rc = 0;

	while (rc == 0 && (v = vip_walk_next(c, &walk)))
		if (!batch_get(&b, v))
			rc = error_set(err, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = control_publish(c, &b, err);
	batch_destroy(c, &b);
	return rc;
}

static int boot_publish(struct control *c, struct error *err)
{
	struct persist real = c->conf.persist;
	int rc = boot_batch(c, err);

	if (rc != -ENOSPC && rc != -EROFS && rc != -EIO)
		return rc;
	log_warning("control", "going on with a plan that is not on disk: %s", err->message);
	c->conf.persist =
		(struct persist){.submit = nothing_submit, .poll = nothing_poll, .done_fd = -1};
	rc = boot_batch(c, err);
	c->conf.persist = real;
	return rc;
}

/* From now on, since the workers start now. */
static void boot_hold(struct control *c)
{
	struct vip_walk walk = {0};
	struct vip_runtime *v;

	while ((v = vip_walk_next(c, &walk)))
		v->held = true;
	c->hold_until_ms = clock_now_ms() + HOLD_MS;
	log_info("control", "changes are held for %u s, until connections are learned again",
		 HOLD_MS / 1000);
}

void control_end_hold(struct control *c)
{
	c->hold_until_ms = 0;
	state_file_set_learned(c->conf.state, true);
}

int control_boot(struct control *c, struct persist_state *boot, struct error *err)
{
	struct state_file *state = c->conf.state;
	bool kept = state_file_status(state) == STATE_KEPT;
	int rc = 0;

	c->generation = boot->generation;
	atomic_store(&c->generation_shown, c->generation);
	c->next_dip_uid = boot->next_dip_uid;
	c->next_vip_uid = boot->next_vip_uid;
	for (unsigned i = 0; rc == 0 && i < boot->n_vips; i++)
		rc = boot_vip(c, &boot->vips[i]);
	vip_index_claim_slots(c);
	if (rc == 0 && kept)
		rc = boot_slots(c);
	if (rc)
		return error_set(err, rc, "out of memory while taking over the saved state");
	if (kept && !FAULT(restart_forgets_flows))
		control_drain_leftovers(c);
	for (unsigned i = 0; i < boot->n_vips; i++)
		boot_pins(c, c->vips[boot->vips[i].slot], &boot->vips[i]);
	c->floor_ms = (uint32_t)clock_now_ms();
	rc = boot_publish(c, err);
	if (rc == 0 && c->n_vips && !state_file_learned(state) && !(kept && FAULT(kill_ends_hold)))
		boot_hold(c);
	else if (rc == 0)
		state_file_set_learned(state, true);
	return rc;
}
