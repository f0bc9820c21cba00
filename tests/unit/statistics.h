/* Chi-squared over equally probable bins. */
#pragma once

#include <math.h>
#include <stdint.h>

/** How many standard deviations the statistic of these counts lies from what even bins give. Sound
 *  where the mean count is some 5 or more. */
static inline double chi_squared_z(const uint32_t *counts, uint32_t n_bins)
{
	double total = 0, chi2 = 0;

	for (uint32_t i = 0; i < n_bins; i++)
		total += counts[i];
	double mean = total / n_bins;
	for (uint32_t i = 0; i < n_bins; i++)
		chi2 += (counts[i] - mean) * (counts[i] - mean) / mean;
	double degrees = n_bins - 1;
	return (chi2 - degrees) / sqrt(2 * degrees);
}
