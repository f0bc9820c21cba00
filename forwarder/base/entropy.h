/* Random bytes from the kernel; every seed comes from here and is never shown. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Fill buf with n random bytes (getrandom(2)). Cannot fail: aborts if the kernel has none.
 *  Thread: any. */
void entropy_fill(void *buf, size_t n);

/** 64 random bits. Thread: any. */
uint64_t entropy_u64(void);

/** Replace the source; NULL restores the kernel's. For tests and the simulation, before any other
 *  thread starts. */
void entropy_set_source(void (*fill)(void *buf, size_t n));
