/* A burst's stages, each a short loop over all its frames, so that what one stage asks memory for
 * has arrived when the next one reads it.
 *
 * A frame is alive while its lookup names a VIP; a stage that ends it sets a reason and takes the
 * VIP away, so later stages pass it by. What is alive after the last stage is sent, and what the
 * egress ring does not take is dropped there: so each frame leaves by exactly one exit, and
 * received + too_big_replies = sent + the sum of the drops + what is held holds after every burst.
 * What goes elsewhere than to a DIP (an answer of our own) is not alive either, but has its egress;
 * see burst_send_aside. Fragments that wait for their first are kept out of the burst; they come
 * again, in a burst of their own.
 *
 * Learning comes before everything that can still end a frame except the lack of a DIP: a flow
 * whose next hop is not resolved yet, say, has its DIP all the same, and keeps it. */
#include "worker/pipeline.h"

#include <arpa/inet.h>
#include <assert.h>

#include "packet/mss.h"
#include "packet/nat.h"
#include "worker/answer.h"
#include "worker/back.h"
#include "worker/fragments.h"
#include "worker/modes.h"
#include "worker/quic_route.h"
#include "worker/vlan.h"

static ALWAYS_INLINE void traffic_add(struct traffic_counter *c, uint64_t packets, uint64_t bytes)
{
	counter_add(&c->packets, packets);
	counter_add(&c->bytes, bytes);
}

/* Ask for the headers, and count. Frames of one queue come by one interface almost always: add up
 * as long as it stays the same. */
static void receive(struct burst *b)
{
	struct traffic_counter *rx = b->w->counters->rx;
	unsigned first = 0;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < b->n; i++) {
		const struct frame *f = &b->frames[i];
		if (f->iface != b->frames[first].iface) {
			traffic_add(&rx[b->frames[first].iface], i - first, bytes);
			first = i;
			bytes = 0;
		}
		cpu_prefetch(f->data);
		bytes += f->len;
		b->len_in[i] = f->len;
	}
	traffic_add(&rx[b->frames[first].iface], b->n - first, bytes);
	counter_add(&b->w->counters->bursts, 1);
}

static void receive_held(struct burst *b)
{
	for (unsigned i = 0; i < b->n; i++)
		b->len_in[i] = b->frames[i].len;
}

/* What is not IP matches no VIP; steer does not pass it on, so it has no reason of its own. */
static enum drop_reason reason_of_parse(enum parse_result r)
{
	switch (r) {
	case PARSE_NOT_L4:
		return DROP_not_l4;
	case PARSE_NOT_IP:
		return DROP_no_vip;
	case PARSE_SCATTERED:
		return DROP_frame_too_big;
	default:
		return DROP_malformed;
	}
}

static void parse(struct burst *b)
{
	for (unsigned i = 0; i < b->n; i++) {
		const struct frame *f = &b->frames[i];
		do
			b->parsed[i] =
				likely(!f->more)
					? (uint8_t)parse_packet(f->data, f->len, &b->packets[i])
					: (uint8_t)parse_front(f->data, f->len - f->more, f->len,
							       &b->packets[i]);
		while (unlikely(b->parsed[i] == PARSE_NOT_IP) && back_unmark(b, i));
	}
}

static ALWAYS_INLINE bool same_destination(const struct packet *x, const struct packet *y)
{
	return x->dport_be == y->dport_be && x->proto == y->proto &&
	       ip_addr_equal(&x->dst, &y->dst);
}

/* There are VIPs of several addresses: which of them it is belongs to the flow. */
static SELDOM void classify_dst(struct burst *b)
{
	for (unsigned i = 0; i < b->n; i++) {
		struct lookup *f = &b->flows[i];
		if (f->vip && f->vip->dst_bits)
			flow_key_put_dst(f->vip, &b->packets[i].dst, &f->key);
	}
}

/* Frame i is not simply a packet of a flow. True if it is one all the same. */
__attribute__((noinline)) static bool classify_odd(struct burst *b, unsigned i)
{
	if (b->backs >> i & 1)
		back_take(b, i);
	else if (b->parsed[i] == PARSE_FRAGMENT)
		return fragments_take(b, i);
	else if (b->parsed[i] == PARSE_ECHO)
		answer_echo_take(b, i);
	else
		burst_end(b, i, reason_of_parse(b->parsed[i]));
	return false;
}

