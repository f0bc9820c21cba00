#include "base/entropy.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

static void (*source)(void *buf, size_t n);

void entropy_fill(void *buf, size_t n)
{
	uint8_t *p = buf;

	if (source) {
		source(buf, n);
		return;
	}
	while (n > 0) {
		ssize_t got = getrandom(p, n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		assert(got > 0);
		p += got;
		n -= (size_t)got;
	}
}

uint64_t entropy_u64(void)
{
	uint64_t v;

	entropy_fill(&v, sizeof(v));
	return v;
}

void entropy_set_source(void (*fill)(void *buf, size_t n))
{
	source = fill;
}
