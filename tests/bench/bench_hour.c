/* The same hour for every keeper: 1M flows of 128 VIPs at a time, some 3,100 a second coming and
 * going, and 500 changes of pools (hour_script.h). Nine flows of ten last for two minutes in the
 * mean, one for half an hour; every flow speaks every 64 seconds, and after each change of its VIP.
 *
 * A flow that finds itself on another DIP is broken, and ends. One whose DIP failed, or is gone
 * after it drained, is lost with it: it ends, and is not counted as broken. Time is simulated:
 * nothing sleeps, and control has taken in what it is told before the next change. `half_table`:
 * tables made for half of the flows, for those that have any whose size is chosen beforehand.
 *
 * With BENCH_QUICK set there are 100K flows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "tests/bench/hour_script.h"

#define SPEAK_S 64u /* HOUR_VIPS / SPEAK_S VIPs a second */
#define SHORT_S 120.0
#define LONG_S 1800.0
#define LONG_PART 0.1
/* A flow ends when it would speak next, half a round later in the mean. */
#define MEAN_S (SHORT_S * (1 - LONG_PART) + LONG_S * LONG_PART + SPEAK_S / 2.0)

struct live {
	uint32_t flow;
	uint32_t end_s;
	uint16_t dip;
	bool hit_falsely;
};

struct service {
	struct live *flows;
	uint32_t n, cap;
};

struct hour {
	const struct keeper *keeper;
	void *k;
	struct hour_script script;
	struct service services[HOUR_VIPS];
	uint32_t now_s;
	uint32_t n_opened;
	uint32_t n_broken;
	uint32_t n_lost;
	uint32_t n_false; /* flows that ever hit what was stored for another one */
};

static double uniform(uint32_t flow, uint64_t what)
{
	return ((double)(peer_mix(flow, what) >> 11) + 0.5) * 0x1p-53;
}

/* How long a flow will last. Of those that are there at any time more are long than of those that
 * come; what an exponential life has left does not hang on how long it has lasted. */
static double life_s(uint32_t flow, bool there)
{
	double long_part = LONG_PART;

	if (there)
		long_part = LONG_S * LONG_PART / (SHORT_S * (1 - LONG_PART) + LONG_S * LONG_PART);
	return -log(uniform(flow, 21)) * (uniform(flow, 22) < long_part ? LONG_S : SHORT_S);
}

static uint64_t false_hits(const struct hour *h)
{
	return h->keeper->false_hits ? h->keeper->false_hits(h->k) : 0;
}

static void open_flow(struct hour *h, bool there)
{
	const uint32_t flow = h->n_opened++;
	struct service *s = &h->services[flow % HOUR_VIPS];
	struct flow_key key;

	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 1024;
		s->flows = realloc(s->flows, s->cap * sizeof(*s->flows));
		if (!s->flows)
			keeper_fail("no memory");
	}
	bench_flow_key(flow, &key);
	uint64_t hits = false_hits(h);
	uint16_t dip = h->keeper->open(h->k, 0, flow % HOUR_VIPS, &key);
	bool hit_falsely = false_hits(h) != hits;
	h->n_false += hit_falsely;
	s->flows[s->n++] = (struct live){.flow = flow,
					 .end_s = h->now_s + (uint32_t)life_s(flow, there),
					 .dip = dip,
					 .hit_falsely = hit_falsely};
}

/* The last one of the VIP's flows takes its place. */
static void close_flow(struct hour *h, unsigned vip, uint32_t i)
{
	struct service *s = &h->services[vip];
	struct flow_key key;

	bench_flow_key(s->flows[i].flow, &key);
	h->keeper->close(h->k, 0, vip, &key);
	s->flows[i] = s->flows[--s->n];
}

/* Some of n flows, at most a burst of them, did: which? */
static void find_false(struct hour *h, unsigned vip, struct live *flows, uint32_t n)
{
	for (uint32_t f = 0; f < n; f++) {
		struct keeper_burst b;
		uint64_t hits = false_hits(h);
		for (unsigned i = 0; i < PEER_BURST; i++) {
			bench_flow_key(flows[f].flow, &b.l[i].key);
			b.vips[i] = (uint16_t)vip;
		}
		h->keeper->lookup(h->k, 0, &b);
		if (false_hits(h) == hits || flows[f].hit_falsely)
			continue;
		flows[f].hit_falsely = true;
		h->n_false++;
	}
}

