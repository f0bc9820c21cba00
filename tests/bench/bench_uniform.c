/* Are Dcodes uniform? Tuples of three kinds are looked up, and how often each Dcode answers is held
 * against even counts by chi-squared and by Kolmogorov-Smirnov; MD5 and SHA-256 of the same tuples,
 * under the same secrets, are the controls.
 *
 * - sequential: 64 ports of each address, address after address;
 * - random: any address, any port;
 * - traffic: as a service sees it. Three in four are of 2,032 clients in eight /24 subnets, each
 * with ephemeral ports that rise by 2, as Linux gives them out; one in four comes through one of 16
 * NATs, whose ports rise by random steps over all from 1024 up.
 *
 * What a DIP gets of new flows must be by weight however many known flows are pinned elsewhere. So
 * here every Dcode has a DIP of its own, that an answer tells the Dcode; 64K, 1M or 16M flows that
 * are none of these tuples are pinned to another DIP than their Dcode's, and must be answered by
 * that one, all of them; and the tuples, new flows, are looked up past them, fingerprint accidents
 * and all.
 *
 * One p value says little: each figure is of 24 experiments, with tuples and secrets of their own,
 * whose p values must themselves be uniform. The median should be about 0.5; `uniform_chi2_of_p`
 * and `uniform_ks_of_p` are the p values of a Kolmogorov-Smirnov test of them all, which one of a
 * hundred figures has below 0.01. The building of 16M pins takes seconds, so there all experiments
 * share a few secrets. */
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "lookup/othello_graph.h"
#include "lookup/othello_map.h"
#include "lookup/snapshot.h"
#include "tests/bench/bench.h"
#include "tests/bench/peers/peer.h"
#include "tests/bench/stats.h"

#define DCODES 16384u
#define EXPERIMENTS_MAX 24u

static uint32_t n_tuples = 1u << 19;
static unsigned experiments = EXPERIMENTS_MAX;

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "bench_uniform: %s\n", what);
		exit(EXIT_FAILURE);
	}
}

/* A generator of its own for each experiment: each run is the same. */
static uint64_t next_random(uint64_t *state)
{
	return peer_mix(*state += 0x9e3779b97f4a7c15u, 9);
}

/* --- tuples --------------------------------------------------------------------------------------
 */

static void tuple(uint32_t address, uint32_t port, struct flow_key *key)
{
	const uint32_t be = __builtin_bswap32(address);

	*key = (struct flow_key){.src = ip_addr_v4(&be),
				 .sport_be = __builtin_bswap16((uint16_t)port),
				 .dport_be = __builtin_bswap16(443),
				 .proto = 6};
}

static void draw_sequential(uint64_t *rng, struct flow_key *keys)
{
	const uint32_t first = (uint32_t)next_random(rng) & ~(n_tuples - 1);
	const uint32_t port = 1024 + (uint32_t)(next_random(rng) % 60000);

	for (uint32_t i = 0; i < n_tuples; i++)
		tuple(first + i / 64, port + i % 64, &keys[i]);
}

static void draw_random(uint64_t *rng, struct flow_key *keys)
{
	for (uint32_t i = 0; i < n_tuples; i++) {
		const uint64_t x = next_random(rng);
		tuple((uint32_t)x, (uint32_t)(x >> 48), &keys[i]);
	}
}

#define SUBNETS 8u
#define CLIENTS (SUBNETS * 254u)
#define NATS 16u
#define EPHEMERAL_FIRST 32768u
#define EPHEMERAL_N 28232u

