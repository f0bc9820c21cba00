/* The ways back of mode nat, from the DIPs that VIPs of that mode have to the table in the snapshot
 * and to steer's map.
 *
 * A way is there before the first packet is sent to its DIP (steer learns of it before the swap,
 * the worker by it), as long as the DIP is, however it drains, and for LINGER_MS after it has gone:
 * what a backend still says to clients then (the rest of a transfer, FIN, RST) gets to them,
 * instead of being forwarded by the kernel from an address that no client knows. Such a way counts
 * for nobody, and the next VIP that has this end takes it over. One that is over is only taken out
 * of steer's map; the table loses it when it is made anew. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/internal.h"

#define LINGER_MS 60000u
#define HOPS_AT_ONCE 64u

/* --- which there are ----------------------------------------------------------------------- */

static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};

static bool takes(const struct vip_conf *v, uint8_t proto)
{
	return v->match.protocol == VIP_ANY ||
	       (v->match.protocol == VIP_TCP) == (proto == IPPROTO_TCP);
}

static struct back_key key_of(const struct vip_conf *v, const struct dip_conf *d, uint8_t proto)
{
	return (struct back_key){
		.address = d->address, .port_be = htons(dip_conf_port(d, v)), .proto = proto};
}

/* By which interfaces the DIP's packets come in, and in which VLAN: those that its route names. */
static void find_side(const struct control *c, const struct dip_conf *d, struct back_way *w)
{
	struct next_hop hop;
	bool has_route = false;

	c->conf.next_hops.get(c->conf.next_hops.ctx, &d->address, &hop, &has_route);
	w->ifaces = has_route ? (uint16_t)control_ports(c, &hop) : 0;
	w->vlan = has_route ? hop.vlan : 0;
}

static bool is_nat(const struct vip_version *v)
{
	return v && v->conf.mode == VIP_NAT;
}

/* Two DIPs of one VIP may have one address while the first drains: the way is the same, and counts
 * for the one that stays. */
static void add_dip(const struct control *c, struct back_table *t, const struct vip_version *v,
		    const struct dip_version *d)
{
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
		if (!takes(&v->conf, protocols[i]))
			continue;
		struct back_way w = {.key = key_of(&v->conf, &d->conf, protocols[i]),
				     .vip = v->conf.match.address,
				     .vip_port_be = htons(v->conf.match.port),
				     .counter = d->counter};
		find_side(c, &d->conf, &w);
		if (back_table_add(t, &w) && !d->deleting)
			back_table_get(t, &w.key)->counter = d->counter;
	}
}

/* --- a new table --------------------------------------------------------------------------- */

/* The VIP as it will be. */
static const struct vip_version *version_after(const struct batch *b, const struct vip_runtime *v)
{
	const struct batch_vip *e = batch_entry(b, v);

	return !e ? v->now : e->remove ? NULL : e->next;
}

static bool is_touched(const struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++)
		if (is_nat(b->vips[i].rt->now) || is_nat(b->vips[i].next))
			return true;
	return false;
}

typedef void (*version_fn)(struct control *c, const struct vip_version *v, void *arg);

/* Every VIP of mode nat that there will be. */
static void for_each_after(struct control *c, const struct batch *b, version_fn fn, void *arg)
{
	struct vip_walk walk = {0};
	struct vip_runtime *rt;

	while ((rt = vip_walk_next(c, &walk))) {
		const struct vip_version *v = version_after(b, rt);
		if (is_nat(v))
			fn(c, v, arg);
	}
	for (unsigned i = 0; i < b->n; i++)
		if (b->vips[i].created && !b->vips[i].remove && is_nat(b->vips[i].next))
			fn(c, b->vips[i].next, arg);
}

static void count_dips(struct control *c, const struct vip_version *v, void *arg)
{
	(void)c;
	*(uint32_t *)arg += v->n_dips * (uint32_t)ARRAY_LEN(protocols);
}

static void add_dips(struct control *c, const struct vip_version *v, void *arg)
{
	for (unsigned i = 0; i < v->n_dips; i++)
		add_dip(c, arg, v, &v->dips[i]);
}

static void add_uncounted(struct back_table *t, const struct back_way *w)
{
	struct back_way way = *w;

	way.counter = BACK_UNCOUNTED;
	if (back_table_add(t, &way))
		return; /* another has it now */
}

/* What was there and is no DIP's any more: since now, or for less than LINGER_MS. */
static void add_lingering(const struct ways_back *w, struct back_table *t)
{
	for (uint32_t i = 0; i <= w->table->mask; i++)
		if (w->table->ways[i].key.proto && w->table->ways[i].counter != BACK_UNCOUNTED)
			add_uncounted(t, &w->table->ways[i]);
	for (unsigned i = 0; i < w->n_lingering; i++)
		add_uncounted(t, back_table_get(w->table, &w->lingering[i].key));
}

