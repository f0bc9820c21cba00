#include "tests/unit/mem_store.h"

#include <assert.h>
#include <stdlib.h>

static void *copy(const void *p, size_t n)
{
	void *q = malloc(n + 1);

	assert(q);
	if (n)
		memcpy(q, p, n);
	return q;
}

static struct persist_vip copy_vip(const struct persist_vip *v)
{
	struct persist_vip c = *v;

	c.dcodes = copy(v->dcodes, v->n_dcodes * sizeof(*v->dcodes));
	c.pins = copy(v->pins, v->n_pins * sizeof(*v->pins));
	c.dips = copy(v->dips, v->n_dips * sizeof(*v->dips));
	return c;
}

static void disk_remove(struct persist_state *d, uint32_t uid)
{
	for (unsigned i = 0; i < d->n_vips; i++) {
		if (d->vips[i].uid != uid)
			continue;
		persist_vip_free(&d->vips[i]);
		d->vips[i] = d->vips[--d->n_vips];
	}
}

void mem_store_commit(struct persist_state *d, const struct persist_txn *txn)
{
	d->generation = txn->generation;
	d->next_dip_uid = txn->next_dip_uid;
	d->next_vip_uid = txn->next_vip_uid;
	for (unsigned i = 0; i < txn->n_delete; i++)
		disk_remove(d, txn->delete_uids[i]);
	for (unsigned i = 0; i < txn->n_put; i++) {
		disk_remove(d, txn->put[i]->uid);
		d->vips = realloc(d->vips, (d->n_vips + 1) * sizeof(*d->vips));
		assert(d->vips);
		d->vips[d->n_vips++] = copy_vip(txn->put[i]);
	}
}

struct persist_state mem_store_read(const struct persist_state *d)
{
	struct persist_state s = *d;

	s.vips = malloc((d->n_vips + 1) * sizeof(*s.vips));
	assert(s.vips);
	for (unsigned i = 0; i < d->n_vips; i++)
		s.vips[i] = copy_vip(&d->vips[i]);
	return s;
}
