/* Lookups a second of known flows while others are opened, from 1K to 256K a second, and a pool
 * changes: 1M flows of 128 VIPs, one data thread that looks up and opens, and control beside it,
 * which takes in what it is told and changes one VIP's pool in the middle. The measured span is a
 * second, so there is a change ten times as often as once in ten seconds.
 *
 * A second is one of the data thread's own, CPU time and the time that it was parked: what else the
 * machine does lets it neither look up less nor open more. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/keeper_rig.h"

#define N_FLOWS (1u << 20)
#define BURSTS_A_LOOK 128u /* at the clock */

struct churn {
	struct rig *rig;
	uint32_t opens_per_s;
	uint64_t span_ns;
	_Atomic bool half; /* of the span is over */
	_Atomic bool done;
	uint32_t n_opened;
	double rate; /* M/s */
	double parked_ms;
};

/* Pass the gate; returns how long that took if it was shut. */
static uint64_t pass(struct gate *g)
{
	if (likely(!atomic_load_explicit(&g->held, memory_order_relaxed)))
		return 0;
	uint64_t start = bench_now_ns();
	gate_park(g);
	return bench_now_ns() - start;
}

static uint32_t look_up(struct rig *r, uint32_t f)
{
	struct keeper_burst b;
	uint64_t sum = 0;

	for (unsigned i = 0; i < PEER_BURST; i++) {
		bench_flow_key(f, &b.l[i].key);
		b.vips[i] = f % N_VIPS;
		f = bench_next_flow(f, N_FLOWS);
	}
	r->keeper->lookup(r->k, 0, &b);
	for (unsigned i = 0; i < PEER_BURST; i++)
		sum += b.l[i].dip;
	bench_use(sum);
	return f;
}

static void *data_thread(void *arg)
{
	struct churn *c = arg;
	struct rig *r = c->rig;
	uint64_t start = bench_cpu_ns(), parked = 0, elapsed, n_lookups = 0;
	uint32_t f = 1;

	while ((elapsed = bench_cpu_ns() - start + parked) < c->span_ns) {
		uint32_t due = (uint32_t)((double)elapsed * c->opens_per_s / 1e9);
		if (elapsed >= c->span_ns / 2)
			c->half = true;
		for (unsigned burst = 0; burst < BURSTS_A_LOOK; burst++) {
			parked += pass(&r->gate);
			f = look_up(r, f);
			for (unsigned i = 0; i < PEER_BURST && c->n_opened < due; i++) {
				uint32_t flow = N_FLOWS + c->n_opened++;
				struct flow_key key;
				bench_flow_key(flow, &key);
				r->dips[flow] = r->keeper->open(r->k, 0, flow % N_VIPS, &key);
			}
		}
		n_lookups += BURSTS_A_LOOK * PEER_BURST;
	}
	c->rate = (double)n_lookups * 1e3 / (double)elapsed;
	c->parked_ms = (double)parked / 1e6;
	gate_leave(&r->gate);
	c->done = true;
	return NULL;
}

static void run(struct churn *c, unsigned vip, bool with_spare)
{
	struct rig *r = c->rig;
	struct dcode_dip dips[N_DIPS];
	struct pool pool = rig_pool(vip, with_spare, dips);
	bool changed = false;
	pthread_t data;

	dips[N_DIPS - 1].weight = with_spare;
	pool.n = N_DIPS;
	pool.n_spare = 0;
	r->gate.n_threads = 1;
	if (pthread_create(&data, NULL, data_thread, c))
		keeper_fail("no thread");
	while (!c->done) {
		if (r->keeper->work)
			r->keeper->work(r->k);
		if (!changed && c->half) {
			r->keeper->change(r->k, vip, &pool);
			changed = true;
		}
		usleep(100);
	}
	pthread_join(data, NULL);
	if (!changed)
		keeper_fail("the pool was not changed");
	if (r->keeper->work)
		r->keeper->work(r->k);
}

/* The flows that were opened end. */
static void undo(const struct churn *c)
{
	struct rig *r = c->rig;

	for (uint32_t i = N_FLOWS; i < N_FLOWS + c->n_opened; i++) {
		struct flow_key key;
		bench_flow_key(i, &key);
		r->keeper->close(r->k, 0, i % N_VIPS, &key);
	}
}

int main(void)
{
	static const struct {
		const char *name;
		uint32_t opens_per_s;
	} cases[] = {{"1K", 1000}, {"4K", 4000}, {"16K", 16000}, {"64K", 64000}, {"256K", 256000}};
	const uint64_t span_ns = getenv("BENCH_QUICK") ? 100000000u : 1000000000u;

	for (unsigned l = 0; l < N_KEEPERS; l++) {
		struct rig r;
		rig_new(&r, keepers[l], N_FLOWS + N_FLOWS / 2, 1, true);
		rig_open(&r, 0, N_FLOWS);
		rig_change_all(&r);
		for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
			struct churn c = {
				.rig = &r, .opens_per_s = cases[i].opens_per_s, .span_ns = span_ns};
			run(&c, i, false);
			uint32_t broken =
				rig_broken(&r, N_FLOWS + c.n_opened / PEER_BURST * PEER_BURST);
			printf("  %s: parked for %.3f ms, %u flows elsewhere\n", cases[i].name,
			       c.parked_ms, broken);
			bench_result("consistency_churn", cases[i].name, keepers[l]->name, c.rate,
				     "Mlookups/s");
			undo(&c);
		}
		rig_free(&r);
	}
	return 0;
}
