/* Opening and closing: which queue belongs to which worker, which mode all can have, and steer.
 *
 * One mode for all interfaces, since a UMEM that is shared between sockets takes one. Zero-copy is
 * decided by binding, native or generic by attaching; both fall back in auto mode, with a line that
 * says why. Queue q of every interface belongs to worker q mod n_workers, so every worker has a
 * queue, and thereby a TX ring of its own, on every interface. */
#include "io/port_xsk.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/netdev.h"
#include "io/steer_map.h"
#include "io/xsk_impl.h"

#define BUSY_MS 2000

const char *xdp_mode_name(enum xdp_mode mode)
{
	static const char *const names[] = {"auto", "zerocopy", "copy", "generic"};

	return names[mode];
}

/* --- the plan -----------------------------------------------------------------------------------
 */

static int read_ifaces(struct xsk *x, const struct xsk_config *c, struct error *err)
{
	if (c->n_ifaces < 1 || c->n_ifaces > IFACES_MAX)
		return error_set(err, -EINVAL, "1 to %d interfaces are possible, not %u",
				 IFACES_MAX, c->n_ifaces);
	for (unsigned i = 0; i < c->n_ifaces; i++) {
		struct xsk_iface *f = &x->ifaces[i];
		int rc = netdev_read(c->ifaces[i], f, err);

		if (rc < 0)
			return rc;
		for (unsigned k = 0; k < i; k++)
			if (x->ifaces[k].ifindex == f->ifindex)
				return error_set(err, -EINVAL, "%s: named twice", f->name);
		if (f->mtu > XSK_MTU_JUMBO)
			return error_set(
				err, -EMSGSIZE,
				"%s: MTU %u is too large, the limit is %d (ip link set dev "
				"%s mtu %d)",
				f->name, f->mtu, XSK_MTU_JUMBO, f->name, XSK_MTU_JUMBO);
		if (f->n_queues > STEER_QUEUES_MAX)
			return error_set(err, -E2BIG, "%s: has %u RX queues, the limit is %d",
					 f->name, f->n_queues, STEER_QUEUES_MAX);
	}
	x->n_ifaces = c->n_ifaces;
	x->frames = xsk_frames_plan(x->ifaces, x->n_ifaces, c->mode);
	return 0;
}

/* RX queues of worker w on an interface. */
static unsigned share(const struct xsk_iface *f, unsigned w, unsigned n_workers)
{
	return (f->n_queues - w + n_workers - 1) / n_workers;
}

static unsigned worker_queues(const struct xsk *x, unsigned w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < x->n_ifaces; i++)
		n += share(&x->ifaces[i], w, x->n_workers);
	return n;
}

static int plan_workers(struct xsk *x, unsigned wanted, struct error *err)
{
	const struct xsk_iface *smallest = &x->ifaces[0];

	for (unsigned i = 1; i < x->n_ifaces; i++)
		if (x->ifaces[i].n_queues < smallest->n_queues)
			smallest = &x->ifaces[i];
	if (wanted > smallest->n_queues)
		return error_set(err, -EINVAL,
				 "%u workers need as many RX queues on every interface, but %s has "
				 "only %u",
				 wanted, smallest->name, smallest->n_queues);
	x->n_workers = wanted;
	if (wanted == 0) {
		long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
		unsigned most = n_cpus > 2 ? (unsigned)n_cpus - 1 : 1;

		x->n_workers = smallest->n_queues < most ? smallest->n_queues : most;
	}
	if (worker_queues(x, 0) > PORT_QUEUES_MAX)
		return error_set(
			err, -E2BIG,
			"a worker would get %u RX queues, the limit is %d: use more workers "
			"or fewer queues (ethtool -L)",
			worker_queues(x, 0), PORT_QUEUES_MAX);
	return 0;
}

