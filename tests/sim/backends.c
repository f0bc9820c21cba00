/* Which connections the backends have, and the lives of their agents. A backend opens a connection
 * with the SYN that reaches it and may end it by itself, without a packet that the forwarder sees;
 * its agent hears of the end at once, or not at all before it looks at all sockets again. */
#include "tests/sim/backends.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct agent_key key_of(const struct sim *s, unsigned tuple)
{
	const struct sim_tuple *t = &s->tuples[tuple];

	return (struct agent_key){.src = t->src,
				  .dst = t->dst,
				  .sport = t->sport,
				  .dport = t->dport,
				  .proto = t->proto};
}

static uint64_t now_ms(const struct backend *k)
{
	return box_now_ms() + (uint64_t)k->ahead_ms;
}

/* --- connections --------------------------------------------------------------------------- */

static void conn_open(struct backends *b, struct backend *k, unsigned tuple)
{
	k->conns[tuple].open = true;
	k->conns[tuple].cookie = b->next_cookie++;
}

static void conn_end(struct backends *b, struct backend *k, unsigned tuple)
{
	struct agent_key key = key_of(b->s, tuple);
	struct backend_conn *c = &k->conns[tuple];

	c->open = false;
	c->end_ms = box_now_ms();
	sim_event(b->s, "the backend %ld ends tuple %ld", k->dip, tuple, 0, 0);
	if (sim_chance(b->s, 4))
		return; /* nobody tells the agent */
	box_shift_clock(k->ahead_ms);
	bool kept = agent_table_ended(k->talk.table, &key, c->cookie, now_ms(k) - 1);
	box_shift_clock(0);
	assert(kept);
}

static void conn_packet(struct backends *b, struct backend *k, unsigned tuple, enum segment segment)
{
	bool open = k->conns[tuple].open;

	switch (segment) {
	case SEGMENT_SYN:
		if (!open)
			conn_open(b, k, tuple);
		break;
	case SEGMENT_RST:
		if (open)
			conn_end(b, k, tuple);
		break;
	case SEGMENT_FIN:
		if (open && sim_chance(b->s, 2))
			conn_end(b, k, tuple); /* else it stays half closed for a while */
		break;
	case SEGMENT_UDP:
	case SEGMENT_INITIAL:
		if (!open && sim_chance(b->s, 4))
			conn_open(b, k, tuple); /* a connected socket */
		break;
	default:
		k->talk.state.orphans += !open;
	}
}

void backends_packet(struct backends *b, uint16_t dip, unsigned tuple, enum segment segment)
{
	for (unsigned i = 0; i < BACKENDS; i++)
		if (b->list[i].bound && b->list[i].dip == dip)
			conn_packet(b, &b->list[i], tuple, segment);
}

static void end_some(struct backends *b, struct backend *k)
{
	unsigned tuple = prng_below(&b->s->random, b->s->n_tuples);

	for (unsigned i = 0; i < b->s->n_tuples; i++, tuple = (tuple + 1) % b->s->n_tuples) {
		if (!k->conns[tuple].open)
			continue;
		conn_end(b, k, tuple);
		return;
	}
}

/* --- agents -------------------------------------------------------------------------------- */

struct dump {
	struct backends *b;
	struct backend *k;
};

static bool conn_gone(void *ctx, const struct agent_key *key, uint64_t cookie)
{
	const struct backend *k = ctx;
	const struct backend_conn *c = &k->conns[key->sport - SIM_PORT];

	return !c->open || c->cookie != cookie;
}

static struct backends *looking;

static void look(void *ctx)
{
	struct backend *k = ctx;
	struct agent_table *t = k->talk.table;

	agent_table_dump_begin(t);
	for (unsigned i = 0; i < looking->s->n_tuples; i++) {
		struct agent_key key = key_of(looking->s, i);
		if (k->conns[i].open && k->talk.n_vips &&
		    !agent_table_seen(t, &key, k->conns[i].cookie, now_ms(k)))
			abort();
	}
	agent_table_dump_end(t, conn_gone, k);
}

/* It begins, again perhaps; its backend's connections are what they were. */
static void agent_start(struct backends *b, struct backend *k)
{
	const struct agent_options options = {
		.url = "the simulation",
		.interval_ms = sim_chance(b->s, 3) ? 1000 : 1 + prng_below(&b->s->random, 40)};

	agent_talk_destroy(&k->talk);
	if (agent_talk_init(&k->talk, &options, look, k))
		abort();
	k->life++;
	k->posted = false;
	k->liar = !b->quiet && sim_chance(b->s, 3);
	k->ahead_ms = prng_below(&b->s->random, 2) ? 0 : prng_below(&b->s->random, 100000);
	k->tick_ms = 0;
}

/* The loop of an agent comes round. */
static void agent_turn(struct backends *b, struct backend *k)
{
	struct agent_reply none = {.status = 0};

	looking = b;
	box_shift_clock(k->ahead_ms);
	uint64_t now = now_ms(k);
	if (now >= k->tick_ms) {
		look(k);
		k->tick_ms = now + k->talk.interval_ms;
	}
	if (k->posted && now >= k->give_up_ms) {
		k->posted = false;
		agent_talk_reply(&k->talk, &none, k->tick_ms);
	}
	if (!k->posted && now >= k->talk.send_ms)
		reports_send(b, k);
	box_shift_clock(0);
}

