/* What the marks on Dcodes are worth. Two per cent of the flows of one VIP are pinned as flows come
 * to be pinned: two per cent of the Dcodes have moved since the flows opened. `concury_marked` is
 * the same with every Dcode marked as home of pins, the worst that a long history of changes can
 * lead to: then every lookup reads the Othello.
 *
 * Lookups a second on one core, and the bytes that the packet path holds: the same known flows on
 * the same DIPs, the same stream of random known flows, repetitions interleaved, medians.
 * $BENCH_QUICK leaves out the larger cases. bench_consistency has the peers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/entropy.h"
#include "lookup/othello_map.h"
#include "lookup/snapshot.h"
#include "tests/bench/bench.h"
#include "tests/bench/peers/peer.h"
#include "worker/learn.h" /* SEEN_ENTRIES */

#define N_DIPS 50u /* 4096 Dcodes */
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

static void world_free(struct world *w)
{
	vip_view_unref(w->vip);
	vip_view_unref(w->marked);
	snapshot_free(w->snapshot);
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

static const struct layout {
	const char *name;
	run_fn *run;
} layouts[] = {
	{"concury", run_concury},
	{"concury_marked", run_concury_marked},
};

static double bytes_of(const struct world *w)
{
	return (double)(vip_view_pin_bytes(w->vip) + vip_view_dcode_bytes(w->vip) +
			SEEN_ENTRIES * sizeof(struct seen_entry));
}

/* There are no pins for fingerprint accidents here. One flow in 65,536 has one at most, which
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
		check(diff <= accidents_max(w->n), layouts[l].name);
	}
}

static void measure(const char *name, uint32_t n)
{
	struct world w = {.n = n};
	double rates[ARRAY_LEN(layouts)][REPETITIONS];
	uint32_t flow = 1;

	make_flows(&w);
	make_concury(&w);
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
	bench_result("lookup_bytes", name, "concury", bytes_of(&w), "bytes");
	world_free(&w);
}

int main(void)
{
	const struct {
		const char *name;
		uint32_t n;
	} cases[] = {{"64K", 1u << 16}, {"1M", 1u << 20}, {"4M", 1u << 22}, {"16M", 1u << 24}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!bench_quick() || cases[i].n <= 1u << 20)
			measure(cases[i].name, cases[i].n);
	}
	return 0;
}
