/* A fragment with ports, its own or those that the cache knows, is a packet like any other from
 * here on: the pipeline looks up its flow.
 *
 * What is held belongs to the worker, as frames between rx and tx do, and holds no pointer into a
 * snapshot: it goes through the whole pipeline when it leaves, by the snapshot of that time. When
 * there is no room, the oldest goes: under a flood of fragments without a first, it is the one that
 * has had the best chance, and the youngest still get some time.
 *
 * Where the client's address alone decides, and the VIP is the only one of its address and
 * protocol, there is nothing to wait for. */
#include "worker/fragments.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "worker/burst.h"
#include "worker/pipeline.h"

/* --- in a burst ----------------------------------------------------------------------------------
 */

static bool goes_by_client(const struct vip_view *v, uint8_t proto)
{
	return v->affinity == AFFINITY_CLIENT ||
	       (v->fragments == FRAGMENTS_CLIENT && proto == IPPROTO_UDP);
}

/* Stand-ins for the ports, with which a packet is the VIP's and its client's. */
static bool needs_no_ports(const struct snapshot *s, struct packet *p)
{
	const struct vip_view *v = snapshot_match_sole(s, &p->dst, p->proto);

	if (!v || !goes_by_client(v, p->proto))
		return false;
	p->sport_be = 0;
	p->dport_be = htons(v->match.port);
	return true;
}

static struct held_fragment *at(struct fragments *f, uint32_t position)
{
	return &f->held[position % PORT_HELD_MAX];
}

static void forget_left(struct fragments *f)
{
	while (f->first != f->end && !at(f, f->first)->used)
		f->first++;
}

/* Without room the oldest takes the frame's place in the burst, and ends there. */
static void hold(struct burst *b, unsigned i, uint64_t tag)
{
	struct fragments *f = &b->w->fragments;
	struct held_fragment new = {
		.frame = b->frames[i], .tag = tag, .since_ms = b->now_ms, .used = true};

	if (f->end - f->first == PORT_HELD_MAX) {
		b->frames[i] = at(f, f->first++)->frame;
		forget_left(f);
		burst_end(b, i, DROP_fragment_overflow);
	} else {
		b->kept |= 1u << i;
		b->reason[i] = ANSWERS_NONE;
		b->egress_of[i] = EGRESS_HELD;
		b->flows[i].vip = NULL;
	}
	*at(f, f->end++) = new;
}

SELDOM void fragments_hold(struct burst *b, unsigned i, uint64_t tag)
{
	if (b->have_waited)
		burst_end(b, i, DROP_fragment_timeout);
	else
		hold(b, i, tag);
}

SELDOM bool fragments_take(struct burst *b, unsigned i)
{
	struct fragment_cache *cache = b->w->fragments.cache;
	struct packet *p = &b->packets[i];
	uint64_t tag = fragment_cache_tag(cache, p);

	if (p->kind == PACKET_FIRST) {
		fragment_cache_put(cache, tag, p, b->now_ms);
		if (p->proto == IPPROTO_TCP)
			p->segment = SEG_UNTOLD;
	} else if (!fragment_cache_find(cache, tag, b->now_ms, p) && !needs_no_ports(b->s, p)) {
		fragments_hold(b, i, tag);
		return false;
	}
	b->parsed[i] = PARSE_OK;
	b->fragments |= 1u << i;
	return true;
}

SELDOM void fragments_classify(struct burst *b)
{
	for (uint32_t left = b->fragments; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		struct packet *p = &b->packets[i];
		struct lookup *f = &b->flows[i];

		if (!f->vip || f->vip->affinity == AFFINITY_CLIENT ||
		    !goes_by_client(f->vip, p->proto))
			continue;
		f->key = (struct flow_key){.src = p->src};
		p->segment = SEG_UNTOLD;
	}
}

/* --- between bursts ------------------------------------------------------------------------------
 */

SELDOM void fragments_release(struct worker *w)
{
	const struct snapshot *s = atomic_load_explicit(&w->snapshot, memory_order_acquire);
	struct fragments *f = &w->fragments;
	uint64_t puts = fragment_cache_puts(f->cache), now_ms = clock_now_ms();
	bool news = puts != f->puts_seen;
	struct frame frames[BURST_MAX];
	struct packet found;
	unsigned n = 0;

	f->puts_seen = puts;
	for (uint32_t i = f->first; i != f->end; i++) {
		struct held_fragment *h = at(f, i);
		bool late = (uint32_t)now_ms - h->since_ms > FRAGMENT_HOLD_MS;

		if (!late && !news)
			break; /* all behind are younger */
		if (!h->used ||
		    (!late && !fragment_cache_find(f->cache, h->tag, (uint32_t)now_ms, &found)))
			continue;
		h->used = false;
		frames[n++] = h->frame;
		if (n == BURST_MAX) {
			pipeline_burst_held(w, s, frames, n, now_ms);
			n = 0;
		}
	}
	pipeline_burst_held(w, s, frames, n, now_ms);
	forget_left(f);
}

SELDOM void fragments_drop(struct worker *w)
{
	struct fragments *f = &w->fragments;

	for (; f->first != f->end; f->first++) {
		const struct held_fragment *h = at(f, f->first);

		if (!h->used)
			continue;
		port_free(w->port, &h->frame, 1);
		counter_add(&w->counters->drops[DROP_fragment_timeout], 1);
	}
}
