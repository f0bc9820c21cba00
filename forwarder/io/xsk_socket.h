/* One AF_XDP socket on one queue of one interface, with its four rings. (kernel
 * Documentation/networking/af_xdp.rst) */
#pragma once

#include <stdbool.h>
#include <xdp/xsk.h>

#include "base/error.h"
#include "io/umem.h"

/* Ring sizes. The frames that a socket can hold are bounded by what it was given: at most
 * XSK_FILL_SIZE wait for or carry received packets, at most XSK_TX_SIZE are queued, in flight or
 * waiting in the completion ring. A pool of the sum over all sockets, and what the worker holds in its
 * hands, can thus never starve a fill ring. */
#define XSK_FILL_SIZE 2048u
#define XSK_TX_SIZE 2048u

struct xsk_socket_spec {
	const char *ifname; /* for messages */
	int ifindex;
	uint32_t queue;
	bool tx;             /* with a TX ring; else for receiving only */
	bool zerocopy;       /* of the first socket of a UMEM; others follow it */
	bool multi;          /* frames of several buffers; the same */
	struct umem *umem;
	int shared_fd;       /* a bound socket of the UMEM, or -1: this is the first */
	uint8_t id;          /* no other socket of the UMEM has it */
};

/** Rings are used through libxdp's inline functions. */
struct xsk_sock {
	CACHE_ALIGNED struct xsk_ring_cons rx;
	struct xsk_ring_prod fill;
	struct xsk_ring_prod tx;   /* size 0: none */
	struct xsk_ring_cons comp;
	uint32_t n_posted;  /* frames given to the fill ring and not received yet */
	uint32_t n_tx_out;  /* frames given to the TX ring and not completed yet */
	uint32_t fill_max;  /* frames that it may have for receiving, at most XSK_FILL_SIZE */
	int fd;
	uint16_t iface;     /* index in the port */
	uint16_t queue;
	uint8_t id;         /* as a holder of frames */
	struct {
		void *at;
		size_t len;
	} maps[4];
};

/** Open, fill the fill ring, then bind; EBUSY is retried until deadline_ms (clock_now_ms). 0, or
 *  negative with err set and nothing left open; -EBUSY if the queue has another owner. */
MUST_CHECK int xsk_socket_open(struct xsk_sock *s, const struct xsk_socket_spec *spec,
			       uint64_t deadline_ms, struct error *err);

/** The same in two steps, for a worker that runs: make it, give it fill_max and frames (xsk_socket_refill,
 *  while the worker stands still), then bind. After an error of bind frames are to be taken back before it is
 *  closed: umem_reclaim. */
MUST_CHECK int xsk_socket_make(struct xsk_sock *s, const struct xsk_socket_spec *spec,
			       struct error *err);
MUST_CHECK int xsk_socket_bind(const struct xsk_sock *s, const struct xsk_socket_spec *spec,
			       uint64_t deadline_ms, struct error *err);

/** Close. Frames it held are the kernel's until another socket is bound to the same queue, the interface is
 *  gone or the UMEM's last socket is closed. */
void xsk_socket_close(struct xsk_sock *s);

/** True if the kernel passes frames without copying them. */
bool xsk_socket_is_zerocopy(const struct xsk_sock *s);

/** True if its interface has been deleted, or moved out of the network namespace: it is good for nothing
 *  any more. Says so once. */
bool xsk_socket_is_dead(const struct xsk_sock *s);

/** Packets lost between XDP and the RX ring: no frame in the fill ring, or the RX ring full. */
uint64_t xsk_socket_rx_lost(const struct xsk_sock *s);

/** Give frames of the pool to the fill ring until the socket has fill_max for receiving. Thread: worker. */
void xsk_socket_refill(struct xsk_sock *s, struct umem *u);

/** Take completed frames back into the pool. Thread: worker. */
void xsk_socket_reap(struct xsk_sock *s, struct umem *u);

/** Make the kernel send what is in the TX ring, as far as it takes it now. Thread: worker. */
void xsk_socket_kick(struct xsk_sock *s);

/** Frames in the TX ring that the kernel has not looked at yet. Thread: worker. */
static inline uint32_t xsk_socket_tx_waiting(const struct xsk_sock *s)
{
	return *s->tx.producer - __atomic_load_n(s->tx.consumer, __ATOMIC_ACQUIRE);
}
