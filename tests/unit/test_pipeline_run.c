/* The pipeline under random traffic: against an oracle that sends one frame after the other, and in
 * two threads while control publishes all the time. */
#include <arpa/inet.h>
#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "packet/nat.h"
#include "tests/unit/forwarding.h"
#include "tests/unit/frames.h"

#define N_VIPS 6
#define BURSTS 4000
#define WORKERS 2

static uint64_t rng;
static uint8_t buf[FRAMES_MAX], expected[2048];

static uint64_t pick(uint64_t n)
{
	return frames_random(&rng) % n;
}

/* --- against an oracle ---------------------------------------------------------------------------
 */

static const char *const addresses[N_VIPS] = {"198.51.100.1", "198.51.100.2", "198.51.100.3",
					      "2001:db8::1",  "2001:db8::2",  "198.51.100.4"};

/* VIPs of all sorts: the second and fifth tunnel, the third translates and keeps clients together,
 * the last has no DIP; some DIPs are not usable, not resolved, or behind a small MTU. */
static struct snapshot *varied_snapshot(void)
{
	struct snapshot *s = snapshot_new(1, 0);

	ck_assert_ptr_nonnull(s);
	for (uint16_t slot = 0; slot < N_VIPS; slot++) {
		struct vip_view *v = forwarding_vip(slot, addresses[slot], slot == 5 ? 0 : 7);
		v->mode = slot % 3 == 1 ? VIP_IPIP
			  : slot == 3	? VIP_GUE
			  : slot == 2	? VIP_NAT
					: VIP_L2;
		v->gue_port = 6080;
		v->affinity = slot == 2 ? AFFINITY_CLIENT : AFFINITY_FLOW;
		for (uint32_t i = 1; i < v->n_dips; i++) {
			struct dip_view *d = &vip_view_dips(v)[i];
			if (pick(2))
				d->address = frames_ip("2001:db8:9::1");
			d->nat_port_be = (uint16_t)pick(3);
			d->usable = pick(8) != 0;
			d->resolved = pick(8) != 0;
			d->mtu = pick(4) ? 1500 : 600;
		}
		forwarding_add(s, v);
	}
	return s;
}

struct fate {
	int reason; /* enum drop_reason, or -1: sent */
	unsigned egress;
	uint32_t counter, len_in, len_out;
};

/* The DIP's: v's mode. */
static int rewrite(const struct vip_view *v, const struct dip_view *d, const struct packet *p,
		   struct frame *f, uint64_t hash)
{
	struct rewrite_to to = {
		&d->address, d->dst_mac,  d->src_mac,	 d->mtu - (p->n_vlans == 2 ? 4u : 0),
		hash,	     v->gue_port, d->nat_port_be};
	static const int reasons[] = {
		[REWRITE_OK] = -1,
		[REWRITE_TOO_BIG] = DROP_frame_too_big,
		[REWRITE_NO_HEADROOM] = DROP_no_headroom,
		[REWRITE_FAMILY] = DROP_family_mismatch,
		[REWRITE_TTL] = DROP_ttl_expired,
		[REWRITE_UNTRANSLATABLE] = DROP_untranslatable,
	};

	switch (v->mode) {
	case VIP_L2:
		return reasons[rewrite_l2(f->data, f->len, p, &to)];
	case VIP_IPIP:
		return reasons[rewrite_ipip(&f->data, &f->len, f->headroom, p, &to)];
	case VIP_NAT:
		return reasons[rewrite_nat(f->data, p, &to)];
	default:
		return reasons[rewrite_gue(&f->data, &f->len, f->headroom, p, &to)];
	}
}

