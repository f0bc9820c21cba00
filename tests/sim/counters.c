/* The counters of GET /v1/consistency, and what VIPs and DIPs are shown to have got, against the
 * oracle's own counts: at every read that control answers between two steps of its work, also in
 * the middle of a plan. What has to be known is counted the simple way, slot by slot and packet by
 * packet.
 */
#include <stdlib.h>

#include "io/port_mem.h"
#include "tests/sim/backends.h"

#define SLOTS (2 * SIM_VIPS) /* of VIPs: they take the lowest free one */

static void check(struct sim *s, const char *what, uint64_t counted, uint64_t is)
{
	if (counted != is)
		sim_wrong(s, "%s: %lu are counted, there are %lu", what, (unsigned long)counted,
			  (unsigned long)is);
}

/* --- flows --------------------------------------------------------------------------------- */

static const struct vip_runtime *vip_of(const struct control *c, const struct flow_slot *slot)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (c->vips[i] && c->vips[i]->uid == slot->vip_uid)
			return c->vips[i];
	return NULL;
}

static void count_slot(const struct control *c, const struct flow_slot *slot,
		       struct consistency *is, uint64_t *by_dip)
{
	struct flow_meta m = flow_meta_get(slot);

	if (m.phase == FLOW_FREE)
		return;
	const struct vip_runtime *v = vip_of(c, slot);
	if (!v)
		return; /* of a VIP that has gone: they are freed some at a time */
	is->flows_known++;
	is->flows_half_open += m.phase == FLOW_HALF_OPEN;
	is->flows_closing += m.phase == FLOW_CLOSING;
	if (m.phase == FLOW_ESTABLISHED) {
		is->flows_unproven += (m.flags & FLOW_UNPROVEN) != 0;
		is->flows_established += !(m.flags & FLOW_UNPROVEN);
	}
	by_dip[v->slot * SIM_INDEXES + m.dip % SIM_INDEXES]++;
}

static uint64_t count_pinned(const struct control *c)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		for (uint32_t k = 0; c->vips[i] && k < c->vips[i]->flows.n; k++)
			n += flow_set_ref(&c->vips[i]->flows, k)->flags & REF_PINNED;
	return n;
}

static void check_flows(struct sim *s, const struct control *c, const struct consistency *k)
{
	static uint64_t by_dip[SLOTS * SIM_INDEXES];
	struct consistency is = {.flows_known = 0};

	memset(by_dip, 0, sizeof(by_dip));
	for (uint32_t i = 0; i < c->flows.capacity; i++)
		count_slot(c, &c->flows.slots[i], &is, by_dip);
	check(s, "flows_known", k->flows_known, is.flows_known);
	check(s, "flows_half_open", k->flows_half_open, is.flows_half_open);
	check(s, "flows_closing", k->flows_closing, is.flows_closing);
	check(s, "flows_unproven", k->flows_unproven, is.flows_unproven);
	check(s, "flows_established", k->flows_established, is.flows_established);
	check(s, "flows_pinned", k->flows_pinned, count_pinned(c));
	for (unsigned i = 0; i < SLOTS; i++)
		for (uint32_t d = 0; c->vips[i] && d < c->vips[i]->flows.n_dips; d++)
			if (d < SIM_INDEXES)
				check(s, "flows of a DIP", c->vips[i]->flows.dip_flows[d],
				      by_dip[i * SIM_INDEXES + d]);
}

/* --- totals -------------------------------------------------------------------------------- */

