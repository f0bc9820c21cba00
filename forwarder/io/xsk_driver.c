/* A frame's way: pool -> fill ring -> (kernel) -> RX ring -> worker -> TX ring of any interface ->
 * (kernel) -> completion ring of that socket -> pool. Each worker has one pool for all its sockets,
 * so that forwarding between interfaces copies nothing here. A sent frame belongs to the kernel
 * until it comes out of the completion ring. */
#include "io/xsk_driver.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/xsk_multi.h"

#define IN_HAND (8 * BURST_MAX + PORT_HELD_MAX) /* frames that a worker may hold in a round */
#define RETRY_MS 1				/* sleep while frames wait to be sent */

static struct xsk_port *self(struct port *p)
{
	return (struct xsk_port *)p;
}

/* --- the driver's calls: worker's thread, but for wake -------------------------------------------
 */

static unsigned xsk_rx(struct port *port, unsigned q, struct frame *frames, unsigned n)
{
	struct xsk_port *p = self(port);
	struct xsk_sock *s = &p->socks[q];
	uint32_t at = 0;

	n = xsk_ring_cons__peek(&s->rx, n, &at);
	if (n == 0)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&s->rx, at + i);

		frames[i] = (struct frame){
			.data = p->umem.area + d->addr,
			.len = d->len,
			.headroom = (uint32_t)(d->addr - umem_chunk(&p->umem, d->addr)),
			.addr = d->addr,
			.iface = s->iface,
		};
		cpu_prefetch(frames[i].data);
	}
	xsk_ring_cons__release(&s->rx, n);
	s->n_posted -= n;
	return n;
}

static unsigned xsk_tx(struct port *port, unsigned iface, const struct frame *frames, unsigned n)
{
	struct xsk_port *p = self(port);
	uint32_t at = 0;

	if (unlikely(p->tx_socks[iface] == XSK_NO_SOCKET))
		return 0;
	struct xsk_sock *s = &p->socks[p->tx_socks[iface]];
	if (xsk_tx_room(s, n) < n) {
		xsk_socket_kick(s);
		xsk_socket_reap(s, &p->umem);
		n = xsk_tx_room(s, n);
	}
	if (n == 0)
		return 0;
	uint32_t got = xsk_ring_prod__reserve(&s->tx, n, &at);
	assert(got == n);
	for (unsigned i = 0; i < n; i++) {
		uint64_t addr = (uint64_t)(frames[i].data - p->umem.area);

		assert(umem_chunk(&p->umem, addr) == umem_chunk(&p->umem, frames[i].addr));
		umem_hold(&p->umem, addr, s->id);
		*xsk_ring_prod__tx_desc(&s->tx, at + i) =
			(struct xdp_desc){.addr = addr, .len = frames[i].len};
	}
	xsk_ring_prod__submit(&s->tx, n);
	s->n_tx_out += n;
	return n;
}

static void xsk_free(struct port *port, const struct frame *frames, unsigned n)
{
	struct xsk_port *p = self(port);

	for (unsigned i = 0; i < n; i++)
		umem_put(&p->umem, frames[i].addr);
}

static void xsk_flush(struct port *port)
{
	struct xsk_port *p = self(port);

	for (unsigned i = 0; i < port->n_ifaces; i++) {
		if (unlikely(p->tx_socks[i] == XSK_NO_SOCKET))
			continue;
		struct xsk_sock *s = &p->socks[p->tx_socks[i]];
		if (s->n_tx_out == 0)
			continue;
		xsk_socket_kick(s);
		xsk_socket_reap(s, &p->umem);
	}
	for (unsigned q = 0; q < port->n_queues; q++) {
		struct xsk_sock *s = &p->socks[q];

		if (s->n_posted + BURST_MAX <= s->fill_max)
			xsk_socket_refill(s, &p->umem);
		if (xsk_ring_prod__needs_wakeup(&s->fill))
			(void)recvfrom(s->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
	}
}

static bool tx_waits(struct xsk_port *p)
{
	for (unsigned i = 0; i < p->port.n_ifaces; i++)
		if (p->tx_socks[i] != XSK_NO_SOCKET &&
		    xsk_socket_tx_waiting(&p->socks[p->tx_socks[i]]))
			return true;
	return false;
}

static void xsk_sleep(struct port *port, int timeout_ms)
{
	struct xsk_port *p = self(port);
	unsigned n = port->n_queues;

	xsk_flush(port);
	/* What the kernel did not take (link down, device queue full) is offered again soon:
	 * nothing would wake us for it. */
	if ((timeout_ms < 0 || timeout_ms > RETRY_MS) && tx_waits(p))
		timeout_ms = RETRY_MS;
	if (poll(p->polls, n + 1, timeout_ms) <= 0)
		return;
	if (p->polls[n].revents) {
		uint64_t count;

		if (read(p->wake_fd, &count, sizeof(count)) < 0)
			return; /* EAGAIN: nothing to clear */
	}
}

static void xsk_wake(struct port *port)
{
	const uint64_t one = 1;
	int saved = errno;

	/* Fails only if the counter is full, and then it wakes as well. */
	if (write(self(port)->wake_fd, &one, sizeof(one)) < 0)
		errno = saved;
}

/* --- the drivers ----------------------------------------------------------------------------
 */

static const struct port_driver xsk_driver_multi = {
	.rx = xsk_multi_rx,
	.tx = xsk_multi_tx,
	.free = xsk_multi_free,
	.rest = xsk_multi_rest,
	.flush = xsk_flush,
	.sleep = xsk_sleep,
	.wake = xsk_wake,
};

static const struct port_driver xsk_driver = {
	.rx = xsk_rx,
	.tx = xsk_tx,
	.free = xsk_free,
	.flush = xsk_flush,
	.sleep = xsk_sleep,
	.wake = xsk_wake,
};

/* --- set-up: main's thread
 * ------------------------------------------------------------------------ */

static void list_polls(struct xsk_port *p)
{
	unsigned n = p->port.n_queues;

	for (unsigned k = 0; k < n; k++)
		p->polls[k] = (struct pollfd){.fd = p->socks[k].fd, .events = POLLIN};
	p->polls[n] = (struct pollfd){.fd = p->wake_fd, .events = POLLIN};
}

struct xsk_port *xsk_port_new(unsigned n_ifaces)
{
	struct xsk_port *p = aligned_alloc(CACHE_LINE, sizeof(*p));

	if (!p)
		return NULL;
	memset(p, 0, sizeof(*p));
	p->port = (struct port){.driver = &xsk_driver, .n_ifaces = n_ifaces};
	memset(p->tx_socks, 0xff, sizeof(p->tx_socks));
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->wake_fd < 0) {
		free(p);
		return NULL;
	}
	list_polls(p);
	return p;
}

