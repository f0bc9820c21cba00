/* Reports on their way, which may be lost, late, doubled and out of order, and what control must
 * make of each. The oracle knows which connections there really are: an honest agent's word may end
 * a flow only if its connection has ended, and not if another one has opened on its tuple since. A
 * liar may end what is on its own DIP; nobody's word moves a flow. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/backends.h"
#include "tests/sim/wire.h"

/* --- what goes out ------------------------------------------------------------------------- */

static struct backend_message *message_new(struct backends *b, struct backend *k, unsigned most_ms)
{
	if (!b->quiet && sim_chance(b->s, 12))
		return NULL; /* lost */
	for (unsigned i = 0; i < BACKEND_MESSAGES; i++) {
		struct backend_message *m = &b->messages[i];
		if (m->used)
			continue;
		*m = (struct backend_message){
			.used = true,
			.to_or_from = k,
			.life = k->life,
			.binding = k->binding,
			.due_ms =
				box_now_ms() + prng_below(&b->s->random, b->quiet ? 10 : most_ms)};
		return m;
	}
	return NULL;
}

/* Ends and openings of whatever tuples, some left out, dates at will. */
static void write_lies(struct backends *b, struct backend_message *m)
{
	struct agent_report *r = &m->report;
	struct prng *random = &b->s->random;

	for (unsigned n = prng_below(random, AGENT_NEWS_MAX); n > 0; n--) {
		const struct sim_tuple *t = &b->s->tuples[prng_below(random, b->s->n_tuples)];
		m->entries[r->n++] = (struct agent_entry){.src = t->src,
							  .dst = t->dst,
							  .has_dst = prng_below(random, 8) != 0,
							  .sport = t->sport,
							  .dport = t->dport,
							  .proto = t->proto,
							  .ended = prng_below(random, 2),
							  .age_ms = prng_below(random, 10000)};
	}
	if (r->n && sim_chance(b->s, 4))
		r->n--;
	if (sim_chance(b->s, 4))
		r->clock_ms = box_now_ms() + prng_below(random, 4000) - 2000;
}

void reports_send(struct backends *b, struct backend *k)
{
	const struct agent_outgoing *out = agent_talk_next(&k->talk);
	uint64_t now_ms = box_now_ms() + (uint64_t)k->ahead_ms;

	k->posted = true;
	k->give_up_ms = now_ms + 50 + 2 * k->talk.interval_ms;
	for (unsigned copies = sim_chance(b->s, 8) ? 2 : 1; copies > 0; copies--) {
		struct backend_message *m = message_new(b, k, sim_chance(b->s, 6) ? 4000 : 10);
		if (!m)
			continue;
		wire_report(out, &k->talk.state, &m->report, m->entries);
		m->lies = k->liar;
		if (k->liar && !b->quiet)
			write_lies(b, m);
	}
}

/* --- what control must do with it ---------------------------------------------------------- */

static bool is_next(const struct backend_said *said, const struct agent_report *r)
{
	if (r->full && r->first)
		return strcmp(said->instance, r->instance) != 0 || r->sequence > said->sequence;
	return strcmp(said->instance, r->instance) == 0 && r->sequence == said->sequence + 1 &&
	       (r->full ? said->full_open : said->synced);
}

/* The DIP index that control has the entry's flow on; DIP_NONE if it does not know it. */
static uint16_t known_on(const struct control *c, const struct vip_runtime *v,
			 const struct agent_entry *e)
{
	struct flow_key key;

	flow_key_of(v->now->view, &e->src, htons(e->sport), htons(e->dport), e->proto, &key);
	if (v->now->view->dst_bits)
		flow_key_put_dst(v->now->view, &e->dst, &key);
	for (uint32_t i = 0; i < c->flows.capacity; i++) {
		const struct flow_slot *s = &c->flows.slots[i];
		struct flow_meta m = flow_meta_get(s);
		if (m.phase != FLOW_FREE && s->vip_uid == v->uid && flow_key_equal(&s->key, &key))
			return m.dip;
	}
	return DIP_NONE;
}

static bool entry_fits(const struct vip_match *m, const struct agent_entry *e)
{
	uint16_t last = m->port_end ? m->port_end : m->port;
	struct ip_addr first = ip_addr_mask(&e->dst, m->host_bits);

	if (e->has_dst ? !ip_addr_equal(&first, &m->address) : m->host_bits != 0)
		return false;
	return ip_addr_is_v4(&e->src) == ip_addr_is_v4(&m->address) &&
	       (m->port == 0 || (m->port <= e->dport && e->dport <= last)) &&
	       (m->protocol == VIP_ANY || (m->protocol == VIP_TCP) == (e->proto == IPPROTO_TCP));
}

/* An entry is refused if it is not of the VIP, or of a flow on another DIP. (Two entries of one
 * flow cannot disturb that: neither changes its DIP; one that becomes known is on this one.) */
static unsigned count_refused(struct backends *b, const struct control *c,
			      const struct vip_runtime *v, uint16_t dip,
			      const struct agent_report *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->n; i++) {
		const struct agent_entry *e = &r->entries[i];
		uint16_t on = known_on(c, v, e);
		bool fits = entry_fits(&v->now->conf.match, e);
		n += !fits || (on != DIP_NONE && on != dip);
		b->n_claims += fits && on == DIP_NONE && !e->ended;
	}
	return n;
}

/* The flow of a tuple, if it is the agent's to speak of. */
static struct model_flow *own_flow(struct backends *b, const struct backend *k,
				   const struct vip_runtime *v, unsigned tuple)
{
	struct model_flow *f = &b->s->flows[b->s->tuples[tuple].flow];

	return f->dip == k->dip && f->vip_uid == v->uid ? f : NULL;
}

