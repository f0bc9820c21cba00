/* Closing and opening sockets under running workers.
 *
 * Two ways were weighed. The one: all workers stand still from the first close to the last bind. It
 * needs no thought, but a bind waits for the kernel to free what was there before (4 to 17 ms, and
 * some drivers take the link down for it), in which the other interfaces would forward nothing. The
 * other, taken here: the worker stands still three times for some microseconds, to have a socket
 * taken away, to lend frames to a new one that it does not know yet, and to get that one; closing,
 * making and binding happen in between, on main's thread.
 *
 * Frames: which ones a closed socket had is told by umem's holders. They are free again once
 * another socket is bound to the same queue (until then the kernel may have the old one's) or the
 * interface is gone. A new socket starts with some spare ones, because some drivers take their
 * receive buffers once, at bind. */
#include "io/xsk_life.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/netdev.h"
#include "io/steer_map.h"
#include "io/xsk_impl.h"

#define BIND_MS 200	  /* the kernel frees what was there before some milliseconds late */
#define STALL_RX_LOOKS 4  /* that found frames sent to a ring in which none arrived */
#define STALL_TX_LOOKS 12 /* that found frames waiting and none completed */
#define FILL_MIN 64u	  /* frames for receiving a socket must get */

static void run(const struct xsk_pause *pause, void (*fn)(void *arg), void *arg)
{
	pause->run(pause->ctx, fn, arg);
}

static void list_queues(struct xsk *x)
{
	if (xsk_list_queues(x) < 0)
		log_error(XSK_WHO, "no memory for the list of queues: it is stale");
}

/* --- taking away ---------------------------------------------------------------------------------
 */

struct removal {
	struct xsk_port *port;
	unsigned iface;
	unsigned queue; /* or XSK_ALL_QUEUES */
	unsigned n;
	struct xsk_sock socks[PORT_QUEUES_MAX];
};

static void remove_sockets(void *arg)
{
	struct removal *r = arg;

	for (unsigned k = 0; k < r->port->port.n_queues;) {
		const struct xsk_sock *s = &r->port->socks[k];

		if (s->iface == r->iface && (r->queue == XSK_ALL_QUEUES || s->queue == r->queue))
			xsk_port_remove(r->port, k, &r->socks[r->n++]);
		else
			k++;
	}
}

static void reclaim_frames(void *arg)
{
	const struct removal *r = arg;

	xsk_port_reclaim(r->port, r->iface, r->queue);
	xsk_port_share(r->port);
}

static void drop(struct xsk *x, unsigned iface, unsigned queue, const struct xsk_pause *pause)
{
	for (unsigned w = 0; w < x->n_workers; w++) {
		struct removal r = {.port = x->ports[w], .iface = iface, .queue = queue};

		pthread_mutex_lock(&x->mutex);
		run(pause, remove_sockets, &r);
		for (unsigned k = 0; k < r.n; k++)
			x->rx_lost += xsk_socket_rx_lost(&r.socks[k]);
		list_queues(x);
		pthread_mutex_unlock(&x->mutex);
		for (unsigned k = 0; k < r.n; k++)
			xsk_socket_close(&r.socks[k]);
		if (queue == XSK_ALL_QUEUES)
			run(pause, reclaim_frames, &r);
	}
}

void xsk_queue_drop(struct xsk *x, unsigned iface, unsigned queue, const struct xsk_pause *pause)
{
	drop(x, iface, queue, pause);
}

void xsk_iface_drop(struct xsk *x, unsigned iface, const struct xsk_pause *pause)
{
	drop(x, iface, XSK_ALL_QUEUES, pause);
	pthread_mutex_lock(&x->mutex);
	x->ifaces[iface].ifindex = 0;
	pthread_mutex_unlock(&x->mutex);
}

bool xsk_iface_is_dead(struct xsk *x, unsigned iface)
{
	bool dead = false;

	for (unsigned w = 0; w < x->n_workers; w++)
		for (unsigned k = 0; k < x->ports[w]->port.n_queues; k++)
			if (x->ports[w]->socks[k].iface == iface)
				dead |= xsk_socket_is_dead(&x->ports[w]->socks[k]);
	return dead;
}

