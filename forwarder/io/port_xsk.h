/* AF_XDP: sockets on every RX queue of every interface, one UMEM for each worker, shared by all its
 * sockets. (kernel Documentation/networking/af_xdp.rst) */
#pragma once

#include <net/if.h>

#include "io/port.h"
#include "io/steer.h"

enum xdp_mode { XDP_MODE_AUTO, XDP_MODE_ZEROCOPY, XDP_MODE_COPY, XDP_MODE_GENERIC };

/** "auto", "zerocopy", "copy", "generic". */
const char *xdp_mode_name(enum xdp_mode mode);

struct xsk_config {
	unsigned n_ifaces;
	const char *ifaces[IFACES_MAX]; /* names */
	unsigned n_workers;             /* 0: one per RX queue of the smallest interface, at most cores - 1, at least 1 */
	enum xdp_mode mode;
};

/** One bound RX queue, for status. */
struct xsk_queue {
	char iface[IF_NAMESIZE];
	unsigned queue;
	unsigned worker;
	enum xdp_mode mode; /* in use, never auto */
};

/** One interface as found at start. */
struct xsk_iface {
	char name[IF_NAMESIZE];
	int ifindex;
	uint8_t mac[6];
	unsigned mtu;
	unsigned n_queues; /* RX queues */
};

struct xsk;

/** Open UMEMs and sockets on all queues of all interfaces and register them with steer's maps; steer
 *  itself is attached later by xsk_attach, when its VIP map is filled. Auto mode: zero-copy if every
 *  interface takes it, else native copy, else generic, each fallback logged. EBUSY is retried for up
 *  to 2 s (a dead process's socket is freed late). On failure everything is undone. Thread: main. */
MUST_CHECK int xsk_open(const struct xsk_config *c, struct xsk **out, struct error *err);

/** Attach (or atomically replace) the steer program on all interfaces. */
MUST_CHECK int xsk_attach(struct xsk *x, struct error *err);

/** Close sockets and UMEM. steer stays attached and drops VIP packets (DESIGN 6), unless it was never
 *  attached. Workers must have ended. NULL is fine. */
void xsk_close(struct xsk *x);

unsigned xsk_n_workers(const struct xsk *x);
struct port *xsk_port(struct xsk *x, unsigned worker);
struct steering xsk_steering(struct xsk *x);
unsigned xsk_queues(const struct xsk *x, const struct xsk_queue **queues);
unsigned xsk_ifaces(const struct xsk *x, const struct xsk_iface **ifaces);
enum hugemem_kind xsk_umem_memory(const struct xsk *x);

/** Kernel-side packets lost before a worker could see them (XDP_STATISTICS: rx_dropped, rx_ring_full,
 *  fill_ring_empty, summed over sockets). Thread: any. */
uint64_t xsk_rx_kernel_drops(const struct xsk *x);
