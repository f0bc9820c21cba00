/* Concury, made of the product's own parts: the packet path's lookup, control's flow table, and
 * what control does at a change (control/plan.c, control/publish.c): a Dcode table with the fewest
 * moves, pins for the known flows that it would misplace, all known flows checked in the finished
 * view, and a swap while no data thread runs, at which flows that came meanwhile go into the exact
 * table. What is left out is what no other way here has either: the disk (bench_publish measures a
 * change with it, by the whole of control), the seen cache, time-outs.
 *
 * Known to be weak: a change costs a look at each flow of its VIP, and control remembers 120 bytes
 * of each. */
#include "tests/bench/peers/keeper.h"

#include <stdlib.h>

#include "control/flows.h"
#include "control/state_file.h"
#include "lookup/othello_map.h"

#define LATE_MAX 4096u /* exact entries */

struct service {
	struct dcode_table table;
	struct flow_set flows;
};

struct concury {
	struct snapshot *snapshot;
	struct service *services; /* by VIP */
	unsigned n_vips, n_threads;
	uint64_t seed;
	struct gate *gate;
	struct flow_slot *slots;
	struct flow_table table;
	struct learn_ring **rings; /* by thread */
	uint64_t generation;
	uint64_t false_hits;
};

/* A VIP's next view. */
struct plan {
	struct concury *k;
	struct service *service;
	struct vip_view *view;
	struct dcode_table table;
	uint64_t known;	 /* bit d: DIP index d is in the pool */
	uint32_t n, cap; /* flows to pin */
	uint64_t *hashes;
	uint32_t *words;
};

static void must(int rc)
{
	if (rc)
		keeper_fail("no memory");
}

static uint64_t bit(uint16_t dip)
{
	return dip <= KEEPER_DIP_MAX ? (uint64_t)1 << dip : 0;
}

/* --- planning ------------------------------------------------------------------------------------
 */

static void plan_view(struct plan *p, unsigned vip, const struct pool *pool)
{
	static const struct dcode_table none;
	const struct dcode_table *old = p->service->table.n ? &p->service->table : &none;
	uint64_t up = pool_up(pool);
	struct vip_view *v;

	must(dcode_table_next(old, pool->dips, pool->n, &p->table, NULL));
	p->view = v = vip_view_new(p->table.n, KEEPER_DIP_MAX + 1);
	if (!v)
		keeper_fail("no memory");
	dcode_table_reroll(&p->table, pool->dips, pool->n, vip_view_homes(v));
	for (unsigned i = 0; i < pool->n; i++)
		p->known |= bit(pool->dips[i].index);
	for (uint16_t d = 1; d <= KEEPER_DIP_MAX; d++)
		vip_view_dips(v)[d].usable = up & bit(d);
	v->seed = keeper_seed(p->k->seed, vip);
	v->slot = (uint16_t)vip;
	v->match.address = ip_addr_v4(&(uint32_t){__builtin_bswap32(0x0a090000 + vip)});
	v->match.port = 80;
	v->match.protocol = VIP_TCP;
}

static void plan_pin(struct plan *p, const struct flow_ref *r)
{
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 1024;
		p->hashes = realloc(p->hashes, p->cap * sizeof(*p->hashes));
		p->words = realloc(p->words, p->cap * sizeof(*p->words));
		if (!p->hashes || !p->words)
			keeper_fail("no memory");
	}
	p->hashes[p->n] = r->hash;
	p->words[p->n++] = pin_word(r->hash, r->dip);
}

static bool needs_pin(const struct plan *p, const struct flow_ref *r)
{
	uint32_t home = (uint32_t)r->hash & p->view->home_mask;

	if (!(p->known & bit(r->dip)))
		return false;
	if (p->view->dips[r->dip].usable)
		return vip_view_home(p->view, home) != r->dip;
	return p->table.dcodes[home] != r->dip;
}

static bool misplaced(const struct vip_view *v, const struct flow_ref *r)
{
	return v->dips[r->dip].usable && vip_view_lookup(v, r->hash) != r->dip;
}

/* Pin the flows that the written view misplaces, by accidents of the fingerprint. */
static uint32_t plan_correct(struct plan *p, struct othello_map *map)
{
	const struct flow_set *f = &p->service->flows;
	const struct othello *pins = &p->view->pins;
	enum { AHEAD = 16 };
	uint32_t n_wrong = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		if (pins->n_a && i + AHEAD < f->n) {
			uint32_t ia, ib;
			othello_cells(pins, flow_set_ref(f, i + AHEAD)->hash, &ia, &ib);
			cpu_prefetch(&pins->a[ia]);
			cpu_prefetch(&pins->b[ib]);
		}
		const struct flow_ref *r = flow_set_ref(f, i);
		if (!misplaced(p->view, r))
			continue;
		must(othello_map_add(map, r->hash, pin_word(r->hash, r->dip)));
		plan_pin(p, r);
		n_wrong++;
	}
	return n_wrong;
}