static void entry_taken(struct backends *b, struct backend *k, const struct vip_runtime *v,
			const struct agent_entry *e, bool lies)
{
	unsigned tuple = e->sport - SIM_PORT;
	struct model_flow *f = own_flow(b, k, v, tuple);

	k->said.named[tuple] |= !e->ended;
	sim_event(b->s, "DIP %ld: tuple %ld is there (ended: %ld), %ld ms ago", k->dip, tuple,
		  e->ended, e->age_ms);
	if (!f || !e->ended || !entry_fits(&v->now->conf.match, e))
		return;
	if (lies || k->conns[tuple].end_ms >= f->syn_ms) {
		model_agent_ended(f, &v->now->conf);
		b->n_ended++;
	} else {
		b->n_spared++;
	}
}

/* What it did not name, its backend does not have. */
static void list_taken(struct backends *b, struct backend *k, const struct vip_runtime *v)
{
	for (unsigned i = 0; i < b->s->n_tuples; i++) {
		struct model_flow *f = own_flow(b, k, v, i);
		if (!f || k->said.named[i] || f->key.proto != IPPROTO_TCP)
			continue;
		if (k->said.lies || !k->conns[i].open)
			model_agent_ended(f, &v->now->conf);
		else
			b->n_spared++;
		sim_event(b->s, "DIP %ld does not name tuple %ld (there: %ld)", k->dip, i,
			  k->conns[i].open, 0);
	}
}

static void count_orphans(struct backends *b, struct backend_said *said,
			  const struct agent_report *r)
{
	bool fresh = strcmp(said->instance, r->instance) != 0;
	uint64_t before = fresh ? (r->sequence == 1 ? 0 : r->orphans) : said->orphans;

	if (r->orphans > before)
		b->n_orphans += r->orphans - before;
	said->orphans = r->orphans;
}

static void report_taken(struct backends *b, struct backend *k, const struct vip_runtime *v,
			 const struct backend_message *m)
{
	const struct agent_report *r = &m->report;
	struct backend_said *said = &k->said;

	count_orphans(b, said, r);
	memcpy(said->instance, r->instance, sizeof(said->instance));
	said->sequence = r->sequence;
	if (r->full && r->first) {
		memset(said->named, 0, sizeof(said->named));
		said->full_open = true;
		said->synced = said->lies = false;
	}
	said->lies |= m->lies;
	for (unsigned i = 0; i < r->n; i++)
		entry_taken(b, k, v, &r->entries[i], m->lies);
	if (r->full && r->last) {
		said->full_open = false;
		said->synced = true;
		list_taken(b, k, v);
	}
	b->n_reports++;
	b->n_all_reports++;
}

/* --- its arrival --------------------------------------------------------------------------- */

static void report_to_control(struct control *c, void *arg)
{
	struct backends *b = arg;
	struct backend_message *m = b->delivered;
	struct backend *k = m->to_or_from;
	struct agent_answer answer;
	struct vip_runtime *v;
	const struct dip_version *d;
	unsigned n_refused = 0, n_forgotten = b->s->n_forgotten;

	m->report.entries = m->entries;
	bool found = agents_find(c, k->id, &v, &d) != NULL;
	bool next = found && is_next(&k->said, &m->report);
	if (next)
		n_refused = count_refused(b, c, v, d->index, &m->report);
	routine_hold(true); /* one-threaded, control has its mutex meanwhile */
	control_agent_report(c, k->id, &m->report, &answer);
	routine_hold(false);
	sim_event(b->s, "report %ld of DIP %ld arrives: found %ld, applied %ld",
		  (long)m->report.sequence, k->dip, answer.found, next);
	/* What is forgotten to make room for a claim can be refused no more. */
	if (answer.n_refused < n_refused && b->s->n_forgotten != n_forgotten)
		n_refused = answer.n_refused;
	if (answer.found != found || answer.n_refused != n_refused ||
	    (next && answer.ack != m->report.sequence))
		sim_wrong(b->s,
			  "report %lu of %s: %u entries refused, should be %u; applied to %lu",
			  (unsigned long)m->report.sequence, k->id, answer.n_refused, n_refused,
			  (unsigned long)answer.ack);
	b->n_refused += n_refused;
	if (next)
		report_taken(b, k, v, m);
	k->bound &= answer.found;
	struct backend_message *back = message_new(b, k, sim_chance(b->s, 8) ? 3000 : 10);
	if (back) {
		back->life = m->life;
		back->answers = true;
		wire_reply(&answer, &back->reply);
	}
	m->used = false;
	b->delivered = NULL;
}

static void answer_arrives(struct backend_message *m)
{
	struct backend *k = m->to_or_from;

	m->used = false;
	if (m->life != k->life || !k->posted)
		return; /* it has given up, or is another one */
	k->posted = false;
	box_shift_clock(k->ahead_ms);
	agent_talk_reply(&k->talk, &m->reply, k->tick_ms);
	box_shift_clock(0);
}

void reports_arrive(struct backends *b)
{
	for (unsigned i = 0; i < BACKEND_MESSAGES; i++) {
		struct backend_message *m = &b->messages[i];
		if (!m->used || m->due_ms > box_now_ms() || m == b->delivered)
			continue;
		if (m->binding != m->to_or_from->binding) {
			m->used = false;
		} else if (m->answers) {
			answer_arrives(m);
		} else if (!b->calling && b->s->box->control) {
			b->delivered = m;
			b->calling = true;
			b->call = (struct queued_call){.fn = report_to_control, .arg = b};
			box_call(b->s->box, &b->call);
		}
	}
}
