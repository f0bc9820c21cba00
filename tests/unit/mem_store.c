#include "tests/unit/mem_store.h"

#include <assert.h>
#include <errno.h>
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

/* For one more: twice as many at each power of two. */
static void disk_make_room(struct persist_state *d)
{
	unsigned n = d->n_vips;

	if (n & (n - 1))
		return;
	d->vips = realloc(d->vips, (n ? 2 * n : 1) * sizeof(*d->vips));
	assert(d->vips);
}

static bool disk_has_dip(const struct persist_state *d, const struct persist_agent *a)
{
	for (unsigned i = 0; i < d->n_vips; i++)
		for (unsigned k = 0; d->vips[i].uid == a->vip_uid && k < d->vips[i].n_dips; k++)
			if (d->vips[i].dips[k].uid == a->dip_uid)
				return true;
	return false;
}

static void disk_forget_agents(struct persist_state *d)
{
	for (unsigned i = d->n_agents; i-- > 0;)
		if (!disk_has_dip(d, &d->agents[i]))
			d->agents[i] = d->agents[--d->n_agents];
}

int mem_store_put_agent(struct persist_state *d, const struct persist_agent *a, struct error *err)
{
	if (!disk_has_dip(d, a))
		return error_set(err, -ENOENT, "the DIP is gone");
	for (unsigned i = 0; i < d->n_agents; i++) {
		if (strcmp(d->agents[i].id, a->id) != 0)
			continue;
		d->agents[i] = *a;
		return 0;
	}
	d->agents = realloc(d->agents, (d->n_agents + 1) * sizeof(*d->agents));
	assert(d->agents);
	d->agents[d->n_agents++] = *a;
	return 0;
}

static void disk_restore_agent(struct persist_state *d, const struct persist_agent *a)
{
	struct error err;

	for (unsigned i = 0; i < d->n_agents; i++)
		if (strcmp(d->agents[i].id, a->id) == 0 || d->agents[i].dip_uid == a->dip_uid)
			return;
	int rc = mem_store_put_agent(d, a, &err);
	assert(rc == 0 || rc == -ENOENT); /* without its DIP it is not for us to put */
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
		disk_make_room(d);
		d->vips[d->n_vips++] = copy_vip(txn->put[i]);
	}
	disk_forget_agents(d);
	for (unsigned i = 0; i < txn->n_agents; i++)
		disk_restore_agent(d, &txn->agents[i]);
}

struct persist_state mem_store_read(const struct persist_state *d)
{
	struct persist_state s = *d;

	s.vips = malloc((d->n_vips + 1) * sizeof(*s.vips));
	assert(s.vips);
	for (unsigned i = 0; i < d->n_vips; i++)
		s.vips[i] = copy_vip(&d->vips[i]);
	s.agents = copy(d->agents, d->n_agents * sizeof(*s.agents));
	return s;
}
