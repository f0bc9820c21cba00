#include "xsk_bed.h"

#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <check.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/xsk_driver.h"
#include "netns.h"

#define N_QUEUES 2

int bed_lb, bed_peer;
uint8_t bed_macs[2][6];
static int peer_socks[2]; /* packet sockets on p0, p1 */

void bed_setup(void)
{
	bed_peer = netns_new();
	bed_lb = netns_new();
	netns_veth(bed_lb, "l0", bed_peer, "p0", N_QUEUES);
	netns_veth(bed_lb, "l1", bed_peer, "p1", N_QUEUES);
	netns_enter(bed_peer);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(netns_sh("sysctl -qw net.ipv6.conf.p%d.disable_ipv6=1", i), 0);
		peer_socks[i] = netns_packet_socket(i ? "p1" : "p0");
	}
	netns_enter(bed_lb);
	ck_assert_int_eq(netns_sh("sysctl -qw net.ipv6.conf.l1.disable_ipv6=1;"
				  "ip addr add 10.9.0.2/24 dev l0 && ip addr add " VIP
				  "/32 dev l0 &&"
				  "ip -6 addr add " VIP6 "/64 dev l0 nodad &&"
				  "ip neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev l0"),
			 0);
	netns_mac("l0", bed_macs[0]);
	netns_mac("l1", bed_macs[1]);
}

void bed_remake(unsigned iface)
{
	const char *own = iface ? "l1" : "l0", *peer = iface ? "p1" : "p0";

	close(peer_socks[iface]);
	netns_veth(bed_lb, own, bed_peer, peer, N_QUEUES);
	netns_enter(bed_peer);
	ck_assert_int_eq(netns_sh("sysctl -qw net.ipv6.conf.%s.disable_ipv6=1", peer), 0);
	peer_socks[iface] = netns_packet_socket(peer);
	netns_enter(bed_lb);
	netns_mac(own, bed_macs[iface]);
}

void bed_teardown(void)
{
	close(peer_socks[0]);
	close(peer_socks[1]);
	close(bed_lb);
	close(bed_peer);
}

/* --- the peer's side ----------------------------------------------------------------------------
 */

struct frames_spec bed_syn(unsigned iface, uint16_t sport, uint16_t dport)
{
	struct frames_spec s = {.src = frames_ip("10.9.0.1"),
				.dst = frames_ip(VIP),
				.sport = sport,
				.dport = dport,
				.tcp_flags = FRAMES_SYN};

	memcpy(s.dst_mac, bed_macs[iface], 6);
	return s;
}

void bed_inject(unsigned iface, const struct frames_spec *spec)
{
	static uint8_t buf[FRAMES_MAX];
	uint32_t len = frames_build(buf, spec);

	ck_assert_int_eq(send(peer_socks[iface], buf, len, 0), (ssize_t)len);
}

void bed_inject_syns(unsigned iface, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct frames_spec s = bed_syn(iface, (uint16_t)(1024 + i), VIP_PORT);

		bed_inject(iface, &s);
	}
}

/* The next IPv4 TCP frame that the peer receives on p<iface> within ms and that comes from the MAC
 * address, or 0 (the LB's kernel says other things too: neighbour and multicast discovery). */
uint32_t bed_take(unsigned iface, const uint8_t src_mac[6], uint8_t *buf, uint32_t cap, int ms)
{
	uint64_t end = clock_now_ms() + (uint64_t)ms;

	for (;;) {
		uint64_t now = clock_now_ms();
		struct pollfd p = {.fd = peer_socks[iface], .events = POLLIN};

		if (poll(&p, 1, now < end ? (int)(end - now) : 0) <= 0)
			return 0;
		ssize_t n = recv(peer_socks[iface], buf, cap, 0);
		if (n >= 54 && memcmp(buf + 6, src_mac, 6) == 0 && buf[12] == 8 && buf[13] == 0 &&
		    buf[23] == IPPROTO_TCP)
			return (uint32_t)n;
	}
}

/* Did the LB's kernel answer a SYN to the VIP with a RST? */
bool bed_kernel_answers(unsigned iface)
{
	static uint16_t sport = 30000;
	struct frames_spec s = bed_syn(iface, sport++, VIP_PORT);
	uint8_t buf[2048];

	bed_inject(iface, &s);
	while (bed_take(iface, bed_macs[iface], buf, sizeof(buf), 200) > 0)
		if (buf[47] & 0x04)
			return true;
	return false;
}

/* --- the forwarder's side -----------------------------------------------------------------------
 */

struct xsk *bed_open_ports(unsigned n_ifaces, unsigned n_workers, enum xdp_mode mode)
{
	struct xsk_config c = {
		.n_ifaces = n_ifaces, .ifaces = {"l0", "l1"}, .n_workers = n_workers, .mode = mode};
	struct error err = {""};
	struct xsk *x = NULL;

