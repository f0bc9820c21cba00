/* Why it looks as it does.
 *
 * Three readers want three shapes. Learning wants one flow by key: an open-addressing index over
 * all VIPs, sized once for the capacity so that it never stops to grow. A plan wants every flow of
 * one VIP as fast as memory streams: a dense array of 16-byte references for each VIP, kept dense
 * by moving the last reference into a hole. Time-outs and capacity want the longest idle flow of a
 * kind: lists in order of the last record. Each flow is in all three, and each change is O(1).
 *
 * A list has one time-out for all its flows, so only heads are ever looked at. */
#include "control/flows.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hugemem.h"

enum flow_class flow_list_class(enum flow_list list)
{
	switch (list) {
	case LIST_CLOSING:
	case LIST_CLOSING_PINNED:
		return CLASS_CLOSING;
	case LIST_HALF_OPEN:
		return CLASS_HALF_OPEN;
	case LIST_UNPROVEN_TCP:
	case LIST_UNPROVEN_UDP:
		return CLASS_UNPROVEN;
	default:
		return CLASS_ESTABLISHED;
	}
}

static enum flow_list list_of(struct flow_meta m, uint8_t ref_flags)
{
	if (m.phase == FLOW_CLOSING)
		return ref_flags & REF_PINNED ? LIST_CLOSING_PINNED : LIST_CLOSING;
	if (m.phase == FLOW_HALF_OPEN)
		return LIST_HALF_OPEN;
	if (m.flags & FLOW_UNPROVEN)
		return m.flags & FLOW_UDP ? LIST_UNPROVEN_UDP : LIST_UNPROVEN_TCP;
	return m.flags & FLOW_UDP ? LIST_UDP : LIST_ESTABLISHED;
}

/* --- lists --------------------------------------------------------------------------------- */

static void list_append(struct flow_table *t, struct flow_set *f, uint32_t slot,
			enum flow_list list)
{
	struct flow_chain *c = &f->lists[list];
	struct flow_side *s = &t->side[slot];

	s->list = (uint8_t)list;
	s->next = FLOW_NONE;
	s->prev = c->tail;
	if (c->tail == FLOW_NONE)
		c->head = slot;
	else
		t->side[c->tail].next = slot;
	c->tail = slot;
	if (c->cursor == CURSOR_END)
		c->cursor = slot;
	c->n++;
	t->class_n[flow_list_class(list)]++;
}

static void list_unlink(struct flow_table *t, struct flow_set *f, uint32_t slot)
{
	struct flow_side *s = &t->side[slot];
	struct flow_chain *c = &f->lists[s->list];

	if (c->cursor == slot)
		c->cursor = s->next == FLOW_NONE ? CURSOR_END : s->next;
	if (s->prev == FLOW_NONE)
		c->head = s->next;
	else
		t->side[s->prev].next = s->next;
	if (s->next == FLOW_NONE)
		c->tail = s->prev;
	else
		t->side[s->next].prev = s->prev;
	c->n--;
	t->class_n[flow_list_class(s->list)]--;
}

/* --- index --------------------------------------------------------------------------------- */

static uint32_t index_home(const struct flow_table *t, uint64_t hash)
{
	return (uint32_t)(hash >> 16) & t->index_mask;
}

static uint64_t index_entry(uint64_t hash, uint32_t slot)
{
	return (hash & 0xffffffff00000000u) | (slot + 1);
}

static void index_insert(struct flow_table *t, uint64_t hash, uint32_t slot)
{
	uint32_t i = index_home(t, hash);

	while (t->index[i])
		i = (i + 1) & t->index_mask;
	t->index[i] = index_entry(hash, slot);
}

static void index_remove(struct flow_table *t, uint64_t hash, uint32_t slot)
{
	uint64_t want = index_entry(hash, slot);
	uint32_t i = index_home(t, hash);

	while (t->index[i] != want) {
		assert(t->index[i]);
		i = (i + 1) & t->index_mask;
	}
	/* Close the hole: move back every later entry of the run whose home allows it. */
	uint32_t hole = i;
	for (;;) {
		i = (i + 1) & t->index_mask;
		if (!t->index[i])
			break;
		uint32_t home = index_home(t, t->slots[(uint32_t)t->index[i] - 1].hash);
		if (((i - home) & t->index_mask) >= ((i - hole) & t->index_mask)) {
			t->index[hole] = t->index[i];
			hole = i;
		}
	}
	t->index[hole] = 0;
}