/* A changed byte may make a frame one on its way back, of which there is none here. */
static int marked(uint8_t *data, uint32_t len, struct packet *p)
{
	static const uint8_t types[][2] = {{0x08, 0x00}, {0x86, 0xdd}, {0x81, 0x00}, {0x88, 0xa8}};
	static const int reasons[] = {DROP_back_unknown, DROP_malformed, DROP_back_unknown,
				      DROP_malformed, DROP_not_l4};

	unsigned mark = len < 14 ? 0 : (unsigned)data[12] << 8 | data[13];
	if ((mark & STEER_BACK_MASK) != STEER_BACK_TYPE)
		return DROP_no_vip;
	memcpy(data + 12, types[mark >> STEER_BACK_KIND_SHIFT & 3], 2);
	return reasons[parse_packet(data, len, p)];
}

/* What must become of one frame, written down in the order in which exits are tried. On the way the
 * frame in buf becomes what is sent. */
static struct fate expect(const struct snapshot *s, uint32_t len, unsigned headroom)
{
	static uint8_t room[FRAMES_MAX + 256];
	struct fate f = {.len_in = len};
	struct packet p;
	struct flow_key key;
	enum lookup_reason why;
	uint32_t dcode;
	uint8_t *data = room + headroom;

	memcpy(data, buf, len);
	enum parse_result parsed = parse_packet(data, len, &p);
	static const int parse_reasons[] = {-1,		 DROP_malformed, -1,
					    DROP_no_vip, DROP_not_l4,	 DROP_answer_limit};
	f.reason = parsed == PARSE_NOT_IP ? marked(data, len, &p) : parse_reasons[parsed];
	if (f.reason >= 0)
		return f;
	const struct vip_view *v = snapshot_match(s, &p.dst, ntohs(p.dport_be), p.proto);
	f.reason = DROP_no_vip;
	if (!v)
		return f;
	flow_key_of(v, &p.src, p.sport_be, p.dport_be, p.proto, &key);
	uint16_t dip = snapshot_lookup_one(s, v, &key, &why, &dcode);
	const struct dip_view *d = &v->dips[dip];
	f.reason = DROP_no_dip;
	if (dip == DIP_NONE || !d->usable)
		return f;
	f.reason = DROP_no_neighbor;
	if (!d->resolved)
		return f;
	checksum_apply(CHECKSUM_AUTO, data, &p);
	struct frame sent = {.data = data, .len = len, .headroom = headroom};
	f.reason = rewrite(v, d, &p, &sent, flow_key_hash(&key, v->seed));
	f.egress = d->egress;
	f.counter = d->counter;
	f.len_out = sent.len;
	if (f.reason < 0)
		memcpy(expected, sent.data, sent.len);
	return f;
}

/* A random frame, mostly to one of the VIPs, sometimes broken. */
static uint32_t random_frame(void)
{
	struct frames_spec spec;
	uint32_t len;

	do {
		frames_random_spec(&rng, &spec);
		if (pick(16)) {
			bool v4 = ip_addr_is_v4(&spec.dst);
			unsigned vip = v4 ? (unsigned)pick(4) : 3 + (unsigned)pick(2);
			spec.dst = frames_ip(addresses[v4 && vip == 3 ? 5 : vip]);
			spec.final_dst = spec.dst;
			spec.dport = (uint16_t)(80 + pick(2)); /* destinations repeat in a burst */
		}
		len = frames_build(buf, &spec);
	} while (len > 1600);
	if (pick(16) == 0)
		buf[12 + pick(40)] ^= (uint8_t)(1 + pick(255));
	if (pick(16) == 0)
		len = 1 + (uint32_t)pick(len);
	return len;
}

static bool lacks_ports(uint32_t len)
{
	static uint8_t copy[FRAMES_MAX];
	struct packet p;
	enum parse_result r = parse_packet(buf, len, &p);

	if (r == PARSE_NOT_IP) {
		memcpy(copy, buf, len);
		return marked(copy, len, &p) == DROP_back_unknown && p.kind == PACKET_LATER;
	}
	return r == PARSE_FRAGMENT && p.kind == PACKET_LATER;
}

/* Other fragments than the first wait for it (tests/unit/test_fragments.c, test_back.c). */
static uint32_t random_frame_with_ports(void)
{
	uint32_t len;

	do
		len = random_frame();
	while (lacks_ports(len));
	return len;
}

