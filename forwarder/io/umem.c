#include "io/umem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int umem_init(struct umem *u, uint32_t n_frames, uint32_t chunk, bool parts)
{
	assert(chunk >= 2048 && (chunk & (chunk - 1)) == 0);
	memset(u, 0, sizeof(*u));
	u->size = (size_t)n_frames * chunk;
	u->chunk = chunk;
	u->n_frames = n_frames;
	u->area = hugemem_alloc(u->size, &u->kind);
	u->shift = (uint32_t)__builtin_ctz(chunk);
	u->free = calloc(n_frames, sizeof(*u->free));
	u->holders = calloc(n_frames, 2 * sizeof(*u->holders));
	if (parts)
		u->parts = calloc(n_frames, sizeof(*u->parts));
	if (!u->area || !u->free || !u->holders || (parts && !u->parts)) {
		umem_destroy(u);
		return -ENOMEM;
	}
	for (uint32_t i = n_frames; i-- > 0;)
		umem_put(u, (uint64_t)i * chunk);
	return 0;
}

void umem_destroy(struct umem *u)
{
	hugemem_free(u->area, u->size);
	free(u->free);
	free(u->holders);
	free(u->parts);
	memset(u, 0, sizeof(*u));
}

/* Which chunks are free is marked behind the holders, in memory that was made for it: nothing here
 * may fail. */
uint32_t umem_reclaim(struct umem *u, uint8_t holder)
{
	uint8_t *is_free = u->holders + u->n_frames;
	uint32_t before = u->n_free;

	memset(is_free, 0, u->n_frames);
	for (uint32_t i = 0; i < u->n_free; i++)
		is_free[u->free[i] >> u->shift] = 1;
	for (uint32_t i = 0; i < u->n_frames; i++)
		if (!is_free[i] && u->holders[i] == holder)
			umem_put(u, (uint64_t)i << u->shift);
	return u->n_free - before;
}
