/* A port of memory: tests, the simulation and benches put frames in and take frames out. It holds a
 * worker to the driver's contract: a frame freed or sent twice, or one that does not lie in its
 * place any more, is an assertion; a frame given to tx can be taken only after the next flush. All
 * functions are thread-safe (one lock a call), so that a test can feed a worker's thread. */
#pragma once

#include "io/port.h"

struct port_mem_config {
	unsigned n_queues;
	unsigned n_ifaces;
	unsigned n_frames;   /* pool size */
	unsigned frame_size; /* bytes, headroom included, 2048 usual */
	unsigned headroom;   /* bytes in front of a received frame, 256 usual */
	unsigned tx_ring; /* frames an interface takes until they are taken out; then tx is full */
};

/** NULL without memory; free with port_mem_free. */
MUST_CHECK struct port *port_mem_new(const struct port_mem_config *c);
void port_mem_free(struct port *p);

/** Copy a frame into RX queue q as if it had come in by interface iface; a worker that sleeps wakes
 * up. 0, -ENOBUFS (pool empty), or -EMSGSIZE. */
MUST_CHECK int port_mem_inject(struct port *p, unsigned q, unsigned iface, const void *data,
			       uint32_t len);

/** The same, but only the first `front` bytes come in the first buffer, and what is left in further ones, each
 *  from the pool. */
MUST_CHECK int port_mem_inject_more(struct port *p, unsigned q, unsigned iface, const void *data,
				    uint32_t len, uint32_t front);

/** Take the oldest frame that was sent (queued, and then flushed) on iface: copies up to cap bytes
 * and returns the frame's length, 0 if none. The frame goes back to the pool. */
uint32_t port_mem_take(struct port *p, unsigned iface, void *buf, uint32_t cap);

/** Frames of the pool that are neither queued nor held by the worker. */
unsigned port_mem_n_free(struct port *p);

/** Frames that the worker holds: received, and neither given to tx nor freed. Between two rounds of a
 * worker that loses none: the fragments that wait for their first. */
unsigned port_mem_n_held(struct port *p);
