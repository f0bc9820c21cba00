/* Allocations that fail for lack of address space, for code that takes its memory from the C
 * library. Not under the sanitizers, which need the space themselves: skip the test there
 * (SANITIZED). */
#pragma once

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/** From now on the program may grow by this many bytes. */
static inline void space_limit(size_t more)
{
	struct rlimit rl;
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	getrlimit(RLIMIT_AS, &rl);
	rl.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
	setrlimit(RLIMIT_AS, &rl);
}

static inline void space_unlimit(void)
{
	struct rlimit rl;

	getrlimit(RLIMIT_AS, &rl);
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_AS, &rl);
}
