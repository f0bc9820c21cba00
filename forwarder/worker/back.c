/* The translation needs no flow: (DIP, port, protocol) names one VIP. steer has asked the kernel
 * where the client is and written the MAC addresses; what is left to do is what needs the whole
 * packet or the snapshot.
 *
 * Who may be translated: a source address is easily written, so a packet counts as a DIP's only if
 * it came in by the interface that leads to the DIP (strict reverse path, as a router's rp_filter).
 * A client that pretends to be one from elsewhere is dropped and counted. One that stands on the
 * DIPs' own segment, and whom nothing there keeps from using their addresses, could as well be the
 * DIP: what it gains is packets from the VIP's address and port to whom it likes, which it could
 * send from there itself, without us. */
#include "worker/back.h"

#include <arpa/inet.h>
#include <assert.h>

#include "io/steer_map.h"
#include "packet/nat.h"
#include "packet/ttl.h"
#include "worker/fragments.h"
#include "worker/vlan.h"

#define TYPE_AT 12

/* The Ethernet type that steer's mark has taken the place of. */
static const uint16_t types[] = {[STEER_BACK_V4] = 0x0800,
				 [STEER_BACK_V6] = 0x86dd,
				 [STEER_BACK_CTAG] = 0x8100,
				 [STEER_BACK_STAG] = 0x88a8};

static uint16_t type_of(uint16_t mark)
{
	return types[mark >> STEER_BACK_KIND_SHIFT & 3];
}

/* As steer has done it. */
static void mark_again(uint8_t *type_at, unsigned code)
{
	uint16_t type, mark, kind = 0;

	memcpy(&type, type_at, sizeof(type));
	while (kind < ARRAY_LEN(types) && types[kind] != ntohs(type))
		kind++;
	assert(kind < ARRAY_LEN(types)); /* it has been unmarked */
	mark = htons((uint16_t)(STEER_BACK_TYPE | kind << STEER_BACK_KIND_SHIFT | code));
	memcpy(type_at, &mark, sizeof(mark));
}

static enum drop_reason reason_of_code(unsigned code)
{
	switch (code) {
	case STEER_BACK_NO_NEIGHBOR:
		return DROP_back_unresolved;
	case STEER_BACK_TOO_BIG:
		return DROP_frame_too_big;
	default:
		return DROP_back_elsewhere;
	}
}

static enum drop_reason reason_of_parse(enum parse_result r)
{
	return r == PARSE_NOT_L4 ? DROP_not_l4 : DROP_malformed;
}

static const struct back_way *find_way(const struct burst *b, const struct packet *p)
{
	return b->s->back ? back_table_find(b->s->back, &p->src, p->sport_be, p->proto) : NULL;
}

__attribute__((noinline)) bool back_unmark(struct burst *b, unsigned i)
{
	struct frame *f = &b->frames[i];
	uint16_t mark;

	if (f->len < TYPE_AT + sizeof(mark))
		return false;
	memcpy(&mark, f->data + TYPE_AT, sizeof(mark));
	mark = ntohs(mark);
	if ((mark & STEER_BACK_MASK) != STEER_BACK_TYPE)
		return false;
	uint16_t type_be = htons(type_of(mark));
	memcpy(f->data + TYPE_AT, &type_be, sizeof(type_be));
	b->egress_of[i] = mark & STEER_BACK_CODE_MASK;
	b->backs |= 1u << i;
	return true;
}

static const struct way_out *out_of(const struct burst *b, unsigned code)
{
	bool is_stacked = code >= STEER_IFACES_MAX && code < STEER_BACK_NO_NEIGHBOR && b->w->links;

	return is_stacked ? &b->w->links->outs[code - STEER_IFACES_MAX] : NULL;
}

/* The code names a way out, not a reason why there is none. */
static bool is_out(const struct burst *b, unsigned code)
{
	const struct way_out *out = out_of(b, code);

	return out ? out->ports != 0 : code < b->w->port->n_ifaces;
}

