/* From rings to flow table: what each record means for its flow.
 *
 * A worker numbers its records over its three rings, and the life of a flow depends on their order
 * (FIN of one connection, then SYN of the next on the same tuple), so they are merged by number.
 * The heads cannot be read all at once: a record may be published in a ring just after it was
 * looked at. But once a number has been seen, all lower ones are visible to a look that starts
 * after, since the worker stored their heads before. So unless the lowest number at hand is the
 * next one expected, the rings are looked at twice, and the lowest is then final.
 *
 * Records of different workers are not merged: a flow that comes in by several (that of a client,
 * or one whose queue has changed) may be told of by an older record after a newer one, which turns
 * no clock back.
 *
 * A record is taken out of its ring only after it was applied, and before the next one is: a
 * process killed between leaves it to the next one, and one record applied twice in a row ends in
 * the same state. (Several do not: ACK, SYN on a closing flow leave it half-open, but applied again
 * they would find an established flow and a repeated SYN.) */
#include <assert.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/internal.h"

/* --- one record ---------------------------------------------------------------------------- */

static struct flow_meta meta_new(const struct vip_runtime *v, const struct learn_record *r)
{
	struct flow_meta m = {.seen_ms = r->time_ms,
			      .dip = r->dip,
			      .phase = FLOW_ESTABLISHED,
			      .flags = FLOW_UNPROVEN};

	if (v->now->conf.affinity == AFFINITY_CLIENT)
		return m;
	switch (r->kind) {
	case LEARN_SYN:
		m.phase = FLOW_HALF_OPEN;
		m.flags = 0;
		break;
	case LEARN_RST:
		m.phase = FLOW_CLOSING;
		m.flags |= FLOW_BY_RST;
		break;
	case LEARN_FIN:
		m.phase = FLOW_CLOSING;
		break;
	case LEARN_DATAGRAM:
	case LEARN_INITIAL:
		m.flags |= FLOW_UDP;
		break;
	default:
		break;
	}
	return m;
}

/* The phase after a record of a known TCP flow. */
static void meta_advance(struct flow_meta *m, uint8_t kind)
{
	switch (kind) {
	case LEARN_SYN:
		if (m->phase == FLOW_CLOSING) {
			m->phase = FLOW_HALF_OPEN;
			m->flags = 0;
		}
		break;
	case LEARN_DATA:
		if (FAULT(payload_after_fin_ends) && m->phase == FLOW_CLOSING)
			break;
		m->phase = FLOW_ESTABLISHED;
		m->flags &= (uint8_t)~FLOW_BY_RST;
		break;
	case LEARN_ACK:
		/* After a FIN the other half may still be sending: it goes on closing. After a RST
		 * an ACK shows that the RST was not the client's. */
		if (m->phase == FLOW_CLOSING && !(m->flags & FLOW_BY_RST))
			break;
		m->phase = FLOW_ESTABLISHED;
		m->flags &= (uint8_t)~FLOW_BY_RST;
		break;
	case LEARN_FIN:
		m->phase = FLOW_CLOSING;
		m->flags &= (uint8_t)~FLOW_BY_RST;
		break;
	case LEARN_RST:
		m->phase = FLOW_CLOSING;
		m->flags |= FLOW_BY_RST;
		break;
	default:
		break;
	}
}

/* The record's DIP is not the flow's. If the flow's DIP may be used this must not be: count it and
 * keep what the flow table says. If it is down or gone, the flow now lives elsewhere for good. */
static void record_rehome(struct control *c, struct vip_runtime *v, const struct learn_record *r,
			  struct flow_meta *m)
{
	const struct vip_view *view = v->now->view;
	static struct log_limit limit = {.interval_ms = 1000, .burst = 5};
	uint64_t suppressed;