static int alloc_ports(struct xsk *x, struct error *err)
{
	x->ports = calloc(x->n_workers, sizeof(struct xsk_port *));
	if (!x->ports)
		goto fail;
	for (unsigned w = 0; w < x->n_workers; w++) {
		x->ports[w] = xsk_port_new(x->n_ifaces);
		if (!x->ports[w])
			goto fail;
	}
	return 0;
fail:
	return error_set(err, -ENOMEM, "no memory for %u workers", x->n_workers);
}

static int load_steer(struct xsk *x, struct error *err)
{
	int ifindexes[IFACES_MAX];

	for (unsigned i = 0; i < x->n_ifaces; i++)
		ifindexes[i] = x->ifaces[i].ifindex;
	int rc = steer_open(x->n_ifaces, ifindexes, xsk_frames_longest(&x->frames), x->frames.multi,
			    &x->steer, err);
	for (unsigned i = 0; rc == 0 && i < x->n_ifaces; i++)
		steer_set_mac(x->steer, i, x->ifaces[i].mac);
	return rc;
}

/* --- sockets ------------------------------------------------------------------------------------
 */

static void close_sockets(struct xsk *x)
{
	for (unsigned w = 0; w < x->n_workers; w++)
		xsk_port_close(x->ports[w]);
}

static int open_worker(struct xsk *x, unsigned w, bool zerocopy, uint64_t deadline_ms,
		       struct error *err)
{
	struct xsk_port *p = x->ports[w];

