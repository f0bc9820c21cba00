#include "tests/bench/keeper_rig.h"

#include <assert.h>
#include <stdlib.h>

#include "tests/bench/bench.h"

struct pool rig_pool(unsigned vip, bool with_spare, struct dcode_dip dips[N_DIPS])
{
	for (unsigned d = 0; d < N_DIPS; d++)
		dips[d] = (struct dcode_dip){.id = peer_mix(vip * N_DIPS + d, RIG_SEED),
					     .weight = 1,
					     .index = (uint16_t)(d + 1),
					     .up = true};
	return (struct pool){.dips = dips, .n = N_DIPS - !with_spare, .n_spare = !with_spare};
}

void rig_new(struct rig *r, const struct keeper *keeper, uint32_t n_max, unsigned n_threads,
	     bool gated)
{
	static struct dcode_dip dips[N_VIPS][N_DIPS];
	struct pool pools[N_VIPS];
	struct keeper_config c = {.n_vips = N_VIPS,
				  .n_threads = n_threads,
				  .n_flows = n_max,
				  .seed = RIG_SEED,
				  .pools = pools};

	*r = (struct rig){.keeper = keeper, .n_threads = n_threads, .n_max = n_max, .gated = gated};
	if (gated) {
		gate_init(&r->gate, 0);
		c.gate = &r->gate;
	}
	for (unsigned v = 0; v < N_VIPS; v++)
		pools[v] = rig_pool(v, false, dips[v]);
	r->dips = peer_alloc(n_max * sizeof(*r->dips));
	r->k = keeper->create(&c);
}

void rig_free(struct rig *r)
{
	r->keeper->destroy(r->k);
	hugemem_free(r->dips, r->n_max * sizeof(*r->dips));
	if (r->gated)
		gate_destroy(&r->gate);
}

uint64_t rig_open(struct rig *r, uint32_t first, uint32_t n)
{
	uint64_t start = bench_cpu_ns();

	assert(first + n <= r->n_max);
	for (uint32_t i = first; i < first + n; i++) {
		struct flow_key key;
		bench_flow_key(i, &key);
		r->dips[i] = r->keeper->open(r->k, rig_thread(r, i), i % N_VIPS, &key);
		if (r->keeper->work && i % 1024 == 1023)
			r->keeper->work(r->k);
	}
	if (r->keeper->work)
		r->keeper->work(r->k);
	return bench_cpu_ns() - start;
}

double rig_change_all(struct rig *r)
{
	double ns[N_VIPS];

	for (unsigned v = 0; v < N_VIPS; v++) {
		struct dcode_dip dips[N_DIPS];
		struct pool pool = rig_pool(v, true, dips);
		uint64_t start = bench_cpu_ns();
		r->keeper->change(r->k, v, &pool);
		ns[v] = (double)(bench_cpu_ns() - start);
	}
	return bench_median(ns, N_VIPS);
}

uint32_t rig_broken(struct rig *r, uint32_t n)
{
	uint32_t broken = 0;

	for (unsigned t = 0; t < r->n_threads; t++) {
		for (uint32_t f = 0; f < n / r->n_threads; f += PEER_BURST) {
			struct keeper_burst b;
			for (unsigned i = 0; i < PEER_BURST; i++) {
				uint32_t flow = rig_flow(r, t, f + i);
				bench_flow_key(flow, &b.l[i].key);
				b.vips[i] = flow % N_VIPS;
			}
			r->keeper->lookup(r->k, t, &b);
			for (unsigned i = 0; i < PEER_BURST; i++)
				broken += b.l[i].dip != r->dips[rig_flow(r, t, f + i)];
		}
	}
	return broken;
}