	/* Without a view these are the last process's records, read before the first plan: where it
	 * sent the packet is where the flow lives. */
	if (view && m->dip < view->n_dips && view->dips[m->dip].usable) {
		if (r->generation != c->generation)
			return;
		c->stats.violations_total++;
		c->violation = (struct violation){c->violation.n_told, r->generation, v->slot,
						  m->dip, r->dip};
		if (log_limit_pass(&limit, &suppressed))
			log_error("control",
				  "vip %s: a packet of a flow of dip index %u went to %u at "
				  "generation %llu",
				  v->now->conf.id, m->dip, r->dip,
				  (unsigned long long)r->generation);
		return;
	}
	m->dip = r->dip;
	c->stats.flows_lost_total++;
	c->stats.flows_rehomed_total++;
}

/* A flow that an agent claims for its DIP goes there from the next publish on. A packet that was
 * sent elsewhere before that is no fault of the publish: it says where the flow lives. */
static bool record_overrules_claim(struct control *c, uint32_t slot)
{
	if (!flow_claim_waits(c, slot))
		return false;
	c->stats.agents_refused_total++;
	return true;
}

static void record_known(struct control *c, struct vip_runtime *v, const struct learn_record *r,
			 uint32_t slot)
{
	struct flow_slot *s = &c->flows.slots[slot];
	struct flow_meta m = flow_meta_get(s);
	bool fresh_open = r->kind == LEARN_SYN && m.phase == FLOW_CLOSING;
	/* negative: a record applied again after a kill, or another worker's earlier burst */
	int32_t age_ms =
		(int32_t)(r->time_ms - atomic_load_explicit(&s->opened_ms, memory_order_relaxed));

	if (m.dip != r->dip && record_overrules_claim(c, slot))
		m.dip = r->dip;
	else if (m.dip != r->dip)
		record_rehome(c, v, r, &m);
	m.flags &= (uint8_t)~FLOW_CLAIMED;
	/* Proven: heard of again in a later refresh interval than the first. */
	if ((m.flags & FLOW_UNPROVEN) && age_ms >= (int32_t)vip_conf_refresh_ms(&v->now->conf))
		m.flags &= (uint8_t)~FLOW_UNPROVEN;
	if (v->now->conf.affinity == AFFINITY_FLOW)
		meta_advance(&m, r->kind);
	if (fresh_open) {
		c->stats.flows_opened_total++;
		v->dips[r->dip].flows_opened++;
		if (flow_table_ref(&c->flows, slot)->flags & REF_PINNED)
			c->stats.flows_opened_on_pin_total++;
	}
	if ((int32_t)(r->time_ms - m.seen_ms) > 0 || FAULT(older_record_counts))
		m.seen_ms = r->time_ms;
	flow_table_update(&c->flows, slot, m);
	/* Last: until then a record that is applied again after a kill finds the age it found. */
	if (learn_kind_opens(r->kind) && (age_ms > 0 || FAULT(older_record_counts)))
		atomic_store_explicit(&s->opened_ms, r->time_ms, memory_order_release);
}

static void record_apply(struct control *c, const struct learn_record *r)
{
	struct vip_runtime *v = r->vip_slot < VIP_SLOTS ? c->vips[r->vip_slot] : NULL;

	if (!v || v->uid != r->vip_uid || r->dip == DIP_NONE ||
	    (FAULT(restart_forgets_flows) && !v->now->view))
		return;
	/* A record from before a cut may name a DIP that has gone since: after a kill between
	 * commit and swap, the index of one that this process has never heard of. */
	if (r->dip >= v->n_dips || !v->dips[r->dip].used)
		return;
	uint32_t slot = flow_table_find(&c->flows, &v->flows, &r->key, r->hash);
	if (slot != FLOW_NONE) {
		record_known(c, v, r, slot);
		return;
	}
	if (flow_table_insert(&c->flows, &v->flows, &r->key, r->hash, meta_new(v, r), r->time_ms) ==
	    FLOW_NONE)
		return;
	c->stats.flows_opened_total++;
	v->dips[r->dip].flows_opened++;
}

/* --- the rings ----------------------------------------------------------------------------- */

enum { MERGE_BATCH = 32 };

struct merge {
	struct learn_ring *rings[N_LEARN_RINGS];
	uint64_t pos[N_LEARN_RINGS];  /* next to read */
	uint64_t head[N_LEARN_RINGS]; /* as last seen */
	uint64_t last_seq;
};

