/* The flow table: every known flow, control's alone. Slots lie in the state file and outlive the
 * process; index, references and lists are private and made anew at start. */
#pragma once

#include <stdatomic.h>

#include "base/fault.h"
#include "lookup/flow_key.h"
#include "lookup/snapshot.h"

#define FLOW_NONE UINT32_MAX

enum flow_phase { FLOW_FREE, FLOW_HALF_OPEN, FLOW_ESTABLISHED, FLOW_CLOSING };

/* Flags of a slot. */
#define FLOW_UNPROVEN 0x01 /* adopted or UDP, not yet seen in two refresh intervals */
#define FLOW_BY_RST 0x02   /* closing because of a RST: a bare ACK revives it */
#define FLOW_UDP 0x04      /* lives by the UDP time-out */
#define FLOW_CLAIMED 0x08  /* an agent says that it lives on this DIP, no packet has shown it */

/** One flow in the state file. All that changes after the insert is in `meta`, one 64-bit word, so a
 *  process killed between any two stores leaves either the old or the new state; a slot is filled
 *  while meta is 0 (free) and freed by storing 0. (opened_ms may be one SYN off after a kill.) */
struct flow_slot {
	struct flow_key key;
	uint64_t hash;
	uint32_t vip_uid;
	_Atomic uint32_t opened_ms;
	_Atomic uint64_t meta; /* struct flow_meta, packed; 0 = free */
	uint64_t zero[2];
};
_Static_assert(sizeof(struct flow_slot) == 64, "one cache line");

struct flow_meta {
	uint32_t seen_ms; /* low bits of clock_now_ms of the last record */
	uint16_t dip;
	uint8_t phase; /* enum flow_phase */
	uint8_t flags;
};

static ALWAYS_INLINE struct flow_meta flow_meta_get(const struct flow_slot *s)
{
	uint64_t w = atomic_load_explicit(&s->meta, memory_order_relaxed);

	return (struct flow_meta){.seen_ms = (uint32_t)w,
				  .dip = (uint16_t)(w >> 32),
				  .phase = (uint8_t)(w >> 48),
				  .flags = (uint8_t)(w >> 56)};
}

static ALWAYS_INLINE void flow_meta_set(struct flow_slot *s, struct flow_meta m)
{
	uint64_t w = (uint64_t)m.flags << 56 | (uint64_t)m.phase << 48 | (uint64_t)m.dip << 32 |
		     m.seen_ms;

	atomic_store_explicit(&s->meta, w, memory_order_release);
}

/* Each flow stands in one list of its VIP, longest idle first; all flows of a list have one
 * time-out. */
enum flow_list {
	LIST_CLOSING,        /* time-out `closing` */
	LIST_CLOSING_PINNED, /* closing_pin_s: their pins are wanted back sooner */
	LIST_HALF_OPEN,
	LIST_UNPROVEN_TCP,
	LIST_UNPROVEN_UDP,
	LIST_ESTABLISHED,
	LIST_UDP,
	N_FLOW_LISTS,
};

/* Capacity classes, forgotten in this order. The first three are capped. */
enum flow_class { CLASS_CLOSING, CLASS_HALF_OPEN, CLASS_UNPROVEN, CLASS_ESTABLISHED, N_FLOW_CLASSES };

/* Bits of flow_ref.flags. */
#define REF_PINNED 0x01 /* a pin or an exact entry of the published snapshot names it */
#define REF_EXACT 0x02  /* it is an exact entry */
#define REF_PLANNED 0x04       /* the plan under way pins it */
#define REF_PLANNED_EXACT 0x08 /* the plan under way makes it an exact entry */
#define REF_LATE 0x10 /* inserted or re-homed since the watch began: it is in `fresh` */

/** What a plan reads of a flow: dense, in chunks, so that a scan streams. */
struct flow_ref {
	uint64_t hash;
	uint32_t slot;
	uint16_t dip;
	uint8_t flags;
	uint8_t zero;
};

#define REF_CHUNK SIM_SIZE(16384u, 32u)

#define CURSOR_END (UINT32_MAX - 1)

struct flow_chain {
	uint32_t head, tail; /* slots; FLOW_NONE = empty */
	uint32_t cursor; /* all flows before it are pinned: eviction starts here. FLOW_NONE = at the
			    head, CURSOR_END = all are pinned */
	uint32_t n;
};

/** The flows of one VIP. */
struct flow_set {
	uint32_t vip_uid;
	uint32_t n;         /* flows */
	uint32_t n_pinned;  /* with REF_PINNED */
	uint32_t n_chunks;
	struct flow_ref **chunks;
	struct flow_chain lists[N_FLOW_LISTS];
	uint64_t *dip_flows; /* flows by DIP index; n_dips entries */
	uint32_t n_dips;
	uint32_t dead_pins;  /* pinned flows that ended since the last publish of this VIP */
	/* flows inserted, re-homed or moved in the dense array while `watching` (a plan is being
	 * checked or waits for its publish) */
	bool watching;
	uint32_t n_fresh, cap_fresh;
	uint32_t n_settled; /* of fresh: the publish has seen to them */
	uint32_t *fresh;
};

