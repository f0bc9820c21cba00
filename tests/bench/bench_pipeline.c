/* What a packet costs in the worker: whole rounds over a port that hands out 64-byte IPv4 TCP
 * frames of N flows in random order and takes whatever is sent. What the port does is part of the
 * figure. 2% of the flows are pinned; the rings are emptied at once, as by a control that keeps up.
 */
#include <arpa/inet.h>
#include <assert.h>

#include "base/hugemem.h"
#include "lookup/othello_map.h"
#include "tests/bench/bench.h"
#include "tests/bench/endless_port.h"
#include "worker/worker.h"

#define VIP 0xc6336401u /* 198.51.100.1 */
#define N_DIPS 100u
#define N_DCODES 8192u
#define RING_RECORDS 16384u
#define ROUNDS 4000u
#define REPEATS 25u

static struct vip_view *make_vip(enum vip_mode mode, uint32_t n_flows)
{
	struct vip_view *v = vip_view_new(N_DCODES, N_DIPS + 1);
	struct othello_map *pins = othello_map_new(n_flows / 50, 1);
	uint32_t vip_be = htonl(VIP);

	assert(v && pins);
	v->seed = 0x1234567890abcdefu;
	v->refresh_ms = 5000;
	v->mode = (uint8_t)mode;
	v->affinity = AFFINITY_FLOW;
	v->match = (struct vip_match){ip_addr_v4(&vip_be), 80, VIP_TCP};
	for (unsigned i = 1; i <= N_DIPS; i++) {
		const uint8_t dip[4] = {10, 1, 0, (uint8_t)i};
		vip_view_dips(v)[i] = (struct dip_view){
			.address = ip_addr_v4(dip),
			.dst_mac = {2, 0, 0, 1, 0, (uint8_t)i},
			.src_mac = {2, 0, 0, 0, 0, 2},
			.mtu = 1500,
			.usable = true,
			.resolved = true,
			.counter = i,
		};
	}
	for (uint32_t c = 0; c < N_DCODES; c++)
		vip_view_homes(v)[c] = (uint16_t)(1 + c % N_DIPS);
	for (uint32_t flow = 0; flow < n_flows; flow += 50) {
		struct flow_key key = {.proto = IPPROTO_TCP, .dport_be = htons(80)};
		uint32_t src = htonl(0x0a000000u | flow >> 4);
		key.src = ip_addr_v4(&src);
		key.sport_be = htons((uint16_t)(1024u + (flow & 15u)));
		uint64_t h = flow_key_hash(&key, v->seed);
		int ret = othello_map_add(pins, h, pin_word(h, (uint16_t)(1 + flow % N_DIPS)));
		assert(ret == 0);
	}
	int ret = othello_map_write(pins, &v->pins);
	assert(ret == 0);
	othello_map_free(pins);
	return v;
}

static void empty_rings(struct learn_ring *const rings[N_LEARN_RINGS])
{
	for (int i = 0; i < N_LEARN_RINGS; i++)
		for (uint64_t n = learn_ring_count(rings[i]); n; n--)
			learn_ring_pop(rings[i]);
}

static double ns_per_packet(struct worker *w, struct learn_ring *const rings[N_LEARN_RINGS])
{
	uint64_t start_ns = bench_cpu_ns(), packets = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		packets += worker_round(w);
		empty_rings(rings);
	}
	return (double)(bench_cpu_ns() - start_ns) / (double)packets;
}

static void run(const char *name, uint32_t n_flows, const char *layout, enum vip_mode mode)
{
	struct port *port = endless_port_new(n_flows, 0, VIP);
	struct worker_config c = {.cpu = -1, .port = port, .checksum = CHECKSUM_AUTO};
	struct snapshot *s = snapshot_new(1, 0);
	struct vip_view *v = make_vip(mode, n_flows);
	struct worker *w;
	double ns[REPEATS];

	for (int i = 0; i < N_LEARN_RINGS; i++) {
		c.rings[i] = hugemem_alloc(learn_ring_bytes(RING_RECORDS), NULL);
		assert(c.rings[i]);
		c.rings[i]->n = RING_RECORDS;
	}
	int ret = snapshot_add_vip(s, v);
	assert(ret == 0);
	vip_view_unref(v);
	ret = worker_new(&c, &w);
	assert(ret == 0);
	worker_set_snapshot(w, s);
	ns_per_packet(w, c.rings); /* warm up */
	for (unsigned i = 0; i < REPEATS; i++)
		ns[i] = ns_per_packet(w, c.rings);
	assert(endless_port_dropped(port) == 0);
	bench_result("pipeline", name, layout, bench_median(ns, REPEATS), "ns/packet");
	worker_free(w);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		hugemem_free(c.rings[i], learn_ring_bytes(RING_RECORDS));
	endless_port_free(port);
	snapshot_free(s);
}

int main(void)
{
	static const struct {
		const char *name;
		uint32_t n_flows;
	} cases[] = {{"1", 1}, {"100K", 100000}, {"1M", 1000000}};

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		run(cases[i].name, cases[i].n_flows, "l2", VIP_L2);
		run(cases[i].name, cases[i].n_flows, "ipip", VIP_IPIP);
	}
	return 0;
}
