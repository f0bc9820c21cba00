/* What became of the packets. Each must leave by one exit, which is known before: sent to the DIP
 * that the snapshot names, or dropped for a reason that follows from the frame, the snapshot, the
 * next hop and how much the egress ring takes. One thing is not foreseen: whether a record found
 * its ring full. Where the VIP wants the packet dropped then and the worker says that it lost a
 * record in the flow's bucket just now, learn_overflow is as good as the foreseen exit. */
#include <arpa/inet.h>
#include <string.h>

#include "io/port_mem.h"
#include "tests/sim/backends.h"

#define SENT N_DROP_REASONS
#define OUT_MAX 128   /* frames of a port */
#define GUE_PORT 6080 /* as by default; no VIP has it */

static const enum drop_reason odd_reasons[N_ODDS] = {
	[ODD_CUT] = DROP_malformed,	 [ODD_VERSION] = DROP_malformed,
	[ODD_FRAGMENT] = DROP_malformed, [ODD_NOT_L4] = DROP_not_l4,
	[ODD_STRANGER] = DROP_no_vip,	 [ODD_ARP] = DROP_no_vip,
	[ODD_TAGS] = DROP_no_vip,	 [ODD_PARTS] = DROP_frame_too_big,
};

/* How a packet must leave. */
struct exit {
	unsigned reason; /* enum drop_reason, or SENT */
	bool learned;	 /* it comes so far that its flow is told of */
	enum quic_way by;
	bool or_overflow;
	uint16_t dip; /* number */
	uint32_t len; /* of the frame that is sent */
	const struct vip_view *view;
};

/* A frame that was sent. */
struct sent {
	uint16_t id, dip;
	uint32_t len;
};

/* --- what must be -------------------------------------------------------------------------- */

static unsigned rewrite_reason(const struct sim *s, const struct sim_packet *p, struct exit *e,
			       const struct dip_view *d)
{
	unsigned outer = 0;

	if (e->view->mode != VIP_L2)
		outer = ip_addr_is_v4(&d->address) ? 20 : 40;
	if (e->view->mode == VIP_GUE)
		outer += 12;
	if (p->l3_len + outer + (p->l3_offset == 22 ? 4 : 0) > d->mtu)
		return DROP_frame_too_big;
	if (outer > s->box->headroom)
		return DROP_no_headroom;
	e->len =
		outer ? p->l3_offset + outer + p->l3_len : p->len; /* a tunnel leaves padding out */
	return SENT;
}

/* A record of the flow may have been lost about now, and a clock step ago. */
static bool record_lost(const struct worker *w, uint64_t hash)
{
	uint32_t lost = atomic_load(&w->learn.lost_ms[loss_bucket(hash)]);

	return lost && (uint32_t)box_now_ms() - lost <= 20;
}

static struct exit foresee(const struct sim *s, unsigned worker, const struct sim_packet *p)
{
	const struct worker *w = s->box->workers[worker];
	const struct snapshot *snapshot = atomic_load(&w->snapshot);
	const struct sim_tuple *t = &s->tuples[p->tuple];
	struct exit e = {.reason = odd_reasons[p->odd]};
	enum lookup_reason why;
	struct flow_key key;
	uint32_t dcode;

	if (p->odd)
		return e;
	e.view = traffic_view(s, snapshot, t);
	e.reason = DROP_no_vip;
	if (!e.view)
		return e;
	traffic_key(e.view, t, &key);
	uint16_t flows = snapshot_lookup_one(snapshot, e.view, &key, &why, &dcode);
	uint16_t index = flows;
	if (t->proto == IPPROTO_UDP && !p->first_of_some) /* parts go by flow */
		e.by = quic_way(e.view, p, &index);
	const struct dip_view *d = &e.view->dips[index];
	e.reason = DROP_no_dip;
	if (index == DIP_NONE || !d->usable)
		return e;
	/* Nothing is told of it if its flow is elsewhere, nor of fragments of TCP. */
	e.learned = index == flows && !(p->first_of_some && t->proto == IPPROTO_TCP);
	e.or_overflow = e.learned && e.view->on_learn_overflow == OVERFLOW_DROP &&
			record_lost(w, flow_key_hash(&key, e.view->seed));
	e.dip = model_dip_number(e.view, index);
	e.reason = d->resolved ? rewrite_reason(s, p, &e, d) : DROP_no_neighbor;
	return e;
}

