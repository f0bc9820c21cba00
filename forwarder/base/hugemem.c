/* Random reads over a table larger than the TLB's reach pay a page walk each; 2 MiB pages remove
 * it. Reserved pages (MAP_HUGETLB) are certain, transparent ones are a request to the kernel, so
 * both are tried in this order and the caller can say which one it got. */
#include "base/hugemem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_LIMIT ((size_t)1 << 20)

static size_t round_up(size_t size)
{
	return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

static void *map_reserved(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Map size bytes aligned to a huge page by mapping one page more and cutting the ends off. */
static void *map_aligned(size_t size)
{
	size_t total = size + HUGE_PAGE;
	char *p = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	char *start = (char *)round_up((size_t)p);
	if (start > p)
		munmap(p, (size_t)(start - p));
	if (start + size < p + total)
		munmap(start + size, (size_t)(p + total - (start + size)));
	return start;
}

void *hugemem_alloc(size_t size, enum hugemem_kind *kind)
{
	enum hugemem_kind got = HUGEMEM_NONE;
	void *p = NULL;

	if (size < SMALL_LIMIT) {
		size_t rounded = (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
		p = aligned_alloc(CACHE_LINE, rounded ? rounded : CACHE_LINE);
		if (p)
			memset(p, 0, rounded);
	} else if ((p = map_reserved(round_up(size))) != NULL) {
		got = HUGEMEM_RESERVED;
	} else if ((p = map_aligned(round_up(size))) != NULL) {
		if (madvise(p, round_up(size), MADV_HUGEPAGE) == 0)
			got = HUGEMEM_TRANSPARENT;
	}
	if (p && kind)
		*kind = got;
	return p;
}

void hugemem_free(void *p, size_t size)
{
	if (!p)
		return;
	if (size < SMALL_LIMIT)
		free(p);
	else
		munmap(p, round_up(size));
}

const char *hugemem_kind_name(enum hugemem_kind kind)
{
	static const char *const names[] = {"none", "transparent", "reserved"};

	return names[kind];
}

enum hugemem_kind hugemem_probe(void)
{
	enum hugemem_kind kind = HUGEMEM_NONE;
	void *p = hugemem_alloc(HUGE_PAGE, &kind);

	hugemem_free(p, HUGE_PAGE);
	return kind;
}
