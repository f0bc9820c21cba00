/* A port of memory: tests, the simulation and benches put frames in and take frames out. Single
 * threaded unless a test takes care itself; wake and sleep are thread-safe. */
#pragma once

#include "io/port.h"

struct port_mem_config {
	unsigned n_queues;
	unsigned n_ifaces;
	unsigned n_frames;   /* pool size */
	unsigned frame_size; /* bytes, headroom included, 2048 usual */
	unsigned headroom;   /* bytes in front of a received frame, 256 usual */
	unsigned tx_ring;    /* frames an interface takes until they are taken out; then tx is full */
};

/** NULL without memory; free with port_mem_free. */
MUST_CHECK struct port *port_mem_new(const struct port_mem_config *c);
void port_mem_free(struct port *p);

/** Copy a frame into RX queue q as if it had come in by interface iface. 0, -ENOBUFS (pool empty), or
 *  -EMSGSIZE. */
MUST_CHECK int port_mem_inject(struct port *p, unsigned q, unsigned iface, const void *data,
			       uint32_t len);

/** Take the oldest frame that was sent on iface: copies up to cap bytes and returns the frame's
 *  length, 0 if none. */
uint32_t port_mem_take(struct port *p, unsigned iface, void *buf, uint32_t cap);

/** Frames of the pool that are neither queued nor held by the worker. */
unsigned port_mem_n_free(const struct port *p);