/* All flows of a VIP speak; those that are broken end. */
static void speak(struct hour *h, unsigned vip)
{
	struct service *s = &h->services[vip];
	struct keeper_burst b;

	for (unsigned i = 0; i < PEER_BURST; i++)
		b.vips[i] = (uint16_t)vip;
	/* From the end: what takes a broken one's place has spoken already. */
	for (uint32_t end = s->n; end > 0;) {
		uint32_t n = end < PEER_BURST ? end : PEER_BURST, first = end - n;
		for (uint32_t i = 0; i < PEER_BURST; i++)
			bench_flow_key(s->flows[first + i % n].flow, &b.l[i].key);
		uint64_t hits = false_hits(h);
		h->keeper->lookup(h->k, 0, &b);
		if (unlikely(false_hits(h) != hits))
			find_false(h, vip, &s->flows[first], n);
		for (uint32_t i = n; i-- > 0;) {
			if (b.l[i].dip == s->flows[first + i].dip)
				continue;
			h->n_broken++;
			close_flow(h, vip, first + i);
		}
		end = first;
	}
}

static void pool_changed(void *ctx, unsigned vip, uint16_t gone)
{
	struct hour *h = ctx;
	struct service *s = &h->services[vip];
	struct dcode_dip dips[HOUR_DIPS];
	struct pool pool = hour_script_pool(&h->script, vip, dips);

	for (uint32_t i = s->n; gone && i-- > 0;) {
		if (s->flows[i].dip == gone) {
			h->n_lost++;
			close_flow(h, vip, i);
		}
	}
	h->keeper->change(h->k, vip, &pool);
	speak(h, vip);
}

static void end_flows(struct hour *h, unsigned vip)
{
	struct service *s = &h->services[vip];

	for (uint32_t i = s->n; i-- > 0;) {
		if (s->flows[i].end_s <= h->now_s)
			close_flow(h, vip, i);
	}
}

static void run(struct hour *h, uint32_t n_flows)
{
	const double opens_a_second = n_flows / MEAN_S;

	for (uint32_t i = 0; i < n_flows; i++)
		open_flow(h, true);
	for (h->now_s = 0; h->now_s < HOUR_S; h->now_s++) {
		while (h->n_opened < n_flows + (uint32_t)(opens_a_second * h->now_s))
			open_flow(h, false);
		if (h->keeper->work)
			h->keeper->work(h->k);
		hour_script_step(&h->script, h->now_s, pool_changed, h);
		for (unsigned v = h->now_s % SPEAK_S; v < HOUR_VIPS; v += SPEAK_S) {
			end_flows(h, v);
			speak(h, v);
		}
	}
}

static void measure(const struct keeper *keeper, const char *name, uint32_t n_flows,
		    uint32_t n_planned)
{
	static struct dcode_dip dips[HOUR_VIPS][HOUR_DIPS];
	struct pool pools[HOUR_VIPS];
	struct keeper_config c = {.n_vips = HOUR_VIPS,
				  .n_threads = 1,
				  .n_flows = n_planned,
				  .seed = 20261130,
				  .pools = pools,
				  .witness = true};
	struct hour *h = keeper_alloc(1, sizeof(*h));
	uint32_t n_left = 0;

	hour_script_start(&h->script);
	for (unsigned v = 0; v < HOUR_VIPS; v++)
		pools[v] = hour_script_pool(&h->script, v, dips[v]);
	h->keeper = keeper;
	h->k = keeper->create(&c);
	run(h, n_flows);
	for (unsigned v = 0; v < HOUR_VIPS; v++) {
		n_left += h->services[v].n;
		free(h->services[v].flows);
	}
	printf("  %s: %s: %u changes, %u flows opened, %u lost with their DIP, %u left\n", name,
	       keeper->name, h->script.n_changes, h->n_opened, h->n_lost, n_left);
	bench_result("hour_broken", name, keeper->name, h->n_broken, "flows");
	bench_result("hour_false_hits", name, keeper->name, h->n_false, "flows");
	bench_result("hour_bytes", name, keeper->name, (double)keeper->bytes(h->k), "bytes");
	if (keeper == keepers[0] && h->n_broken)
		keeper_fail("concury broke flows");
	keeper->destroy(h->k);
	free(h);
}

int main(void)
{
	const bool quick = getenv("BENCH_QUICK") != NULL;
	const uint32_t n = quick ? 100000 : 1000000;
	const char *name = quick ? "100K" : "1M";
	const struct keeper *const bounded[] = {&keeper_maglev, &keeper_conntrack};

	for (unsigned l = 0; l < N_KEEPERS; l++)
		measure(keepers[l], name, n, n + n / 8);
	for (unsigned l = 0; l < ARRAY_LEN(bounded); l++)
		measure(bounded[l], quick ? "100K_half_table" : "1M_half_table", n, n / 2);
	return 0;
}
