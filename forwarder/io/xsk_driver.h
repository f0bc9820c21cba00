/* The port of one worker over AF_XDP: its sockets, its UMEM, and the calls of struct port_driver. */
#pragma once

#include <poll.h>

#include "io/port.h"
#include "io/xsk_socket.h"

struct xsk_port {
	struct port port; /* first */
	struct umem umem;
	int wake_fd; /* eventfd */
	uint16_t tx_socks[IFACES_MAX]; /* index in socks of the socket that sends on an interface */
	struct xsk_sock socks[PORT_QUEUES_MAX]; /* by RX queue of the port */
	struct pollfd polls[PORT_QUEUES_MAX + 1];
};

/** A port without queues. NULL without memory or descriptors. Thread: main. */
MUST_CHECK struct xsk_port *xsk_port_new(unsigned n_ifaces);

/** Close what is open, and free. NULL is fine. */
void xsk_port_free(struct xsk_port *p);

/** Give it a fresh UMEM of chunk-sized frames, enough for n_queues sockets. 0 or -ENOMEM. */
MUST_CHECK int xsk_port_init_umem(struct xsk_port *p, unsigned n_queues, uint32_t chunk);

/** Open its next RX queue. The first queue of each interface also sends. On an error the port is to be
 *  closed. */
MUST_CHECK int xsk_port_add_queue(struct xsk_port *p, unsigned iface, const char *ifname,
				  int ifindex, unsigned queue, bool zerocopy, uint64_t deadline_ms,
				  struct error *err);

/** Close all sockets and free the UMEM; the port is without queues again. */
void xsk_port_close(struct xsk_port *p);
