#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void bench_result(const char *bench, const char *name, const char *layout, double value,
		  const char *unit)
{
	const char *path = getenv("BENCH_JSON");

	printf("  %-14s %-8s %-16s %14.3f %s\n", bench, name, layout, value, unit);
	fflush(stdout);
	if (!path)
		return;
	FILE *f = fopen(path, "a");
	if (!f ||
	    fprintf(f,
		    "{\"bench\": \"%s\", \"case\": \"%s\", \"layout\": \"%s\", \"value\": %.6g, "
		    "\"unit\": \"%s\"}\n",
		    bench, name, layout, value, unit) < 0 ||
	    fclose(f)) {
		perror(path);
		exit(EXIT_FAILURE);
	}
}

static int compare_doubles(const void *x, const void *y)
{
	double a = *(const double *)x;
	double b = *(const double *)y;

	return a < b ? -1 : a > b;
}

double bench_median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static uint64_t read_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t bench_now_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t bench_cpu_ns(void)
{
	return read_ns(CLOCK_THREAD_CPUTIME_ID);
}