/* --- what is ------------------------------------------------------------------------------- */

/* The IP header within, if this one is a tunnel's. */
static const uint8_t *unwrap(const uint8_t *ip)
{
	bool v4 = ip[0] >> 4 == 4;
	unsigned proto = v4 ? ip[9] : ip[6];
	const uint8_t *next = ip + (v4 ? 20 : 40);

	if (proto == IPPROTO_IPIP || proto == IPPROTO_IPV6)
		return next;
	if (proto == IPPROTO_UDP && next[2] == GUE_PORT >> 8 && next[3] == (GUE_PORT & 255))
		return next + 8 + 4;
	return ip;
}

/* Packet number and DIP of a sent frame, which may have tags and an outer header. */
static struct sent read_sent(const uint8_t *b, uint32_t len)
{
	const uint8_t *type = b + 12;

	while ((type[0] == 0x81 && type[1] == 0) || (type[0] == 0x88 && type[1] == 0xa8))
		type += 4;
	const uint8_t *ip = unwrap(type + 2);
	return (struct sent){
		.id = (uint16_t)(ip[0] >> 4 == 4 ? ip[4] << 8 | ip[5] : ip[2] << 8 | ip[3]),
		.dip = (uint16_t)(b[4] << 8 | b[5]),
		.len = len};
}

static unsigned take_sent(struct port *port, struct sent *out)
{
	uint8_t buf[64 + 128];
	unsigned n = 0;

	for (uint32_t len; n < OUT_MAX && (len = port_mem_take(port, 0, buf, sizeof(buf))) != 0;)
		out[n++] = read_sent(buf, len);
	return n;
}

/* With narrow hashes: whether another flow, of whichever VIP, has a seen entry that this one's
 * packet would repeat. Of whole hashes no two are equal in a thousand years. */
static bool has_twin(const struct sim *s, const struct model_flow *f, const struct vip_view *v)
{
	uint64_t hash = flow_key_hash(&f->key, v->seed);

	for (unsigned i = 0; i < s->n_tuples && fault_hash_mask != UINT64_MAX; i++) {
		const struct model_flow *other = &s->flows[i];
		if (other != f && other->spoke_ms && s->tuples[i].flow == i &&
		    box_now_ms() - other->spoke_ms <= 2 * v->refresh_ms &&
		    other->spoke_hash == hash)
			return true;
	}
	return false;
}

static void packet_sent(struct sim *s, unsigned worker, const struct sim_packet *p,
			const struct exit *e, const struct sent *sent)
{
	struct sim_lane *lane = &s->lanes[worker];
	const struct sim_tuple *t = &s->tuples[p->tuple];
	struct sim_vip *vip = traffic_vip(s, e->view);
	struct model_flow *f = &s->flows[t->flow];

	if (!vip || sent->dip != e->dip || sent->len != e->len) {
		sim_wrong(s, "packet %u went to DIP %u with %u bytes, not to %u with %u", p->id,
			  sent->dip, sent->len, e->dip, e->len);
		return;
	}
	struct model_sent m = {
		.segment = p->segment,
		.dip = sent->dip,
		.lost = record_lost(s->box->workers[worker], flow_key_hash(&f->key, e->view->seed)),
		.twin = has_twin(s, f, e->view),
		.now_ms = box_now_ms(),
		.view = e->view,
		.epoch = s->n_publishes,
		.conf = &vip->conf};
	m.lost |= m.twin;
	if (e->learned) {
		model_packet(s->model, f, &m);
		f->vip = (unsigned)(vip - s->vips);
	}
	s->n_strays += e->by == QUIC_BY_ID && !e->learned;
	if (t->proto == IPPROTO_UDP && !p->first_of_some) /* parts go by flow */
		quic_sent(s, p, e->view, sent->dip, e->by == QUIC_BY_ID);
	backends_packet(s->backends, sent->dip, p->tuple, p->segment);
	lane->tx_packets++;
	lane->tx_bytes += sent->len;
	s->traffic[sent->dip].packets++;
	s->traffic[sent->dip].bytes += p->len;
	s->vip_traffic[e->view->uid % SIM_UIDS].packets++;
	s->vip_traffic[e->view->uid % SIM_UIDS].bytes += p->len;
	sim_event(s, "packet %ld of tuple %ld went to DIP %ld (%ld: a record was lost)", p->id,
		  p->tuple, sent->dip, m.lost);
}

