/* A flood of SYNs from made-up addresses, as fast as one core sends them. Usage: flood INTERFACE
 * DST_MAC SRC_MAC SECONDS; prints how many were sent. Sources are in 172.16.0.0/12: a backend that
 * has no route there answers nobody. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "tests/experiment/cell.h"

#define BURST 64u
#define FRAME_MAX 64u

static uint8_t frames[BURST][FRAME_MAX];
static struct iovec iov[BURST];
static struct mmsghdr messages[BURST];

static int open_socket(const char *ifname)
{
	static const int on = 1;
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_ifindex = (int)if_nametoindex(ifname)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&to, sizeof(to))) {
		fprintf(stderr, "%s: %m\n", ifname);
		exit(EXIT_FAILURE);
	}
	return fd;
}

static int parse_mac(const char *text, uint8_t mac[6])
{
	return sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
		      &mac[4], &mac[5]) == 6
		       ? 0
		       : -1;
}

static void fill_burst(const struct frames_spec *base, uint64_t *rng)
{
	static uint8_t frame[FRAMES_MAX];

	for (unsigned k = 0; k < BURST; k++) {
		struct frames_spec s = *base;
		uint64_t r = frames_random(rng);
		uint8_t src[4] = {172, (uint8_t)(16 | (r >> 16 & 15)), (uint8_t)(r >> 24),
				  (uint8_t)(r >> 32)};
		s.src = ip_addr_v4(src);
		s.sport = (uint16_t)(1024 + (r >> 40) % 64000);
		uint32_t len = frames_build(frame, &s);
		if (len > FRAME_MAX)
			abort();
		memcpy(frames[k], frame, len);
		iov[k] = (struct iovec){frames[k], len};
		messages[k].msg_hdr.msg_iov = &iov[k];
		messages[k].msg_hdr.msg_iovlen = 1;
	}
}

int main(int argc, char **argv)
{
	struct frames_spec base = {
		.dst = frames_ip(CELL_VIP), .dport = 80, .tcp_flags = FRAMES_SYN};
	uint64_t rng = entropy_u64() | 1;
	unsigned long sent = 0;

	if (argc != 5 || parse_mac(argv[2], base.dst_mac) || parse_mac(argv[3], base.src_mac)) {
		fprintf(stderr, "usage: flood INTERFACE DST_MAC SRC_MAC SECONDS\n");
		return EXIT_FAILURE;
	}
	int fd = open_socket(argv[1]);
	uint64_t end = clock_now_ms() + strtoul(argv[4], NULL, 10) * 1000;
	while (clock_now_ms() < end) {
		fill_burst(&base, &rng);
		int n = sendmmsg(fd, messages, BURST, 0);
		if (n < 0 && errno != ENOBUFS && errno != EINTR) {
			perror("send");
			return EXIT_FAILURE;
		}
		sent += n > 0 ? (unsigned long)n : 0;
	}
	close(fd);
	printf("%lu\n", sent);
	return EXIT_SUCCESS;
}
