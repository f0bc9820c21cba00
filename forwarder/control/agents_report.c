/* What a report does.
 *
 * An agent speaks only of its own DIP's flows: an entry whose flow the table holds on another DIP
 * is refused and counted. An end marks a flow closing as a RST does, so a later payload or bare ACK
 * revives it; it bears its age, and one from before the flow opened is another connection's. Ages
 * count from the forwarder's own clock as the agent last heard it, not from the arrival: a report
 * may lie in a socket's buffer for as long as a network is cut, and must not look younger for it.
 *
 * A connection that is not known becomes an unproven flow of the DIP. If the published view sends
 * it there already, that is all. If not, it is marked as claimed and its VIP is due: the next
 * publish, a tenth of a second away, pins it like every known flow. A packet before that goes where
 * the hash says; the backend there does not have the connection, so it is lost or a new one, and
 * the table follows the packet (drain.c), not the claim.
 *
 * A full report repairs everything else. Its entries mark their flows with its epoch; when its last
 * part has come, flows of the DIP without the mark that were silent since before the list was made
 * are ended. The margin is for packets that were on their way to the backend meanwhile: only
 * established flows are judged, so at worst the last ACK of a handshake that SYN cookies remember.
 * For flows that fell silent within it, another full report is asked for when it is over. */
#include <arpa/inet.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/internal.h"

#define FULL_MARGIN_MS 200u
#define AGAIN_MS (FULL_MARGIN_MS + 50u) /* and what the dates of two lists may differ by */
#define SWEEP_STEP 65536u

struct reporting {
	struct control *c;
	struct agent *agent;
	struct vip_runtime *v;
	uint16_t dip;
	uint32_t now_ms;
	uint32_t base_ms; /* what ages count from */
	unsigned n_refused;
};

/* --- entries -------------------------------------------------------------------------------------
 */

static bool entry_is_of_vip(const struct vip_conf *vip, const struct agent_entry *e)
{
	const struct vip_match *m = &vip->match;

	return ip_addr_is_v4(&e->src) == ip_addr_is_v4(&m->address) &&
	       (e->has_dst || !m->host_bits) &&
	       vip_match_takes(m, e->has_dst ? &e->dst : &m->address, e->dport, e->proto);
}

static void end_flow(struct reporting *r, uint32_t slot, uint32_t end_ms)
{
	struct flow_slot *s = &r->c->flows.slots[slot];
	struct flow_meta m = flow_meta_get(s);
	uint32_t opened_ms = atomic_load_explicit(&s->opened_ms, memory_order_relaxed);

	/* Clients and datagram flows end by their time-outs alone. */
	if (r->v->now->conf.affinity == AFFINITY_CLIENT || (m.flags & FLOW_UDP))
		return;
	bool later = (int32_t)(opened_ms - end_ms) > 0 && !FAULT(agent_ends_the_next);
	if (m.phase == FLOW_CLOSING || later)
		return;
	m.phase = FLOW_CLOSING;
	m.flags |= FLOW_BY_RST;
	m.seen_ms = r->now_ms; /* lists are in the order of it */
	flow_table_update(&r->c->flows, slot, m);
}

static void open_flow(struct reporting *r, const struct agent_entry *e, const struct flow_key *key,
		      uint64_t hash)
{
	struct flow_meta m = {.seen_ms = r->now_ms,
			      .dip = r->dip,
			      .phase = FLOW_ESTABLISHED,
			      .flags = FLOW_UNPROVEN};
	enum lookup_reason reason;
	uint32_t dcode;
	bool flow = r->v->now->conf.affinity == AFFINITY_FLOW;

	if (flow && e->proto == IPPROTO_UDP)
		m.flags |= FLOW_UDP;
	bool elsewhere = snapshot_lookup_one(r->c->snapshot, r->v->now->view, key, &reason,
					     &dcode) != r->dip;
	if (elsewhere)
		m.flags |= FLOW_CLAIMED;
	uint32_t slot =
		flow_table_insert(&r->c->flows, &r->v->flows, key, hash, m, r->base_ms - e->age_ms);
	if (slot == FLOW_NONE)
		return;
	r->c->flows.side[slot].agent_epoch = r->agent->epoch;
	r->c->stats.flows_opened_total++;
	r->v->dips[r->dip].flows_opened++;
	r->agent->n_unknown++;
	r->v->claims |= elsewhere;
}

