/* Ways to choose a DIP, side by side (peers/chooser.h): what a choice costs, how large and how long
 * in the making what it reads is, how near shares come to weights, and what changes move.
 *
 * Shares are exact, from the tables, and what is chosen for random hashes must agree with them. A
 * change concerns one DIP in a hundred, at least one; what it moves is counted over random hashes
 * and divided by the least that any way must move, what the DIPs' exact shares lose together. A
 * failure and the return count as one change, of twice that. Costs are CPU time, repetitions of all
 * ways interleaved, medians. $BENCH_QUICK leaves out cases and most of the hashes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/peers/chooser.h"

#define DIPS_MAX (4096u + 2 * (4096u / 100))
#define REPETITIONS 5u
#define HASHES_KEPT (1u << 20) /* hashes that choices are timed with */
#define HASHES_MAX (1u << 22)  /* that moves are counted over */
#define HASHES_MIN (1u << 16)
#define COUNT_NS 150e6 /* a way that is slow gets fewer, for so long */
#define TIME_NS 20e6   /* a repetition, at most */

static bool quick;

static void fail(const char *what, const char *who)
{
	fprintf(stderr, "bench_choice: %s: %s\n", who, what);
	exit(EXIT_FAILURE);
}

/* --- DIPs ----------------------------------------------------------------------------------------
 */

struct pool {
	struct dcode_dip dips[DIPS_MAX];
	unsigned n;
	bool mixed;
	uint32_t next; /* id and index of the next one that comes */
};

static void pool_add(struct pool *p, unsigned n)
{
	static const uint32_t weights[] = {1, 2, 3, 5, 7, 11, 15, 23};

	for (; n > 0; n--) {
		const uint32_t i = p->next++;
		p->dips[p->n++] =
			(struct dcode_dip){.id = peer_mix(i, 7),
					   .weight = p->mixed ? weights[i % ARRAY_LEN(weights)] : 1,
					   .index = (uint16_t)i,
					   .up = true};
	}
}

static void pool_remove(struct pool *p, unsigned at, unsigned n)
{
	p->n -= n;
	memmove(&p->dips[at], &p->dips[at + n], (p->n - at) * sizeof(*p->dips));
}

static void pool_set_up(struct pool *p, unsigned at, unsigned n, bool up)
{
	for (unsigned i = at; i < at + n; i++)
		p->dips[i].up = up;
}

static void pool_double(struct pool *p, unsigned at, unsigned n)
{
	for (unsigned i = at; i < at + n; i++)
		p->dips[i].weight *= 2;
}

/* ideal[index]: the exact share of each DIP. */
static void pool_shares(const struct pool *p, double *ideal)
{
	double weights = 0;

	memset(ideal, 0, (DIP_INDEX_MAX + 1) * sizeof(*ideal));
	for (unsigned i = 0; i < p->n; i++)
		weights += p->dips[i].up ? p->dips[i].weight : 0;
	for (unsigned i = 0; i < p->n; i++)
		ideal[p->dips[i].index] = p->dips[i].up ? p->dips[i].weight / weights : 0;
}

/* The least part of all hashes that must move from one to the other. */
static double least_moves(const struct pool *was, const struct pool *is)
{
	static double before[DIP_INDEX_MAX + 1], after[DIP_INDEX_MAX + 1];
	double lost = 0;

	pool_shares(was, before);
	pool_shares(is, after);
	for (uint32_t i = 0; i <= DIP_INDEX_MAX; i++)
		lost += fmax(0, before[i] - after[i]);
	return lost;
}

/* --- one way in one case -------------------------------------------------------------------------
 */

struct way {
	const struct chooser *chooser;
	void *c;
	double ns[REPETITIONS];
	double build_us[REPETITIONS];
	uint32_t n;    /* hashes that moves are counted over */
	uint16_t *was; /* their DIPs */
	uint16_t *is;
};

static uint64_t *hashes; /* HASHES_KEPT of them */

/* The hashes that moves are counted over: hash i of a burst, none of those kept. */
static void burst_at(uint32_t at, uint64_t *burst)
{
	for (unsigned i = 0; i < PEER_BURST; i++)
		burst[i] = peer_mix(at + i, 5);
}

static void choose_all(const struct way *w, const void *c, uint16_t *dips)
{
	uint64_t burst[PEER_BURST];

	for (uint32_t at = 0; at < w->n; at += PEER_BURST) {
		burst_at(at, burst);
		w->chooser->choose(c, burst, dips + at);
	}
}

static double time_choices(const struct way *w, uint32_t n)
{
	uint16_t dips[PEER_BURST];
	uint64_t sum = 0;
	const uint64_t start = bench_cpu_ns();

	for (uint32_t at = 0; at < n; at += PEER_BURST) {
		w->chooser->choose(w->c, hashes + at, dips);
		sum += dips[0];
	}
	bench_use(sum);
	return (double)(bench_cpu_ns() - start) / n;
}

