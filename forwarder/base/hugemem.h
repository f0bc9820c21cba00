/* Memory for the tables of the packet path, on huge pages where the system has them. */
#pragma once

#include "base/cpu.h"

enum hugemem_kind {
	HUGEMEM_NONE,        /* normal pages: the kernel gave nothing better */
	HUGEMEM_TRANSPARENT, /* 2 MiB aligned and madvise(MADV_HUGEPAGE)d */
	HUGEMEM_RESERVED,    /* MAP_HUGETLB from the reserved pool */
};

/** Zeroed, 64-byte-aligned memory of at least size bytes. Below 1 MiB it comes from normal memory
 *  (a huge page would be wasted) and *kind is HUGEMEM_NONE. NULL when there is none. kind may be
 *  NULL. Thread: any; free with hugemem_free and the same size. */
MUST_CHECK void *hugemem_alloc(size_t size, enum hugemem_kind *kind);

/** Free what hugemem_alloc gave; NULL is fine. Thread: any. */
void hugemem_free(void *p, size_t size);

/** "reserved", "transparent" or "none". */
const char *hugemem_kind_name(enum hugemem_kind kind);

/** What a large allocation would get now, found by trying one. Thread: any. */
enum hugemem_kind hugemem_probe(void);