/* --- opening -------------------------------------------------------------------------------------
 */

struct opening {
	struct xsk_port *port;
	struct xsk_sock sock;
	uint8_t id; /* the socket's, also after it is closed */
};

static void lend_frames(void *arg)
{
	struct opening *o = arg;

	xsk_socket_refill(&o->sock, &o->port->umem);
}

static void take_frames_back(void *arg)
{
	struct opening *o = arg;

	umem_reclaim(&o->port->umem, o->id);
}

static void insert_socket(void *arg)
{
	struct opening *o = arg;

	xsk_port_insert(o->port, &o->sock);
	xsk_port_reclaim(o->port, o->sock.iface, o->sock.queue);
	xsk_port_share(o->port);
}

static void insert(struct xsk *x, struct opening *o, const struct xsk_pause *pause)
{
	struct xsk_look *look = &x->looks[o->sock.iface][o->sock.queue];

	pthread_mutex_lock(&x->mutex);
	run(pause, insert_socket, o);
	list_queues(x);
	pthread_mutex_unlock(&x->mutex);
	*look = (struct xsk_look){0};
	steer_read_queue(x->steer, o->sock.iface, o->sock.queue, &look->redirected, &look->refused);
}

static int open_queue(struct xsk *x, unsigned iface, unsigned queue, const struct xsk_pause *pause,
		      struct error *err)
{
	const struct xsk_iface *f = &x->ifaces[iface];
	struct opening o = {.port = x->ports[queue % x->n_workers]};
	unsigned n = o.port->port.n_queues + 1;

	if (n > PORT_QUEUES_MAX || n + o.port->n_limbo > XSK_LIMBO_MAX ||
	    n * FILL_MIN > o.port->n_fill)
		return error_set(
			err, -E2BIG,
			"a worker has no memory for %u RX queues: restart concuryd, or use "
			"fewer queues (ethtool -L)",
			n);
	struct xsk_socket_spec spec =
		xsk_port_spec(o.port, iface, queue, x->mode == XDP_MODE_ZEROCOPY);
	spec.ifname = f->name;
	spec.ifindex = f->ifindex;
	o.id = spec.id;
	int rc = xsk_socket_make(&o.sock, &spec, err);
	if (rc < 0)
		return rc;
	o.sock.iface = (uint16_t)iface;
	o.sock.queue = (uint16_t)queue;
	o.sock.fill_max = XSK_SPARE;
	run(pause, lend_frames, &o);
	rc = xsk_socket_bind(&o.sock, &spec, clock_now_ms() + BIND_MS, err);
	if (rc < 0) {
		xsk_socket_close(&o.sock);
		run(pause, take_frames_back, &o);
		return rc;
	}
	insert(x, &o, pause);
	rc = xsk_enter(x, &o.sock, err);
	if (rc < 0)
		xsk_queue_drop(x, iface, queue, pause); /* the kernel may have its frames by now */
	return rc;
}

static bool is_bound(const struct xsk *x, unsigned iface, unsigned queue)
{
	const struct xsk_port *p = x->ports[queue % x->n_workers];

	for (unsigned k = 0; k < p->port.n_queues; k++)
		if (p->socks[k].iface == iface && p->socks[k].queue == queue)
			return true;
	return false;
}

/* All that can be opened is, even when one cannot. */
static int fit(struct xsk *x, unsigned iface, const struct xsk_iface *dev,
	       const struct xsk_pause *pause, struct error *err)
{
	int rc = 0;

	if (dev->n_queues > STEER_QUEUES_MAX)
		return error_set(err, -E2BIG, "it has %u RX queues, the limit is %d", dev->n_queues,
				 STEER_QUEUES_MAX);
	pthread_mutex_lock(&x->mutex);
	x->ifaces[iface].mtu = dev->mtu;
	x->ifaces[iface].n_queues = dev->n_queues;
	pthread_mutex_unlock(&x->mutex);
	for (unsigned q = 0; q < STEER_QUEUES_MAX; q++) {
		bool bound = is_bound(x, iface, q);

		if (bound && q >= dev->n_queues)
			xsk_queue_drop(x, iface, q, pause);
		if (!bound && q < dev->n_queues) {
			int failed = open_queue(x, iface, q, pause, err);
			rc = rc < 0 ? rc : failed;
		}
	}
	return rc;
}

