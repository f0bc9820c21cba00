#include "tests/unit/forwarding.h"

#include <assert.h>
#include <stdlib.h>

#include "tests/unit/frames.h"

#define DCODES 1024u

void forwarding_init(struct forwarding *f, unsigned tx_ring, unsigned headroom, uint32_t n_records)
{
	forwarding_init_sized(f, tx_ring, headroom, n_records, 2048);
}

void forwarding_init_sized(struct forwarding *f, unsigned tx_ring, unsigned headroom,
			   uint32_t n_records, unsigned frame_size)
{
	struct port_mem_config pc = {
		.n_queues = 2,
		.n_ifaces = FORWARDING_IFACES,
		.n_frames = FORWARDING_FRAMES,
		.frame_size = frame_size,
		.headroom = headroom,
		.tx_ring = tx_ring,
	};
	struct worker_config wc = {.cpu = -1};

	f->port = port_mem_new(&pc);
	assert(f->port);
	for (int i = 0; i < N_LEARN_RINGS; i++) {
		f->rings[i] = aligned_alloc(CACHE_LINE, learn_ring_bytes(n_records));
		assert(f->rings[i]);
		memset(f->rings[i], 0, learn_ring_bytes(n_records));
		f->rings[i]->n = n_records;
		wc.rings[i] = f->rings[i];
	}
	f->fragments = fragment_cache_new();
	assert(f->fragments);
	wc.fragments = f->fragments;
	wc.port = f->port;
	int ret = worker_new(&wc, &f->worker);
	assert(ret == 0);
}

void forwarding_destroy(struct forwarding *f)
{
	worker_free(f->worker);
	fragment_cache_free(f->fragments);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		free(f->rings[i]);
	port_mem_free(f->port);
}

struct vip_view *forwarding_vip(uint16_t slot, const char *address, unsigned n_dips)
{
	struct vip_view *v = vip_view_new(n_dips ? DCODES : 0, n_dips + 1);

	assert(v);
	v->seed = 0x9e3779b97f4a7c15u * (slot + 1u);
	v->refresh_ms = 5000;
	v->slot = slot;
	v->mode = VIP_L2;
	v->affinity = AFFINITY_FLOW;
	v->on_learn_overflow = OVERFLOW_FORWARD;
	v->uid = 1000u + slot;
	v->match =
		(struct vip_match){.address = frames_ip(address), .port = 0, .protocol = VIP_ANY};
	for (unsigned i = 1; i <= n_dips; i++) {
		const uint8_t ip[4] = {10, 9, (uint8_t)slot, (uint8_t)i};
		vip_view_dips(v)[i] = (struct dip_view){
			.address = ip_addr_v4(ip),
			.dst_mac = {2, 9, 0, 0, (uint8_t)slot, (uint8_t)i},
			.src_mac = {2, 1, 0, 0, 0, (uint8_t)(i % FORWARDING_IFACES)},
			.egress = (uint16_t)(i % FORWARDING_IFACES),
			.mtu = 1500,
			.usable = true,
			.resolved = true,
			.counter = slot * 16u + i,
		};
	}
	for (uint32_t c = 0; n_dips && c < DCODES; c++)
		vip_view_homes(v)[c] = (uint16_t)(1 + c % n_dips);
	return v;
}

void forwarding_add(struct snapshot *s, struct vip_view *v)
{
	int ret = snapshot_add_vip(s, v);

	assert(ret == 0);
	vip_view_unref(v);
}

uint64_t forwarding_drops(const struct worker *w)
{
	uint64_t sum = 0;

	for (int i = 0; i < N_DROP_REASONS; i++)
		sum += counter_read(&w->counters->drops[i]);
	return sum;
}

uint64_t forwarding_received(const struct worker *w)
{
	uint64_t sum = 0;

	for (int i = 0; i < IFACES_MAX; i++)
		sum += counter_read(&w->counters->rx[i].packets);
	return sum;
}

uint64_t forwarding_sent(const struct worker *w)
{
	uint64_t sum = 0;

	for (int i = 0; i < IFACES_MAX; i++)
		sum += counter_read(&w->counters->tx[i].packets);
	return sum;
}

uint64_t forwarding_drain(struct forwarding *f)
{
	uint64_t n = 0;

	for (int i = 0; i < N_LEARN_RINGS; i++)
		for (; learn_ring_peek(f->rings[i]); n++)
			learn_ring_pop(f->rings[i]);
	return n;
}
