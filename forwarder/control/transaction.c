/* The desired state as callbacks see it: published versions, or, while a batch is put together,
 * what it will make of them. */
#include "control/transaction.h"

#include <stdlib.h>

#include "control/internal.h"

static const struct vip_version *seen_version(const struct control_view *view,
					      const struct vip_runtime *v)
{
	const struct batch_vip *e = view->b ? batch_entry(view->b, v) : NULL;

	return !e ? v->now : e->remove ? NULL : e->next;
}

static int order_of_ids(const void *x, const void *y)
{
	const struct vip_version *const *a = x, *const *b = y;

	return strcmp((*a)->conf.id, (*b)->conf.id);
}

static bool sort_view(struct control_view *view)
{
	unsigned n_created = view->b ? view->b->n : 0;

	if (view->sorted)
		return true;
	view->sorted = malloc((view->c->n_vips + n_created + 1) * sizeof(struct vip_version *));
	if (!view->sorted)
		return false;
	for (unsigned i = 0, left = view->c->n_vips; left; i++) {
		if (!view->c->vips[i])
			continue;
		left--;
		const struct vip_version *v = seen_version(view, view->c->vips[i]);
		if (v)
			view->sorted[view->n++] = v;
	}
	for (unsigned i = 0; i < n_created; i++)
		if (view->b->vips[i].created && !view->b->vips[i].remove)
			view->sorted[view->n++] = view->b->vips[i].next;
	qsort(view->sorted, view->n, sizeof(struct vip_version *), order_of_ids);
	return true;
}

static void fill(struct control_view_vip *out, const struct vip_version *v)
{
	*out = (struct control_view_vip){
		.conf = &v->conf, .deleting = v->deleting, .n_dips = v->n_dips, .dips = v->dips};
}

bool control_view_vip(struct control_view *view, unsigned i, struct control_view_vip *out)
{
	if (!sort_view(view)) {
		view->failed = true;
		return false;
	}
	control_drain(view->c, UINT64_MAX);
	if (i >= view->n)
		return false;
	fill(out, view->sorted[i]);
	return true;
}

bool control_view_failed(const struct control_view *view)
{
	return view->failed;
}

bool control_view_find(struct control_view *view, const char *id, struct control_view_vip *out)
{
	const struct vip_runtime *v = vip_index_by_id(view->c, view->b, id);

	if (v)
		fill(out, seen_version(view, v));
	return v != NULL;
}

const struct dip_conf *control_view_dip(const struct control_view_vip *v, unsigned i,
					bool *deleting)
{
	const struct dip_version *d = (const struct dip_version *)v->dips + i;

	*deleting = d->deleting;
	return &d->conf;
}

const struct dip_conf *control_view_find_dip(const struct control_view_vip *v, const char *id,
					     bool *deleting)
{
	const struct vip_version version = {.n_dips = v->n_dips,
					    .dips = (struct dip_version *)v->dips};
	const struct dip_version *d = vip_version_dip(&version, id);

	if (!d)
		return NULL;
	*deleting = d->deleting;
	return &d->conf;
}

uint64_t control_view_generation(const struct control_view *view)
{
	return view->c->generation;
}

void control_view_end(struct control_view *view)
{
	free(view->sorted);
}

struct look {
	void (*fn)(void *ctx, struct control_view *view);
	void *ctx;
};

static void run_look(struct control *c, void *arg)
{
	struct look *l = arg;
	struct control_view view = {.c = c};

	l->fn(l->ctx, &view);
	control_view_end(&view);
}

void control_look(struct control *c, void (*fn)(void *ctx, struct control_view *view), void *ctx)
{
	struct look l = {.fn = fn, .ctx = ctx};

	control_call(c, run_look, &l);
}

void control_transaction_clear(struct control_transaction *t)
{
	for (unsigned i = 0; i < t->n_plans; i++)
		free(t->plans[i].dips);
	free(t->plans);
	t->plans = NULL;
	t->n_plans = 0;
	for (unsigned i = 0; i < t->n_edits; i++) {
		free(t->edits[i].vip_conf);
		free(t->edits[i].dip_conf);
		t->edits[i].vip_conf = NULL;
		t->edits[i].dip_conf = NULL;
	}
}
