#include "tests/bench/peers/peer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hugemem.h"

void *peer_alloc(size_t size)
{
	void *p = hugemem_alloc(size, NULL);

	if (!p) {
		fprintf(stderr, "no memory for %zu bytes\n", size);
		exit(EXIT_FAILURE);
	}
	return p;
}
