/* A seeded generator for randomised tests: the seed is printed, TEST_SEED replays it. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/entropy.h"

struct prng {
	uint64_t state;
};

/** splitmix64. */
static inline uint64_t prng_u64(struct prng *p)
{
	uint64_t x = p->state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/** 0 .. n - 1. */
static inline uint32_t prng_below(struct prng *p, uint32_t n)
{
	return (uint32_t)((prng_u64(p) >> 32) * n >> 32);
}

/** A new generator; says its seed. */
static inline struct prng prng_new(const char *test)
{
	const char *fixed = getenv("TEST_SEED");
	struct prng p = {fixed ? strtoull(fixed, NULL, 0) : entropy_u64()};

	printf("%s: TEST_SEED=0x%llx\n", test, (unsigned long long)p.state);
	return p;
}

/** ck_assert for inner loops: Check's own notes down each one that passes, with a system call. */
#define expect(condition)                                                                          \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("%s", #condition);                                            \
	} while (0)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/** Turns of a random loop: an eighth of n where each costs ten times as much. What a sanitizer finds it
 *  finds in the first ones; what only many find, the plain build has looked for. */
#define REPEATS(n) (SANITIZED ? ((n) + 7) / 8 : (n))
