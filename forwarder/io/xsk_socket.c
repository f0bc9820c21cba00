/* AF_XDP sockets by hand, but for libxdp's ring functions.
 *
 * libxdp's own constructor binds a shared-UMEM socket before its caller can see the fill ring;
 * drivers that take their receive buffers once, at bind (igb), then never receive. So the order is
 * here: rings, frames into the fill ring, bind. It also makes a retry of the bind alone possible:
 * the kernel frees the sockets of a dead process some milliseconds late, and a restart meets EBUSY.
 */
#include "io/xsk_socket.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/xsk_multi.h"

/* Newer than the headers of Debian 12. */
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

#define RX_SIZE XSK_FILL_SIZE  /* so it cannot be full */
#define COMP_SIZE XSK_TX_SIZE  /* so it cannot be full */
#define COMP_SIZE_RX_ONLY 64u  /* the kernel wants one with every pool */
#define TX_SKB_BUDGET 512      /* packets a sendto may send in copy mode; 32 by default */
#define SEND_BUFFER (16 << 20) /* bytes of sk_buffs in flight, copy mode */
#define BUSY_RETRY_US 5000

enum ring { RING_FILL, RING_COMP, RING_RX, RING_TX };

/* The head of either kind of ring, as libxdp's inline functions want it. */
#define RING_ATTACH(r, base, off, entries)                                                         \
	do {                                                                                       \
		(r)->mask = (entries)-1;                                                           \
		(r)->size = (entries);                                                             \
		(r)->producer = (uint32_t *)(void *)((base) + (off)->producer);                    \
		(r)->consumer = (uint32_t *)(void *)((base) + (off)->consumer);                    \
		(r)->flags = (uint32_t *)(void *)((base) + (off)->flags);                          \
		(r)->ring = (base) + (off)->desc;                                                  \
		(r)->cached_prod = *(r)->producer;                                                 \
		(r)->cached_cons = *(r)->consumer;                                                 \
	} while (0)

/* The shared memory of a ring, or NULL with errno set. */
static uint8_t *ring_map(struct xsk_sock *s, enum ring ring, const struct xdp_ring_offset *off,
			 uint32_t entries)
{
	static const struct {
		off_t pgoff;
		size_t entry;
	} kinds[] = {
		[RING_FILL] = {XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t)},
		[RING_COMP] = {XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(uint64_t)},
		[RING_RX] = {XDP_PGOFF_RX_RING, sizeof(struct xdp_desc)},
		[RING_TX] = {XDP_PGOFF_TX_RING, sizeof(struct xdp_desc)},
	};
	size_t len = off->desc + entries * kinds[ring].entry;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, s->fd,
		       kinds[ring].pgoff);

	if (p == MAP_FAILED)
		return NULL;
	s->maps[ring].at = p;
	s->maps[ring].len = len;
	return p;
}

static int set_option(const struct xsk_sock *s, int option, const void *value, socklen_t len)
{
	return setsockopt(s->fd, SOL_XDP, option, value, len) < 0 ? -errno : 0;
}

static int create_rings(struct xsk_sock *s, bool tx)
{
	uint32_t fill = XSK_FILL_SIZE, rx = RX_SIZE, tx_size = XSK_TX_SIZE;
	uint32_t comp = tx ? COMP_SIZE : COMP_SIZE_RX_ONLY;
	struct xdp_mmap_offsets off;
	socklen_t len = sizeof(off);
	uint8_t *base;
	int rc;

	if ((rc = set_option(s, XDP_UMEM_FILL_RING, &fill, sizeof(fill))) < 0 ||
	    (rc = set_option(s, XDP_UMEM_COMPLETION_RING, &comp, sizeof(comp))) < 0 ||
	    (rc = set_option(s, XDP_RX_RING, &rx, sizeof(rx))) < 0 ||
	    (tx && (rc = set_option(s, XDP_TX_RING, &tx_size, sizeof(tx_size))) < 0))
		return rc;
	if (getsockopt(s->fd, SOL_XDP, XDP_MMAP_OFFSETS, &off, &len) < 0)
		return -errno;
	if (len != sizeof(off))
		return -ENOTSUP; /* before Linux 5.4 */

	if (!(base = ring_map(s, RING_FILL, &off.fr, fill)))
		return -errno;
	RING_ATTACH(&s->fill, base, &off.fr, fill);
	s->fill.cached_cons += fill;
	if (!(base = ring_map(s, RING_COMP, &off.cr, comp)))
		return -errno;
	RING_ATTACH(&s->comp, base, &off.cr, comp);
	if (!(base = ring_map(s, RING_RX, &off.rx, rx)))
		return -errno;
	RING_ATTACH(&s->rx, base, &off.rx, rx);
	if (!tx)
		return 0;
	if (!(base = ring_map(s, RING_TX, &off.tx, tx_size)))
		return -errno;
	RING_ATTACH(&s->tx, base, &off.tx, tx_size);
	s->tx.cached_cons += tx_size;
	return 0;
}

