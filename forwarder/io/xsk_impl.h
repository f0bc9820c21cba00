/* What port_xsk.c and xsk_life.c share; nobody else includes it. */
#pragma once

#include <pthread.h>

#include "io/port_xsk.h"
#include "io/xsk_driver.h"
#include "io/xsk_frames.h"

#define XSK_WHO "xdp"

/* One interface's sockets, as they are looked at for a stall. */
struct xsk_look {
	uint64_t redirected, refused; /* as steer has counted */
	uint32_t received;	      /* frames that the kernel has put into the RX ring */
	uint32_t completed;	      /* and those it has sent */
	uint8_t n_rx, n_tx;	      /* looks in a row at which it seemed to stand */
};

struct xsk {
	enum xdp_mode wanted;
	enum xdp_mode mode; /* in use */
	struct xsk_frames frames;
	unsigned n_ifaces;
	unsigned n_workers;
	struct xsk_port **ports;
	struct steer *steer;
	/* Over what follows and, against everybody but the workers, the sockets of the ports. Only main
	 * changes them, so main reads without it. */
	pthread_mutex_t mutex;
	struct xsk_iface ifaces[IFACES_MAX];
	unsigned n_queues;
	struct xsk_queue *queues;
	uint64_t rx_lost; /* by sockets that are closed */
	struct xsk_look looks[IFACES_MAX][STEER_QUEUES_MAX];
};

/** Enter a socket in its interface's XSKMAP. 0, or negative with err set. */
MUST_CHECK int xsk_enter(struct xsk *x, const struct xsk_sock *s, struct error *err);

/** List the sockets of all ports anew, for xsk_copy_queues. 0 or -ENOMEM. */
MUST_CHECK int xsk_list_queues(struct xsk *x);

/** XDP_FLAGS_*_MODE of the mode in use. */
uint32_t xsk_attach_flags(const struct xsk *x);