int ways_back_plan(struct control *c, const struct batch *b, struct back_table **out)
{
	struct ways_back *w = &c->ways_back;
	uint32_t n = w->table ? w->table->n : 0;

	if (!is_touched(b)) {
		if (w->table)
			back_table_ref(w->table);
		*out = w->table;
		return 0;
	}
	for_each_after(c, b, count_dips, &n);
	struct back_table *t = back_table_new(n);
	if (!t)
		return -ENOMEM;
	for_each_after(c, b, add_dips, t);
	if (w->table)
		add_lingering(w, t);
	*out = t;
	return 0;
}

/* --- steer --------------------------------------------------------------------------------- */

static bool is_same_way(const struct back_table *in, const struct back_way *w)
{
	const struct back_way *was = in ? back_table_get((struct back_table *)in, &w->key) : NULL;

	return was && ip_addr_equal(&was->vip, &w->vip);
}

static void steer_way(const struct control *c, const struct back_way *w, bool there)
{
	const struct steering *s = &c->conf.steering;
	struct error err;
	char a[IP_ADDR_STRLEN];
	int rc = there ? s->add_back(s->ctx, &w->key, &w->vip, &err)
		       : s->del_back(s->ctx, &w->key, &err);

	if (rc)
		log_error("control", "%s port %u: %s (%s)", ip_addr_format(&w->key.address, a),
			  ntohs(w->key.port_be),
			  there ? "what it answers does not reach clients"
				: "its way back stays in steer's map",
			  err.message);
}

void ways_back_open(const struct control *c, const struct back_table *t)
{
	if (t == c->ways_back.table)
		return;
	for (uint32_t i = 0; i <= t->mask; i++)
		if (t->ways[i].key.proto && !is_same_way(c->ways_back.table, &t->ways[i]))
			steer_way(c, &t->ways[i], true);
}

void ways_back_undo(const struct control *c, const struct back_table *t)
{
	struct back_table *now = c->ways_back.table;

	if (t == now)
		return;
	for (uint32_t i = 0; i <= t->mask; i++) {
		const struct back_way *was =
			now && t->ways[i].key.proto ? back_table_get(now, &t->ways[i].key) : NULL;
		if (t->ways[i].key.proto && !is_same_way(now, &t->ways[i]))
			steer_way(c, was ? was : &t->ways[i], was != NULL);
	}
}

/* --- after the swap ------------------------------------------------------------------------ */

static void linger(struct ways_back *w, const struct back_key *key)
{
	struct lingering_way *grown = realloc(w->lingering, (w->n_lingering + 1) * sizeof(*grown));

	if (!grown)
		return; /* until the end of the process, then */
	w->lingering = grown;
	grown[w->n_lingering++] =
		(struct lingering_way){.key = *key, .until_ms = clock_now_ms() + LINGER_MS};
}

static void drop_lingering(struct ways_back *w, unsigned i)
{
	w->lingering[i] = w->lingering[--w->n_lingering];
}

void ways_back_install(struct control *c, struct back_table *t)
{
	struct ways_back *w = &c->ways_back;

	if (t == w->table)
		return;
	for (unsigned i = w->n_lingering; i-- > 0;)
		if (back_table_get(t, &w->lingering[i].key)->counter != BACK_UNCOUNTED)
			drop_lingering(w, i);
	for (uint32_t i = 0; w->table && i <= w->table->mask; i++) {
		const struct back_way *was = &w->table->ways[i];
		if (was->key.proto && was->counter != BACK_UNCOUNTED &&
		    back_table_get(t, &was->key)->counter == BACK_UNCOUNTED)
			linger(w, &was->key);
	}
	back_table_unref(w->table);
	back_table_ref(t);
	w->table = t;
}

void ways_back_refresh(struct control *c, const struct vip_version *v)
{
	for (unsigned i = 0; is_nat(v) && i < v->n_dips; i++)
		for (size_t k = 0; k < ARRAY_LEN(protocols); k++) {
			struct back_key key = key_of(&v->conf, &v->dips[i].conf, protocols[k]);
			if (takes(&v->conf, protocols[k]))
				find_side(c, &v->dips[i].conf,
					  back_table_get(c->ways_back.table, &key));
		}
}

static void expire(struct control *c, uint64_t now_ms)
{
	struct ways_back *w = &c->ways_back;

	for (unsigned i = w->n_lingering; i-- > 0;) {
		if (now_ms < w->lingering[i].until_ms)
			continue;
		steer_way(c, back_table_get(w->table, &w->lingering[i].key), false);
		drop_lingering(w, i);
	}
}

