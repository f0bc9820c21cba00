/* Clients: who they are, and what they send. */
#include <arpa/inet.h>
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

/* Of a prefix half the tuples have an address that a longer one holds, too. */
static struct ip_addr tuple_dst(struct sim *s, const struct vip_match *m)
{
	struct ip_addr a = m->address;

	if (m->host_bits)
		a.b[15] |= (uint8_t)(prng_below(&s->random, 1u << m->host_bits));
	if (m->host_bits == 8 && sim_chance(s, 2))
		a.b[15] = (uint8_t)(16 + a.b[15] % 16);
	return a;
}

static uint16_t tuple_dport(struct sim *s, const struct vip_match *m)
{
	if (m->port_end)
		return (uint16_t)(m->port + prng_below(&s->random, m->port_end - m->port + 1u));
	return m->port ? m->port : (uint16_t)(80 + sim_chance(s, 2));
}

void traffic_key(const struct vip_view *v, const struct sim_tuple *t, struct flow_key *key)
{
	flow_key_of(v, &t->src, htons(t->sport), htons(t->dport), t->proto, key);
	if (v->dst_bits)
		flow_key_put_dst(v, &t->dst, key);
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
					.sport = (uint16_t)(SIM_PORT + i),
					.dst = tuple_dst(s, &c->match),
					.dport = tuple_dport(s, &c->match),
					.proto = tuple_proto(s, c)};
		if (ip_addr_is_v4(&c->match.address))
			t->src = frames_ip("10.1.0.0");
		else
			t->src = frames_ip("2001:db8:1::");
		t->src.b[15] = (uint8_t)(few ? i % 16 : i);
		t->src.b[14] = (uint8_t)(few ? 0 : i >> 8);
		t->flow = flow_of(s, i);
		struct vip_view v = {.affinity = (uint8_t)c->affinity,
				     .dst_bits = vip_match_dst_bits(&c->match, c->affinity)};
		traffic_key(&v, t, &s->flows[t->flow].key);
	}
}

unsigned traffic_worker(const struct sim *s, unsigned tuple)
{
	return (tuple * 7 + s->lane_salt) % s->box->n_workers;
}

const struct vip_view *traffic_view(const struct sim *s, const struct snapshot *snapshot,
				    const struct sim_tuple *t)
{
	(void)s;
	return snapshot_match(snapshot, &t->dst, t->dport, t->proto);
}

struct sim_vip *traffic_vip(struct sim *s, const struct vip_view *v)
{
	for (unsigned i = 0; v && i < SIM_VIPS; i++)
		if (vip_match_equal(&s->vips[i].conf.match, &v->match))
			return &s->vips[i];
	return NULL;
}

/* --- sending ------------------------------------------------------------------------------- */

static void spoil(struct frames_spec *spec, enum sim_odd odd)
{
	switch (odd) {
	case ODD_FRAGMENT:
		spec->proto = IPPROTO_TCP;
		spec->v4_frag = 1;
		spec->v6_frag = 8;
		spec->n_exts = 1;
		spec->exts[0] = IPPROTO_FRAGMENT;
		break;
	case ODD_NOT_L4:
		spec->proto = ip_addr_is_v4(&spec->src) ? IPPROTO_ICMP : IPPROTO_ICMPV6;
		break;
	case ODD_STRANGER:
		spec->dst.b[ip_addr_is_v4(&spec->dst) ? 13 : 3] ^= 0x40;
		break;
	case ODD_TAGS:
		spec->n_vlans = 3;
		break;
	case ODD_CUT:
		spec->no_min = true;
		break;
	default:
		break;
	}
}

