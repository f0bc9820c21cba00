/* AF_XDP ports over veth pairs between namespaces: frames really travel, in native copy and in
 * generic mode. Topology: namespace `lb` with l0 and l1, namespace `peer` with p0 and p1 at their
 * other ends. The lb kernel owns the VIP's address and nothing listens there, so a packet that
 * slips through to it is answered with a RST, which the peer would see. Needs root. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <check.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "frames.h"
#include "io/port_xsk.h"
#include "io/xsk_driver.h"
#include "netns.h"

#define VIP "10.9.0.100"
#define VIP6 "2001:db8::100"
#define VIP_PORT 80
#define N_QUEUES 2

static int lb, peer;
static int peer_socks[2]; /* packet sockets on p0, p1 */
static uint8_t lb_macs[2][6];

static void setup(void)
{
	peer = netns_new();
	lb = netns_new();
	netns_veth(lb, "l0", peer, "p0", N_QUEUES);
	netns_veth(lb, "l1", peer, "p1", N_QUEUES);
	netns_enter(peer);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(netns_sh("sysctl -qw net.ipv6.conf.p%d.disable_ipv6=1", i), 0);
		peer_socks[i] = netns_packet_socket(i ? "p1" : "p0");
	}
	netns_enter(lb);
	ck_assert_int_eq(netns_sh("sysctl -qw net.ipv6.conf.l1.disable_ipv6=1;"
				  "ip addr add 10.9.0.2/24 dev l0 && ip addr add " VIP
				  "/32 dev l0 &&"
				  "ip -6 addr add " VIP6 "/64 dev l0 nodad &&"
				  "ip neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev l0"),
			 0);
	netns_mac("l0", lb_macs[0]);
	netns_mac("l1", lb_macs[1]);
}

static void teardown(void)
{
	close(peer_socks[0]);
	close(peer_socks[1]);
	close(lb);
	close(peer);
}

/* --- the peer's side ----------------------------------------------------------------------------
 */

static struct frames_spec syn(unsigned iface, uint16_t sport, uint16_t dport)
{
	struct frames_spec s = {.src = frames_ip("10.9.0.1"),
				.dst = frames_ip(VIP),
				.sport = sport,
				.dport = dport,
				.tcp_flags = FRAMES_SYN};

	memcpy(s.dst_mac, lb_macs[iface], 6);
	return s;
}

static void inject(unsigned iface, const struct frames_spec *spec)
{
	static uint8_t buf[FRAMES_MAX];
	uint32_t len = frames_build(buf, spec);

	ck_assert_int_eq(send(peer_socks[iface], buf, len, 0), (ssize_t)len);
}

static void inject_syns(unsigned iface, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct frames_spec s = syn(iface, (uint16_t)(1024 + i), VIP_PORT);

		inject(iface, &s);
	}
}

/* The next IPv4 TCP frame that the peer receives on p<iface> within ms and that comes from the MAC
 * address, or 0 (the LB's kernel says other things too: neighbour and multicast discovery). */
static uint32_t take(unsigned iface, const uint8_t src_mac[6], uint8_t *buf, uint32_t cap, int ms)
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
static bool kernel_answers(unsigned iface)
{
	static uint16_t sport = 30000;
	struct frames_spec s = syn(iface, sport++, VIP_PORT);
	uint8_t buf[2048];

	inject(iface, &s);
	while (take(iface, lb_macs[iface], buf, sizeof(buf), 200) > 0)
		if (buf[47] & 0x04)
			return true;
	return false;
}

/* --- the forwarder's side -----------------------------------------------------------------------
 */

static struct xsk *open_ports(unsigned n_ifaces, unsigned n_workers, enum xdp_mode mode)
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
	return (struct vip_match){frames_ip(address), port, VIP_TCP};
}

static void start(struct xsk *x)
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
static unsigned forward(struct port *p, int out, unsigned n, int ms)
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
				ck_assert_uint_eq(f[i].more, 0);
				ck_assert_uint_eq(f[i].data[12] << 8 | f[i].data[13], 0x0800);
				memcpy(f[i].data + 6, lb_macs[out < 0 ? 0 : out], 6);
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