void ways_back_tick(struct control *c, uint64_t now_ms)
{
	struct back_hop hops[HOPS_AT_ONCE];

	if (!c->ways_back.table)
		return;
	expire(c, now_ms);
	unsigned n = c->conf.steering.take_hops(c->conf.steering.ctx, hops, HOPS_AT_ONCE);
	for (unsigned i = 0; i < n; i++)
		c->conf.next_hops.resolve(c->conf.next_hops.ctx, hops[i].ifindex, &hops[i].address);
}

void ways_back_destroy(struct ways_back *w)
{
	back_table_unref(w->table);
	free(w->lingering);
}

/* --- whether there may be one more --------------------------------------------------------- */

static bool overlap(const struct vip_conf *v, const struct dip_conf *d, const struct vip_conf *w,
		    const struct dip_conf *e)
{
	uint16_t x = dip_conf_port(d, v), y = dip_conf_port(e, w);

	return ip_addr_equal(&d->address, &e->address) && (x == y || !x || !y) &&
	       (v->match.protocol == w->match.protocol || v->match.protocol == VIP_ANY ||
		w->match.protocol == VIP_ANY);
}

struct search {
	const struct vip_conf *vip;
	const struct dip_conf *dip;
	const struct vip_version *other; /* found */
	const struct dip_version *other_dip;
};

static void search_vip(struct control *c, const struct vip_version *v, void *arg)
{
	struct search *s = arg;

	(void)c;
	if (s->other || strcmp(v->conf.id, s->vip->id) == 0)
		return;
	for (unsigned i = 0; i < v->n_dips; i++)
		if (overlap(s->vip, s->dip, &v->conf, &v->dips[i].conf)) {
			s->other = v;
			s->other_dip = &v->dips[i];
			return;
		}
}

static struct end_key end_of(const struct vip_conf *v, const struct dip_conf *d, uint8_t proto)
{
	return (struct end_key){.kind = END_EXACT,
				.address = d->address,
				.port = dip_conf_port(d, v),
				.proto = proto};
}

static void add_ends(struct end_set *s, const struct vip_conf *v, const struct dip_conf *d)
{
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
		struct end_key key = end_of(v, d, protocols[i]);
		if (!takes(v, protocols[i]))
			continue;
		end_set_add(s, &key);
		key.kind = END_ADDRESS;
		key.port = 0;
		end_set_add(s, &key);
	}
}

static void add_ends_of_vip(struct control *c, const struct vip_version *v, void *arg)
{
	(void)c;
	for (unsigned i = 0; i < v->n_dips; i++)
		add_ends(arg, &v->conf, &v->dips[i].conf);
}

static bool may_overlap(const struct end_set *s, const struct vip_conf *v, const struct dip_conf *d)
{
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
		struct end_key key = end_of(v, d, protocols[i]);
		if (!takes(v, protocols[i]))
			continue;
		if (!key.port)
			key.kind = END_ADDRESS;
		if (end_set_may_have(s, &key))
			return true;
		key.port = 0;
		if (end_set_may_have(s, &key))
			return true;
	}
	return false;
}

/* The first search of a batch looks at all ends; those after it, of which there may be a hundred
 * thousand, at the set. What was searched for may be used from then on. */
static bool is_free_end(struct change *x, const struct vip_conf *vip, const struct dip_conf *dip)
{
	struct end_set *ends = &x->b->back_ends;

	if (x->b->n_back_searches++ == 1)
		for_each_after(x->c, x->b, add_ends_of_vip, ends);
	bool is_free = x->b->n_back_searches > 1 && !may_overlap(ends, vip, dip);
	add_ends(ends, vip, dip);
	return is_free;
}

bool ways_back_collide(struct change *x, const struct vip_conf *vip, const struct dip_conf *dip)
{
	struct search s = {.vip = vip, .dip = dip};
	char a[IP_ADDR_STRLEN];

	if (vip->mode != VIP_NAT || is_free_end(x, vip, dip))
		return false;
	for_each_after(x->c, x->b, search_vip, &s);
	if (!s.other)
		return false;
	bool drains = s.other->deleting || s.other_dip->deleting;
	field_errors_add(&x->r->errors, "/address", "duplicate",
			 "what %s sends from that port is VIP \"%s\"'s already, by DIP \"%s\"%s",
			 ip_addr_format(&dip->address, a), s.other->conf.id, s.other_dip->conf.id,
			 drains ? ", which drains" : "");
	edit_refuse(x, CONTROL_CONFLICT,
		    "in mode nat one VIP alone can have a DIP's address, port and protocol");
	return true;
}
