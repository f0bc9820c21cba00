/* Versions of a VIP's desired state, and what outlives them: DIP indexes and counters. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/internal.h"

const char *const dip_state_names[] = {"up", "down", "draining", "unresolved", NULL};

struct vip_version *vip_version_copy(const struct vip_version *v)
{
	struct vip_version *n = calloc(1, sizeof(*n));

	if (!n || !v)
		return n;
	n->conf = v->conf;
	n->deleting = v->deleting;
	n->drain_deadline_ms = v->drain_deadline_ms;
	n->drain_shown_s = v->drain_shown_s;
	n->dips = malloc((v->n_dips + 1) * sizeof(*n->dips));
	if (!n->dips) {
		free(n);
		return NULL;
	}
	if (v->n_dips)
		memcpy(n->dips, v->dips, v->n_dips * sizeof(*n->dips));
	n->n_dips = v->n_dips;
	return n;
}

void vip_version_free(struct vip_version *v)
{
	if (!v)
		return;
	dcode_table_destroy(&v->table);
	vip_view_unref(v->view);
	free(v->pins);
	free(v->exact_slots);
	free(v->dips);
	free(v);
}

/* Where the DIP of this id is, or would be. */
static unsigned place_of(const struct vip_version *v, const char *id)
{
	unsigned lo = 0, hi = v->n_dips;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;
		if (strcmp(v->dips[mid].conf.id, id) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct dip_version *vip_version_dip(const struct vip_version *v, const char *id)
{
	unsigned at = place_of(v, id);

	return at < v->n_dips && strcmp(v->dips[at].conf.id, id) == 0 ? &v->dips[at] : NULL;
}

struct dip_version *vip_version_add_dip(struct vip_version *v, const struct dip_version *d)
{
	struct dip_version *grown = realloc(v->dips, (v->n_dips + 1) * sizeof(*grown));

	if (!grown)
		return NULL;
	v->dips = grown;
	unsigned at = place_of(v, d->conf.id);
	memmove(&v->dips[at + 1], &v->dips[at], (v->n_dips - at) * sizeof(*grown));
	v->dips[at] = *d;
	v->n_dips++;
	return &v->dips[at];
}

void vip_version_remove_dip(struct vip_version *v, struct dip_version *d)
{
	size_t at = (size_t)(d - v->dips);

	memmove(d, d + 1, (v->n_dips - at - 1) * sizeof(*d));
	v->n_dips--;
}

struct vip_runtime *vip_runtime_new(struct control *c, uint32_t uid, const struct vip_conf *conf,
				    uint64_t seed)
{
	struct vip_runtime *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->uid = uid;
	memcpy(v->id, conf->id, sizeof(v->id));
	v->match = conf->match;
	v->seed = seed;
	v->n_dips = 8;
	v->dips = calloc(v->n_dips, sizeof(*v->dips));
	if (!v->dips || flow_set_init(&v->flows, &c->flows, uid, v->n_dips)) {
		free(v->dips);
		free(v);
		return NULL;
	}
	return v;
}

/* The VIP's DIPs must have given their indexes back, or control ends. */
void vip_runtime_free(struct control *c, struct vip_runtime *v)
{
	if (!v)
		return;
	vip_index_remove(&c->index, v);
	vip_version_free(v->now);
	flow_set_destroy(&v->flows, &c->flows);
	for (uint32_t i = 0; i < v->n_dips; i++)
		free(v->dips[i].history);
	free(v->dips);
	free(v->retired);
	free(v);
}

struct vip_runtime *control_find_vip(struct control *c, const char *id)
{
	return vip_index_by_id(c, NULL, id);
}

void dip_traffic_add(struct dip_traffic *to, const struct dip_traffic *t)
{
	to->packets += t->packets;
	to->bytes += t->bytes;
	to->return_packets += t->return_packets;
	to->return_bytes += t->return_bytes;
	to->flows_opened += t->flows_opened;
}

static void counter_sum(const struct control *c, uint32_t counter, struct dip_traffic *out)
{
	*out = (struct dip_traffic){0};
	for (unsigned i = 0; i < c->conf.n_workers; i++) {
		const struct worker_counters *w = c->conf.workers[i]->counters;
		out->packets += counter_read(&w->dips[counter].packets);
		out->bytes += counter_read(&w->dips[counter].bytes);
		out->return_packets += counter_read(&w->back[counter].packets);
		out->return_bytes += counter_read(&w->back[counter].bytes);
	}
}

static int grow_indexes(struct vip_runtime *v, uint32_t index)
{
	uint32_t n = v->n_dips;

	while (n <= index)
		n *= 2;
	if (n == v->n_dips)
		return 0;
	struct dip_runtime *grown = realloc(v->dips, n * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + v->n_dips, 0, (n - v->n_dips) * sizeof(*grown));
	v->dips = grown;
	v->n_dips = n;
	return flow_set_reserve_dips(&v->flows, n);
}

/* An index is free again when a refresh interval has passed since the publish without it (seen
 * entries) and no flow names it. */
static bool index_available(const struct vip_runtime *v, uint32_t index, uint64_t now_ms)
{
	const struct dip_runtime *d = &v->dips[index];

	return !d->used && now_ms >= d->free_at_ms && v->flows.dip_flows[index] == 0;
}

int vip_runtime_take_index(struct control *c, struct vip_runtime *v, uint16_t want,
			   struct dip_version *d)
{
	uint64_t now = clock_now_ms();
	uint32_t index = want;

	if (c->n_free_counters == 0)
		return -ENOSPC;
	while (v->n_used_indexes < v->n_dips &&
	       (!v->n_used_indexes || v->dips[v->n_used_indexes].used))
		v->n_used_indexes++;
	if (!want)
		for (index = v->n_used_indexes;
		     index < v->n_dips && !index_available(v, index, now);)
			index++;
	if (index > DIP_INDEX_MAX)
		return -ENOSPC;
	if (grow_indexes(v, index))
		return -ENOMEM;
	assert(!v->dips[index].used || FAULT(reuse_leaving_index));
	d->index = (uint16_t)index;
	d->counter = c->free_counters[--c->n_free_counters];
	v->dips[index] = (struct dip_runtime){
		.used = true, .counter = d->counter, .uid = d->uid, .health = d->use.health};
	counter_sum(c, d->counter, &v->dips[index].base);
	retired_recall(v, d->conf.id, &v->dips[index]);
	return 0;
}

void vip_runtime_release_index(struct control *c, struct vip_runtime *v,
			       const struct dip_version *d, bool published)
{
	struct dip_runtime *r = &v->dips[d->index];
	struct dip_traffic t;

	assert(r->used);
	vip_runtime_traffic(c, r, &t);
	dip_traffic_add(&v->retired_traffic, &t);
	dip_traffic_add(&t, &r->carried);
	retired_keep(v, d->conf.id, &t);
	c->free_counters[c->n_free_counters++] = r->counter;
	free(r->history);
	atomic_fetch_add(&c->health_epoch, 1);
	*r = (struct dip_runtime){0};
	if (d->index < v->n_used_indexes)
		v->n_used_indexes = d->index;
	if (published && !FAULT(reuse_index_at_once))
		r->free_at_ms = clock_now_ms() + vip_conf_refresh_ms(&v->now->conf) + 1;
}

void vip_runtime_traffic(const struct control *c, const struct dip_runtime *d,
			 struct dip_traffic *out)
{
	counter_sum(c, d->counter, out);
	out->packets -= d->base.packets;
	out->bytes -= d->base.bytes;
	out->return_packets -= d->base.return_packets;
	out->return_bytes -= d->base.return_bytes;
	out->flows_opened = d->flows_opened;
}

void dip_runtime_traffic(const struct control *c, const struct dip_runtime *d,
			 struct dip_traffic *out)
{
	vip_runtime_traffic(c, d, out);
	dip_traffic_add(out, &d->carried);
}

/* Deadlines are held in time since boot, which no clock step can move, and written as wall time,
 * which outlives a reboot. */
int64_t deadline_to_wall(uint64_t deadline_ms)
{
	if (deadline_ms == 0)
		return 0;
	return clock_wall_s() + ((int64_t)deadline_ms - (int64_t)clock_now_ms()) / 1000;
}

/* Computed anew, a deadline's last second would come and go with the clocks' fractions. */
int64_t deadline_shown(uint64_t deadline_ms, int64_t shown_s)
{
	int64_t now_s = deadline_to_wall(deadline_ms);

	return now_s >= shown_s - 1 && now_s <= shown_s + 1 ? shown_s : now_s;
}

uint64_t deadline_from_wall(int64_t wall_s, uint32_t timeout_s)
{
	int64_t left_s = wall_s - clock_wall_s();

	if (wall_s == 0)
		return 0;
	if (left_s < 0)
		left_s = 0;
	if (left_s > (int64_t)timeout_s)
		left_s = timeout_s;
	return clock_now_ms() + (uint64_t)left_s * 1000 + 1;
}

uint32_t dip_version_weight(const struct vip_version *v, const struct dip_version *d)
{
	return v->deleting || d->deleting ? 0 : d->conf.weight;
}

enum dip_state dip_version_state(const struct vip_version *v, const struct dip_version *d)
{
	if (!d->use.up)
		return DIP_DOWN;
	if (dip_version_weight(v, d) == 0)
		return DIP_DRAINING;
	if (v->view && d->index < v->view->n_dips && !v->view->dips[d->index].resolved)
		return DIP_UNRESOLVED;
	return DIP_UP;
}