static void packet_dropped(struct sim *s, struct sim_lane *lane, const struct sim_packet *p,
			   const struct exit *e)
{
	const struct sim_tuple *t = &s->tuples[p->tuple];

	if (e->or_overflow) {
		lane->maybe[e->reason]++;
		lane->maybe[DROP_learn_overflow]++;
	} else {
		lane->drops[e->reason]++;
	}
	if (e->learned)
		model_dropped(s->model, &s->flows[t->flow], p->segment, &s->vips[t->vip].conf);
	s->n_dropped++;
	s->n_drops[e->reason]++;
}

static struct sim_packet next_packet(struct sim_lane *lane)
{
	struct sim_packet p = lane->pending[lane->first];

	lane->first = (lane->first + 1) % SIM_PENDING;
	lane->n--;
	return p;
}

/* One packet that was received: has it left as it must? n_sent: frames in the egress ring before.
 */
static void decide(struct sim *s, unsigned worker, const struct sent *sent, unsigned n_sent)
{
	struct sim_lane *lane = &s->lanes[worker];
	struct sim_packet p = next_packet(lane);
	struct exit e = foresee(s, worker, &p);

	lane->rx_bytes += p.len;
	lane->quic_by[e.by]++;
	if (e.learned) {
		struct model_flow *f = &s->flows[s->tuples[p.tuple].flow];
		f->spoke_ms = box_now_ms();
		f->spoke_hash = flow_key_hash(&f->key, e.view->seed);
	}
	if (e.reason == SENT && n_sent == s->box->tx_ring)
		e.reason = DROP_tx_full;
	if (sent && e.reason != SENT)
		sim_wrong(s, "packet %u was sent, not dropped (%s)", p.id,
			  drop_reason_name[e.reason]);
	else if (sent)
		packet_sent(s, worker, &p, &e, sent);
	else if (e.reason == SENT && !e.or_overflow)
		sim_wrong(s, "packet %u was dropped, not sent to DIP %u", p.id, e.dip);
	else {
		if (e.reason == SENT) {
			e.reason = DROP_learn_overflow;
			e.or_overflow = e.learned = false;
		}
		packet_dropped(s, lane, &p, &e);
	}
}

/* --- the counters -------------------------------------------------------------------------- */

static void check_equal(struct sim *s, unsigned worker, const char *what, uint64_t counted,
			uint64_t is)
{
	if (counted != is)
		sim_wrong(s, "worker %u counts %lu %s, there are %lu", worker,
			  (unsigned long)counted, what, (unsigned long)is);
}

static void check_drops(struct sim *s, unsigned worker, const struct worker_counters *c)
{
	struct sim_lane *lane = &s->lanes[worker];
	uint64_t counted = 0, sum = lane->maybe[DROP_learn_overflow];

	for (int i = 0; i < N_DROP_REASONS; i++) {
		uint64_t n = counter_read(&c->drops[i]);
		if (n < lane->drops[i] || n > lane->drops[i] + lane->maybe[i])
			sim_wrong(
				s,
				"worker %u counts %lu drops as %s, there are %lu (and perhaps %lu)",
				worker, (unsigned long)n, drop_reason_name[i],
				(unsigned long)lane->drops[i], (unsigned long)lane->maybe[i]);
		counted += n;
		sum += lane->drops[i];
		lane->drops[i] = n;
		lane->maybe[i] = 0;
	}
	check_equal(s, worker, "drops", counted, sum);
	uint64_t lost = counter_read(&c->lost_openings) + counter_read(&c->lost_datagrams);
	if (lost < lane->drops[DROP_learn_overflow] + counter_read(&c->unlearned))
		sim_wrong(s, "worker %u: more dropped or unlearned than records lost", worker);
}