/* Which VIP, and which flow of it. Packets in a row mostly go to one VIP, and comparing with the
 * last one costs a tenth of a match. (Not one loop with parse: a packet's addresses, read as a
 * whole just after they were written in parts, would wait for the store buffer.) */
static void classify(struct burst *b)
{
	const struct packet *last = NULL;
	const struct vip_view *vip = NULL;

	for (unsigned i = 0; i < b->n; i++) {
		const struct packet *p = &b->packets[i];
		struct lookup *f = &b->flows[i];
		if (unlikely(b->parsed[i] != PARSE_OK || (b->backs >> i & 1)) &&
		    !classify_odd(b, i))
			continue;
		if (!last || !same_destination(p, last))
			vip = snapshot_match(b->s, &p->dst, ntohs(p->dport_be), p->proto);
		last = p;
		f->vip = vip;
		if (likely(vip))
			flow_key_of(vip, &p->src, p->sport_be,
				    FAULT(one_flow_for_all_ports) ? 0 : p->dport_be, p->proto,
				    &f->key);
		else
			burst_end(b, i, DROP_no_vip);
	}
	if (unlikely(b->s->wide))
		classify_dst(b);
	if (unlikely(b->fragments))
		fragments_classify(b);
}

static void look_up(struct burst *b)
{
	uint64_t maybe_pinned = snapshot_lookup_prepare(b->s, b->flows, b->n);

	for (unsigned i = 0; i < b->n; i++)
		if (b->flows[i].vip)
			learn_prefetch(&b->w->learn, b->flows[i].hash);
	snapshot_lookup_burst(b->s, b->flows, b->n, maybe_pinned);
}

static void count_learning(struct worker_counters *c, const struct learn_burst *lb)
{
	if (lb->unlearned)
		counter_add(&c->unlearned, lb->unlearned);
	if (lb->lost[RING_OPENING])
		counter_add(&c->lost_openings, lb->lost[RING_OPENING]);
	if (lb->lost[RING_DATAGRAM])
		counter_add(&c->lost_datagrams, lb->lost[RING_DATAGRAM]);
	if (lb->lost[RING_REFRESH])
		counter_add(&c->lost_refreshes, lb->lost[RING_REFRESH]);
}

static void learn(struct burst *b)
{
	struct learn_burst lb = {
		.generation = b->s->generation,
		.now_ms = b->now_ms,
		.several_workers = fragment_cache_puts(b->w->fragments.cache) != 0,
	};

	for (unsigned i = 0; i < b->n; i++) {
		const struct packet *p = &b->packets[i];
		struct lookup *f = &b->flows[i];
		if (!f->vip)
			continue;
		const struct dip_view *d = &f->vip->dips[f->dip];
		b->dips[i] = d;
		if (unlikely(f->dip == DIP_NONE || !d->usable))
			burst_end(b, i, DROP_no_dip);
		else if (likely(!(p->segment & SEG_UNTOLD)) &&
			 unlikely(!learn_packet(&b->w->learn, &lb, f, p->proto, p->segment)))
			burst_end(b, i, DROP_learn_overflow);
		else if (unlikely(!d->resolved))
			burst_end(b, i, DROP_no_neighbor);
	}
	count_learning(b->w->counters, &lb);
}

static ALWAYS_INLINE struct rewrite_to destination(const struct burst *b, unsigned i)
{
	const struct dip_view *d = b->dips[i];

	return (struct rewrite_to){
		.address = &d->address,
		.dst_mac = d->dst_mac,
		.src_mac = d->src_mac,
		.mtu = burst_mtu(b, i),
		.hash = b->flows[i].hash,
		.gue_port = b->flows[i].vip->gue_port,
		.nat_port_be = d->nat_port_be,
	};
}

/* Its destination lies in memory, as it is handed on; that of the other modes, which are inlined,
 * need not then. */
__attribute__((noinline)) static enum rewrite_result rewrite_frame_nat(const struct burst *b,
								       unsigned i)
{
	struct rewrite_to to = destination(b, i);

	return rewrite_nat(b->frames[i].data, &b->packets[i], &to);
}

