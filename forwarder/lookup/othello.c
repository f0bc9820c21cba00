#include "lookup/othello.h"

#include <assert.h>
#include <errno.h>

/* Both arrays lie in one block, b on a cache line of its own. */
static size_t a_bytes(uint32_t n_a)
{
	size_t bytes = (size_t)n_a * sizeof(uint32_t);

	return (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
}

int othello_init(struct othello *o, uint32_t n_a, uint32_t n_b, uint64_t seed)
{
	struct othello fresh = {.n_a = n_a, .n_b = n_b, .seed = seed};

	assert(n_a > 0 && n_b > 0);
	char *block = hugemem_alloc(othello_bytes(&fresh), &fresh.memory);
	if (!block)
		return -ENOMEM;
	fresh.a = (uint32_t *)block;
	fresh.b = (uint32_t *)(block + a_bytes(n_a));
	*o = fresh;
	return 0;
}

void othello_destroy(struct othello *o)
{
	hugemem_free(o->a, othello_bytes(o));
	*o = (struct othello){0};
}

size_t othello_bytes(const struct othello *o)
{
	if (!o->n_a)
		return 0;
	return a_bytes(o->n_a) + (size_t)o->n_b * sizeof(uint32_t);
}