static void check_counters(struct sim *s, unsigned worker, uint64_t received)
{
	const struct worker_counters *c = s->box->workers[worker]->counters;
	const struct sim_lane *lane = &s->lanes[worker];
	uint64_t dropped = 0;

	check_drops(s, worker, c);
	for (int i = 0; i < N_DROP_REASONS; i++)
		dropped += lane->drops[i];
	check_equal(s, worker, "packets received", received, lane->tx_packets + dropped);
	check_equal(s, worker, "bytes received", counter_read(&c->rx[0].bytes), lane->rx_bytes);
	check_equal(s, worker, "packets sent", counter_read(&c->tx[0].packets), lane->tx_packets);
	check_equal(s, worker, "bytes sent", counter_read(&c->tx[0].bytes), lane->tx_bytes);
	check_equal(s, worker, "checksums", counter_read(&c->checksums_completed), 0);
	check_equal(s, worker, "packets by ID", counter_read(&c->quic_by_id),
		    lane->quic_by[QUIC_BY_ID]);
	check_equal(s, worker, "packets with an ID by flow", counter_read(&c->quic_by_flow),
		    lane->quic_by[QUIC_BY_FLOW]);
}

void exits_collect(struct sim *s, unsigned worker)
{
	struct sim_lane *lane = &s->lanes[worker];
	struct port *port = s->box->ports[worker];
	uint64_t received = counter_read(&s->box->workers[worker]->counters->rx[0].packets);
	struct sent sent[OUT_MAX];

	lane->n_undecided += (unsigned)(received - lane->n_received);
	lane->n_received = received;
	if (lane->n_undecided == 0 || port_mem_n_held(port) != 0)
		return; /* in the middle of a burst */
	unsigned n = take_sent(port, sent), k = 0;
	for (; lane->n_undecided; lane->n_undecided--) {
		bool out = k < n && lane->pending[lane->first].id == sent[k].id;
		decide(s, worker, out ? &sent[k] : NULL, k);
		k += out;
	}
	if (k < n)
		sim_wrong(s, "packet %u came out that did not go in", sent[k].id);
	check_counters(s, worker, received);
}

/* --- the end of a process ------------------------------------------------------------------ */

static bool pin_on_disk(const struct persist_state *d, const struct model_flow *f)
{
	for (unsigned i = 0; i < d->n_vips; i++) {
		const struct persist_vip *v = &d->vips[i];
		for (uint32_t k = 0; v->uid == f->vip_uid && k < v->n_pins; k++) {
			if (!flow_key_equal(&v->pins[k].key, &f->key))
				continue;
			for (unsigned j = 0; j < v->n_dips; j++) {
				const uint8_t *a = v->dips[j].conf.address.b;
				if (v->dips[j].index == v->pins[k].dip)
					return f->dip == (a[14] << 8 | a[15]);
			}
		}
	}
	return false;
}

/* What it held may have been told of, or not. */
static void lose_pending(struct sim *s, struct sim_lane *lane)
{
	while (lane->n) {
		struct sim_packet p = next_packet(lane);
		const struct sim_tuple *t = &s->tuples[p.tuple];
		s->n_dropped++;
		if (!p.odd)
			model_dropped(s->model, &s->flows[t->flow], p.segment,
				      &s->vips[t->vip].conf);
	}
	*lane = (struct sim_lane){.n = 0};
}

void exits_killed(struct sim *s, bool rebooted)
{
	for (unsigned w = 0; w < BOX_WORKERS_MAX; w++)
		lose_pending(s, &s->lanes[w]);
	for (unsigned i = 0; i < s->n_tuples; i++) {
		if (rebooted)
			model_rebooted(&s->flows[i], pin_on_disk(&s->box->disk, &s->flows[i]));
		else
			model_killed(&s->flows[i]);
	}
}
