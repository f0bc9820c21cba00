/* Compiler and CPU vocabulary shared by every layer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE 64
#define CACHE_ALIGNED __attribute__((aligned(CACHE_LINE)))
#define MUST_CHECK __attribute__((warn_unused_result))
/** For ways that packets seldom take: out of the fast path's cache lines. */
#define SELDOM __attribute__((cold, noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/** Ask for the cache line of p, to be read soon. Never faults. Thread: any. */
static ALWAYS_INLINE void cpu_prefetch(const void *p)
{
	__builtin_prefetch(p, 0, 3);
}

/** Tell the CPU that this is a spin loop. Thread: any. */
static ALWAYS_INLINE void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/** floor(x * n / 2^32): maps 32 random bits to [0, n) without a division (multiply-shift). */
static ALWAYS_INLINE uint32_t mul_shift32(uint32_t x, uint32_t n)
{
	return (uint32_t)(((uint64_t)x * n) >> 32);
}