static double time_build(const struct way *w, const struct pool *p)
{
	const uint64_t start = bench_cpu_ns();
	void *c = w->chooser->build(p->dips, p->n);
	const double us = (double)(bench_cpu_ns() - start) / 1e3;

	w->chooser->destroy(c);
	return us;
}

/* How many hashes fill ns at this cost of one, between min and max, both powers of two. */
static uint32_t hashes_for(double ns, double cost, uint32_t min, uint32_t max)
{
	while (max > min && max * cost > ns)
		max /= 2;
	return max;
}

static void way_init(struct way *w, const struct chooser *chooser, const struct pool *p)
{
	*w = (struct way){.chooser = chooser, .c = chooser->build(p->dips, p->n)};
	const double cost = time_choices(w, PEER_BURST * 32);
	w->n = quick ? hashes_for(COUNT_NS / 8, cost, HASHES_MIN, HASHES_MAX / 8)
		     : hashes_for(COUNT_NS, cost, HASHES_MIN, HASHES_MAX);
	w->was = chooser_alloc(w->n, sizeof(*w->was));
	w->is = chooser_alloc(w->n, sizeof(*w->is));
}

static void way_free(struct way *w)
{
	w->chooser->destroy(w->c);
	free(w->was);
	free(w->is);
}

/* What is chosen is as the shares say: chi-squared over the DIPs, six deviations off at most. */
static void verify(const struct way *w, const struct pool *p, const double *shares)
{
	static uint32_t counts[DIP_INDEX_MAX + 1];
	double chi2 = 0, degrees = -1;

	memset(counts, 0, sizeof(counts));
	for (uint32_t i = 0; i < w->n; i++)
		counts[w->was[i]]++;
	for (unsigned i = 0; i < p->n; i++) {
		const double expected = shares[p->dips[i].index] * w->n;
		const double off = counts[p->dips[i].index] - expected;
		counts[p->dips[i].index] = 0;
		if (expected < 1)
			continue;
		chi2 += off * off / expected;
		degrees++;
	}
	for (uint32_t i = 0; i <= DIP_INDEX_MAX; i++) {
		if (counts[i])
			fail("chooses whom nobody listed", w->chooser->name);
	}
	if (chi2 > degrees + 6 * sqrt(2 * degrees) + 20)
		fail("does not choose by its shares", w->chooser->name);
}

static void report(const char *bench, const char *name, const struct way *w, double value,
		   const char *unit)
{
	bench_result(bench, name, w->chooser->name, value, unit);
}

/* Largest share and coefficient of variation, each share over what the weight says. */
static void report_shares(const char *name, const struct way *w, const struct pool *p)
{
	static double shares[DIP_INDEX_MAX + 1], ideal[DIP_INDEX_MAX + 1];
	double max = 0, variance = 0;

	w->chooser->shares(w->c, shares);
	pool_shares(p, ideal);
	verify(w, p, shares);
	for (unsigned i = 0; i < p->n; i++) {
		const double ratio = shares[p->dips[i].index] / ideal[p->dips[i].index];
		max = fmax(max, ratio);
		variance += (ratio - 1) * (ratio - 1) / p->n;
	}
	report("choice_max_mean", name, w, max, "ratio");
	report("choice_cv", name, w, 100 * sqrt(variance), "percent");
}

/* --- changes -------------------------------------------------------------------------------------
 */

/* Bring the way to *p; the part of the hashes that moved. */
static double moved_by(struct way *w, const struct pool *p)
{
	uint16_t *was = w->was;
	uint64_t moved = 0;

	w->chooser->change(w->c, p->dips, p->n);
	choose_all(w, w->c, w->is);
	for (uint32_t i = 0; i < w->n; i++)
		moved += w->was[i] != w->is[i];
	w->was = w->is;
	w->is = was;
	return (double)moved / w->n;
}

static void measure_changes(const char *name, struct way *w, const struct pool *from)
{
	static struct pool p, was;
	const unsigned some = from->n / 100 ? from->n / 100 : 1;

	p = was = *from;
	pool_add(&p, some);
	double moved = moved_by(w, &p);
	report("choice_moves_add", name, w, moved / least_moves(&was, &p), "moved/minimum");
	was = p;
	pool_remove(&p, p.n / 3, some);
	moved = moved_by(w, &p);
	report("choice_moves_remove", name, w, moved / least_moves(&was, &p), "moved/minimum");
	was = p;
	pool_set_up(&p, p.n / 2, some, false);
	moved = moved_by(w, &p);
	const double least = least_moves(&was, &p);
	pool_set_up(&p, p.n / 2, some, true);
	moved += moved_by(w, &p);
	report("choice_moves_fail_return", name, w, moved / (2 * least), "moved/minimum");
	was = p;
	pool_double(&p, p.n / 4, some);
	moved = moved_by(w, &p);
	report("choice_moves_double", name, w, moved / least_moves(&was, &p), "moved/minimum");
}