uint32_t flow_table_find(const struct flow_table *t, const struct flow_set *f,
			 const struct flow_key *key, uint64_t hash)
{
	uint32_t i = index_home(t, hash);

	for (; t->index[i]; i = (i + 1) & t->index_mask) {
		if ((t->index[i] ^ hash) >> 32)
			continue;
		uint32_t slot = (uint32_t)t->index[i] - 1;
		const struct flow_slot *s = &t->slots[slot];
		if (s->vip_uid == f->vip_uid && flow_key_equal(&s->key, key))
			return slot;
	}
	return FLOW_NONE;
}

/* --- sets: the dense array ----------------------------------------------------------------- */

int flow_set_init(struct flow_set *f, struct flow_table *t, uint32_t vip_uid, uint32_t n_dips)
{
	if (t->n_sets == t->cap_sets) {
		uint32_t cap = t->cap_sets ? t->cap_sets * 2 : 16;
		struct flow_set **grown = realloc(t->sets, cap * sizeof(struct flow_set *));
		if (!grown)
			return -ENOMEM;
		t->sets = grown;
		t->cap_sets = cap;
	}
	*f = (struct flow_set){.vip_uid = vip_uid};
	for (int i = 0; i < N_FLOW_LISTS; i++)
		f->lists[i] = (struct flow_chain){FLOW_NONE, FLOW_NONE, FLOW_NONE, 0};
	if (flow_set_reserve_dips(f, n_dips))
		return -ENOMEM;
	t->sets[t->n_sets++] = f;
	return 0;
}

int flow_set_reserve_dips(struct flow_set *f, uint32_t n_dips)
{
	if (n_dips <= f->n_dips)
		return 0;
	uint64_t *grown = realloc(f->dip_flows, n_dips * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + f->n_dips, 0, (n_dips - f->n_dips) * sizeof(*grown));
	f->dip_flows = grown;
	f->n_dips = n_dips;
	return 0;
}

void flow_set_destroy(struct flow_set *f, struct flow_table *t)
{
	assert(f->n == 0);
	for (uint32_t i = 0; i < t->n_sets; i++) {
		if (t->sets[i] == f) {
			t->sets[i] = t->sets[--t->n_sets];
			break;
		}
	}
	memset(t->victims, 0, sizeof(t->victims));
	for (uint32_t i = 0; i < f->n_chunks; i++)
		hugemem_free(f->chunks[i], REF_CHUNK * sizeof(struct flow_ref));
	free(f->chunks);
	free(f->dip_flows);
	free(f->fresh);
	*f = (struct flow_set){0};
}

static int set_reserve(struct flow_set *f)
{
	if (f->n < f->n_chunks * REF_CHUNK)
		return 0;
	struct flow_ref **grown = realloc(f->chunks, (f->n_chunks + 1) * sizeof(struct flow_ref *));
	if (!grown)
		return -ENOMEM;
	f->chunks = grown;
	f->chunks[f->n_chunks] = hugemem_alloc(REF_CHUNK * sizeof(struct flow_ref), NULL);
	if (!f->chunks[f->n_chunks])
		return -ENOMEM;
	f->n_chunks++;
	return 0;
}

/* A flow that is not collected here would be missed by the publish, so running out of memory is
 * remembered (cap_fresh == UINT32_MAX) and flow_set_watch_failed tells. */
static void set_mark_fresh(struct flow_set *f, uint32_t slot)
{
	if (!f->watching || f->cap_fresh == UINT32_MAX)
		return;
	if (f->n_fresh == f->cap_fresh) {
		uint32_t cap = f->cap_fresh ? f->cap_fresh * 2 : 1024;
		uint32_t *grown = realloc(f->fresh, cap * sizeof(*grown));
		if (!grown) {
			f->cap_fresh = UINT32_MAX;
			return;
		}
		f->fresh = grown;
		f->cap_fresh = cap;
	}
	f->fresh[f->n_fresh++] = slot;
}