static void plan_run(struct plan *p, unsigned vip, const struct pool *pool)
{
	const struct flow_set *f = &p->service->flows;
	struct othello_map *map;

	plan_view(p, vip, pool);
	for (uint32_t i = 0; i < f->n; i++) {
		if (needs_pin(p, flow_set_ref(f, i)))
			plan_pin(p, flow_set_ref(f, i));
	}
	/* No two IPv4 flows of a VIP have equal hashes, so there are no clashes. */
	must(othello_map_build(&map, p->n, p->hashes, p->words, peer_mix(vip, p->k->seed), NULL,
			       NULL));
	do {
		struct othello written;
		must(othello_map_write(map, &written));
		othello_destroy(&p->view->pins);
		p->view->pins = written;
		vip_view_mark_pins(p->view, p->hashes, p->n);
	} while (plan_correct(p, map));
	othello_map_free(map);
	free(p->hashes);
	free(p->words);
}

/* --- publishing ----------------------------------------------------------------------------------
 */

static void learn(struct concury *k, const struct learn_record *rec)
{
	const struct flow_meta meta = {.phase = FLOW_ESTABLISHED, .dip = rec->dip};
	struct flow_set *f = &k->services[rec->vip_slot].flows;

	if (flow_table_find(&k->table, f, &rec->key, rec->hash) == FLOW_NONE &&
	    flow_table_insert(&k->table, f, &rec->key, rec->hash, meta, 0) == FLOW_NONE)
		keeper_fail("no memory");
}

/* Take in what the data threads told; like control, batch by batch. */
static void concury_work(void *keeper)
{
	struct concury *k = keeper;
	enum { BATCH = 32 };

	for (unsigned t = 0; t < k->n_threads; t++) {
		struct learn_ring *r = k->rings[t];
		uint64_t n;
		while ((n = learn_ring_count(r)) > 0) {
			n = n < BATCH ? n : BATCH;
			for (uint64_t i = 0; i < n; i++)
				flow_table_prefetch(&k->table,
						    r->records[(r->tail + i) & (r->n - 1)].hash);
			for (uint64_t i = 0; i < n; i++) {
				learn(k, learn_ring_peek(r));
				learn_ring_pop(r);
			}
		}
	}
}

/* All VIPs' views, with `view` for one of them. */
static struct snapshot *snapshot_with(struct concury *k, struct vip_view *view)
{
	const struct snapshot *old = k->snapshot;
	struct snapshot *s = snapshot_new(++k->generation, LATE_MAX);

	if (!s)
		keeper_fail("no memory");
	for (unsigned v = 0; v < k->n_vips; v++) {
		struct vip_view *other = v == view->slot ? view : old ? old->vips[v] : NULL;
		if (other)
			must(snapshot_add_vip(s, other));
	}
	for (uint32_t i = 0; old && old->n_exact && i <= old->exact_mask; i++) {
		const struct exact_entry *e = &old->exact[i];
		if (e->dip == DIP_NONE || e->vip_slot == view->slot)
			continue;
		uint64_t hash = flow_key_hash(&e->key, keeper_seed(k->seed, e->vip_slot));
		must(snapshot_exact_add(s, e->vip_slot, &e->key, hash, e->dip));
	}
	return s;
}

/* The flows of the VIP from number `first` on were learned after they were planned for. */
static void settle_late(struct concury *k, struct snapshot *s, const struct vip_view *view,
			uint32_t first)
{
	const struct flow_set *f = &k->services[view->slot].flows;

	for (uint32_t i = first; i < f->n; i++) {
		const struct flow_ref *r = flow_set_ref(f, i);
		if (misplaced(view, r))
			must(snapshot_exact_add(s, view->slot, &k->table.slots[r->slot].key,
						r->hash, r->dip));
	}
}

static void concury_change(void *keeper, unsigned vip, const struct pool *pool)
{
	struct concury *k = keeper;
	struct plan p = {.k = k, .service = &k->services[vip]};
	struct snapshot *old = k->snapshot;

	concury_work(k);
	uint32_t first_late = p.service->flows.n;
	plan_run(&p, vip, pool);
	struct snapshot *next = snapshot_with(k, p.view);
	gate_hold(k->gate);
	concury_work(k);
	settle_late(k, next, p.view, first_late);
	k->snapshot = next;
	gate_release(k->gate);
	vip_view_unref(p.view);
	snapshot_free(old);
	dcode_table_destroy(&p.service->table);
	p.service->table = p.table;
}

/* --- life ----------------------------------------------------------------------------------------
 */