static uint64_t want_drops[N_DROP_REASONS], want_tx[FORWARDING_IFACES][2], want_rx;
static uint64_t want_dips[16 * N_VIPS][2];

static void check_counters(const struct worker *w)
{
	const struct worker_counters *c = w->counters;

	for (int i = 0; i < N_DROP_REASONS; i++)
		ck_assert_msg(counter_read(&c->drops[i]) == want_drops[i], "%s: %llu, not %llu",
			      drop_reason_name[i], (unsigned long long)counter_read(&c->drops[i]),
			      (unsigned long long)want_drops[i]);
	for (int i = 0; i < FORWARDING_IFACES; i++) {
		ck_assert_uint_eq(counter_read(&c->tx[i].packets), want_tx[i][0]);
		ck_assert_uint_eq(counter_read(&c->tx[i].bytes), want_tx[i][1]);
	}
	for (int i = 0; i < 16 * N_VIPS; i++) {
		ck_assert_uint_eq(counter_read(&c->dips[i].packets), want_dips[i][0]);
		ck_assert_uint_eq(counter_read(&c->dips[i].bytes), want_dips[i][1]);
	}
	ck_assert_uint_eq(counter_read(&c->rx[0].packets) + counter_read(&c->rx[1].packets) +
				  counter_read(&c->rx[2].packets),
			  want_rx);
	ck_assert_uint_eq(forwarding_received(w), forwarding_sent(w) + forwarding_drops(w));
}

/* One burst of random frames; everything sent is taken out and compared byte for byte. */
static void run_burst(struct forwarding *fw, const struct snapshot *s)
{
	static uint8_t want[FORWARDING_IFACES][BURST_MAX][2048];
	uint32_t want_len[FORWARDING_IFACES][BURST_MAX];
	unsigned n[FORWARDING_IFACES] = {0}, burst = 1 + (unsigned)pick(BURST_MAX);

	for (unsigned i = 0; i < burst; i++) {
		uint32_t len = random_frame_with_ports();
		struct fate f = expect(s, len, 64);
		ck_assert_int_eq(port_mem_inject(fw->port, 1, (unsigned)pick(3), buf, len), 0);
		want_rx++;
		if (f.reason >= 0) {
			want_drops[f.reason]++;
			continue;
		}
		want_tx[f.egress][0]++;
		want_tx[f.egress][1] += f.len_out;
		want_dips[f.counter][0]++;
		want_dips[f.counter][1] += f.len_in;
		memcpy(want[f.egress][n[f.egress]], expected, f.len_out);
		want_len[f.egress][n[f.egress]++] = f.len_out;
	}
	ck_assert_uint_eq(worker_round(fw->worker), burst);
	for (unsigned i = 0; i < FORWARDING_IFACES; i++)
		for (unsigned k = 0; k <= n[i]; k++) {
			uint32_t len = port_mem_take(fw->port, i, buf, sizeof(buf));
			if (len != (k < n[i] ? want_len[i][k] : 0) ||
			    (len && memcmp(buf, want[i][k], len) != 0))
				ck_abort_msg("interface %u: frame %u is not as expected", i, k);
		}
	if (port_mem_n_free(fw->port) != FORWARDING_FRAMES)
		ck_abort_msg("a frame is lost");
}

START_TEST(test_random)
{
	struct forwarding fw;

	rng = frames_seed();
	forwarding_init(&fw, 64, 64, 1024);
	struct snapshot *s = varied_snapshot();
	worker_set_snapshot(fw.worker, s);
	for (unsigned i = 0; i < BURSTS; i++) {
		run_burst(&fw, s);
		forwarding_drain(&fw);
	}
	check_counters(fw.worker);
	uint64_t sent = forwarding_sent(fw.worker);
	ck_assert_uint_gt(sent, want_rx / 8);
	forwarding_destroy(&fw);
	snapshot_free(s);
}
END_TEST

