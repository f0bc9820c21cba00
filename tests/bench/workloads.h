/* Flow sizes and arrivals of data centres, as published. */
#pragma once

#include <stdint.h>

struct workload {
	const char *name;
	double flows_per_s;
	/** Bytes of a flow and seconds to the next one, from uniform draws u, 0 <= u < 1. */
	double (*size)(double u);
	double (*gap)(double u);
};

#define N_WORKLOADS 3u

/** websearch, datamining, cache. */
extern const struct workload workloads[N_WORKLOADS];
