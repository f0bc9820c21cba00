/* What a packet costs in the worker, in every mode: whole rounds over a port that hands out small
 * TCP frames of N flows in random order and takes whatever is sent. What the port does is part of
 * the figure. 2% of the flows are pinned; the rings are emptied at once, as by a control that keeps
 * up. The modes take turns, so that a slow moment of the machine meets all of them; what a mode may
 * cost is told as its ratio to l2 with packets of the same family, in the same turn. */
#include <arpa/inet.h>
#include <assert.h>

#include "base/hugemem.h"
#include "lookup/othello_map.h"
#include "tests/bench/bench.h"
#include "tests/bench/endless_port.h"
#include "worker/worker.h"

#define N_DIPS 100u
#define N_DCODES 8192u
#define RING_RECORDS 16384u
#define ROUNDS 4000u
#define WARM_ROUNDS 400u /* thrice through all of the port's frames */
#define REPEATS_MAX 25u

struct layout {
	const char *name;
	enum vip_mode mode;
	bool v6, dip_v6;
	double most; /* times the l2 of its family; 0: no target */
	enum endless_shape shape;
};

static unsigned repeats = REPEATS_MAX;

static const struct layout layouts[] = {
	{"l2", VIP_L2, false, false, 0, ENDLESS_ACKS},
	{"ipip", VIP_IPIP, false, false, 1.3, ENDLESS_ACKS},
	{"4in6", VIP_IPIP, false, true, 1.3, ENDLESS_ACKS},
	{"gue", VIP_GUE, false, false, 1.3, ENDLESS_ACKS},
	{"nat", VIP_NAT, false, false, 0, ENDLESS_ACKS},
	{"too_big", VIP_IPIP, false, false, 1.3, ENDLESS_LARGE},
	{"fragments", VIP_L2, false, false, 0, ENDLESS_FRAGMENTS},
	{"l2_v6", VIP_L2, true, true, 0, ENDLESS_ACKS},
	{"6in4", VIP_IPIP, true, false, 1.3, ENDLESS_ACKS},
};
#define N_LAYOUTS ARRAY_LEN(layouts)

/* 198.51.100.1, or an address of the documentation's prefix. */
static struct ip_addr vip_address(bool v6)
{
	static const uint8_t v4[4] = {198, 51, 100, 1};
	struct ip_addr a = {{0x20, 0x01, 0x0d, 0xb8, 0, 0xf, [15] = 0x80}};

	return v6 ? a : ip_addr_v4(v4);
}

static struct ip_addr dip_address(bool v6, unsigned i)
{
	const uint8_t v4[4] = {10, 1, 0, (uint8_t)i};
	struct ip_addr a = {{0x20, 0x01, 0x0d, 0xb8, 0, 0xd, [15] = (uint8_t)i}};

	return v6 ? a : ip_addr_v4(v4);
}

/* As endless_port makes it. */
static struct flow_key flow_key(const struct layout *l, uint32_t flow)
{
	struct flow_key key = {.proto = l->shape == ENDLESS_FRAGMENTS ? IPPROTO_UDP : IPPROTO_TCP,
			       .dport_be = htons(80)};
	uint32_t src = htonl(0x0a000000u + (flow >> 4));

	key.src = ip_addr_v4(&src);
	if (l->v6) {
		key.src = (struct ip_addr){{0x20, 0x01, 0x0d, 0xb8, 0, 0xc}};
		memcpy(&key.src.b[12], &src, 4);
	}
	key.sport_be = htons((uint16_t)(1024u + (flow & 15u)));
	return key;
}

static void add_pins(struct vip_view *v, const struct layout *l, uint32_t n_flows)
{
	struct othello_map *pins = othello_map_new(n_flows / 50, 1);

	assert(pins);
	for (uint32_t flow = 0; flow < n_flows; flow += 50) {
		struct flow_key key = flow_key(l, flow);
		uint64_t h = flow_key_hash(&key, v->seed);
		int ret = othello_map_add(pins, h, pin_word(h, (uint16_t)(1 + flow % N_DIPS)));
		assert(ret == 0);
	}
	int ret = othello_map_write(pins, &v->pins);
	assert(ret == 0);
	othello_map_free(pins);
}

static struct vip_view *make_vip(const struct layout *l, uint32_t n_flows)
{
	struct vip_view *v = vip_view_new(N_DCODES, N_DIPS + 1);

	assert(v);
	v->seed = 0x1234567890abcdefu;
	v->refresh_ms = 5000;
	v->mode = (uint8_t)l->mode;
	v->gue_port = 6080;
	v->affinity = AFFINITY_FLOW;
	v->match =
		(struct vip_match){.address = vip_address(l->v6),
				   .port = 80,
				   .protocol = l->shape == ENDLESS_FRAGMENTS ? VIP_UDP : VIP_TCP};
	for (unsigned i = 1; i <= N_DIPS; i++)
		vip_view_dips(v)[i] = (struct dip_view){
			.address = dip_address(l->dip_v6, i),
			.dst_mac = {2, 0, 0, 1, 0, (uint8_t)i},
			.src_mac = {2, 0, 0, 0, 0, 2},
			.mtu = 1500,
			.usable = true,
			.resolved = true,
			.counter = i,
			.nat_port_be = htons(8080),
		};
	for (uint32_t c = 0; c < N_DCODES; c++)
		vip_view_homes(v)[c] = (uint16_t)(1 + c % N_DIPS);
	add_pins(v, l, n_flows);
	return v;
}