static ALWAYS_INLINE struct flow_ref *flow_set_ref(const struct flow_set *f, uint32_t i)
{
	return &f->chunks[i / REF_CHUNK][i % REF_CHUNK];
}

/* Private companion of a slot. */
struct flow_side {
	uint32_t ref; /* position in the set's dense array */
	uint32_t prev, next; /* in its list */
	uint8_t list;
	uint8_t agent_epoch; /* of the last full report that named it; 0 = none */
	uint8_t zero[2];
	struct flow_set *set;
};

struct flow_table {
	struct flow_slot *slots; /* state file */
	struct flow_side *side;
	uint64_t *index; /* open addressing: hash tag << 32 | slot + 1 */
	uint32_t index_mask;
	uint32_t capacity;
	uint32_t n;
	uint32_t next_fresh_slot; /* slots from here on were never used in this process */
	uint32_t free_head;       /* freed slots, linked through side.next */
	uint32_t class_n[N_FLOW_CLASSES];
	uint32_t class_cap[N_FLOW_CLASSES];
	uint64_t n_forgotten; /* at capacity */
	uint32_t n_sets, cap_sets;
	struct flow_set **sets;
	/* eviction stays with one chain for a while, so that it need not look at every VIP each time */
	struct flow_chain *victims[N_FLOW_CLASSES];
	uint32_t victims_left[N_FLOW_CLASSES];
};

/** slots: capacity of them, from the state file, content kept. Nothing is in the index yet: see
 *  flow_table_adopt. 0 or -ENOMEM. Thread of all of these: control. */
MUST_CHECK int flow_table_init(struct flow_table *t, struct flow_slot *slots, uint32_t capacity);
void flow_table_destroy(struct flow_table *t);

/** Make slot i, found used in the state file, a flow of the set; or free it (set == NULL). Slots must
 *  be given in ascending order, each once, before any insert. 0 or -ENOMEM (freed). */
MUST_CHECK int flow_table_adopt(struct flow_table *t, uint32_t slot, struct flow_set *set);

/** An empty set, known to the table from now on; it must not move in memory. n_dips: DIP indexes below
 *  this will be used. 0 or -ENOMEM. */
MUST_CHECK int flow_set_init(struct flow_set *f, struct flow_table *t, uint32_t vip_uid,
			     uint32_t n_dips);
MUST_CHECK int flow_set_reserve_dips(struct flow_set *f, uint32_t n_dips);
/** Take the set from the table and free its memory; it must be empty (n == 0). */
void flow_set_destroy(struct flow_set *f, struct flow_table *t);

/** Slot of the flow, or FLOW_NONE. */
uint32_t flow_table_find(const struct flow_table *t, const struct flow_set *f,
			 const struct flow_key *key, uint64_t hash);

/** Ask for the cache lines that a find of this hash will read. */
static ALWAYS_INLINE void flow_table_prefetch(const struct flow_table *t, uint64_t hash)
{
	cpu_prefetch(&t->index[(uint32_t)(hash >> 16) & t->index_mask]);
}

/** Insert a flow that is not there. Others are forgotten (t->n_forgotten) when the table or its class
 *  is full. Returns the slot, or FLOW_NONE without memory for the dense array. */
uint32_t flow_table_insert(struct flow_table *t, struct flow_set *f, const struct flow_key *key,
			   uint64_t hash, struct flow_meta meta, uint32_t opened_ms);

/** New state of a flow: moves it to the end of the list it belongs to. dip may change. Another flow of
 *  the class that it enters may be forgotten. */
void flow_table_update(struct flow_table *t, uint32_t slot, struct flow_meta meta);

/** Remove a flow. */
void flow_table_remove(struct flow_table *t, uint32_t slot);

/** True if the slot holds a flow of this set (a slot remembered over a breath may have been freed). */
static ALWAYS_INLINE bool flow_slot_live(const struct flow_table *t, const struct flow_set *f,
					 uint32_t slot)
{
	return t->side[slot].set == f && flow_meta_get(&t->slots[slot]).phase != FLOW_FREE;
}

/** Set or clear REF_* flags of a flow (mask: which), keeping counts and lists right. */
void flow_table_flag(struct flow_table *t, uint32_t slot, uint8_t mask, uint8_t value);

static ALWAYS_INLINE struct flow_ref *flow_table_ref(const struct flow_table *t, uint32_t slot)
{
	return flow_set_ref(t->side[slot].set, t->side[slot].ref);
}

enum flow_class flow_list_class(enum flow_list list);

/** Forget one flow, in the order of the classes, but not `spare` (FLOW_NONE: any). */
void flow_table_forget(struct flow_table *t, uint32_t spare);

/** If the class is over its cap, forget one of it, but not `spare`. */
void flow_class_enforce(struct flow_table *t, enum flow_class class, uint32_t spare);

/** From now on collect into f->fresh what could be placed wrongly by a plan that is checked now. */
void flow_set_watch(struct flow_table *t, struct flow_set *f);
/** True if memory ran out while collecting: the plan must not be published. */
bool flow_set_watch_failed(const struct flow_set *f);
void flow_set_unwatch(struct flow_table *t, struct flow_set *f);

/** A publish of this set's VIP is done: eviction looks at every flow again. */
void flow_set_published(struct flow_set *f);
