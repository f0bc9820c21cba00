/* Tests of goodness of fit, with their p values: the chance of so large a statistic if the
 * hypothesis is true. Over many experiments p itself is uniform then. */
#pragma once

#include <stdint.h>

/** P(chi-squared with so many degrees of freedom >= chi2). degrees >= 1. (Regularised incomplete
 * gamma function, by its series below the mean and its continued fraction above.) */
double stats_chi2_p(double chi2, double degrees);

/** P(Kolmogorov-Smirnov distance of n values from their distribution >= d). (Asymptotic, with
 * Stephens' correction for small n, J. R. Statist. Soc. B 32, 1970: good to a hundredth from n = 5
 * up.) */
double stats_ks_p(double d, double n);

/** The same statistics of counts over bins of equal probability. The distance is taken at the bins'
 * ends, so bins must be much narrower than it. */
double stats_chi2(const uint32_t *counts, uint32_t n_bins);
double stats_ks(const uint32_t *counts, uint32_t n_bins);

/** Kolmogorov-Smirnov distance of n values from the uniform distribution over 0 .. 1; sorts them.
 */
double stats_ks_uniform(double *values, unsigned n);
