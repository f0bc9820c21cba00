/* Two per cent of the flows are pinned as flows come to be pinned: two per cent of the Dcodes have
 * moved since the flows opened. `concury_marked` is the same with every Dcode marked as home of
 * pins, the worst that a long history of changes can lead to.
 *
 * Lookups a second on one core, and the bytes that the packet path holds, against the baselines:
 * the same known flows on the same DIPs in every layout, the same stream of random known flows,
 * repetitions interleaved, medians. $BENCH_LOOKUP_MAX (flows) leaves out the larger cases. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/entropy.h"
#include "lookup/othello_map.h"
#include "lookup/snapshot.h"
#include "tests/bench/bench.h"
#include "tests/bench/peers/conntable.h"
#include "tests/bench/peers/paper.h"
#include "worker/learn.h" /* SEEN_ENTRIES */

#define N_DIPS 50u /* 4096 Dcodes, 12 bits */
#define MOVED_OF_1000 20u
#define REPETITIONS 9u
#define LOOKUPS (4u << 20) /* in each repetition */

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "bench_lookup: %s\n", what);
		exit(EXIT_FAILURE);
	}
}

/* The known flows of one case and the layouts that hold them. */
struct world {
	uint32_t n;
	uint64_t seed;
	struct dcode_table table;
	uint64_t *hashes;
	uint16_t *dips; /* where each flow lives */
	struct snapshot *snapshot;
	struct vip_view *vip;
	struct vip_view *marked; /* the same, every Dcode marked */
	struct paper paper;
	struct paper packed;
	struct conntable conntable;
};

static void make_flows(struct world *w)
{
	struct dcode_dip dips[N_DIPS];
	const struct dcode_table none = {0};

	for (unsigned i = 0; i < N_DIPS; i++)
		dips[i] = (struct dcode_dip){
			.id = entropy_u64(), .weight = 1, .index = (uint16_t)(i + 1), .up = true};
	check(dcode_table_next(&none, dips, N_DIPS, &w->table, NULL) == 0, "no memory");
	w->seed = entropy_u64();
	w->hashes = peer_alloc(w->n * sizeof(*w->hashes));
	w->dips = peer_alloc(w->n * sizeof(*w->dips));
	for (uint32_t i = 0; i < w->n; i++) {
		struct flow_key key;
		bench_flow_key(i, &key);
		w->hashes[i] = flow_key_hash(&key, w->seed);
		w->dips[i] = w->table.dcodes[flow_home(w->hashes[i], w->table.n)];
	}
	for (uint32_t c = 0; c < w->table.n; c++) {
		if (peer_mix(c, 1) % 1000 < MOVED_OF_1000)
			w->table.dcodes[c] = (uint16_t)(w->table.dcodes[c] % N_DIPS + 1);
	}
}

static struct vip_view *make_view(const struct world *w, const struct othello_map *map)
{
	struct vip_view *v = vip_view_new(w->table.n, N_DIPS + 1);

	check(v && othello_map_write(map, &v->pins) == 0, "no memory");
	v->seed = w->seed;
	memcpy(vip_view_homes(v), w->table.dcodes, w->table.n * sizeof(uint16_t));
	for (unsigned i = 1; i <= N_DIPS; i++)
		vip_view_dips(v)[i].usable = true;
	return v;
}

static void make_concury(struct world *w)
{
	uint64_t *hashes = peer_alloc(w->n * sizeof(*hashes));
	uint32_t *values = peer_alloc(w->n * sizeof(*values));
	struct othello_map *map;
	uint32_t n_pins = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		if (w->dips[i] == w->table.dcodes[flow_home(w->hashes[i], w->table.n)])
			continue;
		hashes[n_pins] = w->hashes[i];
		values[n_pins++] = pin_word(w->hashes[i], w->dips[i]);
	}
	check(othello_map_build(&map, n_pins, hashes, values, entropy_u64(), NULL, NULL) == 0,
	      "no memory");
	w->vip = make_view(w, map);
	vip_view_mark_pins(w->vip, hashes, n_pins);
	w->marked = make_view(w, map);
	for (uint32_t c = 0; c < w->table.n; c++)
		vip_view_homes(w->marked)[c] |= HOME_HAS_PINS;
	w->snapshot = snapshot_new(1, 0);
	check(w->snapshot != NULL, "no memory");
	othello_map_free(map);
	hugemem_free(hashes, w->n * sizeof(*hashes));
	hugemem_free(values, w->n * sizeof(*values));
}

