/* Whether there is room for what a change makes. The limits (GET /v1/limits) hold for what there is
 * when all edits are done, in whatever order they come: a document may replace every VIP and DIP
 * there is. Until the swap both are there, so there are twice as many slots and counters. */
#include "control/internal.h"

struct room {
	unsigned n_vips, n_created;
	uint32_t n_dips, n_added;
};

static void count(const struct control *c, const struct batch *b, struct room *out)
{
	*out = (struct room){.n_vips = c->n_vips, .n_dips = DIP_COUNTERS_MAX - c->n_free_counters};
	for (unsigned i = 0; i < b->n; i++) {
		const struct batch_vip *e = &b->vips[i];
		out->n_vips += (unsigned)e->created - (unsigned)e->remove;
		out->n_created += e->created;
		out->n_dips -= e->n_gone + (e->remove ? e->next->n_dips : 0);
		out->n_added += e->n_added;
	}
}

static bool vip_fits(const struct batch_vip *e)
{
	return e->remove || e->next->n_dips <= DIPS_PER_VIP_MAX;
}

bool batch_fits(const struct control *c, const struct batch *b)
{
	struct room room;

	count(c, b, &room);
	for (unsigned i = 0; i < b->n; i++)
		if (!vip_fits(&b->vips[i]))
			return false;
	return room.n_vips <= VIPS_MAX && room.n_dips <= DIPS_MAX;
}

/* One edit alone has no use for room that others may make in the same batch: they may yet leave
 * things as they are. */
bool change_has_room_for_vip(const struct change *x)
{
	struct room room;

	count(x->c, x->b, &room);
	return edit_is_one_of_several(x) || x->c->n_vips + room.n_created < VIPS_MAX;
}

bool change_has_room_for_dip(const struct change *x)
{
	uint32_t n_used = DIP_COUNTERS_MAX - x->c->n_free_counters;

	return n_used < (edit_is_one_of_several(x) ? DIP_COUNTERS_MAX : DIPS_MAX);
}

/* Of `made`, those that fit. */
static uint32_t rest(uint32_t made, uint32_t there_are, uint32_t most)
{
	return there_are > most ? made - (there_are - most) : made;
}

/* The edit makes a DIP that does not fit. What it concerns may have gone again with a later one. */
static void check_dip(struct change *x, uint32_t *n_left)
{
	const struct vip_runtime *v = vip_index_by_id(x->c, x->b, x->e->vip);
	struct batch_vip *e = v ? batch_entry(x->b, v) : NULL;

	if (e && !vip_fits(e) && e->n_fitting == 0)
		edit_refuse_limit(x, "dips_per_vip", DIPS_PER_VIP_MAX);
	else if (*n_left == 0)
		edit_refuse_limit(x, "dips", DIPS_MAX);
	else
		(*n_left)--;
	if (e && e->n_fitting)
		e->n_fitting--;
}

static void check_edit(struct change *x, uint32_t *n_vips_left, uint32_t *n_dips_left)
{
	if (x->e->op == OP_DIP_PUT)
		check_dip(x, n_dips_left);
	else if (*n_vips_left == 0)
		edit_refuse_limit(x, "vips", VIPS_MAX);
	else
		(*n_vips_left)--;
}

void change_check_room(struct change *x)
{
	struct control_transaction *t = x->r->transaction;
	struct room room;

	if (batch_fits(x->c, x->b))
		return;
	count(x->c, x->b, &room);
	uint32_t n_vips_left = rest(room.n_created, room.n_vips, VIPS_MAX);
	uint32_t n_dips_left = rest(room.n_added, room.n_dips, DIPS_MAX);
	for (unsigned i = 0; i < x->b->n; i++) {
		struct batch_vip *e = &x->b->vips[i];
		e->n_fitting = rest(e->n_added, e->next->n_dips, DIPS_PER_VIP_MAX);
	}
	for (unsigned i = 0; i < t->n_edits; i++) {
		if (t->edits[i].status != CONTROL_CREATED)
			continue;
		change_begin_edit(x, &t->edits[i]);
		check_edit(x, &n_vips_left, &n_dips_left);
		t->edits[i].status = x->status;
	}
}
