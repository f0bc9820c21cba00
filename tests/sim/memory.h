/* Memory and file descriptors of a process that may die at any moment: whatever was allocated while it
 * ran is known, so that its death takes it all, as the kernel would, and a clean end can be held to
 * leave nothing. The program is linked with --wrap for each of malloc, calloc, realloc, free,
 * aligned_alloc, posix_memalign, eventfd and close. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** From now on allocations belong to the simulated process / to the simulation itself. Returns what it
 *  was before. */
bool memory_of_process(bool yes);

/** Blocks and file descriptors that the process holds. */
size_t memory_held(void);

/** The process is gone: free all of it. */
void memory_release(void);