/* Every frame of the pool is free, with the kernel for receiving, or being sent: none is lost. */
static void check_frames(struct port *port)
{
	const struct xsk_port *p = (struct xsk_port *)port;
	uint32_t n = p->umem.n_free;

	for (unsigned q = 0; q < port->n_queues; q++)
		n += p->socks[q].n_posted + p->socks[q].n_tx_out;
	ck_assert_uint_eq(n, p->umem.n_frames);
}

static int attached_id(const char *ifname, uint32_t flags)
{
	uint32_t id = 0;

	ck_assert_int_eq(bpf_xdp_query_id((int)if_nametoindex(ifname), (int)flags, &id), 0);
	return (int)id;
}

/* --- tests --------------------------------------------------------------------------------------
 */

/* Over far more frames than the pool has: none may get lost on the way round. */
static void check_forwarding(enum xdp_mode mode)
{
	const unsigned batch = 200, rounds = 80;
	struct xsk *x = open_ports(2, 1, mode);
	struct port *p = xsk_port(x, 0);
	const struct xsk_queue *queues;
	uint8_t buf[2048];

	start(x);
	ck_assert_uint_eq(xsk_queues(x, &queues), 4);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(queues[i].mode, mode);
	for (unsigned r = 0; r < rounds; r++) {
		unsigned got = 0;

		inject_syns(0, batch);
		ck_assert_uint_eq(forward(p, 1, batch, 5000), batch);
		while (got < batch && take(1, lb_macs[1], buf, sizeof(buf), 2000) > 0)
			got++;
		ck_assert_uint_eq(got, batch);
	}
	ck_assert_uint_eq(xsk_rx_kernel_drops(x), 0);
	check_frames(p);
	xsk_close(x);
}

START_TEST(forwards_in_copy_mode)
{
	check_forwarding(XDP_MODE_COPY);
}
END_TEST

START_TEST(forwards_in_generic_mode)
{
	check_forwarding(XDP_MODE_GENERIC);
}
END_TEST

