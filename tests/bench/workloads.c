/* Where the distributions come from:
 *
 * - websearch: flow sizes of a cluster for web search (Alizadeh et al., Data Center TCP, SIGCOMM
 * 2010, figure 4), by the points that pFabric (Alizadeh et al., SIGCOMM 2013, figure 4a) gives for
 * it, in packets of 1,460 bytes: more than half of the flows are below 80 KB, and the 30% above 1
 * MB hold 95% of all bytes.
 * - datamining: of a cluster for data mining (Greenberg et al., VL2, SIGCOMM 2009, figure 2), by
 *   pFabric's points (figure 4b): 80% are below 10 KB, and the 3.6% above 35 MB hold 95% of all
 * bytes. Both arrive as a Poisson process, as in pFabric's evaluation; the rates here fill twenty
 * servers of 10 Gbit/s to 60%.
 * - cache: sizes of values and gaps between requests of Facebook's general-purpose Memcached pool
 *   (Atikoglu et al., Workload Analysis of a Large-Scale Key-Value Store, SIGMETRICS 2012, the
 * model of ETC): a table for values below 15 bytes, generalized Pareto distributions for the others
 * and for the gaps. Of a flow's bytes 40 are headers. */
#include "tests/bench/workloads.h"

#include <math.h>
#include <stddef.h>

#include "base/cpu.h"

#define PACKET 1460

struct point {
	double packets;
	double cdf;
};

static const struct point websearch[] = {
	{1, 0},	    {6, 0.15},	{13, 0.2},   {19, 0.3},	  {33, 0.4},	{53, 0.53},
	{133, 0.6}, {667, 0.7}, {1333, 0.8}, {3333, 0.9}, {6667, 0.97}, {20000, 1},
};

static const struct point datamining[] = {
	{1, 0},	    {1, 0.5},	  {2, 0.6},	 {3, 0.7},    {7, 0.8},
	{267, 0.9}, {2107, 0.95}, {66667, 0.99}, {666667, 1},
};

/* Chances of values of 0 to 14 bytes. */
static const double small_values[] = {
	0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606,
	0.00023, 0.00837, 0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
};

/* Linear between the points. */
static double interpolate(const struct point *points, size_t n, double u)
{
	size_t i = 1;

	while (i + 1 < n && points[i].cdf <= u)
		i++;
	const struct point *a = &points[i - 1], *b = &points[i];
	return PACKET * (a->packets + (b->packets - a->packets) * (u - a->cdf) / (b->cdf - a->cdf));
}

/* Location 0. */
static double generalized_pareto(double scale, double shape, double u)
{
	return scale * (pow(1 - u, -shape) - 1) / shape;
}

static double websearch_size(double u)
{
	return interpolate(websearch, ARRAY_LEN(websearch), u);
}

static double datamining_size(double u)
{
	return interpolate(datamining, ARRAY_LEN(datamining), u);
}

static double cache_size(double u)
{
	const size_t n = ARRAY_LEN(small_values);
	double below = 0;

	for (size_t i = 0; i < n; i++) {
		below += small_values[i];
		if (u < below)
			return 40 + (double)i;
	}
	return 40 + (double)n + generalized_pareto(214.476, 0.348238, (u - below) / (1 - below));
}

#define WEBSEARCH_RATE 9000.0
#define DATAMINING_RATE 2000.0

static double websearch_gap(double u)
{
	return -log(1 - u) / WEBSEARCH_RATE;
}

static double datamining_gap(double u)
{
	return -log(1 - u) / DATAMINING_RATE;
}

/* The scale is in microseconds. */
static double cache_gap(double u)
{
	return generalized_pareto(16.0292e-6, 0.154971, u);
}

const struct workload workloads[N_WORKLOADS] = {
	{"websearch", WEBSEARCH_RATE, websearch_size, websearch_gap},
	{"datamining", DATAMINING_RATE, datamining_size, datamining_gap},
	{"cache", (1 - 0.154971) / 16.0292e-6, cache_size, cache_gap},
};