/* Copy mode makes an sk_buff of each packet: let more of them be sent by one call and be in flight
 * than the defaults. Both are wishes; an older kernel or fewer rights only cost speed. */
static void tune_tx(const struct xsk_sock *s)
{
	int budget = TX_SKB_BUDGET, bytes = SEND_BUFFER;

	(void)setsockopt(s->fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, sizeof(budget));
	if (setsockopt(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

static int register_umem(const struct xsk_sock *s, const struct umem *u)
{
	/* Headroom 0: the kernel leaves 256 bytes (XDP_PACKET_HEADROOM) free anyway. */
	struct xdp_umem_reg reg = {
		.addr = (uint64_t)(uintptr_t)u->area, .len = u->size, .chunk_size = u->chunk};

	return set_option(s, XDP_UMEM_REG, &reg, sizeof(reg));
}

static int bind_retrying(const struct xsk_sock *s, const struct xsk_socket_spec *spec,
			 uint64_t deadline_ms)
{
	struct sockaddr_xdp addr = {.sxdp_family = AF_XDP,
				    .sxdp_ifindex = (uint32_t)spec->ifindex,
				    .sxdp_queue_id = spec->queue};

	if (spec->shared_fd >= 0) { /* mode and need-wakeup are taken from the first socket */
		addr.sxdp_flags = XDP_SHARED_UMEM;
		addr.sxdp_shared_umem_fd = (uint32_t)spec->shared_fd;
	} else {
		addr.sxdp_flags = (uint16_t)(XDP_USE_NEED_WAKEUP |
					     (spec->zerocopy ? XDP_ZEROCOPY : XDP_COPY) |
					     (spec->multi ? XDP_USE_SG : 0));
	}
	while (bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno != EBUSY || clock_now_ms() >= deadline_ms)
			return -errno;
		usleep(BUSY_RETRY_US);
	}
	return 0;
}

static const char *likely_cause(int rc, const struct xsk_socket_spec *spec)
{
	if (rc == -EBUSY)
		return " (another program has an AF_XDP socket on it)";
	if (rc == -ENOBUFS)
		return " (locked memory has a limit: ulimit -l unlimited, LimitMEMLOCK=infinity or "
		       "--keep-ipc-lock)";
	if (spec->multi && (rc == -EINVAL || rc == -EOPNOTSUPP))
		return " (an MTU above " XSK_MTU_MAX_TEXT " needs multi-buffer XDP: Linux 6.6, and "
		       "the driver)";
	return "";
}

static int socket_error(struct error *err, int rc, const struct xsk_socket_spec *spec,
			const char *what)
{
	return error_set(err, rc, "%s queue %u: cannot %s: %s%s", spec->ifname, spec->queue, what,
			 strerror(-rc), likely_cause(rc, spec));
}

int xsk_socket_make(struct xsk_sock *s, const struct xsk_socket_spec *spec, struct error *err)
{
	const char *what = "open an AF_XDP socket";
	int rc;

	memset(s, 0, sizeof(*s));
	s->id = spec->id;
	s->fill_max = XSK_FILL_SIZE;
	s->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (s->fd < 0) {
		rc = -errno;
		goto fail;
	}
	if (spec->shared_fd < 0) {
		what = "register packet memory";
		rc = register_umem(s, spec->umem);
		if (rc < 0)
			goto fail;
	}
	what = "set up the rings";
	rc = create_rings(s, spec->tx);
	if (rc < 0)
		goto fail;
	if (spec->tx)
		tune_tx(s);
	return 0;
fail:
	xsk_socket_close(s);
	return socket_error(err, rc, spec, what);
}

int xsk_socket_bind(const struct xsk_sock *s, const struct xsk_socket_spec *spec,
		    uint64_t deadline_ms, struct error *err)
{
	int rc = bind_retrying(s, spec, deadline_ms);

	return rc < 0 ? socket_error(err, rc, spec,
				     spec->zerocopy ? "bind in zero-copy mode" : "bind")
		      : 0;
}

int xsk_socket_open(struct xsk_sock *s, const struct xsk_socket_spec *spec, uint64_t deadline_ms,
		    struct error *err)
{
	int rc = xsk_socket_make(s, spec, err);

	if (rc < 0)
		return rc;
	xsk_socket_refill(s, spec->umem);
	rc = xsk_socket_bind(s, spec, deadline_ms, err);
	if (rc < 0)
		xsk_socket_close(s);
	return rc;
}

void xsk_socket_close(struct xsk_sock *s)
{
	for (unsigned i = 0; i < ARRAY_LEN(s->maps); i++)
		if (s->maps[i].at)
			munmap(s->maps[i].at, s->maps[i].len);
	if (s->fd >= 0)
		close(s->fd);
	memset(s, 0, sizeof(*s));
	s->fd = -1;
}

bool xsk_socket_is_zerocopy(const struct xsk_sock *s)
{
	struct xdp_options o = {0};
	socklen_t len = sizeof(o);

	return getsockopt(s->fd, SOL_XDP, XDP_OPTIONS, &o, &len) == 0 &&
	       (o.flags & XDP_OPTIONS_ZEROCOPY);
}

/* The kernel sets it when the device is unregistered, and for nothing else. */
bool xsk_socket_is_dead(const struct xsk_sock *s)
{
	int error = 0;
	socklen_t len = sizeof(error);

	return getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ENETDOWN;
}

/* An empty fill ring is in rx_dropped too in copy mode, and in zero-copy mode its own counter
 * counts tries of the driver, not packets. */
uint64_t xsk_socket_rx_lost(const struct xsk_sock *s)
{
	struct xdp_statistics st = {0};
	socklen_t len = sizeof(st);

	if (getsockopt(s->fd, SOL_XDP, XDP_STATISTICS, &st, &len) < 0)
		return 0;
	return st.rx_dropped + st.rx_ring_full;
}

/* The kernel shows a frame in the RX ring before it gives the frame's place in the fill ring back,
 * so the ring may have less room than the frames that we hold: the rest waits for the next round.
 */
void xsk_socket_refill(struct xsk_sock *s, struct umem *u)
{
	uint32_t n = s->fill_max > s->n_posted ? s->fill_max - s->n_posted : 0, at = 0;
	uint32_t room = xsk_prod_nb_free(&s->fill, n);

	if (n > room)
		n = room;
	if (n > u->n_free)
		n = u->n_free;
	if (n == 0)
		return;
	uint32_t got = xsk_ring_prod__reserve(&s->fill, n, &at);
	assert(got == n);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t addr = umem_get(u);

		umem_hold(u, addr, s->id);
		*xsk_ring_prod__fill_addr(&s->fill, at + i) = addr;
	}
	xsk_ring_prod__submit(&s->fill, n);
	s->n_posted += n;
}

void xsk_socket_reap(struct xsk_sock *s, struct umem *u)
{
	uint32_t at = 0;
	uint32_t n = xsk_ring_cons__peek(&s->comp, XSK_TX_SIZE, &at);

	if (n == 0)
		return;
	assert(n <= s->n_tx_out);
	for (uint32_t i = 0; i < n; i++)
		umem_put(u, *xsk_ring_cons__comp_addr(&s->comp, at + i));
	xsk_ring_cons__release(&s->comp, n);
	s->n_tx_out -= n;
}

/* In copy mode a call sends a limited number and says EAGAIN when there is more: go on as long as
 * it gets somewhere. ENETDOWN (link down), EBUSY and ENOBUFS (queue of the device full) pass; the
 * frames stay in the ring for the next round. */
void xsk_socket_kick(struct xsk_sock *s)
{
	uint32_t waiting = xsk_socket_tx_waiting(s);

	if (waiting == 0 || !xsk_ring_prod__needs_wakeup(&s->tx))
		return;
	for (;;) {
		if (sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0 || errno != EAGAIN)
			return;
		uint32_t left = xsk_socket_tx_waiting(s);
		if (left == 0 || left == waiting)
			return;
		waiting = left;
	}
}