/* One interface in, the same out; what was sent is what comes back, byte for byte. */
START_TEST(sends_what_it_got)
{
	uint64_t rnd = frames_seed();
	struct xsk *x = open_ports(1, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	uint8_t want[2048], got[2048];

	start(x);
	for (int i = 0; i < 500; i++) {
		struct frames_spec s = syn(0, (uint16_t)frames_random(&rnd), VIP_PORT);

		s.payload_len = (uint32_t)(frames_random(&rnd) % 1400);
		s.payload_seed = (uint32_t)frames_random(&rnd);
		uint32_t len = frames_build(want, &s);
		inject(0, &s);
		ck_assert_uint_eq(forward(p, 0, 1, 2000), 1);
		memcpy(want + 6, lb_macs[0], 6);
		ck_assert_uint_eq(take(0, lb_macs[0], got, sizeof(got), 2000), len);
		ck_assert_mem_eq(got, want, len);
	}
	xsk_close(x);
}
END_TEST

struct job {
	struct port *port;
	unsigned n;
	_Atomic bool *stop;
};

static void *run_worker(void *arg)
{
	struct job *j = arg;

	while (!*j->stop)
		j->n += forward(j->port, 1, BURST_MAX, 20);
	return NULL;
}

/* Two workers, two queues on two interfaces; flows spread by the sender's TX queue. */
START_TEST(two_workers_share_the_queues)
{
	const unsigned n = 2000;
	struct xsk *x = open_ports(2, 2, XDP_MODE_AUTO);
	_Atomic bool stop = false;
	struct job jobs[2];
	pthread_t threads[2];
	uint8_t buf[2048];
	unsigned got = 0;
	const struct xsk_queue *queues;

	start(x);
	ck_assert_uint_eq(xsk_n_workers(x), 2);
	for (unsigned i = 0; i < xsk_queues(x, &queues); i++) {
		ck_assert_uint_eq(queues[i].worker, queues[i].queue % 2);
		ck_assert_int_eq(queues[i].mode, XDP_MODE_COPY); /* veth has no zero-copy */
	}
	for (unsigned w = 0; w < 2; w++) {
		jobs[w] = (struct job){.port = xsk_port(x, w), .stop = &stop};
		ck_assert_uint_eq(jobs[w].port->n_queues, 2);
		pthread_create(&threads[w], NULL, run_worker, &jobs[w]);
	}
	/* The kernel spreads a packet socket's flows over the TX queues of p0 by their hash. In
	 * portions that the receiving packet socket can hold. */
	for (unsigned sent = 0; sent < n; sent += 200) {
		inject_syns(0, 200);
		while (got < sent + 200 && take(1, lb_macs[1], buf, sizeof(buf), 3000) > 0)
			got++;
	}
	stop = true;
	for (unsigned w = 0; w < 2; w++) {
		port_wake(jobs[w].port);
		pthread_join(threads[w], NULL);
	}
	ck_assert_uint_eq(got, n);
	ck_assert_uint_eq(jobs[0].n + jobs[1].n, n);
	ck_assert_uint_gt(jobs[0].n, 0);
	ck_assert_uint_gt(jobs[1].n, 0);
	xsk_close(x);
}
END_TEST

/* Closed and reopened: steer stays, VIP packets never reach the kernel; detached, they do. */
static void check_restart(enum xdp_mode mode)
{
	uint32_t flags = mode == XDP_MODE_GENERIC ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
	struct error err = {""};

	ck_assert(kernel_answers(0)); /* the test can see a RST */
	struct xsk *x = open_ports(2, 1, mode);
	start(x);
	int first = attached_id("l0", flags);
	ck_assert_int_gt(first, 0);
	ck_assert(!kernel_answers(0));
	xsk_close(x);
	ck_assert_int_eq(attached_id("l0", flags), first);
	ck_assert(!kernel_answers(0));

	x = open_ports(2, 1, mode); /* sockets of the new process, program of the old one */
	ck_assert(!kernel_answers(0));
	start(x);
	ck_assert_int_ne(attached_id("l0", flags), first);
	inject_syns(0, 10);
	/* 1 more from kernel_answers would be a packet that the old program passed on. */
	ck_assert_uint_eq(forward(xsk_port(x, 0), 1, 11, 500), 10);
	xsk_close(x);

	ck_assert_int_eq(steer_detach("l0", &err), 0);
	ck_assert_int_eq(steer_detach("l0", &err), -ENOENT);
	ck_assert_int_eq(attached_id("l0", 0), 0);
	ck_assert(kernel_answers(0));
}

START_TEST(restart_never_lets_the_kernel_answer)
{
	check_restart(XDP_MODE_COPY);
}
END_TEST

START_TEST(restart_in_generic_mode)
{
	check_restart(XDP_MODE_GENERIC);
}
END_TEST

static void *inject_until_stop(void *arg)
{
	const _Atomic bool *stop = arg;

	while (!*stop) {
		inject_syns(0, 20);
		usleep(200);
	}
	return NULL;
}

/* Programs replaced under traffic, by processes that start and end: no packet slips through. */
START_TEST(replacing_leaks_nothing)
{
	_Atomic bool stop = false;
	uint8_t buf[2048];
	pthread_t t;

	struct xsk *x = open_ports(1, 1, XDP_MODE_COPY);
	start(x);
	ck_assert_int_eq(pthread_create(&t, NULL, inject_until_stop, &stop), 0);
	for (int i = 0; i < 20; i++) {
		forward(xsk_port(x, 0), -1, 100, 20);
		xsk_close(x);
		x = open_ports(1, 1, XDP_MODE_COPY);
		start(x);
	}
	ck_assert_uint_gt(forward(xsk_port(x, 0), -1, 100, 1000), 0); /* traffic is still there */
	stop = true;
	pthread_join(t, NULL);
	ck_assert_uint_eq(take(0, lb_macs[0], buf, sizeof(buf), 300), 0);
	xsk_close(x);
}
END_TEST

/* An old program in the other mode is replaced; auto mode stays with a generic one. */
START_TEST(mode_changes)
{
	struct xsk *x = open_ports(1, 1, XDP_MODE_GENERIC);
	const struct xsk_queue *queues;

	start(x);
	xsk_close(x);
	x = open_ports(1, 1, XDP_MODE_AUTO);
	start(x);
	xsk_queues(x, &queues);
	ck_assert_int_eq(queues[0].mode, XDP_MODE_GENERIC);
	xsk_close(x);
	x = open_ports(1, 1, XDP_MODE_COPY);
	start(x);
	ck_assert_int_gt(attached_id("l0", XDP_FLAGS_DRV_MODE), 0);
	inject_syns(0, 10);
	ck_assert_uint_eq(forward(xsk_port(x, 0), 0, 10, 1000), 10);
	xsk_close(x);
	x = open_ports(1, 1, XDP_MODE_GENERIC);
	start(x);
	ck_assert_int_gt(attached_id("l0", XDP_FLAGS_SKB_MODE), 0);
	xsk_close(x);
}
END_TEST

/* macvlan has no native XDP: auto falls back to generic on all interfaces. */
START_TEST(falls_back_to_generic)
{
	struct error err = {""};
	struct xsk_config c = {.n_ifaces = 2, .ifaces = {"l1", "m0"}, .mode = XDP_MODE_AUTO};
	const struct xsk_queue *queues;
	struct xsk *x = NULL;

	ck_assert_int_eq(netns_sh("ip link add link l0 name m0 type macvlan && ip link set m0 up"),
			 0);
	ck_assert_msg(xsk_open(&c, &x, &err) == 0, "%s", err.message);
	start(x);
	unsigned n = xsk_queues(x, &queues);
	ck_assert_uint_ge(n, 3);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(queues[i].mode, XDP_MODE_GENERIC);
	ck_assert_int_gt(attached_id("l1", XDP_FLAGS_SKB_MODE), 0);
	xsk_close(x);

	/* Asked for by name there is no fallback, and what was there stays. */
	c.mode = XDP_MODE_COPY;
	int before = attached_id("l1", XDP_FLAGS_SKB_MODE);
	ck_assert_int_eq(xsk_open(&c, &x, &err), 0);
	ck_assert_int_lt(xsk_attach(x, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.message, "m0"));
	xsk_close(x);
	ck_assert_int_eq(attached_id("l1", XDP_FLAGS_SKB_MODE), before);
	c.mode = XDP_MODE_ZEROCOPY;
	ck_assert_int_lt(xsk_open(&c, &x, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.message, "zero-copy"));
}
END_TEST

/* An XDP_PASS program that is not ours. Returns its descriptor. */
static int foreign_program(const char *name)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 2},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, name, "MIT", code, 2, NULL);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* A first start that fails on its second interface leaves nothing on the first. */
START_TEST(foreign_program_is_refused)
{
	struct error err = {""};
	int ifindex = (int)if_nametoindex("l1");
	int fd = foreign_program("somebody_else");

	ck_assert_int_eq(bpf_xdp_attach(ifindex, fd, XDP_FLAGS_DRV_MODE, NULL), 0);
	int id = attached_id("l1", 0);
	struct xsk *x = open_ports(2, 1, XDP_MODE_AUTO);
	ck_assert_int_eq(xsk_attach(x, &err), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.message, "somebody_else"));
	ck_assert_ptr_nonnull(strstr(err.message, "l1"));
	xsk_close(x);
	ck_assert_int_eq(attached_id("l0", 0), 0);
	ck_assert_int_eq(attached_id("l1", 0), id);
	ck_assert_int_eq(steer_detach("l1", &err), -EPERM);
	ck_assert_int_eq(attached_id("l1", 0), id);
	ck_assert_int_eq(steer_detach("nosuch", &err), -ENODEV);
	close(fd);
}
END_TEST

