#include "api/server/traffic_history.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

struct series {
	char id[ID_LEN];
	uint64_t first; /* number of its oldest point */
	struct traffic_point points[TRAFFIC_POINTS];
};

struct traffic_history {
	pthread_mutex_t lock;
	uint64_t next_ms; /* clock_now_ms */
	uint64_t n;	  /* points taken; the i-th is at i % TRAFFIC_POINTS */
	int64_t times_ms[TRAFFIC_POINTS];
	struct series sum;
	size_t n_vips;
	struct series **vips; /* by id */
};

struct traffic_history *traffic_history_new(void)
{
	struct traffic_history *h = calloc(1, sizeof(*h));

	if (h && pthread_mutex_init(&h->lock, NULL)) {
		free(h);
		return NULL;
	}
	return h;
}

void traffic_history_free(struct traffic_history *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n_vips; i++)
		free(h->vips[i]);
	free(h->vips);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static struct series *series_new(const char *id, uint64_t first)
{
	struct series *s = malloc(sizeof(*s));

	if (!s)
		return NULL;
	snprintf(s->id, sizeof(s->id), "%s", id);
	s->first = first;
	return s;
}

/* Both are in the order of ids: what is in the old list alone has gone, what is not in it is new.
 */
static void follow_vips(struct traffic_history *h, const struct vip_info *vips, size_t n)
{
	struct series **list = calloc(n + 1, sizeof(void *));
	size_t n_list = 0, old = 0;

	for (size_t i = 0; list && i < n; i++) {
		while (old < h->n_vips && strcmp(h->vips[old]->id, vips[i].conf.id) < 0)
			free(h->vips[old++]);
		bool same = old < h->n_vips && !strcmp(h->vips[old]->id, vips[i].conf.id);
		list[n_list] = same ? h->vips[old++] : series_new(vips[i].conf.id, h->n);
		n_list += list[n_list] != NULL;
	}
	while (old < h->n_vips)
		free(h->vips[old++]);
	free(h->vips);
	h->vips = list;
	h->n_vips = n_list;
}

static void note(struct traffic_history *h, const struct vip_info *vips, size_t n)
{
	unsigned at = h->n % TRAFFIC_POINTS;
	struct traffic_point *sum = &h->sum.points[at];
	size_t k = 0;

	*sum = (struct traffic_point){.packets = 0};
	h->times_ms[at] = clock_wall_ms();
	for (size_t i = 0; i < n; i++) {
		const struct traffic_point p = {.packets = vips[i].packets + vips[i].return_packets,
						.bytes = vips[i].bytes + vips[i].return_bytes,
						.flows = vips[i].flows,
						.flows_pinned = vips[i].flows_pinned};
		sum->packets += p.packets;
		sum->bytes += p.bytes;
		sum->flows += p.flows;
		sum->flows_pinned += p.flows_pinned;
		if (k < h->n_vips && !strcmp(h->vips[k]->id, vips[i].conf.id))
			h->vips[k++]->points[at] = p;
	}
	h->n++;
}

void traffic_history_tick(struct traffic_history *h, const struct api_backend *b)
{
	uint64_t now_ms = clock_now_ms();
	size_t n = 0;

	if (now_ms < h->next_ms)
		return;
	h->next_ms = now_ms + TRAFFIC_INTERVAL_S * 1000u;
	struct vip_info *vips = b->read_vips(b->ctx, NULL, false, &n);
	pthread_mutex_lock(&h->lock);
	follow_vips(h, vips, n);
	note(h, vips, n);
	pthread_mutex_unlock(&h->lock);
	b->free_vips(vips, n);
}

static const struct series *find(const struct traffic_history *h, const char *vip)
{
	for (size_t i = 0; vip && i < h->n_vips; i++)
		if (!strcmp(h->vips[i]->id, vip))
			return h->vips[i];
	return vip ? NULL : &h->sum;
}

unsigned traffic_history_read(struct traffic_history *h, const char *vip, int64_t *times_ms,
			      struct traffic_point *points)
{
	unsigned n = 0;

	if (!h)
		return 0;
	pthread_mutex_lock(&h->lock);
	const struct series *s = find(h, vip);
	uint64_t oldest = h->n > TRAFFIC_POINTS ? h->n - TRAFFIC_POINTS : 0;
	for (uint64_t i = s && s->first > oldest ? s->first : oldest; s && i < h->n; i++, n++) {
		times_ms[n] = h->times_ms[i % TRAFFIC_POINTS];
		points[n] = s->points[i % TRAFFIC_POINTS];
	}
	pthread_mutex_unlock(&h->lock);
	return n;
}