static void entry_apply(struct reporting *r, const struct agent_entry *e)
{
	struct flow_table *t = &r->c->flows;
	struct flow_key key;

	if (!entry_is_of_vip(&r->v->now->conf, e)) {
		r->n_refused++;
		return;
	}
	flow_key_of(r->v->now->view, &e->src, htons(e->sport), htons(e->dport), e->proto, &key);
	if (r->v->now->view->dst_bits)
		flow_key_put_dst(r->v->now->view, &e->dst, &key);
	uint64_t hash = flow_key_hash(&key, r->v->seed);
	uint32_t slot = flow_table_find(t, &r->v->flows, &key, hash);
	if (slot == FLOW_NONE) {
		if (!e->ended)
			open_flow(r, e, &key, hash);
		return;
	}
	if (flow_meta_get(&t->slots[slot]).dip != r->dip)
		r->n_refused++;
	else if (e->ended)
		end_flow(r, slot, r->base_ms - e->age_ms);
	else
		t->side[slot].agent_epoch = r->agent->epoch;
}

/* --- reports -------------------------------------------------------------------------------------
 */

/* The next one to apply? A full report may begin at any time, everything else has its place. */
static bool report_is_next(const struct agent *a, const struct agent_report *r)
{
	bool begins = r->full && r->first;

	if (strcmp(a->instance, r->instance) != 0)
		return begins;
	if (begins)
		return r->sequence > a->sequence;
	return r->sequence == a->sequence + 1 && (r->full ? a->full_open : a->synced);
}

static void full_begin(struct reporting *r)
{
	struct agents *all = &r->c->agents;
	struct agent *a = r->agent;

	all->last_epoch = all->last_epoch == UINT8_MAX ? 1 : (uint8_t)(all->last_epoch + 1);
	a->epoch = all->last_epoch;
	a->full_open = true;
	a->synced = false;
	a->sweep_left = 0;
	a->n_unknown = 0;
	a->listed_ms = r->base_ms;
	a->silent_since_ms = r->base_ms - FULL_MARGIN_MS;
	a->undecided = false;
	a->repeated = a->again_ms != 0;
	a->again_ms = 0;
}

static void full_end(struct reporting *r)
{
	struct agent *a = r->agent;

	a->full_open = false;
	a->synced = true;
	a->sweep_left = r->v->now->conf.affinity == AFFINITY_FLOW ? r->v->flows.n : 0;
	log_info("agents", "%s: in step (%llu connections, %u were not known)", a->conf.id,
		 (unsigned long long)a->load.connections, a->n_unknown);
}

/* Orphans are a total of the agent's life. What it counted before it spoke to this process is not
 * this process's. */
static void count_orphans(struct control *c, struct agent *a, const struct agent_report *r,
			  bool new_instance)
{
	uint64_t before = a->orphans;

	if (new_instance)
		before = r->sequence == 1 ? 0 : r->orphans;
	if (r->orphans > before) {
		a->orphans_total += r->orphans - before;
		c->stats.orphans_total += r->orphans - before;
	}
	a->orphans = r->orphans;
}

static void report_apply(struct reporting *r, const struct agent_report *report)
{
	struct agent *a = r->agent;

	count_orphans(r->c, a, report, strcmp(a->instance, report->instance) != 0);
	memcpy(a->instance, report->instance, sizeof(a->instance));
	a->sequence = report->sequence;
	a->load = report->load;
	if (report->full && report->first)
		full_begin(r);
	for (unsigned i = 0; i < report->n; i++)
		entry_apply(r, &report->entries[i]);
	if (report->full && report->last)
		full_end(r);
	a->reports_total++;
	a->refused_total += r->n_refused;
	r->c->stats.agents_reports_total++;
	r->c->stats.agents_refused_total += r->n_refused;
}

struct report_call {
	const char *id;
	const struct agent_report *report;
	struct agent_answer *out;
};

