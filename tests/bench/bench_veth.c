/* What Concury costs where AF_XDP itself costs most: on veth. A generator floods one interface of a
 * namespace, one worker's thread receives and sends by the other, first in a bare loop that only
 * writes MAC addresses, then as Concury (parse, look up, learn, count, rewrite) over the same
 * sockets. Ten pairs in turn, because such figures drift; medians, and the ratio.
 *
 *   generator -> p0 == l0 -> worker -> l1 == p1 (the kernel drops what is not for its MAC address)
 *
 * Needs root. The generator has the last CPU, the worker the first. */
#include <arpa/inet.h>
#include <assert.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hugemem.h"
#include "base/log.h"
#include "io/port_xsk.h"
#include "packet/checksum.h"
#include "tests/bench/bench.h"
#include "tests/bench/livegen.h"
#include "tests/unit/netns.h"
#include "worker/worker.h"

#define PAIRS_MAX 10u
#define WARM_UP_MS 200u
#define MEASURE_MS 1000u
#define N_FLOWS 100000u
#define N_DIPS 16u
#define N_DCODES 1024u
#define RING_RECORDS 16384u
#define FRAME_LEN 60u /* 64 with the checksum that a NIC cuts off */
#define VIP_PORT 80

static const uint8_t vip_address[4] = {198, 51, 100, 1};
static const uint8_t src_mac[6] = {2, 0, 0, 0, 0, 2};
static const uint8_t dst_mac[6] = {2, 0, 0, 1, 0, 1};

static void die(const char *what, const struct error *err)
{
	fprintf(stderr, "bench_veth: %s: %s\n", what, err->message);
	exit(1);
}

/* A bare ACK to the VIP, as livegen wants it, but for the MAC address of the forwarder. */
static void make_frame(uint8_t f[FRAME_LEN])
{
	static const uint8_t head[38] = {0, 0, 0,    0, 0, 0,  2, 0, 0,	   1, 0,  1,
					 8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6};

	memset(f, 0, FRAME_LEN);
	memcpy(f, head, sizeof(head));
	memcpy(f + 30, vip_address, 4);
	f[37] = VIP_PORT;
	f[46] = 0x50;
	f[47] = 0x10; /* ACK */
	uint16_t sum = (uint16_t)~checksum_fold(checksum_add(0, f + 14, 20));
	memcpy(f + 24, &sum, 2);
	const uint8_t pseudo[4] = {0, 6, 0, 20};
	uint32_t s = checksum_add(checksum_add(0, pseudo, 4), f + 26, 8 + 20);
	sum = (uint16_t)~checksum_fold(s);
	memcpy(f + 50, &sum, 2);
}

/* --- the two contestants: one round each, frames sent are returned -------------------------------
 */

static unsigned bare_round(struct port *p)
{
	struct frame f[BURST_MAX];
	unsigned total = 0;

	for (unsigned q = 0; q < p->n_queues; q++) {
		unsigned n = port_rx(p, q, f, BURST_MAX);

		if (n == 0)
			continue;
		for (unsigned i = 0; i < n; i++) {
			memcpy(f[i].data, dst_mac, 6);
			memcpy(f[i].data + 6, src_mac, 6);
		}
		unsigned sent = port_tx(p, 1, f, n);
		if (sent < n)
			port_free(p, f + sent, n - sent);
		total += sent;
	}
	port_flush(p);
	return total;
}

static uint64_t worker_sent(const struct worker *w)
{
	return counter_read(&w->counters->tx[1].packets);
}

/* Control's share of the work on the rings, at its simplest: the worker meets rings that are read.
 */
