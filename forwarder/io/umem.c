#include "io/umem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int umem_init(struct umem *u, uint32_t n_frames, uint32_t chunk)
{
	assert(chunk >= 2048 && (chunk & (chunk - 1)) == 0);
	memset(u, 0, sizeof(*u));
	u->size = (size_t)n_frames * chunk;
	u->chunk = chunk;
	u->n_frames = n_frames;
	u->area = hugemem_alloc(u->size, &u->kind);
	u->free = calloc(n_frames, sizeof(*u->free));
	if (!u->area || !u->free) {
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
	memset(u, 0, sizeof(*u));
}
