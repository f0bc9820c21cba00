/* What a pool change moves, against the fewest entries that any table must move for these weights,
 * and how far each DIP's part of the table is from its weight's: Concury's Dcode table, Maglev,
 * weighted rendezvous. The same changes for each: a DIP goes, comes back, gets half its weight,
 * gets it back, a new one comes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/peers/maglev.h"
#include "tests/bench/peers/rendezvous.h"

#define DIPS_MAX 1001u

struct pool {
	struct dcode_dip dips[DIPS_MAX];
	unsigned n;
};

struct layout {
	const char *name;
	/* Bring *t from its present state to the pool's. */
	void (*next)(const struct pool *p, struct dcode_table *t);
};

static void fail(const char *what)
{
	fprintf(stderr, "bench_moves: %s\n", what);
	exit(EXIT_FAILURE);
}

static void next_concury(const struct pool *p, struct dcode_table *t)
{
	struct dcode_table next;

	if (dcode_table_next(t, p->dips, p->n, &next, NULL))
		fail("no memory");
	dcode_table_destroy(t);
	*t = next;
}

static void next_filled(const struct pool *p, struct dcode_table *t, uint32_t n,
			void (*fill)(const struct dcode_dip *, unsigned, uint16_t *))
{
	if (!t->n && !(t->dcodes = calloc(n, sizeof(*t->dcodes))))
		fail("no memory");
	t->n = n;
	fill(p->dips, p->n, t->dcodes);
}

static void next_maglev(const struct pool *p, struct dcode_table *t)
{
	next_filled(p, t, MAGLEV_SIZE, maglev_fill);
}

static void next_rendezvous(const struct pool *p, struct dcode_table *t)
{
	next_filled(p, t, RENDEZVOUS_SIZE, rendezvous_fill);
}

static const struct layout layouts[] = {
	{"concury", next_concury}, {"maglev", next_maglev}, {"rendezvous", next_rendezvous}};

/* Sums over the changes of one case. */
struct sums {
	double moved;
	double minimum;
	double worst_share_error;
};

/* The fewest entries that a change must move: what each DIP's exact share loses. */
static double minimum_moves(const struct pool *old, const struct pool *new, uint32_t n)
{
	double lost = 0, old_weight = 0, new_weight = 0;

	for (unsigned i = 0; i < new->n; i++) {
		old_weight += i < old->n ? old->dips[i].weight : 0;
		new_weight += new->dips[i].weight;
	}
	for (unsigned i = 0; i < old->n; i++)
		lost += fmax(0,
			     old->dips[i].weight / old_weight - new->dips[i].weight / new_weight);
	return lost * n;
}

static double worst_share_error(const struct pool *p, const struct dcode_table *t)
{
	static uint32_t has[DIP_INDEX_MAX + 1];
	double weight = 0, worst = 0;

	dcode_table_count(t->dcodes, t->n, has, DIP_INDEX_MAX + 1);
	for (unsigned i = 0; i < p->n; i++)
		weight += p->dips[i].weight;
	for (unsigned i = 0; i < p->n; i++) {
		double share = t->n * p->dips[i].weight / weight;
		if (p->dips[i].weight)
			worst = fmax(worst, fabs(has[p->dips[i].index] - share) / share);
	}
	return worst;
}

/* Bring the table from *was to *p, and *was to *p. */
static void change(const struct layout *l, struct pool *was, const struct pool *p,
		   struct dcode_table *t, struct sums *s)
{
	struct dcode_table old = {.n = t->n, .dcodes = malloc(t->n * sizeof(*t->dcodes))};

	if (!old.dcodes)
		fail("no memory");
	memcpy(old.dcodes, t->dcodes, t->n * sizeof(*t->dcodes));
	l->next(p, t);
	for (uint32_t c = 0; c < t->n; c++)
		s->moved += t->dcodes[c] != old.dcodes[c % old.n];
	s->minimum += minimum_moves(was, p, t->n);
	s->worst_share_error = fmax(s->worst_share_error, worst_share_error(p, t));
	*was = *p;
	dcode_table_destroy(&old);
}

static struct sums run(const struct layout *l, unsigned n_dips)
{
	static struct pool p, was;
	struct dcode_table t = {0};
	struct sums s = {0};

	for (unsigned i = 0; i <= n_dips; i++)
		p.dips[i] = (struct dcode_dip){.id = 1000003 * (uint64_t)(i + 1),
					       .weight = 2 + i % 3 * 2,
					       .index = (uint16_t)(i + 1),
					       .up = true};
	p.n = n_dips;
	l->next(&p, &t);
	was = p;
	for (unsigned k = 0; k < 3; k++) {
		struct dcode_dip *d = &p.dips[k * (n_dips / 3)];
		const uint32_t weight = d->weight;
		d->weight = 0;
		change(l, &was, &p, &t, &s);
		d->weight = weight;
		change(l, &was, &p, &t, &s);
		d->weight = weight / 2;
		change(l, &was, &p, &t, &s);
		d->weight = weight;
		change(l, &was, &p, &t, &s);
	}
	p.n++;
	change(l, &was, &p, &t, &s);
	dcode_table_destroy(&t);
	return s;
}

int main(void)
{
	const unsigned cases[] = {10, 100, 1000};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sums sums[ARRAY_LEN(layouts)];
		char name[16];
		snprintf(name, sizeof(name), "%u", cases[i]);
		for (size_t l = 0; l < ARRAY_LEN(layouts); l++) {
			sums[l] = run(&layouts[l], cases[i]);
			bench_result("moves", name, layouts[l].name,
				     sums[l].moved / sums[l].minimum, "moved/minimum");
		}
		for (size_t l = 0; l < ARRAY_LEN(layouts); l++)
			bench_result("share_error", name, layouts[l].name,
				     100 * sums[l].worst_share_error, "percent at the worst DIP");
	}
	return 0;
}
