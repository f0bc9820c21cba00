#include "tests/experiment/lane.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/netns.h"

#define RX_BUFFER (16 << 20)

static int must(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %m\n", what);
		exit(EXIT_FAILURE);
	}
	return rc;
}

static void set_option(int fd, int level, int option, int value)
{
	must(setsockopt(fd, level, option, &value, sizeof(value)), "socket option");
}

void lane_open(struct lane *l, const char *netns)
{
	char path[128];
	int home = must(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), "own namespace");

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	int ns = must(open(path, O_RDONLY | O_CLOEXEC), path);
	netns_enter(ns);
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_IP),
				 .sll_ifindex = (int)if_nametoindex("eth0")};
	l->n = 0;
	l->fd = must(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP)), "socket");
	set_option(l->fd, SOL_SOCKET, SO_RCVBUFFORCE, RX_BUFFER);
	set_option(l->fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
	must(bind(l->fd, (struct sockaddr *)&at, sizeof(at)), "bind");
	netns_enter(home);
	close(ns);
	close(home);
}

void lane_close(struct lane *l)
{
	close(l->fd);
}

uint8_t *lane_frame(struct lane *l)
{
	return l->frames[l->n];
}

void lane_queue(struct lane *l, uint32_t len)
{
	l->len[l->n++] = len;
	if (l->n == LANE_BURST)
		lane_flush(l);
}

void lane_flush(struct lane *l)
{
	struct mmsghdr m[LANE_BURST] = {0};
	struct iovec v[LANE_BURST];

	for (unsigned k = 0; k < l->n; k++) {
		v[k] = (struct iovec){l->frames[k], l->len[k]};
		m[k].msg_hdr.msg_iov = &v[k];
		m[k].msg_hdr.msg_iovlen = 1;
	}
	for (unsigned at = 0; at < l->n;) {
		int n = sendmmsg(l->fd, m + at, l->n - at, 0);
		if (n < 0 && errno != ENOBUFS && errno != EINTR)
			must(n, "send");
		at += n > 0 ? (unsigned)n : errno == ENOBUFS;
	}
	l->n = 0;
}

void lane_poll(struct lane *l, void (*take)(void *ctx, const uint8_t *frame, uint32_t len),
	       void *ctx)
{
	uint8_t frames[LANE_BURST][LANE_FRAME_MAX];
	struct mmsghdr m[LANE_BURST];
	struct iovec v[LANE_BURST];
	int n;

	do {
		memset(m, 0, sizeof(m));
		for (unsigned k = 0; k < LANE_BURST; k++) {
			v[k] = (struct iovec){frames[k], LANE_FRAME_MAX};
			m[k].msg_hdr.msg_iov = &v[k];
			m[k].msg_hdr.msg_iovlen = 1;
		}
		n = recvmmsg(l->fd, m, LANE_BURST, MSG_DONTWAIT, NULL);
		for (int k = 0; k < n; k++)
			take(ctx, frames[k], m[k].msg_len);
	} while (n == (int)LANE_BURST);
}