void xsk_port_free(struct xsk_port *p)
{
	if (!p)
		return;
	xsk_port_close(p);
	close(p->wake_fd);
	free(p);
}

int xsk_port_init_umem(struct xsk_port *p, unsigned n_queues, uint32_t chunk, bool multi)
{
	unsigned in_hand = IN_HAND * (multi ? XSK_PARTS_MAX : 1);

	p->port.driver = multi ? &xsk_driver_multi : &xsk_driver;
	p->n_fill = n_queues * XSK_FILL_SIZE;
	return umem_init(&p->umem, p->n_fill + p->port.n_ifaces * XSK_TX_SIZE + in_hand + XSK_SPARE,
			 chunk, multi);
}

static bool has_id(const struct xsk_port *p, unsigned id)
{
	for (unsigned k = 0; k < p->port.n_queues; k++)
		if (p->socks[k].id == id)
			return true;
	for (unsigned k = 0; k < p->n_limbo; k++)
		if (p->limbo[k].id == id)
			return true;
	return false;
}

struct xsk_socket_spec xsk_port_spec(struct xsk_port *p, unsigned iface, unsigned queue,
				     bool zerocopy)
{
	unsigned id = 0;

	while (has_id(p, id))
		id++;
	return (struct xsk_socket_spec){
		.queue = queue,
		.tx = p->tx_socks[iface] == XSK_NO_SOCKET,
		.zerocopy = zerocopy,
		.multi = p->umem.parts != NULL,
		.umem = &p->umem,
		.shared_fd = p->port.n_queues == 0 ? -1 : p->socks[0].fd,
		.id = (uint8_t)id,
	};
}

int xsk_port_add_queue(struct xsk_port *p, unsigned iface, const char *ifname, int ifindex,
		       unsigned queue, bool zerocopy, uint64_t deadline_ms, struct error *err)
{
	struct xsk_socket_spec spec = xsk_port_spec(p, iface, queue, zerocopy);
	struct xsk_sock s;

	spec.ifname = ifname;
	spec.ifindex = ifindex;
	int rc = xsk_socket_open(&s, &spec, deadline_ms, err);
	if (rc < 0)
		return rc;
	s.iface = (uint16_t)iface;
	s.queue = (uint16_t)queue;
	xsk_port_insert(p, &s);
	return 0;
}

void xsk_port_insert(struct xsk_port *p, const struct xsk_sock *s)
{
	assert(p->port.n_queues < PORT_QUEUES_MAX);
	if (s->tx.size)
		p->tx_socks[s->iface] = (uint16_t)p->port.n_queues;
	p->socks[p->port.n_queues++] = *s;
	list_polls(p);
}

void xsk_port_remove(struct xsk_port *p, unsigned k, struct xsk_sock *out)
{
	assert(k < p->port.n_queues && p->n_limbo < ARRAY_LEN(p->limbo));
	unsigned last = --p->port.n_queues;

	*out = p->socks[k];
	p->limbo[p->n_limbo++] = (struct xsk_limbo){out->iface, out->queue, out->id};
	if (p->tx_socks[out->iface] == k)
		p->tx_socks[out->iface] = XSK_NO_SOCKET;
	if (k != last) {
		p->socks[k] = p->socks[last];
		if (p->tx_socks[p->socks[k].iface] == last)
			p->tx_socks[p->socks[k].iface] = (uint16_t)k;
	}
	list_polls(p);
}

void xsk_port_reclaim(struct xsk_port *p, unsigned iface, unsigned queue)
{
	for (unsigned k = 0; k < p->n_limbo;) {
		const struct xsk_limbo *l = &p->limbo[k];

		if (l->iface != iface || (queue != XSK_ALL_QUEUES && l->queue != queue)) {
			k++;
			continue;
		}
		umem_reclaim(&p->umem, l->id);
		p->limbo[k] = p->limbo[--p->n_limbo];
	}
}

void xsk_port_share(struct xsk_port *p)
{
	unsigned n = p->port.n_queues;

	for (unsigned k = 0; k < n; k++)
		p->socks[k].fill_max =
			n * XSK_FILL_SIZE <= p->n_fill ? XSK_FILL_SIZE : p->n_fill / n;
}

void xsk_port_close(struct xsk_port *p)
{
	/* The first socket owns the UMEM's registration: last. */
	while (p->port.n_queues > 0)
		xsk_socket_close(&p->socks[--p->port.n_queues]);
	p->n_limbo = 0;
	umem_destroy(&p->umem);
	memset(p->tx_socks, 0xff, sizeof(p->tx_socks));
}
