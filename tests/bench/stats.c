#include "tests/bench/stats.h"

#include <assert.h>
#include <math.h>

#include "tests/bench/bench.h"

#define TERMS_MAX 100000

/* The lower one, P(a, x), x < a + 1. */
static double gamma_series(double a, double x)
{
	double term = 1 / a, sum = term;

	for (int i = 1; i < TERMS_MAX && term > sum * 1e-15; i++) {
		term *= x / (a + i);
		sum += term;
	}
	return sum * exp(-x + a * log(x) - lgamma(a));
}

/* The upper one, Q(a, x), x >= a + 1: by Lentz's method. */
static double gamma_fraction(double a, double x)
{
	double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;

	for (int i = 1; i < TERMS_MAX; i++) {
		const double an = -i * (i - a);
		b += 2;
		d = 1 / (an * d + b);
		c = b + an / c;
		h *= c * d;
		if (fabs(c * d - 1) < 1e-15)
			break;
	}
	return h * exp(-x + a * log(x) - lgamma(a));
}

double stats_chi2_p(double chi2, double degrees)
{
	const double a = degrees / 2, x = chi2 / 2;

	assert(degrees >= 1);
	if (x <= 0)
		return 1;
	return x < a + 1 ? 1 - gamma_series(a, x) : gamma_fraction(a, x);
}

double stats_ks_p(double d, double n)
{
	const double root = sqrt(n), lambda = (root + 0.12 + 0.11 / root) * d;
	double sum = 0;

	if (lambda < 0.2)
		return 1; /* 1 - 10^-12, where the series below no longer converges */
	for (int k = 1; k <= 100; k++)
		sum += (k % 2 ? 2 : -2) * exp(-2.0 * k * k * lambda * lambda);
	return fmin(1, fmax(0, sum));
}

static double total(const uint32_t *counts, uint32_t n_bins)
{
	double sum = 0;

	for (uint32_t i = 0; i < n_bins; i++)
		sum += counts[i];
	return sum;
}

double stats_chi2(const uint32_t *counts, uint32_t n_bins)
{
	const double mean = total(counts, n_bins) / n_bins;
	double chi2 = 0;

	for (uint32_t i = 0; i < n_bins; i++)
		chi2 += (counts[i] - mean) * (counts[i] - mean) / mean;
	return chi2;
}

double stats_ks(const uint32_t *counts, uint32_t n_bins)
{
	const double n = total(counts, n_bins);
	double seen = 0, distance = 0;

	for (uint32_t i = 0; i < n_bins; i++) {
		seen += counts[i];
		distance = fmax(distance, fabs(seen / n - (i + 1.0) / n_bins));
	}
	return distance;
}

double stats_ks_uniform(double *values, unsigned n)
{
	double distance = 0;

	(void)bench_median(values, n); /* sorts */
	for (unsigned i = 0; i < n; i++) {
		distance = fmax(distance, values[i] - (double)i / n);
		distance = fmax(distance, (i + 1.0) / n - values[i]);
	}
	return distance;
}