/* --- two threads and a storm of publishes --------------------------------------------------------
 */

static struct forwarding storm[WORKERS];
static struct worker *workers[WORKERS];

/* In even generations all flows live on DIP 1, in odd ones on DIP 2. */
static struct snapshot *storm_snapshot(uint64_t generation)
{
	struct snapshot *s = snapshot_new(generation, 0);
	struct vip_view *v = forwarding_vip(0, "198.51.100.1", 2);

	ck_assert_ptr_nonnull(s);
	for (uint32_t c = 0; c < v->n_dcodes; c++)
		vip_view_homes(v)[c] = (uint16_t)(1 + generation % 2);
	forwarding_add(s, v);
	return s;
}

static void storm_inject(void)
{
	struct frames_spec spec = {
		.src = frames_ip("192.0.2.9"),
		.dst = frames_ip("198.51.100.1"),
		.sport = (uint16_t)pick(1000),
		.dport = 80,
		.tcp_flags = pick(2) ? FRAMES_SYN : FRAMES_ACK,
	};
	uint32_t len = frames_build(buf, &spec);

	for (unsigned n = (unsigned)pick(100); n; n--)
		if (port_mem_inject(storm[pick(WORKERS)].port, (unsigned)pick(2), 0, buf, len) != 0)
			break;
}

/* Under the hold: all that was sent since the last one went by the snapshot of this generation, and
 * so say the records; nobody forwards now. Takes both out. */
static void storm_check(struct forwarding *fw, uint64_t generation, uint64_t *n_frames)
{
	unsigned egress = 1 + generation % 2;
	const struct learn_record *r;

	for (int i = 0; i < N_LEARN_RINGS; i++)
		for (; (r = learn_ring_peek(fw->rings[i])); learn_ring_pop(fw->rings[i]))
			if (r->generation != generation || r->dip != egress)
				ck_abort_msg("a record of generation %llu in %llu",
					     (unsigned long long)r->generation,
					     (unsigned long long)generation);
	for (unsigned i = 0; i < FORWARDING_IFACES; i++)
		while (port_mem_take(fw->port, i, buf, sizeof(buf))) {
			if (i != egress)
				ck_abort_msg("a frame went by an old snapshot");
			(*n_frames)++;
		}
}

START_TEST(test_publish_storm)
{
	uint64_t n_frames = 0;
	struct snapshot *s = storm_snapshot(1), *next;

	rng = frames_seed();
	for (unsigned i = 0; i < WORKERS; i++) {
		forwarding_init(&storm[i], 256, 64, 1024);
		workers[i] = storm[i].worker;
		worker_set_snapshot(workers[i], s);
		ck_assert_int_eq(worker_start(workers[i]), 0);
	}
	for (uint64_t generation = 1; generation <= 3000; generation++) {
		storm_inject();
		if (pick(100) == 0)
			usleep(500); /* they fall asleep */
		if (pick(4) == 0)
			sched_yield();
		next = storm_snapshot(generation + 1);
		workers_hold(workers, WORKERS);
		ck_assert_int_eq(workers_wait_parked(workers, WORKERS, -1), 0);
		storm_inject(); /* for the next one */
		for (unsigned i = 0; i < WORKERS; i++) {
			storm_check(&storm[i], generation, &n_frames);
			worker_set_snapshot(workers[i], next);
		}
		snapshot_free(s);
		s = next;
		workers_release(workers, WORKERS);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		worker_stop(workers[i]);
		ck_assert_uint_eq(forwarding_received(workers[i]),
				  forwarding_sent(workers[i]) + forwarding_drops(workers[i]));
	}
	ck_assert_uint_gt(n_frames, 10000);
	for (unsigned i = 0; i < WORKERS; i++)
		forwarding_destroy(&storm[i]);
	snapshot_free(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pipeline_run");
	TCase *tc = tcase_create("pipeline_run");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_random);
	tcase_add_test(tc, test_publish_storm);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
