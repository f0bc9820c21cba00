/* AF_XDP: sockets on every RX queue of every interface, one UMEM for each worker, shared by all its
 * sockets. (kernel Documentation/networking/af_xdp.rst) */
#pragma once

#include <net/if.h>

#include "base/hugemem.h"
#include "io/port.h"
#include "io/steer.h"
#include "io/xsk_multi.h"

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
	enum xdp_mode mode; /* in use, never auto; final after xsk_attach */
};

/** One interface as found last. */
struct xsk_iface {
	char name[IF_NAMESIZE];
	int ifindex; /* 0: it is gone */
	uint8_t mac[6]; /* see xsk_follow_macs */
	unsigned mtu;
	unsigned n_queues; /* RX queues */
	char driver[32];   /* "igb"; empty if it does not say */
};

struct xsk;

/** Open UMEMs and sockets on all queues of all interfaces and register them with steer's maps; steer
 *  itself is attached later by xsk_attach, when its VIP map is filled. Auto mode: zero-copy if every
 *  interface takes it, else native copy, else generic, each fallback logged. EBUSY is retried for up
 *  to 2 s (a dead process's socket is freed late). On failure everything is undone. Thread: main. */
MUST_CHECK int xsk_open(const struct xsk_config *c, struct xsk **out, struct error *err);

/** Attach (or atomically replace) the steer program on all interfaces, in the driver for zero-copy and
 *  copy mode, else generic. Auto mode falls back here too when a driver refuses the program; from copy
 *  to generic only the program's place changes, from zero-copy the sockets are opened anew (the ports
 *  stay). An earlier process's program found in generic mode makes auto mode stay there, because a
 *  change would let VIP packets reach the host meanwhile. Workers must not run yet. On failure what
 *  was attached before still is. Thread: main. */
MUST_CHECK int xsk_attach(struct xsk *x, struct error *err);

/** Look at the interfaces' MAC addresses, and have steer take the frames to the present ones. To be called
 *  at every change, at the latest about once a second: until then frames to a new address go to the
 *  kernel. Thread: main. */
void xsk_follow_macs(struct xsk *x);

/** The host's own addresses: see steer_set_own_addresses. Thread: main. */
void xsk_set_own_addresses(struct xsk *x, const struct ip_addr *list, size_t n);

/** Close sockets and UMEM. steer stays attached and drops VIP packets, unless it was never
 *  attached. Workers must have ended. NULL is fine. */
void xsk_close(struct xsk *x);

unsigned xsk_n_workers(const struct xsk *x);
struct port *xsk_port(struct xsk *x, unsigned worker);
struct steering xsk_steering(struct xsk *x);
/** The bound RX queues; valid until the next call of io/xsk_life.h. Thread: main. */
unsigned xsk_queues(const struct xsk *x, const struct xsk_queue **queues);
/** The same as a copy, to be freed; without memory it is NULL and there are none. Thread: any. */
unsigned xsk_copy_queues(struct xsk *x, struct xsk_queue **queues);
/** Names never change; what else is there is for main's thread. */
unsigned xsk_ifaces(const struct xsk *x, const struct xsk_iface **ifaces);
/** Undo xsk_attach on one interface: nothing is attached there then. Thread: main. */
MUST_CHECK int xsk_detach(const struct xsk *x, unsigned iface, struct error *err);

/** The kernel's id of the steer program that was loaded for an interface; see io/xdp_probe.h for the one
 *  that is attached. Thread: any. */
uint32_t xsk_program_id(const struct xsk *x, unsigned iface);
/** The longest IP packet (bytes) that comes through: an interface whose MTU is raised above it while we run
 *  loses what is longer. Thread: any. */
unsigned xsk_mtu_limit(const struct xsk *x);
enum hugemem_kind xsk_umem_memory(const struct xsk *x);

/** Packets of VIPs that the kernel lost before a worker could see them, because the worker was too slow
 *  (XDP_STATISTICS: rx_dropped and rx_ring_full, summed over sockets) or their queue had no socket. Thread:
 *  any. */
uint64_t xsk_rx_kernel_drops(struct xsk *x);

/** Frames to VIPs that steer dropped because they do not fit a frame of the UMEM, or came in several
 *  buffers though no interface had so large an MTU at the start: part of the drop reason frame_too_big
 *  that no worker counts. Thread: any. */
uint64_t xsk_rx_too_big(const struct xsk *x);
