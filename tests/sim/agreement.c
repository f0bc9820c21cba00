/* Whatever an outage, lies or a stepped clock have left, an interval after it is over no TCP
 * connection is held for established that its DIP's backend does not have. */
#include <netinet/in.h>
#include <stdlib.h>

#include "tests/sim/backends.h"

#define SILENCE_MS                                                                                 \
	6000 /* whatever was under way has arrived, and no flow spoke in a report's margin */
#define STEP_MS 25
#define TRANSFER_MS 4000 /* a greeting, and a report's many parts, each a round trip */

static struct flow_meta known_as(const struct control *c, const struct vip_runtime *v,
				 const struct sim_tuple *t)
{
	struct flow_key key;

	flow_key_of(v->now->view, &t->src, htons(t->sport), htons(t->dport), t->proto, &key);
	uint32_t slot = flow_table_find(&c->flows, &v->flows, &key, flow_key_hash(&key, v->seed));
	return slot == FLOW_NONE ? (struct flow_meta){.phase = FLOW_FREE}
				 : flow_meta_get(&c->flows.slots[slot]);
}

static bool is_of(const struct vip_match *m, const struct sim_tuple *t)
{
	return t->proto == IPPROTO_TCP && m->protocol != VIP_UDP &&
	       ip_addr_is_v4(&t->src) == ip_addr_is_v4(&m->address) &&
	       (m->port == 0 || m->port == t->dport);
}

static void check_agent(struct sim *s, const struct backend *k)
{
	struct control *c = s->box->control;
	const struct dip_version *d;
	struct vip_runtime *v;

	if (!k->bound || !agents_find(c, k->id, &v, &d) || v->now->conf.affinity != AFFINITY_FLOW)
		return;
	s->n_agreements++;
	for (unsigned i = 0; i < s->n_tuples; i++) {
		const struct sim_tuple *t = &s->tuples[i];
		if (!is_of(&v->now->conf.match, t))
			continue;
		struct flow_meta m = known_as(c, v, t);
		if (!k->conns[i].open && m.phase == FLOW_ESTABLISHED && m.dip == d->index)
			sim_wrong(s, "tuple %u is not open on DIP %u, and %s does not end it", i,
				  k->dip, k->id);
	}
}

static unsigned longest_interval_ms(const struct backends *b)
{
	unsigned ms = 0;

	for (unsigned i = 0; i < BACKENDS; i++)
		if (b->list[i].bound && b->list[i].talk.interval_ms > ms)
			ms = b->list[i].talk.interval_ms;
	return ms;
}

/* Control hears one report at a time: all have their turns before the clock moves on. */
static void pass(struct sim *s, unsigned ms)
{
	for (unsigned passed = 0; passed < ms; passed += STEP_MS) {
		box_advance_ms(STEP_MS);
		for (unsigned i = 0; i < 2 * BACKENDS && !s->fault[0]; i++) {
			backends_turn(s->backends);
			sim_run_all(s);
		}
	}
}

void agreement_reach(struct sim *s)
{
	struct backends *b = s->backends;

	b->quiet = true;
	pass(s, SILENCE_MS);
	backends_restart_agents(b);
	pass(s, longest_interval_ms(b) + TRANSFER_MS);
	for (unsigned i = 0; i < BACKENDS && !s->fault[0]; i++)
		check_agent(s, &b->list[i]);
}