/* The frame of a packet; sets its lengths. */
static void build(struct sim *s, const struct sim_tuple *t, struct sim_packet *p, uint8_t *buf)
{
	static const uint8_t flags[] = {[SEGMENT_SYN] = FRAMES_SYN,
					[SEGMENT_ACK] = FRAMES_ACK,
					[SEGMENT_DATA] = FRAMES_ACK | FRAMES_PSH,
					[SEGMENT_FIN] = FRAMES_ACK | FRAMES_FIN,
					[SEGMENT_RST] = FRAMES_RST,
					[SEGMENT_INITIAL] = 0};
	bool large = p->segment == SEGMENT_DATA && sim_chance(s, 64);
	struct frames_spec spec = {.src = t->src,
				   .dst = t->dst,
				   .sport = t->sport,
				   .dport = t->dport,
				   .proto = t->proto,
				   .tcp_flags = flags[p->segment],
				   .n_vlans = sim_chance(s, 16) ? 1 + prng_below(&s->random, 2) : 0,
				   .ip_id = p->id,
				   .flow_label = p->id};

	if (large)
		spec.payload_len = 1200 + prng_below(&s->random, 80);
	else if (p->segment == SEGMENT_DATA)
		spec.payload_len = 8;
	else if (t->proto == IPPROTO_UDP)
		spec.payload_len = quic_payload_len(s, t, p);
	if (sim_chance(s, 16)) {
		spec.n_exts = 1;
		spec.exts[0] = IPPROTO_DSTOPTS;
	}
	if (p->first_of_some) {
		spec.v4_frag = 0x2000; /* more fragments */
		spec.n_exts = 1;
		spec.exts[0] = IPPROTO_FRAGMENT;
	}
	spoil(&spec, p->odd);
	uint32_t len = frames_build(buf, &spec);
	p->l3_offset = (uint16_t)(14 + 4 * spec.n_vlans);
	if (p->odd == ODD_CUT)
		len -= 1 + prng_below(&s->random, 8);
	else if (p->odd == ODD_VERSION)
		buf[p->l3_offset] ^= 0x70;
	else if (p->odd == ODD_ARP)
		memcpy(buf + p->l3_offset - 2, (const uint8_t[]){0x08, 0x06}, 2);
	const uint8_t *ip = buf + p->l3_offset;
	p->l3_len =
		(uint16_t)(ip_addr_is_v4(&t->src) ? ip[2] << 8 | ip[3] : 40 + (ip[4] << 8 | ip[5]));
	if (t->proto == IPPROTO_UDP)
		quic_write(s, t, p, buf + p->l3_offset + p->l3_len - spec.payload_len,
			   spec.payload_len);
	p->len = (uint16_t)len;
}

/* Send one packet of a tuple into its worker's queue. */
static void inject(struct sim *s, unsigned tuple, enum segment segment)
{
	static uint8_t buf[FRAMES_MAX];
	struct sim_tuple *t = &s->tuples[tuple];
	struct sim_packet p = {.id = s->next_packet,
			       .tuple = (uint16_t)tuple,
			       .segment = segment,
			       .first_of_some = sim_chance(s, s->fragment_share)};
	unsigned w = (traffic_worker(s, tuple) + p.first_of_some) % s->box->n_workers;
	struct port *port = s->box->ports[w];
	struct sim_lane *lane = &s->lanes[w];

	if (lane->n == SIM_PENDING)
		return;
	if (sim_chance(s, s->odd_share))
		p.odd = 1 + prng_below(&s->random, N_ODDS - 1);
	if (t->proto == IPPROTO_UDP)
		quic_draw(s, t, &p);
	build(s, t, &p, buf);
	int rc = p.odd == ODD_PARTS ? port_mem_inject_more(port, 0, 0, buf, p.len, p.len / 2)
				    : port_mem_inject(port, 0, 0, buf, p.len);
	if (rc != 0)
		return;
	lane->pending[(lane->first + lane->n++) % SIM_PENDING] = p;
	s->next_packet++;
	s->n_packets++;
	sim_event(s, "tuple %ld sends segment %ld (odd: %ld), packet %ld", tuple, segment, p.odd,
		  p.id);
	if (p.odd)
		return;
	t->last = segment;
	t->open = segment != SEGMENT_RST && (t->open || segment == SEGMENT_SYN);
}

/* What a client, a broken client or someone who spoofs it may send next. */
static enum segment next_segment(struct sim *s, const struct sim_tuple *t)
{
	unsigned dice = prng_below(&s->random, 100);

	if (t->proto == IPPROTO_UDP)
		return dice < (t->server ? 96 : 75) ? SEGMENT_UDP : SEGMENT_INITIAL;
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
		inject(s, tuple, next_segment(s, &s->tuples[tuple]));
	}
}