static void make_peers(struct world *w)
{
	uint32_t *values = peer_alloc(w->n * sizeof(*values));
	uint32_t some[N_DIPS + 1]; /* a Dcode of each DIP */

	for (uint32_t c = 0; c < w->table.n; c++)
		some[w->table.dcodes[c]] = c;
	conntable_init(&w->conntable, w->n, w->seed);
	for (uint32_t i = 0; i < w->n; i++) {
		uint32_t home = flow_home(w->hashes[i], w->table.n);
		values[i] = w->table.dcodes[home] == w->dips[i] ? home : some[w->dips[i]];
		conntable_add(&w->conntable, w->hashes[i], w->dips[i]);
	}
	paper_build(&w->paper, w->seed, w->n, w->hashes, values, w->table.dcodes, w->table.n);
	paper_pack(&w->packed, &w->paper);
	hugemem_free(values, w->n * sizeof(*values));
}

static void world_free(struct world *w)
{
	vip_view_unref(w->vip);
	vip_view_unref(w->marked);
	snapshot_free(w->snapshot);
	paper_destroy(&w->paper);
	paper_destroy(&w->packed);
	conntable_destroy(&w->conntable);
	dcode_table_destroy(&w->table);
	hugemem_free(w->hashes, w->n * sizeof(*w->hashes));
	hugemem_free(w->dips, w->n * sizeof(*w->dips));
}

/* --- the layouts ---------------------------------------------------------------------------------
 */

/* Look up `rounds` bursts of flows from *flow on; returns a sum of the answers. */
typedef uint64_t run_fn(const struct world *w, uint32_t *flow, uint32_t rounds);

static ALWAYS_INLINE uint64_t run_view(const struct world *w, const struct vip_view *v,
				       uint32_t *flow, uint32_t rounds)
{
	struct lookup l[PEER_BURST];
	uint64_t sum = 0;
	uint32_t f = *flow;

	for (unsigned i = 0; i < PEER_BURST; i++)
		l[i].vip = v;
	while (rounds--) {
		for (unsigned i = 0; i < PEER_BURST; i++) {
			bench_flow_key(f, &l[i].key);
			f = bench_next_flow(f, w->n);
		}
		uint64_t maybe_pinned = snapshot_lookup_prepare(w->snapshot, l, PEER_BURST);
		snapshot_lookup_burst(w->snapshot, l, PEER_BURST, maybe_pinned);
		for (unsigned i = 0; i < PEER_BURST; i++)
			sum += l[i].dip;
	}
	*flow = f;
	return sum;
}

static uint64_t run_concury(const struct world *w, uint32_t *flow, uint32_t rounds)
{
	return run_view(w, w->vip, flow, rounds);
}

static uint64_t run_concury_marked(const struct world *w, uint32_t *flow, uint32_t rounds)
{
	return run_view(w, w->marked, flow, rounds);
}

static ALWAYS_INLINE uint64_t run_peer(const struct world *w, uint32_t *flow, uint32_t rounds,
				       void (*lookup)(const struct world *w,
						      const struct flow_key *keys, uint16_t *dips))
{
	struct flow_key keys[PEER_BURST];
	uint16_t dips[PEER_BURST];
	uint64_t sum = 0;
	uint32_t f = *flow;

	while (rounds--) {
		for (unsigned i = 0; i < PEER_BURST; i++) {
			bench_flow_key(f, &keys[i]);
			f = bench_next_flow(f, w->n);
		}
		lookup(w, keys, dips);
		for (unsigned i = 0; i < PEER_BURST; i++)
			sum += dips[i];
	}
	*flow = f;
	return sum;
}