static void *concury_create(const struct keeper_config *c)
{
	struct concury *k = keeper_alloc(1, sizeof(*k));
	/* A part of the table is for flows that are not established. */
	uint32_t capacity = c->n_flows + c->n_flows / 8 + STATE_FLOWS_MIN;

	k->seed = c->seed;
	k->n_vips = c->n_vips;
	k->n_threads = c->n_threads;
	k->gate = c->gate;
	k->slots = peer_alloc(capacity * sizeof(*k->slots));
	must(flow_table_init(&k->table, k->slots, capacity));
	k->rings = reports_new(c->n_threads);
	k->services = keeper_alloc(c->n_vips, sizeof(*k->services));
	for (unsigned v = 0; v < c->n_vips; v++)
		must(flow_set_init(&k->services[v].flows, &k->table, v + 1, KEEPER_DIP_MAX + 1));
	k->gate = NULL; /* nobody runs yet */
	for (unsigned v = 0; v < c->n_vips; v++)
		concury_change(k, v, &c->pools[v]);
	k->gate = c->gate;
	return k;
}

static void concury_destroy(void *keeper)
{
	struct concury *k = keeper;

	for (unsigned v = 0; v < k->n_vips; v++) {
		struct service *s = &k->services[v];
		while (s->flows.n)
			flow_table_remove(&k->table, flow_set_ref(&s->flows, s->flows.n - 1)->slot);
		flow_set_destroy(&s->flows, &k->table);
		dcode_table_destroy(&s->table);
	}
	free(k->services);
	reports_free(k->rings, k->n_threads);
	hugemem_free(k->slots, k->table.capacity * sizeof(*k->slots));
	flow_table_destroy(&k->table);
	snapshot_free(k->snapshot);
	free(k);
}

/* --- packets -------------------------------------------------------------------------------------
 */

static void concury_lookup(void *keeper, unsigned thread, struct keeper_burst *b)
{
	const struct concury *k = keeper;
	const struct snapshot *s = k->snapshot;

	(void)thread;
	for (unsigned i = 0; i < PEER_BURST; i++)
		b->l[i].vip = s->vips[b->vips[i]];
	uint64_t maybe_pinned = snapshot_lookup_prepare(s, b->l, PEER_BURST);
	snapshot_lookup_burst(s, b->l, PEER_BURST, maybe_pinned);
}

static uint16_t concury_open(void *keeper, unsigned thread, unsigned vip,
			     const struct flow_key *key)
{
	struct concury *k = keeper;
	struct lookup l = {.vip = k->snapshot->vips[vip], .key = *key};
	uint64_t maybe_pinned = snapshot_lookup_prepare(k->snapshot, &l, 1);

	snapshot_lookup_burst(k->snapshot, &l, 1, maybe_pinned);
	k->false_hits += l.dip != vip_view_home(l.vip, (uint32_t)l.hash & l.vip->home_mask);
	struct learn_record rec = {.key = *key,
				   .hash = l.hash,
				   .generation = k->snapshot->generation,
				   .vip_uid = vip + 1,
				   .vip_slot = (uint16_t)vip,
				   .dip = l.dip,
				   .kind = LEARN_SYN};
	if (unlikely(!learn_ring_push(k->rings[thread], &rec)) && !k->gate) {
		concury_work(k);
		must(!learn_ring_push(k->rings[thread], &rec));
	}
	/* Else it is forwarded all the same, as the product does, and stays unknown. */
	return l.dip;
}

static void concury_close(void *keeper, unsigned thread, unsigned vip, const struct flow_key *key)
{
	struct concury *k = keeper;
	uint64_t hash = flow_key_hash(key, keeper_seed(k->seed, vip));

	(void)thread;
	concury_work(k);
	uint32_t slot = flow_table_find(&k->table, &k->services[vip].flows, key, hash);
	if (slot != FLOW_NONE)
		flow_table_remove(&k->table, slot);
}

static size_t concury_bytes(const void *keeper)
{
	const struct concury *k = keeper;
	size_t bytes = k->n_threads * SEEN_ENTRIES * sizeof(struct seen_entry);

	for (unsigned v = 0; v < k->n_vips; v++)
		bytes += vip_view_pin_bytes(k->snapshot->vips[v]) +
			 vip_view_dcode_bytes(k->snapshot->vips[v]);
	return bytes;
}

static uint64_t concury_false_hits(const void *keeper)
{
	const struct concury *k = keeper;

	return k->false_hits;
}

const struct keeper keeper_concury = {
	.name = "concury",
	.create = concury_create,
	.open = concury_open,
	.lookup = concury_lookup,
	.work = concury_work,
	.close = concury_close,
	.change = concury_change,
	.bytes = concury_bytes,
	.false_hits = concury_false_hits,
	.destroy = concury_destroy,
};
