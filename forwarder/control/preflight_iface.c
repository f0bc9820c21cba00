/* What can be wrong with one interface: traps that people met with XDP on real drivers. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/preflight_report.h"
#include "io/netdev.h"
#include "io/xdp_probe.h"

struct iface {
	const struct preflight *p;
	struct findings *r;
	struct xsk_iface dev;
	int fd; /* a socket for ioctls */
};

static int ask(const struct iface *i, unsigned long request, void *data, struct ifreq *req)
{
	memset(req, 0, sizeof(*req));
	memcpy(req->ifr_name, i->dev.name, sizeof(req->ifr_name));
	if (data)
		req->ifr_data = data;
	return ioctl(i->fd, request, req);
}

static void check_link(struct iface *i)
{
	struct ifreq req;
	char fix[64];

	snprintf(fix, sizeof(fix), "ip link set dev %s up", i->dev.name);
	if (ask(i, SIOCGIFFLAGS, NULL, &req))
		return;
	if (!(req.ifr_flags & IFF_UP))
		report_note(i->r, fix, "%s: the interface is down", i->dev.name);
	else if (!(req.ifr_flags & IFF_RUNNING))
		report_note(i->r, NULL, "%s: there is no carrier", i->dev.name);
}

static void check_driver(struct iface *i)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq req;

	bool known = ask(i, SIOCETHTOOL, &info, &req) == 0;
	report_ok(i->r, "%s: driver %s, %u RX queues, MTU %u", i->dev.name,
		  known ? info.driver : "unknown", i->dev.n_queues, i->dev.mtu);
}

static void check_queues(struct iface *i)
{
	char fix[96];

	if (i->p->n_workers <= i->dev.n_queues)
		return;
	snprintf(fix, sizeof(fix), "ethtool -L %s combined %u    (or: rx %u), or fewer --workers",
		 i->dev.name, i->p->n_workers, i->p->n_workers);
	report_block(i->r, fix, "%s: %u RX queues for %u workers", i->dev.name, i->dev.n_queues,
		     i->p->n_workers);
}

static void check_mtu(struct iface *i)
{
	const unsigned max = XSK_MTU_JUMBO;
	char fix[64];

	snprintf(fix, sizeof(fix), "ip link set dev %s mtu %u", i->dev.name, max);
	if (i->dev.mtu > max)
		report_block(i->r, fix, "%s: MTU %u, but frames up to %u are forwarded",
			     i->dev.name, i->dev.mtu, max);
}

static void check_program(struct iface *i)
{
	struct xdp_probe x;
	struct error err;
	char fix[64];

	if (i->p->running)
		return; /* what is attached is watched; who it is, a running one may not ask */
	if (xdp_probe_read(i->dev.ifindex, &x, &err)) {
		report_note(i->r, NULL, "%s: %s", i->dev.name, err.message);
		return;
	}
	snprintf(fix, sizeof(fix), "ip link set dev %s xdp off", i->dev.name);
	if (x.id && !x.ours)
		report_block(i->r, fix, "%s: carries another XDP program (\"%s\", id %u)",
			     i->dev.name, x.name, x.id);
	else if (x.id)
		report_ok(i->r, "%s: steer is attached (%s); a start replaces it", i->dev.name,
			  x.generic ? "generic" : "native");
}

void preflight_ifaces(const struct preflight *p, struct findings *r)
{
	static void (*const checks[])(struct iface *) = {check_link, check_driver, check_queues,
							 check_mtu, check_program};
	struct iface i = {.p = p, .r = r, .fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
	struct error err;

	if (!p->n_ifaces)
		report_note(r, "concuryd --check --interface IF", "interfaces: none is named");
	for (unsigned k = 0; k < p->n_ifaces; k++) {
		if (netdev_read(p->ifaces[k], &i.dev, &err)) {
			report_block(r, "ip -brief link    (shows the names)", "%s", err.message);
			continue;
		}
		for (size_t c = 0; c < ARRAY_LEN(checks); c++)
			checks[c](&i);
		preflight_queues(p, &i.dev, i.fd, r);
	}
	if (i.fd >= 0)
		close(i.fd);
}