/* They never go back while the process lives. */
static void check_monotonic(struct sim *s, const struct consistency *k)
{
#define CHECK_MONOTONIC(name, text)                                                                \
	if (strstr(#name, "_total") && k->name < s->seen.name)                                     \
		sim_wrong(s, #name " went from %lu to %lu", (unsigned long)s->seen.name,           \
			  (unsigned long)k->name);
	CONSISTENCY_FIELDS(CHECK_MONOTONIC)
#undef CHECK_MONOTONIC
	s->seen = *k;
}

static void check_totals(struct sim *s, const struct control *c, const struct consistency *k)
{
	uint64_t unlearned = 0, published = atomic_load(&s->box->workers[0]->snapshot)->generation;

	for (unsigned w = 0; w < s->box->n_workers; w++)
		unlearned += counter_read(&s->box->workers[w]->counters->unlearned);
	/* The last process's, until this one has published. */
	check(s, "generation", k->generation, published ? published : s->box->generation_at_start);
	check(s, "flows_exact", k->flows_exact, c->snapshot->n_exact);
	check(s, "flows_forgotten_total", k->flows_forgotten_total, s->n_forgotten);
	check(s, "flows_unlearned_total", k->flows_unlearned_total, unlearned);
	check(s, "publishes_total", k->publishes_total,
	      k->generation - s->box->generation_at_start);
	check(s, "publish_pause_us", k->publish_pause_us.count, k->publishes_total);
	check(s, "audits_total", k->audits_total, s->n_audits + s->audit.done);
	check(s, "violations_total", k->violations_total, 0);
	check(s, "agents_reports_total", k->agents_reports_total, s->backends->n_reports);
	check(s, "orphans_total", k->orphans_total, s->backends->n_orphans);
	/* Besides what was not the agent's to tell: claims that a packet overruled. */
	uint64_t n_refused = s->backends->n_refused;
	if (k->agents_refused_total < n_refused ||
	    k->agents_refused_total > n_refused + s->backends->n_claims)
		sim_wrong(s, "agents_refused_total is %lu, of %lu refused and %lu claims",
			  (unsigned long)k->agents_refused_total, (unsigned long)n_refused,
			  (unsigned long)s->backends->n_claims);
	if (k->flows_rehomed_total > k->flows_lost_total || k->last_pause_us > k->max_pause_us)
		sim_wrong(s, "a part is counted as more than the whole");
	check_monotonic(s, k);
}

/* --- traffic ------------------------------------------------------------------------------- */

/* All that went in is accounted for: no burst is under way. */
static bool quiet(const struct sim *s)
{
	for (unsigned w = 0; w < s->box->n_workers; w++) {
		const struct worker_counters *c = s->box->workers[w]->counters;
		if (port_mem_n_held(s->box->ports[w]) != 0 || s->lanes[w].n_undecided != 0 ||
		    s->lanes[w].n_received != counter_read(&c->rx[0].packets))
			return false;
	}
	return true;
}

static void check_traffic(struct sim *s, struct control *c)
{
	size_t n;
	struct vip_info *list = control_read_vips(c, NULL, true, &n);

	for (size_t i = 0; i < n; i++) {
		const struct vip_info *v = &list[i];
		const struct vip_runtime *rt = control_find_vip(c, v->conf.id);
		const struct sim_traffic *of_vip = &s->vip_traffic[rt->uid % SIM_UIDS];
		bool drains = v->deleting; /* then the read itself drains rings in between */
		uint64_t flows = 0;
		check(s, "packets of a VIP", v->packets, of_vip->packets);
		check(s, "bytes of a VIP", v->bytes, of_vip->bytes);
		for (unsigned d = 0; d < v->n_dips; d++) {
			const uint8_t *a = v->dips[d].conf.address.b;
			const struct sim_traffic *t = &s->traffic[a[14] << 8 | a[15]];
			check(s, "packets of a DIP", v->dips[d].packets, t->packets);
			check(s, "bytes of a DIP", v->dips[d].bytes, t->bytes);
			flows += v->dips[d].flows;
			drains |= v->dips[d].deleting;
		}
		if (flows > v->flows && !drains)
			sim_wrong(s, "VIP %s has %lu flows, its DIPs %lu", v->conf.id,
				  (unsigned long)v->flows, (unsigned long)flows);
	}
	vip_infos_free(list, n);
}

/* --- the call ------------------------------------------------------------------------------ */

static void run_checks(struct control *c, void *arg)
{
	struct sim *s = arg;
	struct consistency k;

	routine_hold(true); /* one-threaded, control has its mutex during reads */
	control_read_consistency(c, &k);
	check_totals(s, c, &k);
	check_flows(s, c, &k);
	if (quiet(s))
		check_traffic(s, c);
	routine_hold(false);
	s->n_counter_checks++;
}

void counters_ask(struct sim *s)
{
	if (s->box->control && (!s->counters_call.fn || s->counters_call.done)) {
		s->counters_call = (struct queued_call){.fn = run_checks, .arg = s};
		box_call(s->box, &s->counters_call);
	}
	if (s->audit.done) {
		s->n_audits++;
		if (s->audit.flows_misplaced)
			sim_wrong(s, "the audit finds %lu flows misplaced",
				  (unsigned long)s->audit.flows_misplaced);
		s->audit.done = s->auditing = false;
	}
}

void counters_audit(struct sim *s)
{
	if (!s->box->control || s->auditing)
		return;
	sim_event(s, "an audit is asked for", 0, 0, 0, 0);
	s->audit = (struct audit){.done = false};
	s->auditing = true;
	control_audit_async(s->box->control, &s->audit);
}

void counters_killed(struct sim *s)
{
	s->counters_call.fn = NULL;
	s->audit.done = s->auditing = false;
	s->n_audits = s->n_forgotten = 0;
	s->seen = (struct consistency){.generation = 0};
	memset(s->traffic, 0, sizeof(s->traffic));
	memset(s->vip_traffic, 0, sizeof(s->vip_traffic));
}