/* No reference may keep a mark of an earlier watch: the check would take it for collected. */
static void set_forget_fresh(struct flow_table *t, struct flow_set *f)
{
	for (uint32_t i = 0; i < f->n_fresh; i++)
		if (flow_slot_live(t, f, f->fresh[i]))
			flow_table_ref(t, f->fresh[i])->flags &= (uint8_t)~REF_LATE;
	f->n_fresh = 0;
	f->n_settled = 0;
}

void flow_set_watch(struct flow_table *t, struct flow_set *f)
{
	set_forget_fresh(t, f);
	f->watching = true;
	if (f->cap_fresh == UINT32_MAX) {
		free(f->fresh);
		f->fresh = NULL;
		f->cap_fresh = 0;
	}
}

bool flow_set_watch_failed(const struct flow_set *f)
{
	return f->cap_fresh == UINT32_MAX;
}

void flow_set_unwatch(struct flow_table *t, struct flow_set *f)
{
	f->watching = false;
	set_forget_fresh(t, f);
}

void flow_set_published(struct flow_set *f)
{
	for (int i = 0; i < N_FLOW_LISTS; i++)
		f->lists[i].cursor = FLOW_NONE;
}

static int set_append(struct flow_table *t, struct flow_set *f, uint32_t slot, uint64_t hash,
		      uint16_t dip)
{
	if (set_reserve(f))
		return -ENOMEM;
	if (dip >= f->n_dips && flow_set_reserve_dips(f, dip + 1u))
		return -ENOMEM;
	*flow_set_ref(f, f->n) = (struct flow_ref){.hash = hash, .slot = slot, .dip = dip};
	t->side[slot].ref = f->n++;
	t->side[slot].set = f;
	t->side[slot].agent_epoch = 0;
	f->dip_flows[dip]++;
	return 0;
}

static void set_remove(struct flow_table *t, struct flow_set *f, uint32_t slot)
{
	uint32_t hole = t->side[slot].ref;
	struct flow_ref *r = flow_set_ref(f, hole);
	uint32_t last = f->n - 1;

	if (r->flags & REF_PINNED) {
		f->n_pinned--;
		f->dead_pins += !FAULT(keep_dead_pins);
	}
	f->dip_flows[r->dip]--;
	if (hole != last) {
		*r = *flow_set_ref(f, last);
		t->side[r->slot].ref = hole;
		set_mark_fresh(f, r->slot); /* a scan that has passed the hole would miss it */
	}
	f->n = last;
}

/* --- the table ----------------------------------------------------------------------------- */

int flow_table_init(struct flow_table *t, struct flow_slot *slots, uint32_t capacity)
{
	uint64_t n_index = 1024;

	while (n_index < (uint64_t)capacity * 3 / 2)
		n_index *= 2;
	*t = (struct flow_table){
		.slots = slots,
		.capacity = capacity,
		.free_head = FLOW_NONE,
		.index_mask = (uint32_t)(n_index - 1),
	};
	t->side = hugemem_alloc(capacity * sizeof(*t->side), NULL);
	t->index = hugemem_alloc(n_index * sizeof(*t->index), NULL);
	if (!t->side || !t->index) {
		flow_table_destroy(t);
		return -ENOMEM;
	}
	t->class_cap[CLASS_CLOSING] = capacity / 2 + 1;
	t->class_cap[CLASS_HALF_OPEN] = capacity / 4 + 1;
	t->class_cap[CLASS_UNPROVEN] = capacity / 4 + 1;
	t->class_cap[CLASS_ESTABLISHED] = capacity - capacity / 16;
	return 0;
}

void flow_table_destroy(struct flow_table *t)
{
	hugemem_free(t->side, t->capacity * sizeof(*t->side));
	hugemem_free(t->index, ((size_t)t->index_mask + 1) * sizeof(*t->index));
	free(t->sets);
	*t = (struct flow_table){0};
}

static void slot_free(struct flow_table *t, uint32_t slot)
{
	atomic_store_explicit(&t->slots[slot].meta, 0, memory_order_release);
	t->side[slot].next = t->free_head;
	t->free_head = slot;
}