static void empty_rings(struct learn_ring *const rings[N_LEARN_RINGS])
{
	for (int i = 0; i < N_LEARN_RINGS; i++)
		for (uint64_t n = learn_ring_count(rings[i]); n; n--)
			learn_ring_pop(rings[i]);
}

/* A worker of one layout. */
struct bed {
	struct port *port;
	struct snapshot *snapshot;
	struct worker *worker;
	struct learn_ring *rings[N_LEARN_RINGS];
	struct fragment_cache *fragments; /* NULL where there are none */
	double ns[REPEATS_MAX], ratio[REPEATS_MAX];
};

static uint64_t rounds(const struct bed *b, unsigned n)
{
	uint64_t packets = 0;

	for (unsigned i = 0; i < n; i++) {
		packets += worker_round(b->worker);
		empty_rings(b->rings);
	}
	return packets;
}

/* What the others have left of its frames in the caches is not what a mode costs. */
static double ns_per_packet(const struct bed *b)
{
	rounds(b, WARM_ROUNDS);
	uint64_t start_ns = bench_cpu_ns(), packets = rounds(b, ROUNDS);

	return (double)(bench_cpu_ns() - start_ns) / (double)packets;
}

static void bed_init(struct bed *b, const struct layout *l, uint32_t n_flows)
{
	struct ip_addr vip = vip_address(l->v6);
	struct vip_view *v = make_vip(l, n_flows);

	b->port = endless_port_new_to(n_flows, 0, &vip);
	endless_port_shape(b->port, l->shape);
	b->snapshot = snapshot_new(1, 0);
	b->fragments = l->shape == ENDLESS_FRAGMENTS ? fragment_cache_new() : NULL;
	assert(b->fragments || l->shape != ENDLESS_FRAGMENTS);
	struct worker_config c = {
		.cpu = -1, .port = b->port, .checksum = CHECKSUM_AUTO, .fragments = b->fragments};
	for (int i = 0; i < N_LEARN_RINGS; i++) {
		b->rings[i] = hugemem_alloc(learn_ring_bytes(RING_RECORDS), NULL);
		assert(b->rings[i]);
		b->rings[i]->n = RING_RECORDS;
		c.rings[i] = b->rings[i];
	}
	assert(b->snapshot);
	int ret = snapshot_add_vip(b->snapshot, v);
	assert(ret == 0);
	vip_view_unref(v);
	ret = worker_new(&c, &b->worker);
	assert(ret == 0);
	worker_set_snapshot(b->worker, b->snapshot);
	ns_per_packet(b); /* warm up */
}

static void bed_destroy(struct bed *b, const struct layout *l)
{
	bool refused = l->shape == ENDLESS_LARGE;

	assert(refused ? endless_port_dropped(b->port) > 1000 * endless_port_sent(b->port)
		       : endless_port_dropped(b->port) == 0);
	worker_free(b->worker);
	fragment_cache_free(b->fragments);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		hugemem_free(b->rings[i], learn_ring_bytes(RING_RECORDS));
	endless_port_free(b->port);
	snapshot_free(b->snapshot);
}

static void run(const char *name, uint32_t n_flows)
{
	static struct bed beds[N_LAYOUTS];
	unsigned l2 = 0;

	for (unsigned k = 0; k < N_LAYOUTS; k++)
		bed_init(&beds[k], &layouts[k], n_flows);
	for (unsigned i = 0; i < repeats; i++)
		for (unsigned k = 0; k < N_LAYOUTS; k++) {
			l2 = layouts[k].mode == VIP_L2 && !layouts[k].shape ? k : l2;
			beds[k].ns[i] = ns_per_packet(&beds[k]);
			beds[k].ratio[i] = beds[k].ns[i] / beds[l2].ns[i];
		}
	for (unsigned k = 0; k < N_LAYOUTS; k++)
		bench_result("pipeline", name, layouts[k].name, bench_median(beds[k].ns, repeats),
			     "ns/packet");
	for (unsigned k = 0; k < N_LAYOUTS; k++)
		if (layouts[k].most > 0)
			bench_target("times_l2", name, layouts[k].name,
				     bench_median(beds[k].ratio, repeats), layouts[k].most);
	for (unsigned k = 0; k < N_LAYOUTS; k++)
		bed_destroy(&beds[k], &layouts[k]);
}

int main(void)
{
	if (bench_quick())
		repeats = 5;
	run("1", 1);
	run("100K", 100000);
	run("1M", 1000000);
	return 0;
}