/* A restart that fails on its second interface leaves the old program on the first: the second
 * refuses because its peer's MTU has become too large for any program without... it has generic XDP
 * on. */
START_TEST(failed_restart_leaves_the_old_one)
{
	struct error err = {""};
	struct xsk *x = open_ports(1, 1, XDP_MODE_COPY);

	start(x);
	xsk_close(x);
	int old = attached_id("l0", XDP_FLAGS_DRV_MODE);
	/* veth refuses a native program when the peer has more TX queues than it has RX queues. */
	ck_assert_int_eq(netns_sh("ethtool -L l1 rx 1"), 0);
	x = open_ports(2, 1, XDP_MODE_COPY);
	ck_assert_int_lt(xsk_attach(x, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.message, "l1: cannot attach"));
	xsk_close(x);
	ck_assert_int_eq(attached_id("l0", XDP_FLAGS_DRV_MODE), old);
	ck_assert_int_eq(attached_id("l1", 0), 0);
	ck_assert(!kernel_answers(0));
}
END_TEST

START_TEST(bad_configurations)
{
	static const struct {
		struct xsk_config c;
		const char *prepare;
		const char *message;
	} cases[] = {
		{{.n_ifaces = 0}, "true", "interfaces"},
		{{.n_ifaces = 1, .ifaces = {"nosuch"}}, "true", "nosuch: no such interface"},
		{{.n_ifaces = 1, .ifaces = {"a-name-that-is-too-long"}},
		 "true",
		 "not an interface"},
		{{.n_ifaces = 2, .ifaces = {"l0", "l0"}}, "true", "named twice"},
		{{.n_ifaces = 1, .ifaces = {"lo"}}, "true", "not an Ethernet"},
		{{.n_ifaces = 2, .ifaces = {"l0", "l1"}, .n_workers = 3}, "true", "only 2"},
		{{.n_ifaces = 1, .ifaces = {"l0"}}, "ip link set l0 mtu 3499", "limit is 3498"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct error err = {""};
		struct xsk *x = NULL;

		ck_assert_int_eq(netns_sh("%s", cases[i].prepare), 0);
		ck_assert_int_lt(xsk_open(&cases[i].c, &x, &err), 0);
		ck_assert_msg(strstr(err.message, cases[i].message) != NULL, "case %zu: %s", i,
			      err.message);
		ck_assert_ptr_null(x);
	}
	ck_assert_int_eq(attached_id("l0", 0), 0);
}
END_TEST

START_TEST(busy_queue)
{
	struct xsk *x = open_ports(1, 1, XDP_MODE_AUTO), *second = NULL;
	struct xsk_config c = {.n_ifaces = 1, .ifaces = {"l0"}};
	struct error err = {""};
	uint64_t t = clock_now_ms();

	ck_assert_int_eq(xsk_open(&c, &second, &err), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err.message, "another program"));
	ck_assert_uint_ge(clock_now_ms() - t, 1900);
	xsk_close(x);
	x = open_ports(1, 1, XDP_MODE_AUTO); /* at once */
	xsk_close(x);
}
END_TEST