int flow_table_adopt(struct flow_table *t, uint32_t slot, struct flow_set *set)
{
	struct flow_slot *s = &t->slots[slot];
	struct flow_meta m = flow_meta_get(s);

	for (; t->next_fresh_slot < slot; t->next_fresh_slot++)
		slot_free(t, t->next_fresh_slot);
	t->next_fresh_slot = slot + 1;
	if (!set) {
		slot_free(t, slot);
		return 0;
	}
	if (set_append(t, set, slot, s->hash, m.dip)) {
		slot_free(t, slot);
		return -ENOMEM;
	}
	list_append(t, set, slot, list_of(m, 0));
	index_insert(t, s->hash, slot);
	t->n++;
	return 0;
}

/* --- flows --------------------------------------------------------------------------------- */

static uint32_t slot_take(struct flow_table *t)
{
	if (t->free_head != FLOW_NONE) {
		uint32_t slot = t->free_head;
		t->free_head = t->side[slot].next;
		return slot;
	}
	assert(t->next_fresh_slot < t->capacity);
	return t->next_fresh_slot++;
}

uint32_t flow_table_insert(struct flow_table *t, struct flow_set *f, const struct flow_key *key,
			   uint64_t hash, struct flow_meta meta, uint32_t opened_ms)
{
	if (t->n == t->capacity)
		flow_table_forget(t, FLOW_NONE);
	uint32_t slot = slot_take(t);
	if (set_append(t, f, slot, hash, meta.dip)) {
		slot_free(t, slot);
		return FLOW_NONE;
	}
	struct flow_slot *s = &t->slots[slot];
	s->key = *key;
	s->hash = hash;
	s->vip_uid = f->vip_uid;
	atomic_store_explicit(&s->opened_ms, opened_ms, memory_order_relaxed);
	FAULT_POINT();
	flow_meta_set(s, meta); /* a release store: from here on the slot is valid */
	index_insert(t, hash, slot);
	enum flow_list list = list_of(meta, 0);
	list_append(t, f, slot, list);
	t->n++;
	flow_set_ref(f, t->side[slot].ref)->flags |= f->watching ? REF_LATE : 0;
	set_mark_fresh(f, slot);
	flow_class_enforce(t, flow_list_class(list), slot);
	return slot;
}

void flow_table_update(struct flow_table *t, uint32_t slot, struct flow_meta meta)
{
	struct flow_set *f = t->side[slot].set;
	struct flow_ref *r = flow_table_ref(t, slot);
	enum flow_list from = t->side[slot].list;
	enum flow_list to = list_of(meta, r->flags);

	if (meta.dip != r->dip) {
		f->dip_flows[r->dip]--;
		f->dip_flows[meta.dip]++;
		r->dip = meta.dip;
		r->flags |= f->watching ? REF_LATE : 0;
		set_mark_fresh(f, slot);
	}
	flow_meta_set(&t->slots[slot], meta);
	list_unlink(t, f, slot);
	list_append(t, f, slot, to);
	if (flow_list_class(from) != flow_list_class(to))
		flow_class_enforce(t, flow_list_class(to), slot);
}

void flow_table_remove(struct flow_table *t, uint32_t slot)
{
	struct flow_set *f = t->side[slot].set;

	index_remove(t, t->slots[slot].hash, slot);
	list_unlink(t, f, slot);
	set_remove(t, f, slot);
	slot_free(t, slot);
	t->n--;
}

void flow_table_flag(struct flow_table *t, uint32_t slot, uint8_t mask, uint8_t value)
{
	struct flow_set *f = t->side[slot].set;
	struct flow_ref *r = flow_table_ref(t, slot);
	uint8_t flags = (uint8_t)((r->flags & ~mask) | (value & mask));

	if ((flags ^ r->flags) & REF_PINNED)
		f->n_pinned += flags & REF_PINNED ? 1 : -1u;
	r->flags = flags;
	/* Only a closing flow's list depends on it; the others' slots need not be touched. */
	if (t->side[slot].list != LIST_CLOSING && t->side[slot].list != LIST_CLOSING_PINNED)
		return;
	enum flow_list to = list_of(flow_meta_get(&t->slots[slot]), flags);
	if (to != t->side[slot].list) {
		list_unlink(t, f, slot);
		list_append(t, f, slot, to);
	}
}
