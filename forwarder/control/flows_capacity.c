/* Whom to forget when there is no room.
 *
 * Flows are classed by what an attacker can make cheaply: closing, half-open and unproven ones are
 * capped, and the established class may never fill the last sixteenth of the table, so a flood
 * always finds one of its own kind to push out. Within a class the longest idle flow goes; of the
 * established ones a pinned flow goes only when none is left that is not, since forgetting it moves
 * it at once. */
#include "base/clock.h"
#include "control/flows.h"

/* How many flows are taken from one VIP's list before the others are looked at again. */
#define VICTIMS_IN_A_ROW 64

/* The flow to forget from a chain: the longest idle; of the established ones the longest idle that
 * is not pinned, a pinned one only if pinned_too. FLOW_NONE if there is none. */
static uint32_t chain_victim(const struct flow_table *t, struct flow_chain *c, bool pinned_too)
{
	if (c->head == FLOW_NONE || pinned_too)
		return c->head;
	if (flow_list_class(t->side[c->head].list) != CLASS_ESTABLISHED)
		return c->head;
	if (c->cursor == CURSOR_END)
		return FLOW_NONE;
	uint32_t slot = c->cursor == FLOW_NONE ? c->head : c->cursor;
	while (slot != FLOW_NONE && (flow_table_ref(t, slot)->flags & REF_PINNED))
		slot = t->side[slot].next;
	c->cursor = slot == FLOW_NONE ? CURSOR_END : slot;
	return slot;
}

/* The chain of a class whose victim is idle the longest. */
static struct flow_chain *class_oldest_chain(const struct flow_table *t, enum flow_class class,
					     bool pinned_too)
{
	uint32_t now = (uint32_t)clock_now_ms();
	uint32_t oldest = 0;
	struct flow_chain *best = NULL;

	for (uint32_t i = 0; i < t->n_sets; i++) {
		for (int l = 0; l < N_FLOW_LISTS; l++) {
			struct flow_chain *c = &t->sets[i]->lists[l];
			if (flow_list_class(l) != class)
				continue;
			uint32_t slot = chain_victim(t, c, pinned_too);
			if (slot == FLOW_NONE)
				continue;
			uint32_t idle = now - flow_meta_get(&t->slots[slot]).seen_ms;
			if (!best || idle > oldest) {
				oldest = idle;
				best = c;
			}
		}
	}
	return best;
}

/* Forget one flow of a class, but not `spare`. False if there is none. */
static bool class_forget(struct flow_table *t, enum flow_class class, bool pinned_too,
			 uint32_t spare)
{
	struct flow_chain *c = t->victims[class];

	if (!c || t->victims_left[class] == 0 || chain_victim(t, c, pinned_too) == FLOW_NONE) {
		c = class_oldest_chain(t, class, pinned_too);
		t->victims[class] = c;
		t->victims_left[class] = VICTIMS_IN_A_ROW;
	}
	if (!c)
		return false;
	t->victims_left[class]--;
	uint32_t slot = chain_victim(t, c, pinned_too);
	if (slot == spare)
		return false;
	FAULT_NOTE(forgotten, &t->slots[slot]);
	flow_table_remove(t, slot);
	t->n_forgotten++;
	return true;
}

/* Make room in the whole table, in the order of the classes; pinned established flows go last. */
void flow_table_forget(struct flow_table *t, uint32_t spare)
{
	if (FAULT(forget_established_first) && class_forget(t, CLASS_ESTABLISHED, true, spare))
		return;
	for (int class = 0; class < N_FLOW_CLASSES; class ++)
		if (class_forget(t, class, false, spare))
			return;
	class_forget(t, CLASS_ESTABLISHED, true, spare);
}

void flow_class_enforce(struct flow_table *t, enum flow_class class, uint32_t spare)
{
	if (t->class_n[class] <= t->class_cap[class])
		return;
	if (FAULT(forget_established_first) && class_forget(t, CLASS_ESTABLISHED, true, spare))
		return;
	if (!class_forget(t, class, false, spare))
		class_forget(t, class, true, spare);
}
