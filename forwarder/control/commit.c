/* The commit: what a publish will show is on disk before it does. The store writes on its own
 * thread; control goes on draining meanwhile. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/log.h"
#include "control/internal.h"

static int persist_fill(const struct vip_runtime *v, const struct vip_version *version,
			struct persist_vip *out)
{
	struct persist_dip *dips = calloc(version->n_dips + 1, sizeof(*dips));

	if (!dips)
		return -ENOMEM;
	for (unsigned i = 0; i < version->n_dips; i++) {
		const struct dip_version *d = &version->dips[i];
		dips[i] = (struct persist_dip){.conf = d->conf,
					       .uid = d->uid,
					       .index = d->index,
					       .deleting = d->deleting,
					       .drain_deadline_s =
						       deadline_to_wall(d->drain_deadline_ms),
					       .health = d->use.health};
		if (FAULT(forget_verdicts))
			dips[i].health.verdict = VERDICT_UP;
	}
	const struct othello *pins = &version->view->pins;
	*out = (struct persist_vip){
		.conf = version->conf,
		.uid = v->uid,
		.slot = v->slot,
		.deleting = version->deleting,
		.drain_deadline_s = deadline_to_wall(version->drain_deadline_ms),
		.seed = v->seed,
		.pin_seed = pins->n_a ? pins->seed : v->pin_seed,
		.pin_n_a = pins->n_a,
		.pin_n_b = pins->n_b,
		.n_dcodes = version->table.n,
		.dcodes = version->table.dcodes,
		.n_pins = version->n_pins,
		.pins = version->pins,
		.n_dips = version->n_dips,
		.dips = dips,
	};
	return 0;
}

/* Wait for the store, doing control's other work meanwhile. */
static int persist_wait(struct control *c, struct error *err)
{
	struct pollfd pfd = {.fd = c->conf.persist.done_fd, .events = POLLIN};
	int rc;

	FAULT_POINT();
	while ((rc = c->conf.persist.poll(c->conf.persist.ctx, err)) == 0) {
		control_breathe(c);
		if (pfd.fd >= 0)
			(void)poll(&pfd, 1, 1);
	}
	return rc < 0 ? rc : 0;
}

static bool puts_dip_of(const struct batch *b, const struct persist_agent *a)
{
	for (unsigned i = 0; i < b->n; i++) {
		const struct batch_vip *v = &b->vips[i];
		if (v->remove || v->rt->uid != a->vip_uid)
			continue;
		for (unsigned k = 0; k < v->next->n_dips; k++)
			if (v->next->dips[k].uid == a->dip_uid)
				return true;
	}
	return false;
}

/* After a commit that was not published: the agents that it may have deleted with their DIPs, of
 * those that this one writes again. */
static int list_agents(struct control *c, const struct batch *b, struct persist_txn *txn)
{
	struct persist_agent *list = calloc(c->agents.n + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (unsigned i = 0; i < c->agents.n; i++) {
		const struct agent *a = &c->agents.list[i];
		if (!a->leaving && puts_dip_of(b, &a->conf))
			list[txn->n_agents++] = a->conf;
	}
	txn->agents = list;
	return 0;
}

/* One transaction: the VIPs of a batch as next versions, or (late) those installed versions that
 * got exact entries by the publish. */
static int commit(struct control *c, const struct batch *b, bool late, struct error *err)
{
	struct persist_vip *vips = calloc(b->n + 1, sizeof(*vips));
	const struct persist_vip **put = calloc(b->n + 1, sizeof(struct persist_vip *));
	uint32_t *deleted = calloc(b->n + c->n_stale + 1, sizeof(*deleted));
	struct persist_txn txn = {.generation = c->generation + !late,
				  .next_dip_uid = c->next_dip_uid,
				  .next_vip_uid = c->next_vip_uid,
				  .put = put,
				  .delete_uids = deleted,
				  .late = late,
				  .n_log = late ? 0 : b->n_log,
				  .log = b->log};
	unsigned n_stale = late ? 0 : c->n_stale;
	int rc = vips && put && deleted ? 0 : -ENOMEM;

	for (unsigned i = 0; rc == 0 && i < n_stale; i++)
		deleted[txn.n_delete++] = c->stale_uids[i];

	for (unsigned i = 0; rc == 0 && i < b->n; i++) {
		const struct batch_vip *v = &b->vips[i];
		if (late && v->n_late == 0)
			continue;
		if (v->remove) {
			deleted[txn.n_delete++] = v->rt->uid;
			continue;
		}
		rc = persist_fill(v->rt, late ? v->rt->now : v->next, &vips[txn.n_put]);
		if (rc == 0) {
			put[txn.n_put] = &vips[txn.n_put];
			txn.n_put++;
		}
	}
	if (rc == 0 && c->agents_astray && !late)
		rc = list_agents(c, b, &txn);
	if (rc == 0) {
		c->conf.persist.submit(c->conf.persist.ctx, &txn);
		rc = persist_wait(c, err);
		if (rc == 0 && !late) {
			c->committed_in_vain = false;
			c->agents_astray = false;
			c->n_stale = 0;
		}
	} else {
		error_set(err, rc, "out of memory");
	}
	for (unsigned i = 0; vips && i < txn.n_put; i++)
		free(vips[i].dips);
	free((void *)txn.agents);
	free(vips);
	free(put);
	free(deleted);
	return rc;
}

/* Without VIPs: only what is stale is deleted. */
int commit_batch(struct control *c, const struct batch *b, struct error *err)
{
	return b->unstored ? 0 : commit(c, b, false, err);
}

/* Exact entries made by the publish itself must be on disk before anyone is told of it. */
void commit_late(struct control *c, struct batch *b)
{
	bool any = false;
	struct error err;

	for (unsigned i = 0; i < b->n; i++) {
		struct vip_version *v = b->vips[i].rt->now;
		if (b->vips[i].remove || b->vips[i].n_late == 0)
			continue;
		struct persist_pin *grown =
			realloc(v->pins, (v->n_pins + b->vips[i].n_late) * sizeof(*grown));
		if (!grown)
			continue;
		v->pins = grown;
		for (uint32_t k = v->n_exact - b->vips[i].n_late; k < v->n_exact; k++) {
			const struct flow_slot *s = &c->flows.slots[v->exact_slots[k]];
			if (!flow_slot_live(&c->flows, &b->vips[i].rt->flows, v->exact_slots[k]))
				continue; /* another VIP's flow has the slot by now */
			v->pins[v->n_pins++] = (struct persist_pin){
				.key = s->key, .dip = flow_meta_get(s).dip, .exact = 1};
		}
		any = true;
	}
	if (any && !b->unstored && commit(c, b, true, &err))
		log_warning("control", "late pins are not on disk until the next publish (%s)",
			    err.message);
}
