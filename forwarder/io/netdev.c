#include "io/netdev.h"

#include <dirent.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* RX queues of a driver that has no ethtool channels, by the directories of sysfs. */
static unsigned count_queue_dirs(const char *name)
{
	char path[64];
	unsigned n = 0;

	snprintf(path, sizeof(path), "/sys/class/net/%s/queues", name);
	DIR *d = opendir(path);
	if (!d)
		return 0;
	for (const struct dirent *e; (e = readdir(d)) != NULL;)
		n += strncmp(e->d_name, "rx-", 3) == 0;
	closedir(d);
	return n;
}

static unsigned count_rx_queues(int fd, const char *name)
{
	struct ethtool_channels ch = {.cmd = ETHTOOL_GCHANNELS};
	struct ifreq req = {.ifr_data = (char *)&ch};
	unsigned n = 0;

	memcpy(req.ifr_name, name, strlen(name));
	if (ioctl(fd, SIOCETHTOOL, &req) == 0)
		n = ch.combined_count + ch.rx_count;
	if (n == 0)
		n = count_queue_dirs(name);
	return n ? n : 1;
}

static void read_driver(int fd, struct xsk_iface *i)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq req = {.ifr_data = (char *)&info};

	memcpy(req.ifr_name, i->name, sizeof(req.ifr_name));
	if (ioctl(fd, SIOCETHTOOL, &req) == 0)
		snprintf(i->driver, sizeof(i->driver), "%s", info.driver);
}

bool netdev_is_gone(int ifindex)
{
	char name[IF_NAMESIZE];

	return !if_indextoname((unsigned)ifindex, name) && errno == ENXIO;
}

bool netdev_read_link(int ifindex, struct netdev_link *out)
{
	struct netdev_link link = {0};
	struct ifreq req = {0};

	if (!if_indextoname((unsigned)ifindex, link.name))
		return false;
	memcpy(req.ifr_name, link.name, sizeof(req.ifr_name));
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	int rc = ioctl(fd, SIOCGIFFLAGS, &req);
	if (rc == 0) {
		link.up = req.ifr_flags & IFF_UP;
		link.carrier = req.ifr_flags & IFF_RUNNING;
		rc = ioctl(fd, SIOCGIFHWADDR, &req);
	}
	close(fd);
	if (rc < 0)
		return false;
	memcpy(link.mac, req.ifr_hwaddr.sa_data, sizeof(link.mac));
	*out = link;
	return true;
}

int netdev_read(const char *name, struct xsk_iface *out, struct error *err)
{
	struct ifreq req = {0};
	struct xsk_iface i = {0};
	int rc = 0;

	if (strlen(name) == 0 || strlen(name) >= IFNAMSIZ)
		return error_set(err, -ENODEV, "'%s': not an interface name", name);
	memcpy(req.ifr_name, name, strlen(name));
	memcpy(i.name, name, strlen(name));
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(err, -errno, "%s: cannot open a socket: %s", name,
				 strerror(errno));
	if (ioctl(fd, SIOCGIFINDEX, &req) < 0)
		goto fail;
	i.ifindex = req.ifr_ifindex;
	if (ioctl(fd, SIOCGIFHWADDR, &req) < 0)
		goto fail;
	if (req.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
		rc = error_set(err, -EINVAL, "%s: not an Ethernet interface", name);
		goto out;
	}
	memcpy(i.mac, req.ifr_hwaddr.sa_data, sizeof(i.mac));
	if (ioctl(fd, SIOCGIFMTU, &req) < 0)
		goto fail;
	i.mtu = (unsigned)req.ifr_mtu;
	i.n_queues = count_rx_queues(fd, i.name);
	read_driver(fd, &i);
	*out = i;
	goto out;
fail:
	rc = error_set(err, -errno, "%s: %s", name,
		       errno == ENODEV ? "no such interface" : strerror(errno));
out:
	close(fd);
	return rc;
}

int netdev_open_events(struct error *err)
{
	const struct sockaddr_nl links = {.nl_family = AF_NETLINK,
					  .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
						       RTMGRP_IPV6_IFADDR};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&links, sizeof(links)) == 0)
		return fd;
	int rc = error_set(err, -errno, "cannot watch the interfaces: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

void netdev_drain_events(int fd)
{
	char cut[64]; /* the rest of a message is lost, which does no harm */

	/* ENOBUFS says that some were lost, once. */
	while (recv(fd, cut, sizeof(cut), 0) >= 0 || errno == ENOBUFS || errno == EINTR)
		;
}
