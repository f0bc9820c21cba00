#include "api/client/agent_orphans.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define RST_ACK 0x14
#define RST 0x04

struct agent_orphans {
	int fd;
};

/* Passes what leaves this machine and is TCP, not a later fragment, with RST and without ACK.
 * Packets start at their IP header; the kernel sends such RSTs without IPv6 extension headers. */
static const struct sock_filter only_resets[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (unsigned)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 15),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (unsigned)(SKF_AD_OFF + SKF_AD_PROTOCOL)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 8, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 12),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9), /* protocol */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 10),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6), /* fragment offset */
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 8, 0),
	BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, 13), /* flags */
	BPF_JUMP(BPF_JMP | BPF_JA, 3, 0, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 6), /* next header */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 3),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 40 + 13), /* flags */
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, RST_ACK),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RST, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, 0),
	BPF_STMT(BPF_RET | BPF_K, 64), /* as much as holds the addresses and ports */
};

int agent_orphans_open(struct agent_orphans **out, struct error *err)
{
	struct sock_fprog program = {.len = ARRAY_LEN(only_resets),
				     .filter = (struct sock_filter *)only_resets};
	struct agent_orphans *o = calloc(1, sizeof(*o));

	if (!o)
		return error_set(err, -ENOMEM, "out of memory");
	/* Protocol 0 receives nothing: the filter is there before the first packet is. */
	o->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	if (o->fd < 0 ||
	    setsockopt(o->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	    bind(o->fd, (struct sockaddr *)&all, sizeof(all))) {
		int rc = -errno;
		agent_orphans_close(o);
		return error_set(err, rc, "a packet socket: %s", strerror(-rc));
	}
	*out = o;
	return 0;
}

void agent_orphans_close(struct agent_orphans *o)
{
	if (!o)
		return;
	if (o->fd >= 0)
		close(o->fd);
	free(o);
}

int agent_orphans_fd(const struct agent_orphans *o)
{
	return o->fd;
}

static bool is_from(const uint8_t *p, size_t n, const struct agent_vip *vips, unsigned n_vips)
{
	struct ip_addr src;
	size_t tcp;

	if (n >= 24 && p[0] >> 4 == 4) {
		src = ip_addr_v4(p + 12);
		tcp = (p[0] & 15u) * 4;
	} else if (n >= 44 && p[0] >> 4 == 6) {
		memcpy(src.b, p + 8, sizeof(src.b));
		tcp = 40;
	} else {
		return false;
	}
	if (tcp + 2 > n)
		return false;
	unsigned port = (unsigned)p[tcp] << 8 | p[tcp + 1];
	for (unsigned i = 0; i < n_vips; i++)
		if (agent_vip_has_address(&vips[i], &src) &&
		    agent_vip_has_port(&vips[i], (uint16_t)port) && vips[i].proto != IPPROTO_UDP)
			return true;
	return false;
}

uint64_t agent_orphans_read(struct agent_orphans *o, const struct agent_vip *vips, unsigned n_vips)
{
	uint8_t packet[64];
	uint64_t count = 0;
	ssize_t n;

	while ((n = recv(o->fd, packet, sizeof(packet), 0)) >= 0)
		count += is_from(packet, (size_t)n, vips, n_vips);
	return count;
}