static void agent_step_clock(struct backends *b, struct backend *k)
{
	k->ahead_ms += (int64_t)prng_below(&b->s->random, 60000) - 30000;
	k->liar = true; /* its dates are wrong from now on */
}

/* --- which DIP has one --------------------------------------------------------------------- */

static void bind_agent(struct control *c, void *arg)
{
	static const uint8_t token[32];
	struct backends *b = arg;
	struct backend *k = b->binding;
	char dip[ID_LEN];
	struct error err = {{0}};
	bool created;

	snprintf(dip, sizeof(dip), "d%u", k->dip);
	enum control_status st =
		control_agent_put(c, k->id, b->s->vips[k->vip].id, dip, token, &created, &err);
	k->bound = st == CONTROL_OK;
	sim_event(b->s, "DIP %ld gets an agent: %ld", k->dip, st, 0, 0);
	if (st == CONTROL_OK && !created)
		sim_wrong(b->s, "the agent %s was there already", k->id);
	if (st == CONTROL_FAILED && !strstr(err.message, "told to fail"))
		sim_wrong(b->s, "the agent %s is not taken: %s", k->id, err.message);
}

static struct sim_dip *some_dip(struct backends *b, unsigned *vip)
{
	*vip = prng_below(&b->s->random, SIM_VIPS);
	struct sim_vip *v = &b->s->vips[*vip];
	struct sim_dip *d = &v->dips[prng_below(&b->s->random, SIM_DIPS)];
	bool there = v->exists && !v->busy && !v->deleting && d->number && !d->busy &&
		     (b->s->traffic[d->number].packets || sim_chance(b->s, 20));

	for (unsigned i = 0; i < BACKENDS; i++)
		there &= !b->list[i].bound || b->list[i].dip != d->number;
	return there ? d : NULL;
}

static void ask_binding(struct backends *b, struct backend *k)
{
	unsigned vip;
	const struct sim_dip *d = some_dip(b, &vip);

	if (!d || b->calling || !b->s->box->control)
		return;
	uint64_t life = k->life, binding = k->binding + 1;
	agent_talk_destroy(&k->talk);
	*k = (struct backend){.vip = vip, .dip = d->number, .life = life, .binding = binding};
	snprintf(k->id, sizeof(k->id), "agent-%lu", (unsigned long)b->next_id++);
	agent_start(b, k);
	b->binding = k;
	b->calling = true;
	b->call = (struct queued_call){.fn = bind_agent, .arg = b};
	box_call(b->s->box, &b->call);
}

/* --- all together -------------------------------------------------------------------------- */

void backends_turn(struct backends *b)
{
	if (b->calling && b->call.done)
		b->calling = false;
	reports_arrive(b);
	for (unsigned i = 0; i < BACKENDS; i++)
		if (b->list[i].bound)
			agent_turn(b, &b->list[i]);
	reports_arrive(b);
}

void backends_restart_agents(struct backends *b)
{
	for (unsigned i = 0; i < BACKENDS; i++)
		if (b->list[i].bound)
			agent_start(b, &b->list[i]);
}

void backends_step(struct backends *b)
{
	struct backend *k = &b->list[prng_below(&b->s->random, BACKENDS)];
	unsigned dice = prng_below(&b->s->random, 1000);

	if (b->calling && b->call.done)
		b->calling = false;
	reports_arrive(b);
	if (!k->bound || dice < 2)
		ask_binding(b, k);
	else if (dice < 200)
		end_some(b, k);
	else if (dice < 203)
		agent_start(b, k);
	else if (dice < 205)
		agent_step_clock(b, k);
	backends_turn(b);
}

struct backends *backends_new(struct sim *s)
{
	struct backends *b = calloc(1, sizeof(*b));

	assert(b);
	b->s = s;
	b->next_cookie = 1;
	return b;
}

void backends_free(struct backends *b)
{
	for (unsigned i = 0; i < BACKENDS; i++)
		agent_talk_destroy(&b->list[i].talk);
	free(b);
}

void backends_killed(struct backends *b)
{
	b->calling = false;
	b->delivered = NULL;
	b->n_reports = b->n_refused = b->n_orphans = 0;
	for (unsigned i = 0; i < BACKENDS; i++)
		b->list[i].said = (struct backend_said){.sequence = 0};
}

/* Agents that were acknowledged are there as long as their DIP is. */
void backends_resync(struct backends *b)
{
	for (unsigned i = 0; i < BACKENDS; i++) {
		struct backend *k = &b->list[i];
		size_t n;
		if (!k->bound)
			continue;
		struct agent_info *info = control_read_agents(b->s->box->control, k->id, &n);
		const struct sim_vip *v = &b->s->vips[k->vip];
		for (unsigned d = 0; d < SIM_DIPS && n == 0; d++)
			if (v->dips[d].number == k->dip)
				sim_wrong(b->s, "the agent %s, acknowledged, is lost", k->id);
		k->bound = n != 0;
		free(info);
	}
}
