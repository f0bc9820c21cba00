#include "tests/sim/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MAGIC 0x5ca1ab1e0ddba11u
#define FDS_MAX 256

/* Right before each block. */
struct header {
	struct header *prev, *next; /* of the process's blocks; NULL: not of the process */
	void *start;		    /* what the allocator gave */
	size_t size;
	uint64_t zero;
	uint64_t magic;
};

void *__real_malloc(size_t n);
void __real_free(void *p);
void *__real_realloc(void *p, size_t n);
int __real_eventfd(unsigned count, int flags);
int __real_close(int fd);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
void __wrap_free(void *p);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_close(int fd);

static struct header blocks = {.prev = &blocks, .next = &blocks};
static size_t n_blocks;
static bool fd_held[FDS_MAX];
static size_t n_fds;
static bool in_process;

bool memory_of_process(bool yes)
{
	bool was = in_process;

	in_process = yes;
	return was;
}

size_t memory_held(void)
{
	return n_blocks + n_fds;
}

static void *take(size_t align, size_t n)
{
	char *start = __real_malloc(n + sizeof(struct header) + align);

	if (!start)
		return NULL;
	uintptr_t at = (uintptr_t)start + sizeof(struct header);
	at = (at + align - 1) & ~(uintptr_t)(align - 1);
	struct header *h = (struct header *)at - 1;
	*h = (struct header){.start = start, .size = n, .magic = MAGIC};
	if (in_process) {
		h->next = &blocks;
		h->prev = blocks.prev;
		h->prev->next = h;
		blocks.prev = h;
		n_blocks++;
	}
	return h + 1;
}

static struct header *header_of(void *p)
{
	struct header *h = (struct header *)p - 1;

	return h->magic == MAGIC ? h : NULL;
}

static void give(struct header *h)
{
	h->magic = 0;
	if (h->next) {
		h->prev->next = h->next;
		h->next->prev = h->prev;
		n_blocks--;
	}
	__real_free(h->start);
}

void *__wrap_malloc(size_t n)
{
	return take(16, n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	void *p = size && n > SIZE_MAX / size ? NULL : take(16, n * size);

	return p ? memset(p, 0, n * size) : NULL;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return take(align, n);
}

int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
	void *q = take(align, n);

	if (!q)
		return ENOMEM;
	*p = q;
	return 0;
}

void __wrap_free(void *p)
{
	struct header *h = p ? header_of(p) : NULL;

	if (h)
		give(h);
	else
		__real_free(p); /* the C library's own, as of getline */
}

void *__wrap_realloc(void *p, size_t n)
{
	struct header *h = p ? header_of(p) : NULL;

	if (p && !h)
		return __real_realloc(p, n);
	void *q = take(16, n);
	if (q && h) {
		memcpy(q, p, h->size < n ? h->size : n);
		give(h);
	}
	return q;
}

int __wrap_eventfd(unsigned count, int flags)
{
	int fd = __real_eventfd(count, flags);

	assert(fd < FDS_MAX);
	if (fd >= 0 && in_process) {
		fd_held[fd] = true;
		n_fds++;
	}
	return fd;
}

int __wrap_close(int fd)
{
	if (fd >= 0 && fd < FDS_MAX && fd_held[fd]) {
		fd_held[fd] = false;
		n_fds--;
	}
	return __real_close(fd);
}

void memory_release(void)
{
	while (blocks.next != &blocks)
		give(blocks.next);
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (fd_held[fd])
			__wrap_close(fd);
}