static void empty_rings(struct worker *w)
{
	for (int i = 0; i < N_LEARN_RINGS; i++)
		for (uint64_t n = learn_ring_count(w->learn.rings[i]); n; n--)
			learn_ring_pop(w->learn.rings[i]);
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What one run measured. */
struct figure {
	double mpps; /* by the wall clock */
	double ns; /* of this thread's CPU time, a packet: other programs do not disturb it much */
};

static struct figure figure(uint64_t packets, uint64_t wall_ns, uint64_t cpu_ns)
{
	double n = packets ? (double)packets : 1;

	return (struct figure){n * 1000 / (double)wall_ns, (double)cpu_ns / n};
}

static struct figure run_bare(struct port *p, unsigned ms)
{
	uint64_t start_ns = clock_now_ns(), cpu_ns = thread_cpu_ns(), now_ns, sent = 0;

	do {
		for (int i = 0; i < 16; i++)
			sent += bare_round(p);
		now_ns = clock_now_ns();
	} while (now_ns - start_ns < ms * 1000000ull);
	return figure(sent, now_ns - start_ns, thread_cpu_ns() - cpu_ns);
}

static struct figure run_concury(struct worker *w, unsigned ms)
{
	uint64_t start_ns = clock_now_ns(), cpu_ns = thread_cpu_ns(), now_ns;
	uint64_t before = worker_sent(w);

	do {
		for (int i = 0; i < 16; i++) {
			worker_round(w);
			empty_rings(w);
		}
		now_ns = clock_now_ns();
	} while (now_ns - start_ns < ms * 1000000ull);
	return figure(worker_sent(w) - before, now_ns - start_ns, thread_cpu_ns() - cpu_ns);
}

/* --- set-up --------------------------------------------------------------------------------------
 */

static struct vip_match vip(void)
{
	return (struct vip_match){
		.address = ip_addr_v4(vip_address), .port = VIP_PORT, .protocol = VIP_TCP};
}

static struct snapshot *make_snapshot(void)
{
	struct snapshot *s = snapshot_new(1, 0);
	struct vip_view *v = vip_view_new(N_DCODES, N_DIPS + 1);

	assert(s && v);
	v->seed = 0x1234567890abcdefu;
	v->refresh_ms = 5000;
	v->match = vip();
	for (unsigned i = 1; i <= N_DIPS; i++) {
		const uint8_t dip[4] = {10, 1, 0, (uint8_t)i};
		struct dip_view *d = &vip_view_dips(v)[i];

		*d = (struct dip_view){.address = ip_addr_v4(dip),
				       .egress = 1,
				       .mtu = 1500,
				       .usable = true,
				       .resolved = true,
				       .counter = i};
		memcpy(d->src_mac, src_mac, 6);
		memcpy(d->dst_mac, dst_mac, 6);
	}
	for (uint32_t c = 0; c < N_DCODES; c++)
		vip_view_homes(v)[c] = (uint16_t)(1 + c % N_DIPS);
	int rc = snapshot_add_vip(s, v);
	assert(rc == 0);
	vip_view_unref(v);
	return s;
}

static struct worker *make_worker(struct port *p)
{
	struct worker_config c = {.cpu = -1, .port = p, .checksum = CHECKSUM_AUTO};
	struct worker *w;

	for (int i = 0; i < N_LEARN_RINGS; i++) {
		c.rings[i] = hugemem_alloc(learn_ring_bytes(RING_RECORDS), NULL);
		assert(c.rings[i]);
		c.rings[i]->n = RING_RECORDS;
	}
	int rc = worker_new(&c, &w);
	assert(rc == 0);
	return w;
}

static struct xsk *open_port(void)
{
	struct xsk_config c = {
		.n_ifaces = 2, .ifaces = {"l0", "l1"}, .n_workers = 1, .mode = XDP_MODE_COPY};
	struct vip_match m = vip();
	struct error err = {""};
	struct xsk *x;

	if (xsk_open(&c, &x, &err) < 0)
		die("cannot open the interfaces", &err);
	struct steering st = xsk_steering(x);
	if (st.add(st.ctx, &m, &err) < 0 || xsk_attach(x, &err) < 0)
		die("cannot attach", &err);
	return x;
}

static struct livegen *start_generator(const uint8_t l0_mac[6])
{
	uint8_t frame[FRAME_LEN];
	struct livegen_config c = {.ifindex = (int)if_nametoindex("p0"),
				   .cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1,
				   .n_flows = N_FLOWS,
				   .frame = frame,
				   .len = FRAME_LEN};
	struct livegen *g;
	struct error err = {""};

	make_frame(frame);
	memcpy(frame, l0_mac, 6);
	if (livegen_start(&c, &g, &err) < 0)
		die("cannot start the generator", &err);
	return g;
}

static void pin_to_first_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
		fprintf(stderr, "bench_veth: not pinned\n");
}

/* Nothing may be dropped for another reason than a full ring: it would be cheaper than forwarding.
 */
static void check_drops(const struct worker *w)
{
	for (int r = 0; r < N_DROP_REASONS; r++) {
		uint64_t n = counter_read(&w->counters->drops[r]);

		if (n && r != DROP_tx_full) {
			fprintf(stderr, "bench_veth: %llu frames dropped: %s\n",
				(unsigned long long)n, drop_reason_name[r]);
			exit(1);
		}
	}
}

int main(void)
{
	double bare[PAIRS_MAX], concury[PAIRS_MAX], ratio[PAIRS_MAX], cpu_ratio[PAIRS_MAX];
	const unsigned pairs = bench_quick() ? 3 : PAIRS_MAX;
	int lb = netns_new(), peer = netns_new();

	log_set_level(LOG_WARNING);
	netns_veth(lb, "l0", peer, "p0", 1);
	netns_veth(lb, "l1", peer, "p1", 1);
	netns_enter(lb);
	struct xsk *x = open_port();
	uint8_t l0_mac[6];
	netns_mac("l0", l0_mac);
	struct port *p = xsk_port(x, 0);
	struct snapshot *s = make_snapshot();
	struct worker *w = make_worker(p);
	worker_set_snapshot(w, s);
	netns_enter(peer);
	struct livegen *g = start_generator(l0_mac);
	netns_enter(lb);
	pin_to_first_cpu();

	for (unsigned i = 0; i < pairs; i++) {
		run_bare(p, WARM_UP_MS);
		struct figure b = run_bare(p, MEASURE_MS);
		run_concury(w, WARM_UP_MS);
		struct figure c = run_concury(w, MEASURE_MS);

		bare[i] = b.mpps;
		concury[i] = c.mpps;
		ratio[i] = c.mpps / b.mpps;
		cpu_ratio[i] = b.ns / c.ns;
	}
	check_drops(w);
	uint64_t made = livegen_frames(g);
	if (livegen_stop(g) < 0 || made == 0) {
		fprintf(stderr, "bench_veth: the generator failed\n");
		return 1;
	}
	bench_result("veth", "l2fwd", "l2fwd", bench_median(bare, pairs), "Mpps");
	bench_result("veth", "concury", "concury", bench_median(concury, pairs), "Mpps");
	bench_result("veth", "ratio", "concury", bench_median(ratio, pairs), "of l2fwd");
	bench_result("veth", "ratio", "concury_cpu", bench_median(cpu_ratio, pairs), "of l2fwd");
	struct learn_ring *rings[N_LEARN_RINGS];
	memcpy(rings, w->learn.rings, sizeof(rings));
	worker_free(w);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		hugemem_free(rings[i], learn_ring_bytes(RING_RECORDS));
	snapshot_free(s);
	xsk_close(x);
	return 0;
}
