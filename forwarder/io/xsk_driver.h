/* The port of one worker over AF_XDP: its sockets, its UMEM, and the calls of struct port_driver. */
#pragma once

#include <poll.h>

#include "io/port.h"
#include "io/xsk_socket.h"

/* Frames beyond what the sockets may hold, for one that is opened anew while the kernel still has those
 * of the one before it. */
#define XSK_SPARE 512u

/* A removed socket whose frames the kernel may still have. */
struct xsk_limbo {
	uint16_t iface;
	uint16_t queue;
	uint8_t id;
};

/* Sockets that a port has, and has had and has not reclaimed, at the most; each has an id of one byte. */
#define XSK_LIMBO_MAX (2 * PORT_QUEUES_MAX)

#define XSK_ALL_QUEUES UINT16_MAX
#define XSK_NO_SOCKET UINT16_MAX /* in tx_socks */

struct xsk_port {
	struct port port; /* first */
	struct umem umem;
	int wake_fd; /* eventfd */
	uint32_t n_fill; /* frames for receiving, for all sockets together */
	unsigned n_limbo;
	struct xsk_limbo limbo[XSK_LIMBO_MAX];
	uint16_t tx_socks[IFACES_MAX]; /* index in socks of the socket that sends on an interface */
	struct xsk_sock socks[PORT_QUEUES_MAX]; /* by RX queue of the port */
	struct pollfd polls[PORT_QUEUES_MAX + 1];
};

/** A port without queues. NULL without memory or descriptors. Thread: main. */
MUST_CHECK struct xsk_port *xsk_port_new(unsigned n_ifaces);

/** Close what is open, and free. NULL is fine. */
void xsk_port_free(struct xsk_port *p);

/** Give it a fresh UMEM of chunk-sized buffers, enough for n_queues sockets; multi: a frame may take several.
 *  0 or -ENOMEM. */
MUST_CHECK int xsk_port_init_umem(struct xsk_port *p, unsigned n_queues, uint32_t chunk,
				  bool multi);

/** Open its next RX queue. The first queue of each interface also sends. On an error the port is to be
 *  closed. */
MUST_CHECK int xsk_port_add_queue(struct xsk_port *p, unsigned iface, const char *ifname,
				  int ifindex, unsigned queue, bool zerocopy, uint64_t deadline_ms,
				  struct error *err);

/* The calls below change a port that a worker uses: while that worker stands still. */

/** What a further socket, for this queue of an interface, is to be made of; ifname and ifindex are the caller's
 *  to fill in. */
struct xsk_socket_spec xsk_port_spec(struct xsk_port *p, unsigned iface, unsigned queue,
				     bool zerocopy);

/** Take over a bound socket (iface and queue set) as the last RX queue. */
void xsk_port_insert(struct xsk_port *p, const struct xsk_sock *s);

/** Give the socket of RX queue k out, to be closed; the last queue takes its place. Its frames stay away until
 *  xsk_port_reclaim. */
void xsk_port_remove(struct xsk_port *p, unsigned k, struct xsk_sock *out);

/** The kernel is done with the frames of removed sockets of this queue of an interface, or of
 *  XSK_ALL_QUEUES: another socket is bound there, or the interface is gone. */
void xsk_port_reclaim(struct xsk_port *p, unsigned iface, unsigned queue);

/** Share the frames for receiving out among the sockets that there are. */
void xsk_port_share(struct xsk_port *p);

/** Close all sockets and free the UMEM; the port is without queues again. */
void xsk_port_close(struct xsk_port *p);

/** For how many of n buffers there is room: in the completion ring, which must take all that is out,
 *  and in the TX ring itself, of which the kernel may give a place back later than it shows the
 *  buffer that stood there as sent. Thread: worker. */
static inline uint32_t xsk_tx_room(struct xsk_sock *s, uint32_t n)
{
	uint32_t room = xsk_prod_nb_free(&s->tx, n);

	if (room > XSK_TX_SIZE - s->n_tx_out)
		room = XSK_TX_SIZE - s->n_tx_out;
	return n < room ? n : room;
}
