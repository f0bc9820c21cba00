/* From a desired state to a document, in the control thread, at the moment at which the edits are
 * applied: so nothing that was changed meanwhile is undone unseen.
 *
 * Order: what goes makes room (addresses, and what VIPs match) for what comes; so VIPs that go are
 * first, and within a VIP its DIPs that go, then itself, then the DIPs that come. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/config.h"

/* Ids of what goes: control's own are gone when the edits are answered. */
struct config_id {
	struct config_id *next;
	char id[ID_LEN];
};

static void forget_ids(struct config_diff *d)
{
	while (d->ids) {
		struct config_id *next = d->ids->next;
		free(d->ids);
		d->ids = next;
	}
}

static const char *keep_id(struct config_diff *d, const char *id)
{
	struct config_id *k = malloc(sizeof(*k));

	if (!k) {
		d->failed = true;
		return "";
	}
	snprintf(k->id, sizeof(k->id), "%s", id);
	k->next = d->ids;
	d->ids = k;
	return k->id;
}

static struct control_edit *add_edit(struct config_diff *d, enum control_op op, const char *vip)
{
	static struct control_edit nowhere;

	if (d->n == d->capacity) {
		unsigned capacity = d->capacity ? d->capacity * 2 : 64;
		struct control_edit *grown = realloc(d->edits, capacity * sizeof(*grown));
		if (!grown) {
			d->failed = true;
			return &nowhere;
		}
		d->edits = grown;
		d->capacity = capacity;
	}
	d->edits[d->n] = (struct control_edit){.op = op, .vip = vip};
	return &d->edits[d->n++];
}

static void put_vip(struct config_diff *d, const struct config_vip *v)
{
	struct control_edit *e = add_edit(d, OP_VIP_PUT, v->conf.id);

	e->vip_edit = &v->edit;
	snprintf(e->pointer, sizeof(e->pointer), "/vips/%u", v->at);
}

static void put_dip(struct config_diff *d, const struct config_vip *v, const struct config_dip *dip)
{
	struct control_edit *e = add_edit(d, OP_DIP_PUT, v->conf.id);

	e->dip = dip->conf.id;
	e->dip_edit = &dip->edit;
	snprintf(e->pointer, sizeof(e->pointer), "/vips/%u/dips/%u", v->at, dip->at);
}

static void delete_vip(struct config_diff *d, const struct control_view_vip *v, bool force)
{
	if (!v->deleting || force)
		add_edit(d, OP_VIP_DELETE, keep_id(d, v->conf->id))->force = force;
}

/* --- DIPs ---------------------------------------------------------------------------------- */

/* Walk both lists, which have the order of ids. Only what goes (puts: false) or what comes. */
static void diff_dips(struct config_diff *d, const struct config_vip *wanted,
		      const struct control_view_vip *v, enum config_prune prune, bool puts)
{
	unsigned i = 0, k = 0;

	while (i < v->n_dips || k < wanted->n_dips) {
		bool deleting = false;
		const struct dip_conf *is =
			i < v->n_dips ? control_view_dip(v, i, &deleting) : NULL;
		const struct config_dip *to = k < wanted->n_dips ? &wanted->dips[k] : NULL;
		int order = !is ? 1 : !to ? -1 : strcmp(is->id, to->conf.id);
		assert((order > 0 || is) && (order < 0 || to));
		i += order <= 0;
		k += order >= 0;
		if (order < 0 && !puts && prune != PRUNE_NONE &&
		    (!deleting || prune == PRUNE_REMOVE)) {
			struct control_edit *e = add_edit(d, OP_DIP_DELETE, wanted->conf.id);
			e->dip = keep_id(d, is->id);
			e->force = prune == PRUNE_REMOVE;
			snprintf(e->pointer, sizeof(e->pointer), "/vips/%u", wanted->at);
		} else if (order > 0 && puts) {
			put_dip(d, wanted, to);
		} else if (order == 0 && puts && (deleting || !dip_conf_equal(is, &to->conf))) {
			put_dip(d, wanted, to);
		}
	}
}

static void diff_vip(struct config_diff *d, const struct config_vip *wanted,
		     const struct control_view_vip *v, enum config_prune prune)
{
	diff_dips(d, wanted, v, prune, false);
	if (v->deleting || !vip_conf_equal(v->conf, &wanted->conf))
		put_vip(d, wanted);
	diff_dips(d, wanted, v, prune, true);
}

/* --- VIPs ---------------------------------------------------------------------------------- */

static void create_vip(struct config_diff *d, const struct config_vip *wanted)
{
	put_vip(d, wanted);
	for (unsigned i = 0; i < wanted->n_dips; i++)
		put_dip(d, wanted, &wanted->dips[i]);
}

/* As diff_dips. */
static void diff_vips(struct config_diff *d, const struct config *wanted, enum config_prune prune,
		      struct control_view *view, bool puts)
{
	struct control_view_vip v;
	unsigned i = 0, k = 0;

	for (;;) {
		bool is = control_view_vip(view, i, &v);
		const struct config_vip *to = k < wanted->n ? &wanted->vips[k] : NULL;
		if (!is && !to)
			break;
		int order = !is ? 1 : !to ? -1 : strcmp(v.conf->id, to->conf.id);
		i += order <= 0;
		k += order >= 0;
		if (order < 0 && !puts && prune != PRUNE_NONE)
			delete_vip(d, &v, prune == PRUNE_REMOVE);
		else if (order > 0 && puts)
			create_vip(d, to);
		else if (order == 0 && puts)
			diff_vip(d, to, &v, prune);
	}
	d->failed |= control_view_failed(view);
}

void config_diff_make(struct config_diff *d, const struct config *wanted, enum config_prune prune,
		      struct control_view *view)
{
	forget_ids(d);
	d->n = 0;
	d->failed = false;
	diff_vips(d, wanted, prune, view, false);
	diff_vips(d, wanted, prune, view, true);
}

void config_diff_free(struct config_diff *d)
{
	forget_ids(d);
	free(d->edits);
	*d = (struct config_diff){.edits = NULL};
}