static void end(struct burst *b, unsigned i, enum drop_reason reason)
{
	b->backs &= ~(1u << i);
	burst_end(b, i, reason);
}

static void leave(struct burst *b, unsigned i, unsigned code)
{
	const struct way_out *out = out_of(b, code);

	b->back_vlans[i] = out ? out->vlan : 0;
	burst_send_aside(b, i, out ? port_choose(out->ports, &b->packets[i].dst) : code);
}

/* It is the DIP's of this way. */
static void send_back(struct burst *b, unsigned i, const struct back_way *w, unsigned code)
{
	const struct packet *p = &b->packets[i];

	if (!is_out(b, code))
		end(b, i, reason_of_code(code));
	else if (!nat_fits(p, &w->vip))
		end(b, i, DROP_untranslatable);
	else if (ttl_ends(b->frames[i].data + p->l3_offset, p->is_v6))
		end(b, i, DROP_ttl_expired);
	else {
		b->ways[i] = w;
		leave(b, i, code);
	}
}

static void remember_first(struct burst *b, const struct packet *p)
{
	struct fragment_cache *cache = b->w->fragments.cache;

	fragment_cache_put(cache, fragment_cache_tag(cache, p), p, b->now_ms);
}

/* A fragment needs ports to find its way: it has them, or is told them, or waits for them, marked
 * as it came, if it could leave then. */
static SELDOM bool take_fragment(struct burst *b, unsigned i, unsigned code)
{
	const struct fragment_cache *cache = b->w->fragments.cache;
	struct packet *p = &b->packets[i];

	if (p->kind == PACKET_LATER) {
		uint64_t tag = fragment_cache_tag(cache, p);
		bool found = fragment_cache_find(cache, tag, b->now_ms, p);

		if (!found && !is_out(b, code)) {
			end(b, i, reason_of_code(code));
			return false;
		}
		if (!found) {
			b->backs &= ~(1u << i);
			mark_again(b->frames[i].data + TYPE_AT, code);
			fragments_hold(b, i, tag);
			return false;
		}
	}
	b->parsed[i] = PARSE_OK;
	return true;
}

__attribute__((noinline)) void back_take(struct burst *b, unsigned i)
{
	const struct frame *f = &b->frames[i];
	const struct packet *p = &b->packets[i];
	unsigned code = b->egress_of[i];

	if (unlikely(b->parsed[i] == PARSE_FRAGMENT) && !take_fragment(b, i, code))
		return;
	const struct back_way *w = b->parsed[i] == PARSE_OK ? find_way(b, p) : NULL;

	if (b->parsed[i] != PARSE_OK)
		end(b, i, reason_of_parse(b->parsed[i]));
	else if (!w)
		end(b, i, DROP_back_unknown);
	else if (!(w->ifaces >> f->iface & 1) || w->vlan != vlan_of(b, i))
		end(b, i, DROP_back_spoofed);
	else {
		if (unlikely(p->kind == PACKET_FIRST))
			remember_first(b, p);
		send_back(b, i, w, code);
	}
}

__attribute__((noinline)) void back_rewrite(struct burst *b, unsigned i)
{
	uint8_t *data = b->frames[i].data;
	struct packet *p = &b->packets[i];

	nat_set_source(data, p, &b->ways[i]->vip, b->ways[i]->vip_port_be);
	ttl_lower(data + p->l3_offset, p->is_v6);
	if (!vlan_leave_back(b, i, b->back_vlans[i]))
		end(b, i, DROP_no_headroom);
}

void back_count(const struct burst *b, unsigned i)
{
	uint32_t counter = b->ways[i]->counter;

	if (counter == BACK_UNCOUNTED)
		return;
	counter_add(&b->w->counters->back[counter].packets, 1);
	counter_add(&b->w->counters->back[counter].bytes, b->len_in[i]);
}
