#include "tests/bench/peers/keeper.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/state_file.h"
#include "tests/bench/peers/maglev.h"

const struct keeper *const keepers[N_KEEPERS] = {
	&keeper_concury,  &keeper_paper,     &keeper_maglev,
	&keeper_silkroad, &keeper_conntrack, &keeper_jet,
};

void keeper_fail(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(EXIT_FAILURE);
}

void *keeper_alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		keeper_fail("no memory");
	return p;
}

/* --- the gate ------------------------------------------------------------------------------------
 */

void gate_init(struct gate *g, unsigned n_threads)
{
	*g = (struct gate){.n_threads = n_threads};
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->cond, NULL);
}

void gate_destroy(struct gate *g)
{
	pthread_mutex_destroy(&g->lock);
	pthread_cond_destroy(&g->cond);
}

void gate_hold(struct gate *g)
{
	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	g->held = true;
	while (g->n_parked < g->n_threads)
		pthread_cond_wait(&g->cond, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

void gate_release(struct gate *g)
{
	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	g->held = false;
	pthread_cond_broadcast(&g->cond);
	pthread_mutex_unlock(&g->lock);
}

void gate_park(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->n_parked++;
	pthread_cond_broadcast(&g->cond);
	while (g->held)
		pthread_cond_wait(&g->cond, &g->lock);
	g->n_parked--;
	pthread_mutex_unlock(&g->lock);
}

void gate_leave(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->n_threads--;
	pthread_cond_broadcast(&g->cond);
	pthread_mutex_unlock(&g->lock);
}

/* --- pools ---------------------------------------------------------------------------------------
 */

unsigned pool_takers(const struct pool *pool, bool spare, struct dcode_dip *out)
{
	unsigned n_dips = pool->n + (spare ? pool->n_spare : 0), n = 0;

	for (unsigned i = 0; i < n_dips; i++) {
		if (pool->dips[i].weight && (spare || pool->dips[i].up))
			out[n++] = pool->dips[i];
	}
	return n;
}

uint64_t pool_up(const struct pool *pool)
{
	uint64_t up = 0;

	for (unsigned i = 0; i < pool->n; i++) {
		assert(pool->dips[i].index <= KEEPER_DIP_MAX);
		up |= (uint64_t)pool->dips[i].up << pool->dips[i].index;
	}
	return up;
}

/* --- reports -------------------------------------------------------------------------------------
 */

struct learn_ring **reports_new(unsigned n_threads)
{
	struct learn_ring **rings = keeper_alloc(n_threads, sizeof(struct learn_ring *));

	for (unsigned t = 0; t < n_threads; t++) {
		rings[t] = peer_alloc(learn_ring_bytes(STATE_OPENING_RECORDS));
		rings[t]->n = STATE_OPENING_RECORDS;
	}
	return rings;
}

void reports_free(struct learn_ring **rings, unsigned n_threads)
{
	for (unsigned t = 0; t < n_threads; t++)
		hugemem_free(rings[t], learn_ring_bytes(STATE_OPENING_RECORDS));
	free(rings);
}

/* --- rings ---------------------------------------------------------------------------------------
 */

static struct ring *ring_new(const struct pool *pool)
{
	struct ring *r = peer_alloc(sizeof(*r));
	struct dcode_dip takers[KEEPER_DIP_MAX];

	assert(pool->n + pool->n_spare <= KEEPER_DIP_MAX);
	r->up = pool_up(pool);
	unsigned n = pool_takers(pool, false, takers);
	assert(n > 0);
	maglev_fill_sized(takers, n, r->dips, RING_SIZE);
	return r;
}

static void ring_free(struct ring *r)
{
	hugemem_free(r, sizeof(*r));
}

struct ring **rings_new(const struct keeper_config *c)
{
	struct ring **rings = keeper_alloc(c->n_vips, sizeof(struct ring *));

	for (unsigned v = 0; v < c->n_vips; v++)
		rings[v] = ring_new(&c->pools[v]);
	return rings;
}

void rings_free(struct ring **rings, unsigned n_vips)
{
	for (unsigned v = 0; v < n_vips; v++)
		ring_free(rings[v]);
	free(rings);
}

void rings_change(struct ring **rings, unsigned vip, const struct pool *pool, struct gate *gate)
{
	struct ring *next = ring_new(pool), *old = rings[vip];

	gate_hold(gate);
	rings[vip] = next;
	gate_release(gate);
	ring_free(old);
}
