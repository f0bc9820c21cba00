/* The driver interface: how a worker receives and sends frames. One struct port is one worker's view
 * of all interfaces: its RX queues, a TX ring on each interface, and one pool of frames. A frame
 * belongs to its worker's pool for life, wherever it came from. Implementations: port_xsk (AF_XDP),
 * port_mem (tests, simulation, benches). */
#pragma once

#include "base/addr.h"
#include "base/error.h"
#include "io/steer_map.h"
#include "lookup/back_table.h"
#include "lookup/snapshot.h"

#define BURST_MAX 32
#define IFACES_MAX 16
#define PORT_QUEUES_MAX 64 /* RX queues of one worker */
#define PORT_HELD_MAX 256  /* frames that a worker may keep from one round to the next */
#define PORT_REST_MAX 8    /* further buffers of a frame */

/** A received frame, owned by the worker until it is given to port_tx or port_free. */
struct frame {
	uint8_t *data;     /* first byte of the Ethernet header */
	uint32_t len;      /* bytes, all of them */
	uint32_t headroom; /* bytes free in front of data */
	uint64_t addr;     /* the driver's handle; keep it when data moves */
	uint16_t iface;    /* interface it came in by */
	uint16_t more;     /* bytes that came in further buffers, behind the first len - more at data; 0: none.
			    * The worker may move the front and cut the end off, and leaves this as it is. */
};

struct port;

struct port_driver {
	/** Up to n (<= BURST_MAX) frames of RX queue q (0 .. n_queues - 1). Returns how many. */
	unsigned (*rx)(struct port *p, unsigned q, struct frame *frames, unsigned n);
	/** Queue the first k frames on interface iface and return k; frames k.. stay the caller's
	 *  (ring full). Sent by the next flush at the latest. */
	unsigned (*tx)(struct port *p, unsigned iface, const struct frame *frames, unsigned n);
	/** Give frames back to the pool. */
	void (*free)(struct port *p, const struct frame *frames, unsigned n);
	/** What came in further buffer k (0 ..) of a frame, *len bytes; NULL after the last one. */
	const uint8_t *(*rest)(struct port *p, const struct frame *f, unsigned k, uint32_t *len);
	/** Once a round: send what is queued, reap completions, refill the fill rings. */
	void (*flush)(struct port *p);
	/** Sleep until a frame may be there, wake() was called, or timeout_ms passed. */
	void (*sleep)(struct port *p, int timeout_ms);
	/** End a sleep, or prevent the next one. Any thread; async-signal-safe. */
	void (*wake)(struct port *p);
};

/** Drivers embed this as their first member. */
struct port {
	const struct port_driver *driver;
	unsigned n_queues; /* RX queues of this worker */
	unsigned n_ifaces; /* interfaces it can send by */
};

static ALWAYS_INLINE unsigned port_rx(struct port *p, unsigned q, struct frame *f, unsigned n)
{
	return p->driver->rx(p, q, f, n);
}

static ALWAYS_INLINE unsigned port_tx(struct port *p, unsigned iface, const struct frame *f,
				      unsigned n)
{
	return p->driver->tx(p, iface, f, n);
}

static ALWAYS_INLINE void port_free(struct port *p, const struct frame *f, unsigned n)
{
	p->driver->free(p, f, n);
}

/** Only for a frame with more. */
static inline const uint8_t *port_rest(struct port *p, const struct frame *f, unsigned k,
				       uint32_t *len)
{
	return p->driver->rest(p, f, k, len);
}

static ALWAYS_INLINE void port_flush(struct port *p)
{
	p->driver->flush(p);
}

static inline void port_sleep(struct port *p, int timeout_ms)
{
	p->driver->sleep(p, timeout_ms);
}

static inline void port_wake(struct port *p)
{
	p->driver->wake(p);
}

/** A next hop towards clients. */
struct back_hop {
	int ifindex;
	struct ip_addr address;
};

/** What control tells about VIPs to whatever delivers packets to workers: steer.h in production, a
 *  recorder in tests. Calls come from control's thread only. */
struct steering {
	void *ctx;
	/** From now on packets of this VIP come to workers. 0, or negative with err set. */
	int (*add)(void *ctx, const struct vip_match *m, struct error *err);
	/** From now on they go to the kernel. 0 also if it was not there. */
	int (*del)(void *ctx, const struct vip_match *m, struct error *err);
	/** Mode nat: from now on packets from this end, and for others than this host, come to workers,
	 *  marked with their way out (io/steer_map.h); clients will see them come from vip. An end that is
	 *  there is told anew of its vip. */
	int (*add_back)(void *ctx, const struct back_key *key, const struct ip_addr *vip,
			struct error *err);
	/** From now on they go to the kernel. 0 also if it was not there. */
	int (*del_back)(void *ctx, const struct back_key *key, struct error *err);
	/** Mode nat: the kernel's indexes of interfaces that stand on others: packets whose way leads out by
	 *  the k-th are marked with STEER_IFACES_MAX + k; 0 = none. NULL: whoever it is has no such marks. */
	int (*set_outs)(void *ctx, const int ifindexes[STEER_STACKED_MAX], struct error *err);
	/** At most n next hops that packets on their way back need: the kernel is to resolve them, or to keep
	 *  them resolved. To be called every 100 ms or so. Returns how many. */
	unsigned (*take_hops)(void *ctx, struct back_hop *hops, unsigned n);
};
