/* From a desired state to a view: new Dcode table with the fewest moves, then pins for exactly
 * those known flows that it would misplace.
 *
 * "Misplace" is decided by asking the finished view, not by reasoning about it: after the arrays
 * are written every known flow of the VIP is looked up in them, and the few that a fingerprint
 * accident sends elsewhere (about n/65536) are pinned too, until a whole pass finds none. So a view
 * is never published that is wrong for a flow known at the time of the pass; flows learned after it
 * starts are collected by flow_set_watch and settled by the publish with the workers parked.
 *
 * Long passes breathe: after each chunk of references control drains rings and answers reads, so
 * the flow set may change under the scan. Inserts come at the end; a removal moves the last
 * reference into the hole, perhaps behind the scan, which the pass (or the watch) catches. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/internal.h"
#include "lookup/othello_map.h"

#define ROUNDS_MAX 32
#define LATE_FEW SIM_SIZE(512u, 4u) /* misplaced late flows that the exact table may take */
#define CATCH_UPS_MAX 3

struct plan {
	struct control *c;
	struct vip_runtime *v;
	struct vip_version *next;
	uint8_t *dip_known; /* by DIP index: the version has it */
	uint32_t n_dips;
	uint32_t n, cap; /* flows to pin */
	uint64_t *hashes;
	uint32_t *words;
	uint32_t *slots;
	uint32_t cap_exact;
	struct othello_map *map;
};

