#include "tests/experiment/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/netns.h"

#define HOST_CLIENT 1
#define BURST 32u
#define SNAP 64u /* bytes of a received frame that are looked at */
#define RX_BUFFER (64 << 20)

static int must(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %m\n", what);
		exit(EXIT_FAILURE);
	}
	return rc;
}

static int packet_socket(const char *prefix, const char *name, int proto)
{
	static const int size = RX_BUFFER;
	char path[128];
	int home = must(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), "own namespace");

	snprintf(path, sizeof(path), "/run/netns/%s%s", prefix, name);
	int ns = must(open(path, O_RDONLY | O_CLOEXEC), path);
	netns_enter(ns);
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_protocol = htons((uint16_t)proto),
				 .sll_ifindex = (int)if_nametoindex("eth0")};
	int fd = must(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons((uint16_t)proto)), "socket");
	must(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)), "receive buffer");
	must(bind(fd, (struct sockaddr *)&to, sizeof(to)), "bind");
	netns_enter(home);
	close(ns);
	close(home);
	return fd;
}

void tap_open(struct tap *t, const char *prefix)
{
	*t = (struct tap){.tx = packet_socket(prefix, "client", 0)};
	t->queue = calloc(BURST, sizeof(*t->queue));
	t->queue_len = calloc(BURST, sizeof(*t->queue_len));
	must(t->queue && t->queue_len ? 0 : -1, "memory");
	for (unsigned d = 1; d <= TAP_BACKENDS; d++) {
		char name[8];
		snprintf(name, sizeof(name), "b%u", d);
		t->rx[d] = packet_socket(prefix, name, ETH_P_IP);
	}
}

void tap_close(struct tap *t)
{
	close(t->tx);
	for (unsigned d = 1; d <= TAP_BACKENDS; d++)
		close(t->rx[d]);
	free(t->queue);
	free(t->queue_len);
}

void tap_mac(uint8_t mac[6], unsigned host)
{
	memcpy(mac, (uint8_t[]){2, 0, 0, 9, 0, (uint8_t)host}, 6);
}

void tap_send(struct tap *t, uint32_t i, uint8_t tcp_flags, uint32_t payload)
{
	static uint8_t frame[FRAMES_MAX];
	struct frames_spec s = cell_frame(i, tcp_flags, payload);

	memcpy(s.dst_mac, t->gateway, 6);
	tap_mac(s.src_mac, HOST_CLIENT);
	uint32_t len = frames_build(frame, &s);
	must(len <= sizeof(*t->queue) ? 0 : -1, "frame too long");
	memcpy(t->queue[t->n_queued], frame, len);
	t->queue_len[t->n_queued++] = len;
	if (t->n_queued == BURST)
		tap_flush(t);
}

void tap_flush(struct tap *t)
{
	struct mmsghdr m[BURST] = {0};
	struct iovec v[BURST];
	unsigned sent = 0;

	for (unsigned k = 0; k < t->n_queued; k++) {
		v[k] = (struct iovec){t->queue[k], t->queue_len[k]};
		m[k].msg_hdr.msg_iov = &v[k];
		m[k].msg_hdr.msg_iovlen = 1;
	}
	while (sent < t->n_queued) {
		int n = sendmmsg(t->tx, m + sent, t->n_queued - sent, 0);
		if (n < 0 && errno != ENOBUFS && errno != EINTR)
			must(n, "send");
		if (n > 0)
			sent += (unsigned)n;
	}
	t->n_queued = 0;
}

/* A frame to backend d's own address (a bridge that does not know it yet shows it to all of them)
 * of one of our flows. */
static uint32_t number_of(const uint8_t *f, unsigned len, unsigned d)
{
	uint8_t own[6];

	tap_mac(own, 10 + d);
	if (len < 38 || memcmp(f, own, 6) || f[14] != 0x45 || f[23] != IPPROTO_TCP)
		return UINT32_MAX;
	struct ip_addr src = ip_addr_v4(f + 26);
	return cell_number(&src, (uint16_t)(f[34] << 8 | f[35]));
}

void tap_poll(struct tap *t, void (*arrived)(void *ctx, uint32_t i, unsigned dip), void *ctx)
{
	uint8_t frames[BURST][SNAP];
	struct mmsghdr m[BURST];
	struct iovec v[BURST];
	int n;

	for (unsigned d = 1; d <= TAP_BACKENDS; d++) {
		do {
			memset(m, 0, sizeof(m));
			for (unsigned k = 0; k < BURST; k++) {
				v[k] = (struct iovec){frames[k], SNAP};
				m[k].msg_hdr.msg_iov = &v[k];
				m[k].msg_hdr.msg_iovlen = 1;
			}
			n = recvmmsg(t->rx[d], m, BURST, MSG_DONTWAIT, NULL);
			for (int k = 0; k < n; k++) {
				uint32_t i = number_of(frames[k], m[k].msg_len, d);
				if (i != UINT32_MAX)
					arrived(ctx, i, d);
			}
		} while (n == (int)BURST);
	}
}