/* The k-th of four changes to *p, each of DIPs of their own: any order ends in the same pool, whose
 * DIPs are then brought in one order. */
static void one_of_changes(struct pool *p, unsigned k, const struct pool *from)
{
	const unsigned some = from->n / 100 ? from->n / 100 : 1;

	switch (k) {
	case 0: /* of two groups of new ones, the first */
	case 3:
		p->next = from->next + (k ? some : 0);
		pool_add(p, some);
		break;
	default:
		for (unsigned i = 0; i < p->n; i++) {
			const uint32_t rank = p->dips[i].index - from->dips[0].index;
			if (k == 1 && rank >= from->n / 3 && rank < from->n / 3 + some) {
				pool_remove(p, i, some);
				break;
			}
			if (k == 2 && rank == from->n / 2) {
				pool_double(p, i, some);
				break;
			}
		}
	}
}

/* How many percent of the hashes two balancers send to the same DIP that have learnt of four
 * changes, one the other way round. */
static void measure_agreement(const char *name, struct way *w, const struct pool *from)
{
	static struct pool one, two;
	void *a = w->chooser->build(from->dips, from->n);
	void *b = w->chooser->build(from->dips, from->n);
	uint32_t same = 0;

	one = two = *from;
	for (unsigned k = 0; k < 4; k++) {
		one_of_changes(&one, k, from);
		w->chooser->change(a, one.dips, one.n);
		one_of_changes(&two, 3 - k, from);
		w->chooser->change(b, two.dips, two.n);
	}
	if (least_moves(&one, &two) > 0)
		fail("the two orders do not end alike", name);
	choose_all(w, a, w->was);
	choose_all(w, b, w->is);
	for (uint32_t i = 0; i < w->n; i++)
		same += w->was[i] == w->is[i];
	report("choice_agree", name, w, 100.0 * same / w->n, "percent");
	w->chooser->destroy(a);
	w->chooser->destroy(b);
}

/* --- a case --------------------------------------------------------------------------------------
 */

static void measure_costs(const char *name, struct way *ways, const struct pool *p)
{
	for (unsigned r = 0; r < REPETITIONS; r++) {
		for (unsigned i = 0; i < N_CHOOSERS; i++) {
			const double cost = time_choices(&ways[i], PEER_BURST * 4);
			const uint32_t n = hashes_for(TIME_NS, cost, 1u << 11, HASHES_KEPT);
			ways[i].ns[r] = time_choices(&ways[i], n);
			ways[i].build_us[r] = time_build(&ways[i], p);
		}
	}
	for (unsigned i = 0; i < N_CHOOSERS; i++) {
		struct way *w = &ways[i];
		report("choice_ns", name, w, bench_median(w->ns, REPETITIONS), "ns/choice");
		report("choice_bytes", name, w, (double)w->chooser->bytes(w->c), "bytes");
		report("choice_build", name, w, bench_median(w->build_us, REPETITIONS), "us");
	}
}

static void measure(unsigned n_dips, bool mixed)
{
	static struct pool p;
	struct way ways[N_CHOOSERS];
	char name[16];

	snprintf(name, sizeof(name), "%u_%s", n_dips, mixed ? "mixed" : "equal");
	p = (struct pool){.mixed = mixed, .next = 1};
	pool_add(&p, n_dips);
	for (unsigned i = 0; i < N_CHOOSERS; i++)
		way_init(&ways[i], choosers[i], &p);
	measure_costs(name, ways, &p);
	for (unsigned i = 0; i < N_CHOOSERS; i++) {
		choose_all(&ways[i], ways[i].c, ways[i].was);
		report_shares(name, &ways[i], &p);
		measure_changes(name, &ways[i], &p);
		measure_agreement(name, &ways[i], &p);
		way_free(&ways[i]);
	}
}

int main(void)
{
	const unsigned sizes[] = {10, 64, 256, 1024, 4096};

	quick = getenv("BENCH_QUICK") != NULL;
	hashes = peer_alloc(HASHES_KEPT * sizeof(*hashes));
	for (uint32_t i = 0; i < HASHES_KEPT; i++)
		hashes[i] = peer_mix(i, 3);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		if (quick && sizes[i] != 10 && sizes[i] != 256)
			continue;
		measure(sizes[i], false);
		measure(sizes[i], true);
	}
	hugemem_free(hashes, HASHES_KEPT * sizeof(*hashes));
	return 0;
}
