/* Interfaces that change or vanish under running workers: their sockets are closed and opened anew, those
 * of the other interfaces stay. What happens when is the caller's to say (control/supervisor). All calls:
 * main's thread. */
#pragma once

#include "io/port_xsk.h"

/** How to do something while no worker is inside its port. run returns when fn has. */
struct xsk_pause {
	void *ctx;
	void (*run)(void *ctx, void (*fn)(void *arg), void *arg);
};

/** True if the kernel has taken the interface from its sockets: it was deleted or moved to another network
 *  namespace, even if it is back. True once. */
bool xsk_iface_is_dead(struct xsk *x, unsigned iface);

/** It is gone: close its sockets; ifindex is 0 from now on. Workers cannot send by it. */
void xsk_iface_drop(struct xsk *x, unsigned iface, const struct xsk_pause *pause);

/** One of its name is there again: attach steer, open sockets on all its queues. 0; -ENODEV if there is none;
 *  or negative with err set, and to be called again: what was opened is kept. */
MUST_CHECK int xsk_iface_take(struct xsk *x, unsigned iface, const struct xsk_pause *pause,
			      struct error *err);

/** Look at its MTU and its number of queues, and have sockets on just these. 0, or negative with err set as
 *  above. */
MUST_CHECK int xsk_iface_fit(struct xsk *x, unsigned iface, const struct xsk_pause *pause,
			     struct error *err);

/** How many of its queues are bound. */
unsigned xsk_iface_n_bound(const struct xsk *x, unsigned iface);

enum xsk_stall {
	XSK_RUNS,
	XSK_STALL_RX, /* steer sends frames there, none arrives */
	XSK_STALL_TX, /* frames are queued and the kernel completes none, though the link is up */
};

/** Look at the rings of an interface's queues; to be called every XSK_LOOK_MS. link_runs: it is up and has a
 *  carrier. */
#define XSK_LOOK_MS 250
void xsk_look_at_queues(struct xsk *x, unsigned iface, bool link_runs);

/** Whether a queue had not moved for so long, at the last look, that it should be bound anew. */
enum xsk_stall xsk_queue_stall(const struct xsk *x, unsigned iface, unsigned queue);

/** Close the socket of one queue; xsk_iface_fit opens another. */
void xsk_queue_drop(struct xsk *x, unsigned iface, unsigned queue, const struct xsk_pause *pause);