int xsk_iface_fit(struct xsk *x, unsigned iface, const struct xsk_pause *pause, struct error *err)
{
	struct xsk_iface dev;
	char name[IF_NAMESIZE];

	if (!if_indextoname((unsigned)x->ifaces[iface].ifindex, name))
		return error_set(err, -ENODEV, "it is gone");
	int rc = netdev_read(name, &dev, err);
	return rc < 0 ? rc : fit(x, iface, &dev, pause, err);
}

int xsk_iface_take(struct xsk *x, unsigned iface, const struct xsk_pause *pause, struct error *err)
{
	struct xsk_iface *f = &x->ifaces[iface];
	struct xsk_iface dev;
	int rc = netdev_read(f->name, &dev, err);

	if (rc < 0)
		return rc;
	if (x->mode == XDP_MODE_ZEROCOPY &&
	    (rc = xsk_frames_check_zerocopy(&x->frames, &dev, err)) < 0)
		return rc;
	if (f->ifindex != dev.ifindex) {
		steer_set_mac(x->steer, iface, dev.mac);
		rc = steer_move(x->steer, iface, dev.ifindex, xsk_attach_flags(x), err);
		if (rc < 0)
			return rc;
		pthread_mutex_lock(&x->mutex);
		f->ifindex = dev.ifindex;
		pthread_mutex_unlock(&x->mutex);
	}
	return fit(x, iface, &dev, pause, err);
}

/* --- watching ------------------------------------------------------------------------------------
 */

unsigned xsk_iface_n_bound(const struct xsk *x, unsigned iface)
{
	unsigned n = 0;

	for (unsigned q = 0; q < x->ifaces[iface].n_queues; q++)
		n += is_bound(x, iface, q);
	return n;
}

static uint32_t load(const uint32_t *index)
{
	return __atomic_load_n(index, __ATOMIC_RELAXED);
}

/* A ring that has frames which the worker does not take is no stall: the worker is behind. */
static void look_at(const struct xsk *x, const struct xsk_sock *s, struct xsk_look *look,
		    bool link_runs)
{
	struct xsk_look now = *look;

	steer_read_queue(x->steer, s->iface, s->queue, &now.redirected, &now.refused);
	now.received = load(s->rx.producer);
	now.completed = load(s->comp.producer);
	bool is_empty = load(s->rx.consumer) == now.received;
	if (now.received != look->received)
		now.n_rx = 0;
	else if (now.refused != look->refused || (now.redirected != look->redirected && is_empty))
		now.n_rx += now.n_rx < UINT8_MAX;
	bool waits = s->tx.size && load(s->tx.producer) != now.completed;
	if (!link_runs || !waits || now.completed != look->completed)
		now.n_tx = 0;
	else
		now.n_tx += now.n_tx < UINT8_MAX;
	*look = now;
}

void xsk_look_at_queues(struct xsk *x, unsigned iface, bool link_runs)
{
	for (unsigned w = 0; w < x->n_workers; w++)
		for (unsigned k = 0; k < x->ports[w]->port.n_queues; k++) {
			const struct xsk_sock *s = &x->ports[w]->socks[k];

			if (s->iface == iface)
				look_at(x, s, &x->looks[iface][s->queue], link_runs);
		}
}

enum xsk_stall xsk_queue_stall(const struct xsk *x, unsigned iface, unsigned queue)
{
	const struct xsk_look *look = &x->looks[iface][queue];

	if (!is_bound(x, iface, queue))
		return XSK_RUNS;
	return look->n_rx >= STALL_RX_LOOKS   ? XSK_STALL_RX
	       : look->n_tx >= STALL_TX_LOOKS ? XSK_STALL_TX
					      : XSK_RUNS;
}
