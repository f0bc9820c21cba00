/* Memory that can fail: included by one file of a test program, it takes the place of base/hugemem
 * there. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/hugemem.h"

static int allocs_left = -1; /* < 0: any number */
static int allocs_live;

void *hugemem_alloc(size_t size, enum hugemem_kind *kind)
{
	if (allocs_left == 0)
		return NULL;
	if (allocs_left > 0)
		allocs_left--;
	if (kind)
		*kind = HUGEMEM_NONE;
	void *p = aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));
	if (p) {
		memset(p, 0, size);
		allocs_live++;
	}
	return p;
}

void hugemem_free(void *p, size_t size)
{
	(void)size;
	if (p)
		allocs_live--;
	free(p);
}