static void draw_traffic(uint64_t *rng, struct flow_key *keys)
{
	uint32_t subnets[SUBNETS], nats[NATS];
	uint32_t client_ports[CLIENTS], nat_ports[NATS];

	for (unsigned i = 0; i < SUBNETS; i++)
		subnets[i] = (uint32_t)next_random(rng) & ~0xffu;
	for (unsigned i = 0; i < CLIENTS; i++)
		client_ports[i] = (uint32_t)(next_random(rng) % EPHEMERAL_N);
	for (unsigned i = 0; i < NATS; i++) {
		nats[i] = (uint32_t)next_random(rng);
		nat_ports[i] = (uint32_t)(next_random(rng) % 64512);
	}
	for (uint32_t i = 0; i < n_tuples; i++) {
		const uint64_t x = next_random(rng);
		if (x >> 62) {
			const uint32_t c = (uint32_t)x % CLIENTS;
			client_ports[c] = (client_ports[c] + 2) % EPHEMERAL_N;
			tuple(subnets[c / 254] + 1 + c % 254, EPHEMERAL_FIRST + client_ports[c],
			      &keys[i]);
		} else {
			const uint32_t n = (uint32_t)x % NATS;
			nat_ports[n] = (nat_ports[n] + 1 + (uint32_t)(x >> 40 & 1)) % 64512;
			tuple(nats[n], 1024 + nat_ports[n], &keys[i]);
		}
	}
}

static const struct kind {
	const char *name;
	void (*draw)(uint64_t *rng, struct flow_key *keys);
} kinds[] = {{"sequential", draw_sequential}, {"random", draw_random}, {"traffic", draw_traffic}};

/* --- who answers ---------------------------------------------------------------------------------
 */

/* Pin n flows to DIPs that are not their Dcode's, and look up each. */
static void pin_flows(struct vip_view *v, uint32_t n, uint64_t *rng)
{
	uint64_t *hashes = peer_alloc(n * sizeof(*hashes));
	uint32_t *words = peer_alloc(n * sizeof(*words));
	struct othello_edge *edges = peer_alloc(n * sizeof(*edges));
	struct othello_peel peel;
	struct othello shape = {.seed = 0};

	for (uint32_t i = 0; i < n; i++) {
		struct flow_key key;
		bench_flow_key(i, &key);
		hashes[i] = flow_key_hash(&key, v->seed);
		const uint32_t off = 1 + (uint32_t)(next_random(rng) % (DCODES - 1));
		const uint32_t dip = 1 + (flow_home(hashes[i], DCODES) + off) % DCODES;
		words[i] = pin_word(hashes[i], (uint16_t)dip);
	}
	othello_map_size(n, &shape.n_a, &shape.n_b);
	check(othello_peel_init(&peel, n, shape.n_a, shape.n_b) == 0, "no memory");
	do {
		shape.seed = next_random(rng);
		othello_graph_edges(&shape, hashes, n, edges);
	} while (!othello_peel_run(&peel, edges, n, shape.n_a, shape.n_b));
	check(othello_init(&v->pins, shape.n_a, shape.n_b, shape.seed) == 0, "no memory");
	othello_graph_write(&peel, edges, words, &v->pins);
	vip_view_mark_pins(v, hashes, n);
	for (uint32_t i = 0; i < n; i++)
		check(vip_view_lookup(v, hashes[i]) == (words[i] & 0xffff), "a pin is not heeded");
	othello_peel_destroy(&peel);
	hugemem_free(edges, n * sizeof(*edges));
	hugemem_free(words, n * sizeof(*words));
	hugemem_free(hashes, n * sizeof(*hashes));
}

static struct vip_view *make_view(uint64_t seed, uint32_t n_pins)
{
	struct vip_view *v = vip_view_new(DCODES, DCODES + 1);
	uint64_t rng = seed;

	check(v != NULL, "no memory");
	v->seed = seed;
	for (uint32_t c = 0; c < DCODES; c++) {
		vip_view_homes(v)[c] = (uint16_t)(c + 1);
		vip_view_dips(v)[c + 1].usable = true;
	}
	if (n_pins)
		pin_flows(v, n_pins, &rng);
	return v;
}

/* counts[Dcode] of the answers for n_tuples keys. */
typedef void count_fn(const struct vip_view *v, const struct flow_key *keys, uint32_t *counts);

static void count_concury(const struct vip_view *v, const struct flow_key *keys, uint32_t *counts)
{
	for (uint32_t i = 0; i < n_tuples; i++)
		counts[vip_view_lookup(v, flow_key_hash(&keys[i], v->seed)) - 1]++;
}