/* The largest MTU works, tagged, in a single buffer; longer ones are counted. (veth carries no
 * second tag at full MTU.) */
START_TEST(large_frames)
{
	ck_assert_int_eq(netns_sh("ip link set l0 mtu %d", XSK_MTU_MAX), 0);
	netns_enter(peer);
	ck_assert_int_eq(netns_sh("ip link set p0 mtu 9000"), 0);
	netns_enter(lb);
	struct xsk *x = open_ports(1, 1, XDP_MODE_COPY);
	struct frames_spec s = syn(0, 1, VIP_PORT);

	start(x);
	s.n_vlans = 1;
	s.payload_len = XSK_MTU_MAX - 40;
	inject(0, &s);
	s.n_vlans = 0;
	inject(0, &s);
	struct frame f[BURST_MAX];
	struct port *p = xsk_port(x, 0);
	unsigned n = 0;
	for (int i = 0; i < 100 && n < 2; i++) {
		for (unsigned q = 0; q < p->n_queues; q++) {
			unsigned k = port_rx(p, q, f, BURST_MAX);

			for (unsigned j = 0; j < k; j++)
				ck_assert_uint_ge(f[j].len, XSK_MTU_MAX + 14);
			port_free(p, f, k);
			n += k;
		}
		port_flush(p);
		port_sleep(p, 10);
	}
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(xsk_rx_too_big(x), 0);
	/* Somebody raises the MTU under us. */
	ck_assert_int_eq(netns_sh("ip link set l0 mtu 9000"), 0);
	s.payload_len = 8000;
	inject(0, &s);
	usleep(50000);
	ck_assert_uint_eq(xsk_rx_too_big(x), 1);
	ck_assert_uint_eq(forward(p, 0, 1, 50), 0);
	xsk_close(x);
}
END_TEST