	ck_assert_msg(xsk_open(&c, &x, &err) == 0, "%s", err.message);
	return x;
}

static struct vip_match vip_match(const char *address, uint16_t port)
{
	return (struct vip_match){.address = frames_ip(address), .port = port, .protocol = VIP_TCP};
}

void bed_start(struct xsk *x)
{
	struct steering st = xsk_steering(x);
	struct vip_match m[] = {vip_match(VIP, VIP_PORT), vip_match(VIP6, VIP_PORT)};
	struct error err = {""};

	for (unsigned i = 0; i < 2; i++)
		ck_assert_msg(st.add(st.ctx, &m[i], &err) == 0, "%s", err.message);
	ck_assert_msg(xsk_attach(x, &err) == 0, "%s", err.message);
}

/* Receive and send back by interface `out` (-1: free) for at most ms or until n frames have come.
 * Returns frames received; each must be sound. */
unsigned bed_forward(struct port *p, int out, unsigned n, int ms)
{
	uint64_t end = clock_now_ms() + (uint64_t)ms;
	struct frame f[BURST_MAX];
	unsigned total = 0;

	while (total < n && clock_now_ms() < end) {
		unsigned round = 0;

		for (unsigned q = 0; q < p->n_queues; q++) {
			unsigned k = port_rx(p, q, f, BURST_MAX), sent = 0;

			for (unsigned i = 0; i < k; i++) {
				ck_assert_uint_ge(f[i].headroom, 64);
				ck_assert_uint_ge(f[i].len, 60);
				ck_assert(f[i].more == 0 || ((struct xsk_port *)p)->umem.parts);
				ck_assert_uint_eq(f[i].data[12] << 8 | f[i].data[13], 0x0800);
				memcpy(f[i].data + 6, bed_macs[out < 0 ? 0 : out], 6);
			}
			if (out >= 0)
				sent = port_tx(p, (unsigned)out, f, k);
			port_free(p, f + sent, k - sent);
			round += k;
		}
		port_flush(p);
		if (round == 0)
			port_sleep(p, 10);
		total += round;
	}
	/* Completions of the last frames. */
	port_flush(p);
	return total;
}

/* A frame that is not free is held by whom umem says; how many each socket should have, it counts
 * itself. */
void bed_check_frames(struct port *port)
{
	const struct xsk_port *p = (struct xsk_port *)port;
	const struct umem *u = &p->umem;
	uint32_t held[UINT8_MAX + 1] = {0};
	bool *is_free = calloc(u->n_frames, sizeof(*is_free));

	ck_assert_ptr_nonnull(is_free);
	for (uint32_t i = 0; i < u->n_free; i++) {
		uint64_t frame = u->free[i] / u->chunk;

		ck_assert_uint_lt(frame, u->n_frames);
		ck_assert_msg(!is_free[frame], "frame %llu is free twice",
			      (unsigned long long)frame);
		is_free[frame] = true;
	}
	for (uint32_t i = 0; i < u->n_frames; i++)
		held[u->holders[i]] += !is_free[i];
	for (unsigned q = 0; q < port->n_queues; q++) {
		const struct xsk_sock *s = &p->socks[q];

		ck_assert_uint_eq(held[s->id], s->n_posted + s->n_tx_out);
		held[s->id] = 0;
	}
	for (unsigned k = 0; k < p->n_limbo; k++)
		held[p->limbo[k].id] = 0;
	for (unsigned id = 0; id <= UINT8_MAX; id++)
		ck_assert_msg(held[id] == 0, "%u frames are lost (holder %u)", held[id], id);
	free(is_free);
}

void bed_check_way(struct port *p, unsigned in, unsigned out)
{
	const unsigned n = 100;
	uint8_t buf[2048];
	unsigned got = 0;

	bed_inject_syns(in, n);
	ck_assert_uint_eq(bed_forward(p, (int)out, n, 5000), n);
	while (got < n && bed_take(out, bed_macs[out], buf, sizeof(buf), 2000) > 0)
		got++;
	ck_assert_uint_eq(got, n);
	bed_check_frames(p);
}

static void run_at_once(void *ctx, void (*fn)(void *arg), void *arg)
{
	(void)ctx;
	fn(arg);
}

const struct xsk_pause bed_at_once = {NULL, run_at_once};

int bed_attached_id(const char *ifname, uint32_t flags)
{
	uint32_t id = 0;

	ck_assert_int_eq(bpf_xdp_query_id((int)if_nametoindex(ifname), (int)flags, &id), 0);
	return (int)id;
}
