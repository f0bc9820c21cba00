#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static uint64_t (*source_ns)(void);
static int64_t (*source_wall_s)(void);

uint64_t clock_now_ns(void)
{
	struct timespec ts;

	if (source_ns)
		return source_ns();
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ms(void)
{
	return clock_now_ns() / 1000000u;
}

int64_t clock_wall_s(void)
{
	return source_wall_s ? source_wall_s() : (int64_t)time(NULL);
}

int64_t clock_wall_ms(void)
{
	struct timespec ts;

	if (source_wall_s)
		return source_wall_s() * 1000;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void clock_set_source(uint64_t (*now_ns)(void), int64_t (*wall_s)(void))
{
	source_ns = now_ns;
	source_wall_s = wall_s;
}
