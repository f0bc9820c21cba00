/* Known flows of 128 VIPs in every keeper: lookups a second by one and by two threads, bytes that
 * they read, the time to take all flows in, and the time of a change of one VIP's pool.
 *
 * Each VIP has 31 DIPs when its flows are opened; then one more comes, so a thirty-second of the
 * flows is where the hash would not send it any more. The stream is of random known flows, so of
 * random VIPs. All keepers hold their flows at once and take turns; figures are medians, and all
 * times are of CPU. Two threads' rate is the sum of theirs.
 *
 * With BENCH_QUICK set the largest cases are left out. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "tests/bench/keeper_rig.h"

#define THREADS_MAX 2u
#define REPETITIONS_MAX 7u

static bool quick;

struct job {
	struct rig *rig;
	unsigned thread;
	uint32_t flow;
	uint32_t lookups;
	double rate; /* M/s */
};

static void *run_lookups(void *arg)
{
	struct job *j = arg;
	struct rig *r = j->rig;
	const uint32_t n = r->n / r->n_threads;
	uint32_t f = j->flow;
	uint64_t sum = 0, start = bench_cpu_ns();

	for (uint32_t done = 0; done < j->lookups; done += PEER_BURST) {
		struct keeper_burst b;
		for (unsigned i = 0; i < PEER_BURST; i++) {
			uint32_t flow = rig_flow(r, j->thread, f);
			bench_flow_key(flow, &b.l[i].key);
			b.vips[i] = flow % N_VIPS;
			f = bench_next_flow(f, n);
		}
		r->keeper->lookup(r->k, j->thread, &b);
		for (unsigned i = 0; i < PEER_BURST; i++)
			sum += b.l[i].dip;
	}
	bench_use(sum);
	j->rate = j->lookups * 1e3 / (double)(bench_cpu_ns() - start);
	j->flow = f;
	return NULL;
}

static double rate_of(struct job *jobs, unsigned n_threads)
{
	pthread_t other;
	double rate;

	if (n_threads > 1 && pthread_create(&other, NULL, run_lookups, &jobs[1]))
		keeper_fail("no thread");
	run_lookups(&jobs[0]);
	rate = jobs[0].rate;
	if (n_threads > 1) {
		pthread_join(other, NULL);
		rate += jobs[1].rate;
	}
	return rate;
}

static void measure_lookups(struct rig *rigs, const char *name)
{
	static double rates[N_KEEPERS][REPETITIONS_MAX];
	struct job jobs[N_KEEPERS][THREADS_MAX];
	const unsigned n_threads = rigs[0].n_threads, repetitions = quick ? 3 : REPETITIONS_MAX;

	for (unsigned l = 0; l < N_KEEPERS; l++) {
		for (unsigned t = 0; t < n_threads; t++)
			jobs[l][t] = (struct job){.rig = &rigs[l],
						  .thread = t,
						  .lookups = quick ? 1u << 19 : 1u << 21};
	}
	for (unsigned r = 0; r < repetitions; r++) {
		for (unsigned l = 0; l < N_KEEPERS; l++)
			rates[l][r] = rate_of(jobs[l], n_threads);
	}
	for (unsigned l = 0; l < N_KEEPERS; l++)
		bench_result(n_threads == 1 ? "consistency_lookup" : "consistency_lookup_2t", name,
			     keepers[l]->name, bench_median(rates[l], repetitions), "Mlookups/s");
}

/* Hold n flows in a keeper. per_vip: name of the change's case, NULL = none is reported. */
static void fill(struct rig *r, uint32_t n, const char *name, const char *per_vip)
{
	double insert_ns = (double)rig_open(r, 0, n), change_ns = rig_change_all(r);
	const char *keeper = r->keeper->name;
	uint32_t broken;

	r->n = n;
	broken = rig_broken(r, n);
	if (broken && r->keeper == keepers[0])
		keeper_fail("concury broke flows");
	if (broken)
		printf("  %s: %s has %u flows elsewhere\n", name, keeper, broken);
	if (r->n_threads > 1)
		return;
	bench_result("consistency_insert", name, keeper, insert_ns / 1e6, "ms");
	bench_result("consistency_bytes", name, keeper, (double)r->keeper->bytes(r->k), "bytes");
	if (per_vip)
		bench_result("consistency_change", per_vip, keeper, change_ns / 1e6, "ms");
}

static void measure(uint32_t n, const char *name, const char *per_vip)
{
	struct rig rigs[N_KEEPERS];

	for (unsigned n_threads = 1; n_threads <= THREADS_MAX; n_threads++) {
		for (unsigned l = 0; l < N_KEEPERS; l++) {
			rig_new(&rigs[l], keepers[l], n, n_threads, false);
			fill(&rigs[l], n, name, per_vip);
		}
		measure_lookups(rigs, name);
		for (unsigned l = 0; l < N_KEEPERS; l++)
			rig_free(&rigs[l]);
	}
}

int main(void)
{
	static const struct {
		const char *name;
		uint32_t n;
		const char *per_vip;
	} cases[] = {{"1K", 1u << 10, NULL},
		     {"64K", 1u << 16, NULL},
		     {"1M", 1u << 20, "8K"},
		     {"4M", 1u << 22, NULL},
		     {"16M", 1u << 24, "128K"}};

	quick = getenv("BENCH_QUICK") != NULL;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!quick || cases[i].n <= 1u << 20)
			measure(cases[i].n, cases[i].name, cases[i].per_vip);
	}
	return 0;
}