static void count_digests(const struct vip_view *v, const struct flow_key *keys, uint32_t *counts,
			  gnutls_digest_algorithm_t algorithm)
{
	struct {
		uint64_t seed;
		struct flow_key key;
	} input = {.seed = v->seed};
	uint32_t digest[8];

	for (uint32_t i = 0; i < n_tuples; i++) {
		input.key = keys[i];
		check(gnutls_hash_fast(algorithm, &input, sizeof(input), digest) == 0,
		      "the digest does not work");
		counts[digest[0] % DCODES]++;
	}
}

static void count_md5(const struct vip_view *v, const struct flow_key *keys, uint32_t *counts)
{
	count_digests(v, keys, counts, GNUTLS_DIG_MD5);
}

static void count_sha256(const struct vip_view *v, const struct flow_key *keys, uint32_t *counts)
{
	count_digests(v, keys, counts, GNUTLS_DIG_SHA256);
}

static const struct layout {
	const char *name;
	count_fn *count;
} layouts[] = {{"concury", count_concury}, {"md5", count_md5}, {"sha256", count_sha256}};

/* --- figures -------------------------------------------------------------------------------------
 */

/* The p values of one figure's experiments. */
struct figure {
	double chi2[EXPERIMENTS_MAX];
	double ks[EXPERIMENTS_MAX];
};

static void experiment(const struct vip_view *v, const struct layout *l,
		       const struct flow_key *keys, struct figure *f, unsigned k)
{
	static uint32_t counts[DCODES];

	memset(counts, 0, sizeof(counts));
	l->count(v, keys, counts);
	f->chi2[k] = stats_chi2_p(stats_chi2(counts, DCODES), DCODES - 1);
	f->ks[k] = stats_ks_p(stats_ks(counts, DCODES), n_tuples);
}

static void report(const char *name, const struct layout *l, struct figure *f)
{
	const double chi2 = stats_ks_p(stats_ks_uniform(f->chi2, experiments), experiments);
	const double ks = stats_ks_p(stats_ks_uniform(f->ks, experiments), experiments);

	bench_result("uniform_chi2_p", name, l->name, bench_median(f->chi2, experiments), "p");
	bench_result("uniform_chi2_of_p", name, l->name, chi2, "p");
	bench_result("uniform_ks_p", name, l->name, bench_median(f->ks, experiments), "p");
	bench_result("uniform_ks_of_p", name, l->name, ks, "p");
}

/* All kinds of tuples with so many pins; the controls, to whom pins are nothing, without any. */
static void measure(const char *pins_name, uint32_t n_pins, unsigned n_views)
{
	static struct figure figures[ARRAY_LEN(kinds)][ARRAY_LEN(layouts)];
	struct flow_key *keys = peer_alloc(n_tuples * sizeof(*keys));
	const size_t n_layouts = n_pins ? 1 : ARRAY_LEN(layouts);
	struct vip_view *v = NULL;

	for (unsigned k = 0; k < experiments; k++) {
		uint64_t rng = peer_mix(k + 1, n_pins + 1);
		if (k % (experiments / n_views) == 0) {
			vip_view_unref(v);
			v = make_view(next_random(&rng), n_pins);
		}
		for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
			kinds[i].draw(&rng, keys);
			for (size_t l = 0; l < n_layouts; l++)
				experiment(v, &layouts[l], keys, &figures[i][l], k);
		}
	}
	vip_view_unref(v);
	hugemem_free(keys, n_tuples * sizeof(*keys));
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		char name[32];
		snprintf(name, sizeof(name), "%s_%s", kinds[i].name, pins_name);
		for (size_t l = 0; l < n_layouts; l++)
			report(name, &layouts[l], &figures[i][l]);
	}
}

int main(void)
{
	const bool quick = getenv("BENCH_QUICK") != NULL;

	if (quick) {
		n_tuples /= 4;
		experiments = 12;
	}
	measure("0", 0, experiments);
	measure("64K", 1u << 16, experiments);
	measure("1M", 1u << 20, quick ? 1 : 6);
	if (!quick)
		measure("16M", 1u << 24, 2);
	return 0;
}
