/* Time. Everything reads it here, so that a simulation can set it. */
#pragma once

#include <stdint.h>

/** Nanoseconds since boot, suspended time included (CLOCK_BOOTTIME): comparable between processes
 *  of one boot, so it may stand in the state file. Never goes back. Thread: any. */
uint64_t clock_now_ns(void);

/** clock_now_ns in milliseconds. Thread: any. */
uint64_t clock_now_ms(void);

/** Wall-clock seconds since 1970 (for deadlines that must outlive a reboot). Thread: any. */
int64_t clock_wall_s(void);

/** The same in milliseconds, for what people read. Thread: any. */
int64_t clock_wall_ms(void);

/** Replace the source of all clocks; NULL restores the system's. For tests and the simulation:
 *  call it before any other thread starts. now_ns and wall_s return what the functions above do. */
void clock_set_source(uint64_t (*now_ns)(void), int64_t (*wall_s)(void));