	if (xsk_port_init_umem(p, worker_queues(x, w), x->frames.chunk, x->frames.multi) < 0)
		return error_set(err, -ENOMEM, "no memory for the frames of worker %u", w);
	for (unsigned i = 0; i < x->n_ifaces; i++) {
		const struct xsk_iface *f = &x->ifaces[i];

		for (unsigned q = w; q < f->n_queues; q += x->n_workers) {
			int rc = xsk_port_add_queue(p, i, f->name, f->ifindex, q, zerocopy,
						    deadline_ms, err);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

int xsk_enter(struct xsk *x, const struct xsk_sock *s, struct error *err)
{
	uint32_t key = s->queue;

	if (bpf_map_update_elem(steer_xskmap_fd(x->steer, s->iface), &key, &s->fd, BPF_ANY) < 0)
		return error_set(err, -errno, "%s queue %u: cannot enter XSKMAP: %s",
				 x->ifaces[s->iface].name, s->queue, strerror(errno));
	return 0;
}

int xsk_list_queues(struct xsk *x)
{
	unsigned n = 0;

	for (unsigned w = 0; w < x->n_workers; w++)
		n += x->ports[w]->port.n_queues;
	struct xsk_queue *list = calloc(n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	free(x->queues);
	x->queues = list;
	x->n_queues = n;
	for (unsigned w = 0; w < x->n_workers; w++) {
		const struct xsk_port *p = x->ports[w];

		for (unsigned k = 0; k < p->port.n_queues; k++, list++) {
			const struct xsk_sock *s = &p->socks[k];

			memcpy(list->iface, x->ifaces[s->iface].name, sizeof(list->iface));
			list->queue = s->queue;
			list->worker = w;
			list->mode = x->mode == XDP_MODE_ZEROCOPY && !xsk_socket_is_zerocopy(s)
					     ? XDP_MODE_COPY
					     : x->mode;
		}
	}
	return 0;
}

/* Enter all sockets in the XSKMAPs and in the list for status. */
static int publish_sockets(struct xsk *x, struct error *err)
{
	int rc = 0;

	for (unsigned w = 0; rc == 0 && w < x->n_workers; w++)
		for (unsigned k = 0; rc == 0 && k < x->ports[w]->port.n_queues; k++)
			rc = xsk_enter(x, &x->ports[w]->socks[k], err);
	if (rc == 0 && xsk_list_queues(x) < 0)
		rc = error_set(err, -ENOMEM, "no memory");
	return rc;
}

/* Open all sockets for a mode; on an error none is left. */
static int open_sockets(struct xsk *x, enum xdp_mode mode, struct error *err)
{
	uint64_t deadline_ms = clock_now_ms() + BUSY_MS;
	int rc = 0;

	for (unsigned i = 0; i < x->n_ifaces && rc == 0 && mode == XDP_MODE_ZEROCOPY; i++)
		rc = xsk_frames_check_zerocopy(&x->frames, &x->ifaces[i], err);
	for (unsigned w = 0; w < x->n_workers && rc == 0; w++)
		rc = open_worker(x, w, mode == XDP_MODE_ZEROCOPY, deadline_ms, err);
	x->mode = mode;
	if (rc == 0)
		rc = publish_sockets(x, err);
	if (rc < 0)
		close_sockets(x);
	return rc;
}

/* Zero-copy if every interface takes it, else copy. */
static int open_sockets_auto(struct xsk *x, struct error *err)
{
	struct error why;

	if (steer_found_generic(x->steer)) {
		log_info(XSK_WHO,
			 "staying in generic mode (an earlier process left its program there; "
			 "--detach or --xdp-mode changes it)");
		return open_sockets(x, XDP_MODE_GENERIC, err);
	}
	int rc = open_sockets(x, XDP_MODE_ZEROCOPY, &why);
	if (rc == -EBUSY || rc == -ENOMEM)
		return error_set(err, rc, "%s", why.message);
	if (rc < 0) {
		log_info(XSK_WHO, "no zero-copy mode, using copy mode (%s)", why.message);
		rc = open_sockets(x, XDP_MODE_COPY, err);
	}
	return rc;
}

/* --- the public part ----------------------------------------------------------------------------
 */

/* BPF maps and UMEM count as locked memory for some kernels and users; a wish. */
static void raise_memlock(void)
{
	const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit now;

	if (setrlimit(RLIMIT_MEMLOCK, &all) < 0 && getrlimit(RLIMIT_MEMLOCK, &now) == 0) {
		now.rlim_cur = now.rlim_max;
		(void)setrlimit(RLIMIT_MEMLOCK, &now);
	}
}

int xsk_open(const struct xsk_config *c, struct xsk **out, struct error *err)
{
	struct xsk *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return error_set(err, -ENOMEM, "no memory");
	pthread_mutex_init(&x->mutex, NULL);
	x->wanted = c->mode;
	raise_memlock();
	if ((rc = read_ifaces(x, c, err)) < 0 || (rc = plan_workers(x, c->n_workers, err)) < 0 ||
	    (rc = alloc_ports(x, err)) < 0 || (rc = load_steer(x, err)) < 0)
		goto fail;
	if (c->mode == XDP_MODE_AUTO)
		rc = open_sockets_auto(x, err);
	else
		rc = open_sockets(x, c->mode, err);
	if (rc < 0)
		goto fail;
	*out = x;
	return 0;
fail:
	xsk_close(x);
	return rc;
}

uint32_t xsk_attach_flags(const struct xsk *x)
{
	return x->mode == XDP_MODE_GENERIC ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
}

static void use_mode(struct xsk *x, enum xdp_mode mode)
{
	x->mode = mode;
	for (unsigned i = 0; i < x->n_queues; i++)
		x->queues[i].mode = mode;
}

void xsk_follow_macs(struct xsk *x)
{
	for (unsigned i = 0; i < x->n_ifaces; i++) {
		struct netdev_link link;
		char text[MAC_STRLEN];

		if (netdev_read_link(x->ifaces[i].ifindex, &link) &&
		    steer_set_mac(x->steer, i, link.mac))
			log_info(XSK_WHO, "%s: its MAC address is %s now", link.name,
				 mac_format(link.mac, text));
	}
}

void xsk_set_own_addresses(struct xsk *x, const struct ip_addr *list, size_t n)
{
	steer_set_own_addresses(x->steer, list, n);
}

int xsk_attach(struct xsk *x, struct error *err)
{
	struct error why;

	xsk_follow_macs(x); /* since xsk_open */
	int rc = steer_attach(x->steer, xsk_attach_flags(x), &why);

	/* -EPERM is a foreign program or lack of rights: no other mode would help. */
	if (rc < 0 && rc != -EPERM && x->wanted == XDP_MODE_AUTO && x->mode == XDP_MODE_ZEROCOPY) {
		log_info(XSK_WHO, "no zero-copy mode, using copy mode (%s)", why.message);
		close_sockets(x);
		rc = open_sockets(x, XDP_MODE_COPY, &why);
		if (rc < 0)
			return error_set(err, rc, "%s", why.message);
		rc = steer_attach(x->steer, XDP_FLAGS_DRV_MODE, &why);
	}
	if (rc < 0 && rc != -EPERM && x->wanted == XDP_MODE_AUTO && x->mode == XDP_MODE_COPY) {
		log_info(XSK_WHO, "no native mode, using generic mode, which is slow (%s)",
			 why.message);
		rc = steer_attach(x->steer, XDP_FLAGS_SKB_MODE, &why);
		if (rc == 0)
			use_mode(x, XDP_MODE_GENERIC);
	}
	if (rc < 0)
		return error_set(err, rc, "%s", why.message);
	for (unsigned i = 0; i < x->n_ifaces; i++)
		log_info(XSK_WHO, "%s: attached, %s mode, %u RX queues", x->ifaces[i].name,
			 xdp_mode_name(x->mode), x->ifaces[i].n_queues);
	return 0;
}

void xsk_close(struct xsk *x)
{
	if (!x)
		return;
	for (unsigned w = 0; x->ports && w < x->n_workers; w++)
		xsk_port_free(x->ports[w]);
	steer_close(x->steer);
	pthread_mutex_destroy(&x->mutex);
	free(x->ports);
	free(x->queues);
	free(x);
}

unsigned xsk_n_workers(const struct xsk *x)
{
	return x->n_workers;
}

struct port *xsk_port(struct xsk *x, unsigned worker)
{
	assert(worker < x->n_workers);
	return &x->ports[worker]->port;
}

unsigned xsk_queues(const struct xsk *x, const struct xsk_queue **queues)
{
	*queues = x->queues;
	return x->n_queues;
}

unsigned xsk_copy_queues(struct xsk *x, struct xsk_queue **queues)
{
	pthread_mutex_lock(&x->mutex);
	unsigned n = x->n_queues;
	*queues = calloc(n + 1, sizeof(**queues));
	if (*queues)
		memcpy(*queues, x->queues, n * sizeof(**queues));
	pthread_mutex_unlock(&x->mutex);
	return *queues ? n : 0;
}

unsigned xsk_ifaces(const struct xsk *x, const struct xsk_iface **ifaces)
{
	*ifaces = x->ifaces;
	return x->n_ifaces;
}

int xsk_detach(const struct xsk *x, unsigned iface, struct error *err)
{
	return steer_detach_own(x->steer, iface, xsk_attach_flags(x), err);
}

uint32_t xsk_program_id(const struct xsk *x, unsigned iface)
{
	return steer_program_id(x->steer, iface);
}

unsigned xsk_mtu_limit(const struct xsk *x)
{
	return xsk_frames_mtu(&x->frames);
}

enum hugemem_kind xsk_umem_memory(const struct xsk *x)
{
	return x->ports[0]->umem.kind;
}

uint64_t xsk_rx_kernel_drops(struct xsk *x)
{
	uint64_t redirected, refused;

	pthread_mutex_lock(&x->mutex);
	uint64_t sum = x->rx_lost;
	for (unsigned w = 0; w < x->n_workers; w++)
		for (unsigned k = 0; k < x->ports[w]->port.n_queues; k++)
			sum += xsk_socket_rx_lost(&x->ports[w]->socks[k]);
	pthread_mutex_unlock(&x->mutex);
	for (unsigned i = 0; i < x->n_ifaces; i++)
		for (unsigned q = 0; q < STEER_QUEUES_MAX; q++) {
			steer_read_queue(x->steer, i, q, &redirected, &refused);
			sum += refused;
		}
	return sum;
}

uint64_t xsk_rx_too_big(const struct xsk *x)
{
	return steer_read_too_big(x->steer);
}
