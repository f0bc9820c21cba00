/* Shares against weights over time, in simulated time: flows with sizes and arrivals of data
 * centres (workloads.h) come to 20 DIPs; every 30 s a quarter of the DIPs get another weight from 1
 * to 16. Each way to choose a DIP (peers/chooser.h) gets the same flows and the same changes. A
 * flow stays on the DIP it was given and sends at 100 Mbit/s.
 *
 * Over windows of 10 s, none of which a change divides, the error of a DIP is how far its share of
 * the new flows, or of all bytes, is from its weight's, in per cent of that. The time series is the
 * mean over the DIPs, the CDF that of all DIPs in all windows. However exact a way is, so many
 * flows fall on a DIP by chance: `tournament`, exact in the mean, shows what is left then; and
 * bytes are a few large flows', which no choice by hash evens out. $BENCH_QUICK: 60 s of websearch
 * and cache, the latter a fifth of the flows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/peers/chooser.h"
#include "tests/bench/workloads.h"

#define N_DIPS 20u
#define WEIGHT_MAX 16u
#define PERIOD_S 30u
#define WINDOW_S 10u
#define RUN_S 300u
#define WINDOWS (RUN_S / WINDOW_S)
#define BYTES_PER_S (100e6 / 8)

struct tally {
	double flows[WINDOWS][N_DIPS];
	double bytes[WINDOWS][N_DIPS];
};

struct run {
	const struct workload *workload;
	unsigned windows;
	uint64_t rng;
	double thinning; /* each gap is so many drawn ones */
	double now;
	struct dcode_dip dips[N_DIPS];
	double ideal[WINDOWS][N_DIPS];
	void *c[N_CHOOSERS];
	struct tally tallies[N_CHOOSERS];
};

struct flow {
	uint64_t hash;
	double start;
	double size;
};

static uint64_t next_random(struct run *r)
{
	return peer_mix(r->rng += 0x9e3779b97f4a7c15u, 13);
}

static double next_uniform(struct run *r)
{
	return (double)(next_random(r) >> 11) * 0x1p-53;
}

/* --- the pool ------------------------------------------------------------------------------------
 */

static void start_pool(struct run *r)
{
	for (unsigned i = 0; i < N_DIPS; i++)
		r->dips[i] =
			(struct dcode_dip){.id = next_random(r),
					   .weight = 1 + (uint32_t)(next_random(r) % WEIGHT_MAX),
					   .index = (uint16_t)(i + 1),
					   .up = true};
	for (unsigned k = 0; k < N_CHOOSERS; k++)
		r->c[k] = choosers[k]->build(r->dips, N_DIPS);
}

static void change_weights(struct run *r)
{
	for (unsigned n = 0; n < N_DIPS / 4; n++)
		r->dips[next_random(r) % N_DIPS].weight =
			1 + (uint32_t)(next_random(r) % WEIGHT_MAX);
	for (unsigned k = 0; k < N_CHOOSERS; k++)
		choosers[k]->change(r->c[k], r->dips, N_DIPS);
}

static void note_ideal(struct run *r, unsigned window)
{
	double weights = 0;

	for (unsigned i = 0; i < N_DIPS; i++)
		weights += r->dips[i].weight;
	for (unsigned i = 0; i < N_DIPS; i++)
		r->ideal[window][i] = r->dips[i].weight / weights;
}

/* --- flows ---------------------------------------------------------------------------------------
 */

static struct flow next_flow(struct run *r)
{
	struct flow f = {.hash = next_random(r), .start = r->now};

	f.size = r->workload->size(next_uniform(r));
	r->now += r->thinning * r->workload->gap(next_uniform(r));
	return f;
}

/* Count what of the flow's bytes is sent in each window. */
static void send_flow(struct tally *t, unsigned windows, const struct flow *f, unsigned dip)
{
	double from = f->start, left = f->size;

	for (unsigned w = (unsigned)(from / WINDOW_S); w < windows && left > 0; w++) {
		const double end = (w + 1.0) * WINDOW_S;
		const double sent = fmin(left, (end - from) * BYTES_PER_S);
		t->bytes[w][dip] += sent;
		left -= sent;
		from = end;
	}
}