/* Link down: sends fail and are counted, nothing breaks; up again: it goes on. */
START_TEST(survives_link_flaps)
{
	struct xsk *x = open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	uint8_t buf[2048];

	start(x);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(netns_sh("ip link set l1 down"), 0);
		for (int k = 0; k < 12; k++) { /* more than a TX ring */
			inject_syns(0, 250);
			forward(p, 1, 250, 1000);
		}
		ck_assert_int_eq(netns_sh("ip link set l1 up"), 0);
		for (int k = 0; k < 20; k++)
			forward(p, 1, 1, 10);
		while (take(1, lb_macs[1], buf, sizeof(buf), 100) > 0)
			;
		unsigned got = 0;
		inject_syns(0, 100);
		ck_assert_uint_eq(forward(p, 1, 100, 2000), 100);
		while (got < 100 && take(1, lb_macs[1], buf, sizeof(buf), 1000) > 0)
			got++;
		ck_assert_uint_eq(got, 100);
		check_frames(p);
	}
	ck_assert_int_eq(netns_sh("ip link set l0 down && ip link set l0 up"), 0);
	inject_syns(0, 10);
	ck_assert_uint_eq(forward(p, 0, 10, 2000), 10);
	xsk_close(x);
}
END_TEST

static void *wake_later(void *arg)
{
	usleep(50000);
	port_wake(arg);
	return NULL;
}

START_TEST(sleep_and_wake)
{
	struct xsk *x = open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	pthread_t t;

	start(x);
	uint64_t t0 = clock_now_ms();
	port_sleep(p, 100);
	ck_assert_uint_ge(clock_now_ms() - t0, 90);
	t0 = clock_now_ms();
	pthread_create(&t, NULL, wake_later, p);
	port_sleep(p, 10000);
	ck_assert_uint_lt(clock_now_ms() - t0, 5000);
	pthread_join(t, NULL);
	port_wake(p); /* before the sleep: it must not sleep */
	t0 = clock_now_ms();
	port_sleep(p, 10000);
	ck_assert_uint_lt(clock_now_ms() - t0, 5000);
	inject_syns(1, 1); /* a frame on any queue ends it */
	port_sleep(p, 10000);
	ck_assert_uint_lt(clock_now_ms() - t0, 5000);
	ck_assert_uint_eq(forward(p, 0, 1, 1000), 1);
	xsk_close(x);
}
END_TEST

/* Overload: a worker that does not receive. The excess is lost in the kernel, counted, and
 * afterwards everything works. */
START_TEST(overload_is_counted)
{
	struct xsk *x = open_ports(1, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	const unsigned n = 6000;
	unsigned got;

	start(x);
	inject_syns(0, n);
	got = forward(p, 0, n, 500);
	ck_assert_uint_lt(got, n);
	ck_assert_uint_eq(got + xsk_rx_kernel_drops(x), n);
	inject_syns(0, 100);
	ck_assert_uint_eq(forward(p, 0, 100, 2000), 100);
	check_frames(p);
	xsk_close(x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("port_xsk");
	TCase *t = tcase_create("veth");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, forwards_in_copy_mode);
	tcase_add_test(t, forwards_in_generic_mode);
	tcase_add_test(t, sends_what_it_got);
	tcase_add_test(t, two_workers_share_the_queues);
	tcase_add_test(t, restart_never_lets_the_kernel_answer);
	tcase_add_test(t, restart_in_generic_mode);
	tcase_add_test(t, replacing_leaks_nothing);
	tcase_add_test(t, mode_changes);
	tcase_add_test(t, falls_back_to_generic);
	tcase_add_test(t, foreign_program_is_refused);
	tcase_add_test(t, failed_restart_leaves_the_old_one);
	tcase_add_test(t, bad_configurations);
	tcase_add_test(t, busy_queue);
	tcase_add_test(t, large_frames);
	tcase_add_test(t, survives_link_flaps);
	tcase_add_test(t, sleep_and_wake);
	tcase_add_test(t, overload_is_counted);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
