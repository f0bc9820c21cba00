/* A worker's packet memory: one area registered with the kernel as UMEM, cut into chunks of one frame
 * each, and the stack of chunks that nobody holds. All calls: the owning worker's thread. */
#pragma once

#include <assert.h>
#include <stdbool.h>

#include "base/hugemem.h"

/* A buffer of a frame of several. */
struct umem_part {
	uint64_t end;  /* address behind its last byte */
	uint64_t next; /* address of the one that follows, or UMEM_NO_PART */
};

#define UMEM_NO_PART UINT64_MAX

struct umem {
	uint8_t *area;
	size_t size;
	uint32_t chunk; /* bytes, a power of two */
	uint32_t shift; /* its logarithm */
	uint32_t n_frames;
	uint32_t n_free;
	uint64_t *free; /* stack of chunk addresses (offsets in area) */
	uint8_t *holders; /* by chunk: the socket that it was given to last; valid unless it is free or in
			   * the worker's hands */
	struct umem_part *parts; /* by chunk, of those in the worker's hands; NULL: a frame has one buffer */
	enum hugemem_kind kind;
};

/** n_frames chunks, all free. 0 or -ENOMEM. */
MUST_CHECK int umem_init(struct umem *u, uint32_t n_frames, uint32_t chunk, bool parts);

/** Free the area; the sockets that use it must be closed. A zeroed umem is fine. */
void umem_destroy(struct umem *u);

/** The chunk that an address lies in. */
static ALWAYS_INLINE uint64_t umem_chunk(const struct umem *u, uint64_t addr)
{
	return addr & ~(uint64_t)(u->chunk - 1);
}

/** Give back the chunk that addr lies in. Last in, first out: the next frame comes into a chunk that is
 *  still in the cache. */
static ALWAYS_INLINE void umem_put(struct umem *u, uint64_t addr)
{
	assert(u->n_free < u->n_frames);
	u->free[u->n_free++] = umem_chunk(u, addr);
}

/** Note that a socket (its id, see xsk_socket.h) holds the chunk from now on. */
static ALWAYS_INLINE void umem_hold(struct umem *u, uint64_t addr, uint8_t holder)
{
	u->holders[addr >> u->shift] = holder;
}

/** Put all chunks that a holder has not given back into the pool: it is closed, and the kernel is done
 *  with them. The worker must have none in its hands. Returns how many. Thread: any, while the worker
 *  stands still. */
uint32_t umem_reclaim(struct umem *u, uint8_t holder);

/** A free chunk; there must be one. */
static ALWAYS_INLINE uint64_t umem_get(struct umem *u)
{
	assert(u->n_free > 0);
	return u->free[--u->n_free];
}
