/* Whatever an outage, lies or a stepped clock have left, an interval after it is over backends and
 * control agree: no TCP connection is held for established that its DIP's backend does not have,
 * and each one that the backend has is known, and sent to it. */
#include <netinet/in.h>
#include <stdlib.h>

#include "tests/sim/backends.h"

#define SILENCE_MS                                                                                 \
	6000 /* whatever was under way has arrived, and no flow spoke in a report's margin */
#define STEP_MS 25
#define PUBLISH_MS 2000	 /* a VIP is planned anew for claims once in a second */
#define TRANSFER_MS 4000 /* a greeting, and a report's many parts, each a round trip */

/* What control knew of each agent's connections when the network was whole again. */
struct knowledge {
	unsigned n_forgotten;
	struct flow_meta known[BACKENDS][SIM_TUPLES];
};

static struct flow_meta known_as(const struct control *c, const struct vip_runtime *v,
				 const struct sim_tuple *t)
{
	struct flow_key key;

	traffic_key(v->now->view, t, &key);
	uint32_t slot = flow_table_find(&c->flows, &v->flows, &key, flow_key_hash(&key, v->seed));
	return slot == FLOW_NONE ? (struct flow_meta){.phase = FLOW_FREE}
				 : flow_meta_get(&c->flows.slots[slot]);
}

static bool is_of(const struct vip_match *m, const struct sim_tuple *t)
{
	return t->proto == IPPROTO_TCP && vip_match_takes(m, &t->dst, t->dport, t->proto);
}

/* The VIP and DIP that an agent speaks of, if control heeds it. */
static bool find(const struct sim *s, const struct backend *k, struct vip_runtime **v,
		 const struct dip_version **d)
{
	return k->bound && agents_find(s->box->control, k->id, v, d) &&
	       (*v)->now->conf.affinity == AFFINITY_FLOW;
}

static void remember(struct sim *s, struct knowledge *before)
{
	const struct dip_version *d;
	struct vip_runtime *v;

	before->n_forgotten = s->n_forgotten;
	for (unsigned a = 0; a < BACKENDS; a++) {
		if (!find(s, &s->backends->list[a], &v, &d))
			continue;
		for (unsigned i = 0; i < s->n_tuples; i++)
			before->known[a][i] = known_as(s->box->control, v, &s->tuples[i]);
	}
}

/* A client's old connection may be open yet at a backend that it has left: the first to tell of its
 * flow is heeded, and may be gone before the other tells again. */
static bool is_elsewhere(const struct sim *s, const struct backend *k, unsigned tuple)
{
	for (unsigned i = 0; i < BACKENDS; i++)
		if (&s->backends->list[i] != k && s->backends->list[i].conns[tuple].open)
			return true;
	return false;
}

/* A flow that was known has its time-out, which the word of an agent does not put off. */
static bool may_have_ended(const struct vip_conf *conf, struct flow_meta was)
{
	uint32_t s = was.phase == FLOW_HALF_OPEN ? conf->idle_half_open_s
		     : was.phase == FLOW_CLOSING ? conf->closing_pin_s
						 : conf->idle_established_s;

	return was.phase != FLOW_FREE && (uint32_t)box_now_ms() - was.seen_ms >= s * 1000;
}

/* An open connection of the agent's backend. */
static void check_open(struct sim *s, const struct backend *k, unsigned tuple, struct flow_meta is,
		       struct flow_meta was)
{
	struct control *c = s->box->control;
	const struct dip_version *d;
	struct vip_runtime *v;
	enum lookup_reason reason;
	struct flow_key key;
	uint32_t dcode;

	if (!find(s, k, &v, &d))
		return;
	bool own = was.phase == FLOW_FREE || was.dip == d->index;
	s->n_open_agreed += is.phase != FLOW_FREE;
	if (own && is.phase == FLOW_FREE && !may_have_ended(&v->now->conf, was))
		sim_wrong(s, "tuple %u is open on DIP %u, and %s does not make it known", tuple,
			  k->dip, k->id);
	if (is.phase == FLOW_FREE || is.dip != d->index || !v->now->view->dips[d->index].usable)
		return;
	const struct sim_tuple *t = &s->tuples[tuple];
	traffic_key(v->now->view, t, &key);
	if (snapshot_lookup_one(c->snapshot, v->now->view, &key, &reason, &dcode) != d->index)
		sim_wrong(s, "tuple %u is open on DIP %u, and would be sent elsewhere", tuple,
			  k->dip);
}

static void check_agent(struct sim *s, unsigned agent, const struct knowledge *before)
{
	const struct backend *k = &s->backends->list[agent];
	bool room = s->n_forgotten == before->n_forgotten;
	const struct dip_version *d;
	struct vip_runtime *v;

	if (!find(s, k, &v, &d))
		return;
	s->n_agreements++;
	for (unsigned i = 0; i < s->n_tuples; i++) {
		if (!is_of(&v->now->conf.match, &s->tuples[i]))
			continue;
		struct flow_meta m = known_as(s->box->control, v, &s->tuples[i]);
		if (k->conns[i].open && room && !is_elsewhere(s, k, i))
			check_open(s, k, i, m, before->known[agent][i]);
		if (!k->conns[i].open && m.phase == FLOW_ESTABLISHED && m.dip == d->index)
			sim_wrong(s, "tuple %u is not open on DIP %u, and %s does not end it", i,
				  k->dip, k->id);
	}
}

/* Connections that this forwarder has never seen, as after a failure of another one. */
static void add_strangers(struct sim *s)
{
	const struct dip_version *d;
	struct vip_runtime *v;

	for (unsigned a = 0; a < BACKENDS; a++) {
		struct backend *k = &s->backends->list[a];
		if (!find(s, k, &v, &d))
			continue;
		for (unsigned i = 0; i < s->n_tuples; i++)
			if (!k->conns[i].open && !is_elsewhere(s, k, i) && sim_chance(s, 4) &&
			    is_of(&v->now->conf.match, &s->tuples[i]) &&
			    known_as(s->box->control, v, &s->tuples[i]).phase == FLOW_FREE)
				k->conns[i] = (struct backend_conn){
					.open = true, .cookie = s->backends->next_cookie++};
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

static bool claims_wait(const struct sim *s)
{
	const struct control *c = s->box->control;

	for (unsigned i = 0; i < ARRAY_LEN(c->vips); i++)
		if (c->vips[i] && c->vips[i]->claims)
			return true;
	return false;
}

/* A flow that was another DIP's can be claimed as soon as it has ended there, at the very last: it
 * is placed by the next publish. */
static void pass_to_next_publish(struct sim *s)
{
	for (unsigned ms = 0; ms < PUBLISH_MS && claims_wait(s) && !s->fault[0]; ms += 250)
		pass(s, 250);
}

void agreement_reach(struct sim *s)
{
	struct backends *b = s->backends;
	static struct knowledge before;

	b->quiet = true;
	s->box->fail_commits = 0;
	pass(s, SILENCE_MS);
	add_strangers(s);
	remember(s, &before);
	backends_restart_agents(b);
	pass(s, longest_interval_ms(b) + TRANSFER_MS);
	pass_to_next_publish(s);
	for (unsigned i = 0; i < BACKENDS && !s->fault[0]; i++)
		check_agent(s, i, &before);
}