static int plan_grow(struct plan *p)
{
	uint32_t cap = p->cap ? p->cap * 2 : 1024;
	uint64_t *hashes = realloc(p->hashes, cap * sizeof(*hashes));

	if (!hashes)
		return -ENOMEM;
	p->hashes = hashes;
	uint32_t *words = realloc(p->words, cap * sizeof(*words));
	if (!words)
		return -ENOMEM;
	p->words = words;
	uint32_t *slots = realloc(p->slots, cap * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	p->slots = slots;
	p->cap = cap;
	return 0;
}

static int plan_pin(struct plan *p, struct flow_ref *r)
{
	if (p->n == p->cap && plan_grow(p))
		return -ENOMEM;
	p->hashes[p->n] = r->hash;
	p->words[p->n] = pin_word(r->hash, r->dip);
	p->slots[p->n] = r->slot;
	p->n++;
	r->flags |= REF_PLANNED;
	return 0;
}

static int plan_exact(struct plan *p, struct flow_ref *r)
{
	struct vip_version *next = p->next;

	r->flags |= REF_PLANNED_EXACT;
	if (FAULT(ignore_clashes))
		return 0;
	if (next->n_exact == p->cap_exact) {
		uint32_t cap = p->cap_exact ? p->cap_exact * 2 : 64;
		uint32_t *grown = realloc(next->exact_slots, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		next->exact_slots = grown;
		p->cap_exact = cap;
	}
	next->exact_slots[next->n_exact++] = r->slot;
	return 0;
}

/* --- the view ------------------------------------------------------------------------------------
 */

/* When flows were last taken from a DIP that they could use before. */
static uint32_t loss_time(const struct vip_version *now, const struct vip_view *next)
{
	if (!now || !now->view)
		return 0;
	for (uint32_t i = 1; i < now->view->n_dips; i++)
		if (now->view->dips[i].usable && (i >= next->n_dips || !next->dips[i].usable))
			return (uint32_t)clock_now_ms();
	return now->view->loss_ms;
}

static int plan_view(struct plan *p)
{
	struct vip_version *next = p->next;
	struct dcode_dip *dips = calloc(next->n_dips + 1, sizeof(*dips));
	int rc = -ENOMEM;

	p->n_dips = 1;
	health_decide(p->c, p->v, next);
	for (unsigned i = 0; i < next->n_dips; i++)
		if (next->dips[i].index >= p->n_dips)
			p->n_dips = next->dips[i].index + 1u;
	p->dip_known = calloc(p->n_dips, 1);
	if (!dips || !p->dip_known)
		goto out;
	for (unsigned i = 0; i < next->n_dips; i++) {
		const struct dip_version *d = &next->dips[i];
		dips[i] = (struct dcode_dip){
			.id = d->uid, .index = d->index, .weight = d->use.weight, .up = d->use.up};
		p->dip_known[d->index] = 1;
	}
	static const struct dcode_table none;
	rc = dcode_table_next(p->v->now ? &p->v->now->table : &none, dips, next->n_dips,
			      &next->table, &next->n_dcodes_moved);
	if (rc)
		goto out;
	struct vip_view *view = vip_view_new(next->table.n, p->n_dips);
	if (!view) {
		rc = -ENOMEM;
		goto out;
	}
	next->view = view;
	for (unsigned i = 0; i < next->n_dips && FAULT(reroll_to_weightless); i++)
		dips[i].weight = 1;
	dcode_table_reroll(&next->table, dips, next->n_dips, vip_view_homes(view));
	for (unsigned i = 0; i < next->n_dips; i++) {
		const struct dip_version *d = &next->dips[i];
		struct dip_view *dv = &vip_view_dips(view)[d->index];
		dv->address = d->conf.address;
		dv->nat_port_be = htons((uint16_t)d->conf.port);
		dv->usable = dips[i].up;
		dv->counter = d->counter;
		control_fill_hop(p->c, d, dv);
	}
	view->seed = p->v->seed;
	view->refresh_ms = vip_conf_refresh_ms(&next->conf);
	view->loss_ms = loss_time(p->v->now, view);
	view->slot = p->v->slot;
	view->uid = p->v->uid;
	view->mode = (uint8_t)next->conf.mode;
	view->gue_port = (uint16_t)next->conf.gue_port;
	view->affinity = (uint8_t)next->conf.affinity;
	view->on_learn_overflow = (uint8_t)next->conf.on_learn_overflow;
	view->fragments = (uint8_t)next->conf.fragments;
	view->clamp_mss = next->conf.clamp_mss;
	view->match = next->conf.match;
	view->dst_bits = vip_match_dst_bits(&view->match, next->conf.affinity);
	rc = quic_ids_fill(next, view);
out:
	free(dips);
	return rc;
}

/* --- passes over the flows -----------------------------------------------------------------------
 */

/* A flow of a usable DIP needs a pin if its home Dcode names another. One of a DIP that is down is
 * judged by the table before re-roll: its pin is idle now, but there when the DIP comes back, in
 * memory and on disk. One of a DIP that is gone needs none. */
static bool needs_pin(const struct plan *p, const struct flow_ref *r)
{
	const struct vip_view *view = p->next->view;
	uint32_t home = (uint32_t)r->hash & view->home_mask;

	if (r->dip >= p->n_dips || !p->dip_known[r->dip])
		return false;
	if (view->dips[r->dip].usable)
		return vip_view_home(view, home) != r->dip;
	return p->next->table.dcodes[home] != r->dip;
}

static int chunk_collect(struct plan *p, struct flow_ref *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		r[i].flags &= (uint8_t) ~(REF_PLANNED | REF_PLANNED_EXACT);
		if (needs_pin(p, &r[i]) && plan_pin(p, &r[i]))
			return -ENOMEM;
	}
	return 0;
}

/* Put a flow that the written view misplaces into the map, or else into the exact table. */
static int plan_correct(struct plan *p, struct flow_ref *r)
{
	int rc = othello_map_add(p->map, r->hash, pin_word(r->hash, r->dip));

	if (rc == -EEXIST || rc == -ENOSPC)
		return plan_exact(p, r);
	if (rc)
		return rc;
	p->next->n_accidents++;
	return plan_pin(p, r);
}

static bool misplaced(const struct plan *p, const struct flow_ref *r)
{
	const struct vip_view *view = p->next->view;

	return vip_view_lookup(view, r->hash) != r->dip && !(r->flags & REF_PLANNED_EXACT) &&
	       r->dip < p->n_dips && view->dips[r->dip].usable;
}

static int chunk_check(struct plan *p, struct flow_ref *r, uint32_t n, uint32_t *n_wrong)
{
	const struct vip_view *view = p->next->view;
	enum { AHEAD = 16 };

	for (uint32_t i = 0; i < n; i++) {
		if (view->pins.n_a && i + AHEAD < n) {
			uint32_t ia, ib;
			othello_cells(&view->pins, r[i + AHEAD].hash, &ia, &ib);
			cpu_prefetch(&view->pins.a[ia]);
			cpu_prefetch(&view->pins.b[ib]);
		}
		if (!misplaced(p, &r[i]) || (r[i].flags & REF_LATE))
			continue;
		int rc = plan_correct(p, &r[i]);
		if (rc)
			return rc;
		(*n_wrong)++;
	}
	return 0;
}

/* Call fn for every chunk of references there is, breathing in between. */
static int plan_pass(struct plan *p, uint32_t *n_wrong)
{
	struct flow_set *f = &p->v->flows;
	int rc;

	for (uint32_t i = 0; i < f->n; i += REF_CHUNK) {
		uint32_t n = f->n - i < REF_CHUNK ? f->n - i : REF_CHUNK;
		if (n_wrong)
			rc = chunk_check(p, flow_set_ref(f, i), n, n_wrong);
		else
			rc = chunk_collect(p, flow_set_ref(f, i), n);
		if (rc)
			return rc;
		control_breathe(p->c);
	}
	return 0;
}

/* --- building ------------------------------------------------------------------------------------
 */

static int plan_build(struct plan *p)
{
	uint32_t n_clashes = 0;
	uint32_t *clashes = malloc((p->n + 1) * sizeof(*clashes));
	uint64_t seed = p->v->pin_seed;
	int rc;

	if (!clashes)
		return -ENOMEM;
	rc = othello_map_build(&p->map, p->n, p->hashes, p->words, seed, clashes, &n_clashes);
	for (uint32_t i = 0; rc == 0 && i < n_clashes; i++) {
		uint32_t slot = p->slots[clashes[i]];
		if (flow_slot_live(&p->c->flows, &p->v->flows, slot))
			rc = plan_exact(p, flow_table_ref(&p->c->flows, slot));
	}
	free(clashes);
	return rc;
}

static int plan_write(struct plan *p)
{
	struct othello written;
	int rc = othello_map_write(p->map, &written);

	if (rc)
		return rc;
	othello_destroy(&p->next->view->pins);
	p->next->view->pins = written;
	vip_view_mark_pins(p->next->view, p->hashes, p->n);
	return 0;
}

/* The flows that the plan pins, with their full keys, for the database. A slot may be another
 * flow's since the pass that chose it, and become so at a breath here: then one more is on disk
 * than need be, at the DIP that it has. */
static int plan_list_pins(struct plan *p)
{
	struct vip_version *next = p->next;
	const struct flow_table *t = &p->c->flows;
	uint32_t total = p->n + next->n_exact;
	enum { AHEAD = 16, CHUNK = 4096 };

	next->pins = malloc((total + 1) * sizeof(*next->pins));
	if (!next->pins)
		return -ENOMEM;
	for (uint32_t i = 0; i < total; i++) {
		if (i + AHEAD < p->n) {
			cpu_prefetch(&t->slots[p->slots[i + AHEAD]]);
			cpu_prefetch(&t->side[p->slots[i + AHEAD]]);
		}
		bool exact = i >= p->n;
		uint32_t slot = exact ? next->exact_slots[i - p->n] : p->slots[i];
		if (!flow_slot_live(t, &p->v->flows, slot))
			continue;
		next->pins[next->n_pins++] = (struct persist_pin){
			.key = t->slots[slot].key,
			.dip = flow_meta_get(&t->slots[slot]).dip,
			.exact = exact,
		};
		if (i % CHUNK == CHUNK - 1)
			control_breathe(p->c);
	}
	return 0;
}

/* Take the misplaced late flows into the map if they are many; then the caller must write and check
 * again, and the watch begins anew. */
static int plan_catch_up(struct plan *p, uint32_t *n_taken)
{
	struct flow_set *f = &p->v->flows;
	const struct flow_table *t = &p->c->flows;
	uint32_t n = 0;

	*n_taken = 0;
	for (uint32_t i = 0; i < f->n_fresh; i++)
		if (flow_slot_live(t, f, f->fresh[i]))
			n += misplaced(p, flow_table_ref(t, f->fresh[i]));
	if (n <= LATE_FEW)
		return 0;
	for (uint32_t i = 0; i < f->n_fresh; i++) {
		if (!flow_slot_live(t, f, f->fresh[i]))
			continue;
		struct flow_ref *r = flow_table_ref(t, f->fresh[i]);
		int rc = misplaced(p, r) ? plan_correct(p, r) : 0;
		if (rc)
			return rc;
	}
	flow_set_watch(&p->c->flows, f);
	*n_taken = n;
	return 0;
}

/* Write the arrays and correct them until all flows known at the start are right. */
static int plan_settle(struct plan *p)
{
	int catch_ups = 0;

	flow_set_watch(&p->c->flows, &p->v->flows);
	for (int round = 0;; round++) {
		uint32_t n_wrong = 0;
		int rc = plan_write(p);
		if (rc == 0 && !FAULT(skip_accident_check))
			rc = plan_pass(p, &n_wrong);
		if (rc == 0 && n_wrong == 0 && catch_ups++ < CATCH_UPS_MAX)
			rc = plan_catch_up(p, &n_wrong);
		if (rc || n_wrong == 0)
			return rc;
		/* Each round places all that it finds wrong; the new arrays make about n/65536 new
		 * accidents among the rest, so rounds shrink geometrically. */
		assert(round < ROUNDS_MAX);
	}
}

static int plan_run(struct plan *p)
{
	int rc = plan_view(p);

	if (rc == 0)
		rc = plan_pass(p, NULL);
	if (rc == 0)
		rc = plan_build(p);
	if (rc == 0)
		rc = plan_settle(p);
	if (rc == 0)
		rc = plan_list_pins(p);
	return rc;
}

int plan_vip(struct control *c, struct vip_runtime *v, struct vip_version *next)
{
	struct plan p = {.c = c, .v = v, .next = next};
	int rc = plan_run(&p);

	if (rc)
		flow_set_unwatch(&c->flows, &v->flows);
	othello_map_free(p.map);
	free(p.dip_known);
	free(p.hashes);
	free(p.words);
	free(p.slots);
	return rc;
}
