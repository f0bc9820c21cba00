#include "control/announce.h"

#include <inttypes.h>

static const char *dip_name(const struct vip_runtime *v, uint16_t index)
{
	for (unsigned i = 0; v && i < v->now->n_dips; i++)
		if (v->now->dips[i].index == index)
			return v->now->dips[i].conf.id;
	return "?";
}

void announce_start(struct control *c)
{
	events_emit(c->events,
		    &(struct event_note){.kind = EVENT_start,
					 .generation = c->generation,
					 .values = {{"vips", c->n_vips}, {"flows", c->flows.n}}},
		    "started, with %" PRIu32 " known flows of %u VIP%s", c->flows.n, c->n_vips,
		    c->n_vips == 1 ? "" : "s");
}

void control_announce_end(struct control *c)
{
	events_emit(c->events, &(struct event_note){.kind = EVENT_end}, "concuryd is ending");
	events_close(c->events);
}

void announce_change(struct control *c, const struct control_request *r)
{
	static const char *const verbs[] = {
		[OP_VIP_PUT] = "was put",	 [OP_VIP_PATCH] = "was patched",
		[OP_VIP_DELETE] = "was deleted", [OP_DIP_PUT] = "was put",
		[OP_DIP_PATCH] = "was patched",	 [OP_DIP_DELETE] = "was deleted",
	};
	bool drains = r->status == CONTROL_ACCEPTED;
	const struct control_transaction *t = r->transaction;

	if (t && t->several) {
		events_emit(
			c->events,
			&(struct event_note){.kind = EVENT_change,
					     .generation = r->change.generation,
					     .values = {{"edits", t->n_edits},
							{"flows_pinned", r->change.flows_pinned},
							{"flows_moved", r->change.flows_moved},
							{"dcodes_moved", r->change.dcodes_moved}}},
			"%u edits were made in one", t->n_edits);
		return;
	}
	events_emit(c->events,
		    &(struct event_note){.kind = EVENT_change,
					 .vip = r->vip,
					 .dip = r->dip,
					 .generation = r->change.generation,
					 .values = {{"flows_pinned", r->change.flows_pinned},
						    {"flows_moved", r->change.flows_moved},
						    {"dcodes_moved", r->change.dcodes_moved},
						    {"flows_remaining", r->flows_remaining}}},
		    "%s %s %s%s", r->dip[0] ? "DIP" : "VIP", r->dip[0] ? r->dip : r->vip,
		    verbs[r->op], drains ? " and drains" : "");
}

void announce_publish(struct control *c, const struct batch *b)
{
	uint64_t dcodes = 0, moved = 0;
	unsigned n_late = 0;

	for (unsigned i = 0; i < b->n; i++) {
		dcodes += b->vips[i].dcodes_moved;
		moved += b->vips[i].n_moved;
		n_late += b->vips[i].n_late;
	}
	const char *vip = b->n == 1 && !b->vips[0].remove ? b->vips[0].rt->now->conf.id : NULL;
	events_emit(c->events,
		    &(struct event_note){.kind = EVENT_publish,
					 .vip = vip,
					 .generation = c->generation,
					 .values = {{"vips", b->n},
						    {"dcodes_moved", dcodes},
						    {"flows_moved", moved},
						    {"flows_exact", n_late},
						    {"build_us", c->stats.last_build_us},
						    {"pause_us", c->stats.last_pause_us}}},
		    "generation %" PRIu64 " of %u VIP%s: the workers stood still for %" PRIu64
		    " us",
		    c->generation, b->n, b->n == 1 ? "" : "s", c->stats.last_pause_us);
}

void announce_gone(struct control *c, const char *vip, const char *dip, uint64_t n_flows)
{
	events_emit(c->events,
		    &(struct event_note){.kind = EVENT_drain_done,
					 .vip = vip,
					 .dip = dip,
					 .generation = c->generation,
					 .values = {{"flows_lost", n_flows}}},
		    n_flows ? "%s %s is gone, with %" PRIu64 " flows" : "%s %s is gone",
		    dip ? "DIP" : "VIP", dip ? dip : vip, n_flows);
}

void announce_violations(struct control *c)
{
	const struct violation *last = &c->violation;
	const struct vip_runtime *v = c->vips[last->vip_slot];
	uint64_t n = c->stats.violations_total - last->n_told;

	if (n == 0)
		return;
	events_emit(
		c->events,
		&(struct event_note){.kind = EVENT_violation,
				     .vip = v ? v->now->conf.id : NULL,
				     .dip = dip_name(v, last->lives),
				     .generation = last->generation,
				     .count = n,
				     .values = {{"violations_total", c->stats.violations_total}}},
		"a flow of DIP %s was found on %s", dip_name(v, last->lives),
		dip_name(v, last->goes));
	c->violation.n_told = c->stats.violations_total;
}

void announce_hop(struct control *c, const struct vip_runtime *v, const struct dip_version *d,
		  bool resolved)
{
	char address[IP_ADDR_STRLEN];

	events_emit(c->events,
		    &(struct event_note){.kind = resolved ? EVENT_resolved : EVENT_unresolved,
					 .vip = v->now->conf.id,
					 .dip = d->conf.id,
					 .generation = c->generation},
		    resolved ? "the way to %s is known" : "the way to %s is not known any more",
		    ip_addr_format(&d->conf.address, address));
}

void announce_audit(struct control *c, const struct audit *found)
{
	events_emit(
		c->events,
		&(struct event_note){.kind = EVENT_audit,
				     .generation = found->generation,
				     .values = {{"flows_checked", found->flows_checked},
						{"flows_misplaced", found->flows_misplaced},
						{"flows_of_down_dips", found->flows_of_down_dips},
						{"duration_us", found->duration_us}}},
		"of %" PRIu64 " flows, %" PRIu64 " are misplaced", found->flows_checked,
		found->flows_misplaced);
}

void announce_overload(struct control *c)
{
	uint64_t unlearned = 0;

	for (unsigned i = 0; i < c->conf.n_workers; i++)
		unlearned += counter_read(&c->conf.workers[i]->counters->unlearned);
	uint64_t forgotten = c->flows.n_forgotten;
	uint64_t n = unlearned - c->n_unlearned_told + forgotten - c->n_forgotten_told;
	if (n == 0)
		return;
	events_emit(c->events,
		    &(struct event_note){.kind = EVENT_overload,
					 .generation = c->generation,
					 .count = n,
					 .values = {{"flows_unlearned_total", unlearned},
						    {"flows_forgotten_total", forgotten},
						    {"flows", c->flows.n},
						    {"flows_capacity", c->flows.capacity}}},
		    "%" PRIu64 " packets of new flows could not be recorded, %" PRIu64
		    " flows were forgotten",
		    unlearned - c->n_unlearned_told, forgotten - c->n_forgotten_told);
	c->n_unlearned_told = unlearned;
	c->n_forgotten_told = forgotten;
}