static void merge_open(struct merge *m, struct control *c, unsigned worker)
{
	for (int i = 0; i < N_LEARN_RINGS; i++) {
		m->rings[i] = state_file_ring(c->conf.state, worker, i);
		m->pos[i] = atomic_load_explicit(&m->rings[i]->tail, memory_order_relaxed);
		m->head[i] = m->pos[i];
	}
	m->last_seq = 0;
}

static void merge_look(struct merge *m)
{
	for (int i = 0; i < N_LEARN_RINGS; i++)
		m->head[i] = atomic_load_explicit(&m->rings[i]->head, memory_order_acquire);
}

static uint64_t merge_waiting(struct merge *m)
{
	uint64_t n = 0;

	merge_look(m);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		n += m->head[i] - m->pos[i];
	return n;
}

static const struct learn_record *merge_at(const struct merge *m, int ring)
{
	const struct learn_ring *r = m->rings[ring];

	return m->pos[ring] == m->head[ring] ? NULL : &r->records[m->pos[ring] & (r->n - 1)];
}

/* The ring with the lowest number, or -1. */
static int merge_lowest(const struct merge *m)
{
	int best = -1;
	uint64_t lowest = UINT64_MAX;

	for (int i = 0; i < N_LEARN_RINGS; i++) {
		const struct learn_record *r = merge_at(m, i);
		if (r && FAULT(merge_by_ring))
			return i;
		if (r && r->seq < lowest) {
			lowest = r->seq;
			best = i;
		}
	}
	return best;
}

/* The next record and the ring that it is to be taken out of. */
static const struct learn_record *merge_next(struct merge *m, uint8_t *ring)
{
	int i = merge_lowest(m);

	for (int look = 0; look < 2 && (i < 0 || merge_at(m, i)->seq != m->last_seq + 1); look++) {
		merge_look(m);
		i = merge_lowest(m);
		if (i < 0)
			return NULL;
	}
	const struct learn_record *r = merge_at(m, i);
	m->pos[i]++;
	m->last_seq = r->seq;
	*ring = (uint8_t)i;
	return r;
}

/* What waits now, and not what comes meanwhile: a worker may be faster for as long as it likes. */
static uint64_t drain_worker(struct control *c, unsigned worker, uint64_t limit)
{
	const struct learn_record *batch[MERGE_BATCH];
	uint8_t ring[MERGE_BATCH];
	uint64_t total = 0;
	struct merge m;

	merge_open(&m, c, worker);
	uint64_t waiting = merge_waiting(&m);
	if (limit > waiting)
		limit = waiting;
	while (total < limit) {
		unsigned n = 0;
		while (n < MERGE_BATCH && total + n < limit &&
		       (batch[n] = merge_next(&m, &ring[n])) != NULL) {
			flow_table_prefetch(&c->flows, batch[n]->hash);
			n++;
		}
		for (unsigned i = 0; i < n; i++) {
			record_apply(c, batch[i]);
			learn_ring_pop(m.rings[ring[i]]);
			FAULT_POINT();
		}
		total += n;
		if (n < MERGE_BATCH)
			break;
	}
	return total;
}

uint64_t control_drain(struct control *c, uint64_t limit)
{
	uint64_t total = 0;

	for (unsigned w = 0; w < c->conf.n_workers; w++)
		total += drain_worker(c, w, limit);
	if (total)
		c->last_record_ms = clock_now_ms();
	return total;
}

uint64_t control_backlog(struct control *c)
{
	uint64_t n = 0;

	for (unsigned w = 0; w < c->conf.n_workers; w++)
		for (int i = 0; i < N_LEARN_RINGS; i++)
			n += learn_ring_count(state_file_ring(c->conf.state, w, i));
	return n;
}

void control_drain_leftovers(struct control *c)
{
	uint64_t n = 0;

	for (unsigned w = 0; w < state_file_n_workers(c->conf.state); w++)
		n += drain_worker(c, w, UINT64_MAX);
	if (n)
		log_info("control", "%llu records of the last process applied",
			 (unsigned long long)n);
}