#define PEER(name, call)                                                                           \
	static void lookup_##name(const struct world *w, const struct flow_key *keys,              \
				  uint16_t *dips)                                                  \
	{                                                                                          \
		call;                                                                              \
	}                                                                                          \
	static uint64_t run_##name(const struct world *w, uint32_t *flow, uint32_t rounds)         \
	{                                                                                          \
		return run_peer(w, flow, rounds, lookup_##name);                                   \
	}

PEER(paper, paper_lookup(&w->paper, keys, dips))
PEER(paper_prefetch, paper_lookup_prefetch(&w->paper, keys, dips))
PEER(paper_packed, paper_lookup_packed(&w->packed, keys, dips))
PEER(conntable, conntable_lookup(&w->conntable, keys, dips))

static const struct layout {
	const char *name;
	run_fn *run;
} layouts[] = {
	{"concury", run_concury},
	{"concury_marked", run_concury_marked},
	{"paper", run_paper},
	{"paper_prefetch", run_paper_prefetch},
	{"paper_packed", run_paper_packed},
	{"conntable", run_conntable},
};

static double bytes_of(const struct world *w, size_t layout)
{
	switch (layout) {
	case 0:
	case 1:
		return (double)(vip_view_pin_bytes(w->vip) + vip_view_dcode_bytes(w->vip) +
				SEEN_ENTRIES * sizeof(struct seen_entry));
	case 4:
		return (double)paper_bytes(&w->packed);
	case 5:
		return (double)conntable_bytes(&w->conntable);
	default:
		return (double)paper_bytes(&w->paper);
	}
}

/* Concury adds no pins for fingerprint accidents here. One flow in 65,536 has one at most, which
 * changes the sum by the difference of two DIPs, N_DIPS / sqrt(6) in the root mean square: six
 * times what so many add up to. */
static uint64_t accidents_max(uint32_t n)
{
	return (uint64_t)(6 * N_DIPS / sqrt(6) * sqrt(n / 65536.0 + 1));
}

/* Every layout sends a round over all flows to the same sum of DIPs as the flows' own. */
static void verify(const struct world *w)
{
	uint64_t expected = 0;

	for (uint32_t i = 0; i < w->n; i++)
		expected += w->dips[i];
	for (size_t l = 0; l < ARRAY_LEN(layouts); l++) {
		uint32_t flow = 0;
		uint64_t sum = layouts[l].run(w, &flow, w->n / PEER_BURST);
		uint64_t diff = sum > expected ? sum - expected : expected - sum;
		check(diff <= (l < 2 ? accidents_max(w->n) : 0), layouts[l].name);
	}
}

static void measure(const char *name, uint32_t n)
{
	struct world w = {.n = n};
	double rates[ARRAY_LEN(layouts)][REPETITIONS];
	uint32_t flow = 1;

	make_flows(&w);
	make_concury(&w);
	make_peers(&w);
	verify(&w);
	for (unsigned r = 0; r < REPETITIONS; r++) {
		for (size_t l = 0; l < ARRAY_LEN(layouts); l++) {
			uint64_t start = bench_cpu_ns();
			bench_use(layouts[l].run(&w, &flow, LOOKUPS / PEER_BURST));
			rates[l][r] = LOOKUPS * 1e3 / (double)(bench_cpu_ns() - start);
		}
	}
	for (size_t l = 0; l < ARRAY_LEN(layouts); l++)
		bench_result("lookup", name, layouts[l].name, bench_median(rates[l], REPETITIONS),
			     "Mlookups/s");
	for (size_t l = 0; l < ARRAY_LEN(layouts); l++)
		bench_result("lookup_bytes", name, layouts[l].name, bytes_of(&w, l), "bytes");
	world_free(&w);
}

int main(void)
{
	const struct {
		const char *name;
		uint32_t n;
	} cases[] = {{"64K", 1u << 16}, {"1M", 1u << 20}, {"4M", 1u << 22}, {"16M", 1u << 24}};
	const char *max = getenv("BENCH_LOOKUP_MAX");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!max || cases[i].n <= strtoul(max, NULL, 0))
			measure(cases[i].name, cases[i].n);
	}
	return 0;
}
