/* Clients: what they send, and what became of it. */
#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "io/port_mem.h"
#include "tests/sim/sim.h"
#include "tests/unit/frames.h"

static unsigned flow_of(struct sim *s, unsigned tuple)
{
	const struct sim_tuple *t = &s->tuples[tuple];

	for (unsigned i = 0; i < tuple; i++)
		if (s->vips[t->vip].conf.affinity == AFFINITY_CLIENT &&
		    s->tuples[i].vip == t->vip && ip_addr_equal(&s->tuples[i].src, &t->src))
			return s->tuples[i].flow;
	return tuple;
}

static uint8_t tuple_proto(struct sim *s, const struct vip_conf *c)
{
	if (c->match.protocol == VIP_ANY)
		return sim_chance(s, 2) ? IPPROTO_TCP : IPPROTO_UDP;
	return c->match.protocol == VIP_TCP ? IPPROTO_TCP : IPPROTO_UDP;
}

void traffic_init(struct sim *s)
{
	s->n_tuples = 64 + prng_below(&s->random, SIM_TUPLES - 64);
	s->n_hot = 8 + prng_below(&s->random, s->n_tuples - 8);
	for (unsigned i = 0; i < s->n_tuples; i++) {
		struct sim_tuple *t = &s->tuples[i];
		unsigned vip = prng_below(&s->random, SIM_VIPS);
		const struct vip_conf *c = &s->vips[vip].conf;
		bool few = c->affinity == AFFINITY_CLIENT;

		*t = (struct sim_tuple){.vip = vip,
					.sport = (uint16_t)(1024 + i),
					.dport = c->match.port ? c->match.port
							       : (uint16_t)(80 + sim_chance(s, 2)),
					.proto = tuple_proto(s, c)};
		if (ip_addr_is_v4(&c->match.address))
			t->src = frames_ip("10.1.0.0");
		else
			t->src = frames_ip("2001:db8:1::");
		t->src.b[15] = (uint8_t)(few ? i % 16 : i);
		t->src.b[14] = (uint8_t)(few ? 0 : i >> 8);
		t->flow = flow_of(s, i);
		struct vip_view v = {.affinity = (uint8_t)c->affinity};
		flow_key_of(&v, &t->src, htons(t->sport), htons(t->dport), t->proto,
			    &s->flows[t->flow].key);
	}
}

unsigned traffic_worker(const struct sim *s, unsigned tuple)
{
	return (tuple * 7 + s->lane_salt) % s->box->n_workers;
}

const struct vip_view *traffic_view(const struct sim *s, const struct snapshot *snapshot,
				    const struct sim_tuple *t)
{
	return snapshot_match(snapshot, &s->vips[t->vip].conf.match.address, t->dport, t->proto);
}

struct sim_vip *traffic_vip(struct sim *s, const struct vip_view *v)
{
	for (unsigned i = 0; v && i < SIM_VIPS; i++)
		if (vip_match_equal(&s->vips[i].conf.match, &v->match))
			return &s->vips[i];
	return NULL;
}

/* --- sending ------------------------------------------------------------------------------- */

void traffic_inject(struct sim *s, unsigned tuple, enum segment segment)
{
	static const uint8_t flags[] = {[SEGMENT_SYN] = FRAMES_SYN,
					[SEGMENT_ACK] = FRAMES_ACK,
					[SEGMENT_DATA] = FRAMES_ACK | FRAMES_PSH,
					[SEGMENT_FIN] = FRAMES_ACK | FRAMES_FIN,
					[SEGMENT_RST] = FRAMES_RST,
					[SEGMENT_UDP] = 0};
	static uint8_t buf[FRAMES_MAX];
	struct sim_tuple *t = &s->tuples[tuple];
	unsigned w = traffic_worker(s, tuple);
	struct sim_lane *lane = &s->lanes[w];
	struct frames_spec spec = {.src = t->src,
				   .dst = s->vips[t->vip].conf.match.address,
				   .sport = t->sport,
				   .dport = t->dport,
				   .proto = t->proto,
				   .tcp_flags = flags[segment],
				   .payload_len = segment == SEGMENT_DATA ? 8 : 0,
				   .ip_id = s->next_packet,
				   .flow_label = s->next_packet};

	if (lane->n == SIM_PENDING)
		return;
	uint32_t len = frames_build(buf, &spec);
	if (port_mem_inject(s->box->ports[w], 0, 0, buf, len) != 0)
		return;
	lane->pending[(lane->first + lane->n++) % SIM_PENDING] = (struct sim_packet){
		.id = s->next_packet++, .tuple = (uint16_t)tuple, .segment = segment};
	s->n_packets++;
	sim_event(s, "tuple %ld sends segment %ld to worker %ld (packet %ld)", tuple, segment, w,
		  s->next_packet - 1);
	t->last = segment;
	t->open = segment != SEGMENT_RST && (t->open || segment == SEGMENT_SYN);
}

/* What a client, a broken client or someone who spoofs it may send next. */
static enum segment next_segment(struct sim *s, const struct sim_tuple *t)
{
	unsigned dice = prng_below(&s->random, 100);

	if (t->proto == IPPROTO_UDP)
		return SEGMENT_UDP;
	if (!t->open)
		return dice < 80   ? SEGMENT_SYN
		       : dice < 90 ? SEGMENT_ACK
		       : dice < 97 ? SEGMENT_DATA
				   : SEGMENT_FIN;
	if (t->last == SEGMENT_SYN)
		return dice < 60 ? SEGMENT_ACK : dice < 80 ? SEGMENT_DATA : SEGMENT_SYN;
	if (t->last == SEGMENT_FIN)
		return dice < 40   ? SEGMENT_ACK
		       : dice < 60 ? SEGMENT_DATA
		       : dice < 75 ? SEGMENT_FIN
		       : dice < 90 ? SEGMENT_SYN
				   : SEGMENT_RST;
	return dice < 60   ? SEGMENT_DATA
	       : dice < 86 ? SEGMENT_ACK
	       : dice < 92 ? SEGMENT_FIN
	       : dice < 96 ? SEGMENT_RST
			   : SEGMENT_SYN;
}