static ALWAYS_INLINE enum rewrite_result rewrite_frame(const struct burst *b, unsigned i)
{
	struct frame *frame = &b->frames[i];
	const struct packet *p = &b->packets[i];
	struct rewrite_to to = destination(b, i);
	uint8_t mode = b->flows[i].vip->mode;

	if (mode == VIP_L2)
		return rewrite_l2(frame->data, frame->len, p, &to);
	if (mode == VIP_IPIP)
		return rewrite_ipip(&frame->data, &frame->len, frame->headroom, p, &to);
	if (mode == VIP_GUE)
		return rewrite_gue(&frame->data, &frame->len, frame->headroom, p, &to);
	return rewrite_frame_nat(b, i);
}

static enum drop_reason reason_of_rewrite(enum rewrite_result r)
{
	switch (r) {
	case REWRITE_NO_HEADROOM:
		return DROP_no_headroom;
	case REWRITE_FAMILY:
		return DROP_family_mismatch;
	case REWRITE_TTL:
		return DROP_ttl_expired;
	case REWRITE_UNTRANSLATABLE:
		return DROP_untranslatable;
	default:
		return DROP_frame_too_big;
	}
}

static SELDOM void clamp_mss(struct burst *b, unsigned i)
{
	uint32_t mtu = burst_mtu(b, i),
		 overhead =
			 modes_overhead((enum vip_mode)b->flows[i].vip->mode, &b->dips[i]->address);

	mss_clamp(b->frames[i].data, &b->packets[i], mtu > overhead ? mtu - overhead : 0);
}

/* Of a frame that may have come in several buffers. */
__attribute__((noinline)) static bool checksum_apply_more(struct burst *b, unsigned i)
{
	struct checksum_piece pieces[PORT_REST_MAX];
	const struct frame *f = &b->frames[i];
	unsigned n = 0;

	while (f->more && n < PORT_REST_MAX &&
	       (pieces[n].data = port_rest(b->w->port, f, n, &pieces[n].len)) != NULL)
		n++;
	return checksum_apply_pieces(b->w->checksum, f->data, f->len - f->more, pieces, n,
				     &b->packets[i]);
}

/* On its way back to a client. */
__attribute__((noinline)) static bool rewrite_back(struct burst *b, unsigned i)
{
	bool completed = checksum_apply_more(b, i);

	back_rewrite(b, i);
	return completed;
}

static void rewrite(struct burst *b)
{
	uint64_t completed = 0;

	for (unsigned i = 0; i < b->n; i++) {
		const struct lookup *f = &b->flows[i];
		if (unlikely(!f->vip)) {
			if (b->backs >> i & 1)
				completed += rewrite_back(b, i);
			continue;
		}
		if (likely(!b->frames[i].more))
			completed +=
				checksum_apply(b->w->checksum, b->frames[i].data, &b->packets[i]);
		else
			completed += checksum_apply_more(b, i);
		if (unlikely(b->packets[i].segment & SEG_SYN) && f->vip->clamp_mss)
			clamp_mss(b, i);
		enum rewrite_result r = rewrite_frame(b, i);
		if (unlikely(r == REWRITE_TOO_BIG))
			answer_too_big(b, i);
		else if (unlikely(r != REWRITE_OK))
			burst_end(b, i, reason_of_rewrite(r));
		else if (likely(!(b->packets[i].n_vlans | b->dips[i]->vlan)) || vlan_leave(b, i))
			burst_send(b, i, b->dips[i]->egress);
	}
	if (completed)
		counter_add(&b->w->counters->checksums_completed, completed);
}

/* The frames that go out by one interface, and where in the burst they stand. */
static unsigned gather(const struct burst *b, unsigned iface, struct frame *out, uint8_t *from)
{
	unsigned n = 0;

	for (unsigned i = 0; i < b->n; i++) {
		if (b->egress_of[i] != iface)
			continue;
		out[n] = b->frames[i];
		from[n++] = (uint8_t)i;
	}
	return n;
}