static void run_report(struct control *c, void *arg)
{
	const struct report_call *call = arg;
	const struct agent_report *report = call->report;
	struct agent_answer *out = call->out;
	uint64_t now = clock_now_ms();
	bool dated = report->clock_ms && report->clock_ms <= now;
	const struct dip_version *d;
	struct reporting r = {.c = c,
			      .now_ms = (uint32_t)now,
			      .base_ms = (uint32_t)(dated ? report->clock_ms : now)};

	*out = (struct agent_answer){.clock_ms = now};
	memcpy(out->instance, c->agents.instance, sizeof(out->instance));
	r.agent = agents_find(c, call->id, &r.v, &d);
	if (!r.agent)
		return;
	out->found = true;
	out->match = r.v->now->conf.match;
	r.dip = d->index;
	bool next = report_is_next(r.agent, report);
	if (next)
		report_apply(&r, report);
	r.agent->last_ms = now;
	out->n_refused = r.n_refused;
	bool known = strcmp(r.agent->instance, report->instance) == 0;
	out->ack = known ? r.agent->sequence : 0;
	out->resync = !known || !(r.agent->synced || r.agent->full_open) ||
		      (!next && report->sequence > r.agent->sequence) ||
		      (r.agent->again_ms && now >= r.agent->again_ms);
}

void control_agent_report(struct control *c, const char *id, const struct agent_report *r,
			  struct agent_answer *out)
{
	struct report_call call = {.id = id, .report = r, .out = out};

	pthread_mutex_lock(&c->agents.reporting);
	control_call(c, run_report, &call);
	pthread_mutex_unlock(&c->agents.reporting);
}

/* --- the sweep -----------------------------------------------------------------------------------
 */

static bool sweep_ends(const struct reporting *r, const struct flow_ref *ref)
{
	const struct flow_slot *s = &r->c->flows.slots[ref->slot];
	uint32_t since = r->agent->silent_since_ms;

	if (ref->dip != r->dip || s->key.proto != IPPROTO_TCP ||
	    r->c->flows.side[ref->slot].agent_epoch == r->agent->epoch)
		return false;
	struct flow_meta m = flow_meta_get(s);
	uint32_t opened_ms = atomic_load_explicit(&s->opened_ms, memory_order_relaxed);
	if (m.phase != FLOW_ESTABLISHED)
		return false;
	uint32_t last_ms = (int32_t)(opened_ms - m.seen_ms) > 0 ? opened_ms : m.seen_ms;
	bool silent = (int32_t)(since - last_ms) > 0;
	r->agent->undecided |= !silent && (int32_t)(r->agent->listed_ms - last_ms) > 0;
	return silent;
}

/* When another list judges all that this one could not. Dates are early by up to a round trip. */
static uint32_t again_in_ms(const struct agent *a, uint32_t now_ms)
{
	uint32_t since_ms = now_ms - a->listed_ms;

	return since_ms < AGAIN_MS ? AGAIN_MS - since_ms : 0;
}

/* From the end down: a removal moves the last reference into its hole, so none is passed by. */
static uint32_t sweep(struct control *c, struct agent *a, uint32_t budget)
{
	struct reporting r = {.c = c, .agent = a, .now_ms = (uint32_t)clock_now_ms()};
	const struct dip_version *d;

	if (!agents_find(c, a->conf.id, &r.v, &d))
		return 0;
	r.dip = d->index;
	if (a->sweep_left > r.v->flows.n)
		a->sweep_left = r.v->flows.n;
	uint32_t n = 0;
	for (; a->sweep_left && n < budget; n++) {
		const struct flow_ref *ref = flow_set_ref(&r.v->flows, --a->sweep_left);
		if (sweep_ends(&r, ref))
			end_flow(&r, ref->slot, a->silent_since_ms);
	}
	if (a->sweep_left == 0 && a->undecided && !a->repeated)
		a->again_ms = clock_now_ms() + again_in_ms(a, r.now_ms);
	return n;
}

void control_agents_sweep(struct control *c)
{
	uint32_t budget = SWEEP_STEP;

	for (unsigned i = 0; i < c->agents.n && budget; i++)
		if (c->agents.list[i].sweep_left)
			budget -= sweep(c, &c->agents.list[i], budget);
}