void traffic_send(struct sim *s)
{
	unsigned n = 1 + prng_below(&s->random, s->burst_max);

	for (unsigned i = 0; i < n; i++) {
		bool hot = !sim_chance(s, 8);
		unsigned tuple = prng_below(&s->random, hot ? s->n_hot : s->n_tuples);
		traffic_inject(s, tuple, next_segment(s, &s->tuples[tuple]));
	}
}

/* --- what became of it --------------------------------------------------------------------- */

/* Packet number and DIP of a sent frame, which may have an outer header. */
static void read_sent(const uint8_t *b, uint16_t *id, uint16_t *dip)
{
	const uint8_t *ip = b + 14;

	*dip = (uint16_t)(b[4] << 8 | b[5]);
	if (b[12] == 0x08 && ip[9] == IPPROTO_IPIP)
		ip += 20;
	else if (b[12] == 0x86 && ip[6] == IPPROTO_IPV6)
		ip += 40;
	*id = b[12] == 0x08 ? (uint16_t)(ip[4] << 8 | ip[5]) : (uint16_t)(ip[2] << 8 | ip[3]);
}

static void drop_first(struct sim *s, struct sim_lane *lane)
{
	struct sim_packet *p = &lane->pending[lane->first];
	const struct sim_tuple *t = &s->tuples[p->tuple];

	model_dropped(s->model, &s->flows[t->flow], p->segment, &s->vips[t->vip].conf);
	s->n_dropped++;
	lane->first = (lane->first + 1) % SIM_PENDING;
	lane->n--;
	lane->n_undecided--;
}

/* A record of the flow may have been lost about now, and a clock step ago. */
static bool record_lost(const struct worker *w, uint64_t hash)
{
	uint32_t lost = atomic_load(&w->learn.lost_ms[loss_bucket(hash)]);

	return lost && (uint32_t)box_now_ms() - lost <= 20;
}

static void packet_sent(struct sim *s, unsigned worker, const struct sim_packet *p, uint16_t dip)
{
	struct worker *w = s->box->workers[worker];
	const struct snapshot *snapshot = atomic_load(&w->snapshot);
	const struct sim_tuple *t = &s->tuples[p->tuple];
	const struct vip_view *v = traffic_view(s, snapshot, t);
	struct sim_vip *vip = traffic_vip(s, v);
	struct model_flow *f = &s->flows[t->flow];

	if (!vip) {
		sim_wrong(s, "a packet was sent to a VIP that there is not");
		return;
	}
	struct model_sent sent = {.segment = p->segment,
				  .dip = dip,
				  .lost = record_lost(w, flow_key_hash(&f->key, v->seed)),
				  .now_ms = box_now_ms(),
				  .view = v,
				  .epoch = s->n_publishes,
				  .conf = &vip->conf};
	model_packet(s->model, f, &sent);
	f->vip = (unsigned)(vip - s->vips);
	sim_event(s, "packet %ld of tuple %ld went to DIP %ld (%ld: a record was lost)", p->id,
		  p->tuple, dip, sent.lost);
}

static uint64_t counted_drops(const struct worker_counters *c)
{
	uint64_t n = 0;

	for (int i = 0; i < N_DROP_REASONS; i++)
		n += counter_read(&c->drops[i]);
	return n;
}

void traffic_collect(struct sim *s, unsigned worker)
{
	struct sim_lane *lane = &s->lanes[worker];
	struct port *port = s->box->ports[worker];
	const struct worker_counters *c = s->box->workers[worker]->counters;
	uint64_t received = counter_read(&c->rx[0].packets);
	uint8_t buf[512];

	lane->n_undecided += (unsigned)(received - lane->n_received);
	lane->n_received = received;
	if (lane->n_undecided == 0 || port_mem_n_held(port) != 0)
		return; /* in the middle of a burst */
	while (port_mem_take(port, 0, buf, sizeof(buf)) != 0) {
		uint16_t id, dip;
		read_sent(buf, &id, &dip);
		while (lane->n_undecided && lane->pending[lane->first].id != id)
			drop_first(s, lane);
		if (!lane->n_undecided) {
			sim_wrong(s, "packet %u came out that did not go in", id);
			return;
		}
		packet_sent(s, worker, &lane->pending[lane->first], dip);
		lane->first = (lane->first + 1) % SIM_PENDING;
		lane->n--;
		lane->n_undecided--;
	}
	while (lane->n_undecided)
		drop_first(s, lane);
	if (received != counter_read(&c->tx[0].packets) + counted_drops(c))
		sim_wrong(s, "worker %u: %lu received, %lu sent, %lu dropped", worker,
			  (unsigned long)received, (unsigned long)counter_read(&c->tx[0].packets),
			  (unsigned long)counted_drops(c));
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

void traffic_killed(struct sim *s, bool rebooted)
{
	for (unsigned w = 0; w < BOX_WORKERS_MAX; w++) {
		struct sim_lane *lane = &s->lanes[w];
		lane->n_undecided = lane->n;
		while (lane->n)
			drop_first(s, lane);
		lane->n_received = 0;
	}
	for (unsigned i = 0; i < s->n_tuples; i++) {
		if (rebooted)
			model_rebooted(&s->flows[i], pin_on_disk(&s->box->disk, &s->flows[i]),
				       !s->box->sqlite);
		else
			model_killed(&s->flows[i]);
	}
}