/* The flows that start in this window, in bursts, the last of which is short. */
static void run_window(struct run *r, unsigned window)
{
	struct flow flows[PEER_BURST];
	uint64_t hashes[PEER_BURST];
	uint16_t dips[PEER_BURST];

	note_ideal(r, window);
	while (r->now < (window + 1.0) * WINDOW_S) {
		unsigned n = 0;
		memset(hashes, 0, sizeof(hashes));
		for (; n < PEER_BURST && r->now < (window + 1.0) * WINDOW_S; n++) {
			flows[n] = next_flow(r);
			hashes[n] = flows[n].hash;
		}
		for (unsigned k = 0; k < N_CHOOSERS; k++) {
			choosers[k]->choose(r->c[k], hashes, dips);
			for (unsigned i = 0; i < n; i++) {
				r->tallies[k].flows[window][dips[i] - 1]++;
				send_flow(&r->tallies[k], r->windows, &flows[i], dips[i] - 1u);
			}
		}
	}
}

/* --- figures -------------------------------------------------------------------------------------
 */

/* errors[]: of each DIP in the window, per cent. Returns their mean. */
static double window_errors(const double *got, const double *ideal, double *errors)
{
	double total = 0, sum = 0;

	for (unsigned i = 0; i < N_DIPS; i++)
		total += got[i];
	for (unsigned i = 0; i < N_DIPS; i++) {
		errors[i] = 100 * fabs(got[i] / total / ideal[i] - 1);
		sum += errors[i];
	}
	return sum / N_DIPS;
}

static void report(const struct run *r, unsigned k, bool bytes)
{
	static const struct {
		const char *name;
		double part;
	} points[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p100", 1}};
	static double errors[WINDOWS * N_DIPS];
	const struct tally *t = &r->tallies[k];
	const unsigned n = r->windows * N_DIPS;
	char name[32];

	for (unsigned w = 0; w < r->windows; w++) {
		const double mean = window_errors(bytes ? t->bytes[w] : t->flows[w], r->ideal[w],
						  errors + (size_t)w * N_DIPS);
		snprintf(name, sizeof(name), "%s_%03u", r->workload->name, (w + 1) * WINDOW_S);
		bench_result(bytes ? "dynamics_share_bytes" : "dynamics_share", name,
			     choosers[k]->name, mean, "percent");
	}
	(void)bench_median(errors, n); /* sorts */
	for (size_t i = 0; i < ARRAY_LEN(points); i++) {
		snprintf(name, sizeof(name), "%s_%s", r->workload->name, points[i].name);
		bench_result(bytes ? "dynamics_error_cdf_bytes" : "dynamics_error_cdf", name,
			     choosers[k]->name, errors[(unsigned)ceil(points[i].part * n) - 1],
			     "percent");
	}
}

static void measure(const struct workload *workload, unsigned seconds, double thinning)
{
	static struct run r;

	r = (struct run){.workload = workload,
			 .windows = seconds / WINDOW_S,
			 .rng = 1,
			 .thinning = thinning};
	start_pool(&r);
	for (unsigned w = 0; w < r.windows; w++) {
		if (w && w * WINDOW_S % PERIOD_S == 0)
			change_weights(&r);
		run_window(&r, w);
	}
	for (unsigned k = 0; k < N_CHOOSERS; k++) {
		report(&r, k, false);
		report(&r, k, true);
		choosers[k]->destroy(r.c[k]);
	}
}

int main(void)
{
	const bool quick = getenv("BENCH_QUICK") != NULL;

	if (quick) {
		measure(&workloads[0], 60, 1);
		measure(&workloads[2], 60, 5);
		return 0;
	}
	for (unsigned i = 0; i < N_WORKLOADS; i++)
		measure(&workloads[i], RUN_S, 1);
	return 0;
}