/* Frames that the egress ring does not take end as tx_full. */
static void send_by(struct burst *b, unsigned iface)
{
	struct worker_counters *c = b->w->counters;
	struct frame out[BURST_MAX];
	uint8_t from[BURST_MAX];
	unsigned n = gather(b, iface, out, from);
	uint64_t bytes = 0;

	assert(iface < b->w->port->n_ifaces);
	unsigned sent = port_tx(b->w->port, iface, out, n);
	assert(sent <= n);
	for (unsigned k = 0; k < sent; k++) {
		if (likely(!(b->aside >> from[k] & 1)))
			traffic_add(&c->dips[b->dips[from[k]]->counter], 1, b->len_in[from[k]]);
		else if (b->backs >> from[k] & 1)
			back_count(b, from[k]);
		else
			answer_sent(b, from[k]);
		bytes += out[k].len;
	}
	traffic_add(&c->tx[iface], sent, bytes);
	for (unsigned k = sent; k < n; k++)
		burst_end(b, from[k], answer_reason(b, from[k], DROP_tx_full));
}

static void free_ended(struct burst *b)
{
	struct frame out[BURST_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < b->n; i++) {
		if (b->egress_of[i] != EGRESS_NONE)
			continue;
		counter_add(&b->w->counters->drops[b->reason[i]], 1);
		out[n++] = b->frames[i];
	}
	port_free(b->w->port, out, n);
}

/* --- traces: out of the way ----------------------------------------------------------------------
 */

static SELDOM void trace_received(struct burst *b)
{
	trace_begin(&b->trace, &b->w->trace, b->s);
	for (unsigned i = 0; i < b->n; i++)
		if (!(b->kept >> i & 1))
			trace_in(&b->trace, i, &b->frames[i],
				 b->parsed[i] == PARSE_OK ? &b->packets[i] : NULL, &b->flows[i]);
}

static SELDOM void trace_rewritten(struct burst *b)
{
	for (unsigned i = 0; i < b->n; i++)
		if (b->egress_of[i] != EGRESS_NONE)
			trace_out(&b->trace, i, &b->frames[i], b->egress_of[i]);
}

static SELDOM void trace_ended(struct burst *b)
{
	for (unsigned i = 0; i < b->n; i++)
		trace_verdict(&b->trace, i, b->flows[i].vip ? TRACE_FORWARDED : b->reason[i]);
	trace_end(&b->trace);
}

/* One function for both sorts of bursts, into which all stages go: of two, none would. */
__attribute__((noinline)) static void run(struct worker *w, const struct snapshot *s,
					  struct frame *frames, unsigned n, uint64_t now_ms,
					  bool have_waited)
{
	struct burst b;

	if (n == 0)
		return;
	b.w = w;
	b.s = s;
	b.frames = frames;
	b.n = n;
	b.now_ms = (uint32_t)now_ms;
	b.n_ended = 0;
	b.egress = 0;
	b.aside = 0;
	b.echoes = 0;
	b.backs = 0;
	b.fragments = 0;
	b.kept = 0;
	b.have_waited = have_waited;
	b.trace.tap = NULL;
	if (have_waited)
		receive_held(&b);
	else
		receive(&b);
	parse(&b);
	classify(&b);
	look_up(&b);
	if (unlikely(s->n_by_id))
		quic_route(&b);
	if (trace_runs(&w->trace))
		trace_received(&b);
	FAULT_POINT();
	learn(&b);
	FAULT_POINT();
	rewrite(&b);
	if (unlikely(b.echoes))
		answer_echoes(&b);
	if (unlikely(b.trace.tap))
		trace_rewritten(&b);
	for (uint32_t left = b.egress; left; left &= left - 1)
		send_by(&b, (unsigned)__builtin_ctz(left));
	if (unlikely(b.trace.tap))
		trace_ended(&b);
	if (b.n_ended)
		free_ended(&b);
}

void pipeline_burst(struct worker *w, const struct snapshot *s, struct frame *frames, unsigned n,
		    uint64_t now_ms)
{
	run(w, s, frames, n, now_ms, false);
}

SELDOM void pipeline_burst_held(struct worker *w, const struct snapshot *s, struct frame *frames,
				unsigned n, uint64_t now_ms)
{
	run(w, s, frames, n, now_ms, true);
}
