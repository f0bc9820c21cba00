#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void write_json(const char *bench, const char *name, const char *layout, double value,
		       const char *unit, const char *more)
{
	const char *path = getenv("BENCH_JSON");

	fflush(stdout);
	if (!path)
		return;
	FILE *f = fopen(path, "a");
	if (!f ||
	    fprintf(f,
		    "{\"bench\": \"%s\", \"case\": \"%s\", \"layout\": \"%s\", \"value\": %.6g, "
		    "\"unit\": \"%s\"%s}\n",
		    bench, name, layout, value, unit, more) < 0 ||
	    fclose(f)) {
		perror(path);
		exit(EXIT_FAILURE);
	}
}

void bench_result(const char *bench, const char *name, const char *layout, double value,
		  const char *unit)
{
	printf("  %-14s %-8s %-16s %14.3f %s\n", bench, name, layout, value, unit);
	write_json(bench, name, layout, value, unit, "");
}

void bench_target(const char *bench, const char *name, const char *layout, double ratio,
		  double most)
{
	bool met = ratio <= most;
	char more[64];

	snprintf(more, sizeof(more), ", \"most\": %.6g, \"met\": %s", most, met ? "true" : "false");
	printf("  %-14s %-8s %-16s %14.3f at most %.2f: %s\n", bench, name, layout, ratio, most,
	       met ? "pass" : "FAIL");
	write_json(bench, name, layout, ratio, "ratio", more);
}

bool bench_quick(void)
{
	return getenv("BENCH_QUICK") != NULL;
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
