#include "netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(condition, what)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "netns: cannot %s: %m (needs root)\n", what);              \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static int current(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	MUST(fd >= 0, "open the current namespace");
	return fd;
}

int netns_new(void)
{
	int home = current();

	MUST(unshare(CLONE_NEWNET) == 0, "make a namespace");
	int ns = current();
	MUST(netns_sh("ip link set lo up") == 0, "set lo up");
	netns_enter(home);
	close(home);
	return ns;
}

void netns_enter(int ns)
{
	MUST(setns(ns, CLONE_NEWNET) == 0, "enter a namespace");
}

int netns_sh(const char *fmt, ...)
{
	char cmd[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	int rc = system(cmd);
	return rc < 0 ? rc : WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

void netns_veth(int ns, const char *name, int peer_ns, const char *peer, unsigned n_queues)
{
	int home = current();

	netns_enter(ns);
	MUST(netns_sh("ip link add %s numrxqueues %u numtxqueues %u type veth peer name %s "
		      "numrxqueues %u numtxqueues %u netns /proc/%d/fd/%d && ip link set %s up",
		      name, n_queues, n_queues, peer, n_queues, n_queues, (int)getpid(), peer_ns,
		      name) == 0,
	     "make a veth pair");
	netns_enter(peer_ns);
	MUST(netns_sh("ip link set %s up", peer) == 0, "set a veth up");
	netns_enter(home);
	close(home);
}

int netns_packet_socket(const char *ifname)
{
	struct sockaddr_ll a = {.sll_family = AF_PACKET,
				.sll_protocol = htons(ETH_P_ALL),
				.sll_ifindex = (int)if_nametoindex(ifname)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	MUST(fd >= 0, "open a packet socket");
	MUST(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) == 0,
	     "ignore outgoing packets");
	MUST(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "bind a packet socket");
	return fd;
}

void netns_mac(const char *ifname, uint8_t mac[6])
{
	struct ifreq req = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0, "open a socket");
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	MUST(ioctl(fd, SIOCGIFHWADDR, &req) == 0, "read a MAC address");
	memcpy(mac, req.ifr_hwaddr.sa_data, 6);
	close(fd);
}
