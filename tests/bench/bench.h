/* What every bench needs: results in one place and in one form, medians, a clock, keys of known
 * flows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lookup/flow_key.h"

/** Print one result and append it, as a line of JSON, to the file that $BENCH_JSON names (if it
 *  does). Exits if the file cannot be written: a result that gets lost would go unnoticed. */
void bench_result(const char *bench, const char *name, const char *layout, double value,
		  const char *unit);

/** Print a ratio that was measured as a result, and whether it is at most what it should be: run.py
 * counts the targets that are met and missed. */
void bench_target(const char *bench, const char *name, const char *layout, double ratio,
		  double most);

/** Whether $BENCH_QUICK asks for few and small cases. */
bool bench_quick(void);

/** Sorts; n >= 1. */
double bench_median(double *values, unsigned n);

/** Monotonic nanoseconds. */
uint64_t bench_now_ns(void);

/** Nanoseconds of CPU time of the calling thread: for what runs on one core and never waits, so
 * that other work on the machine counts less. */
uint64_t bench_cpu_ns(void);

/** Keep the compiler from computing less than it was told. */
static inline void bench_use(uint64_t x)
{
	__asm__ volatile("" : : "r"(x) : "memory");
}

/** Flow i: 32 connections of each IPv4 client. */
static ALWAYS_INLINE void bench_flow_key(uint32_t i, struct flow_key *key)
{
	uint32_t be = __builtin_bswap32(0x0a000000 + (i >> 5));

	key->src = ip_addr_v4(&be);
	key->sport_be = (uint16_t)(i & 31) << 8 | 0x80;
	key->dport_be = 0x5000;
	key->proto = 6;
	memset(key->dst, 0, sizeof(key->dst));
}

/** All flows below n, a power of two, each once in a round, in a random order: the next one. */
static ALWAYS_INLINE uint32_t bench_next_flow(uint32_t i, uint32_t n)
{
	return (i * 0x915f77f5u + 0x6a09e667u) & (n - 1);
}
