/* The pipeline over port_mem: each exit of a frame, and what is counted and learned on the way. */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>

#include "tests/unit/forwarding.h"
#include "tests/unit/icmp_frames.h"

#define VIP_ADDRESS "198.51.100.1"
#define VIP6_ADDRESS "2001:db8::1"
#define NOW_MS 1000000u

static struct forwarding fw;
static struct worker *w;
static struct snapshot *snap;
static uint8_t buf[FRAMES_MAX];

static void set_up_with(struct vip_view *v, unsigned tx_ring, unsigned headroom, uint32_t n_records)
{
	forwarding_init(&fw, tx_ring, headroom, n_records);
	w = fw.worker;
	snap = snapshot_new(42, 8);
	ck_assert_ptr_nonnull(snap);
	forwarding_add(snap, v);
	worker_set_snapshot(w, snap);
}

static void set_up(struct vip_view *v)
{
	set_up_with(v, 64, 128, 64);
}

/* Nothing is lost: every frame that came in went out, or was dropped and is back in the pool. */
static void tear_down(void)
{
	ck_assert_uint_eq(forwarding_received(w), forwarding_sent(w) + forwarding_drops(w));
	for (unsigned i = 0; i < FORWARDING_IFACES; i++)
		while (port_mem_take(fw.port, i, buf, sizeof(buf)))
			;
	ck_assert_uint_eq(port_mem_n_free(fw.port), FORWARDING_FRAMES);
	forwarding_destroy(&fw);
	snapshot_free(snap);
}

static struct frames_spec spec_to(const char *dst, uint16_t sport)
{
	struct frames_spec spec = {
		.src = frames_ip(strchr(dst, ':') ? "2001:db8:1::9" : "192.0.2.9"),
		.dst = frames_ip(dst),
		.sport = sport,
		.dport = 80,
	};

	return spec;
}

static void inject(const struct frames_spec *spec)
{
	uint32_t len = frames_build(buf, spec);

	ck_assert_int_eq(port_mem_inject(fw.port, 0, 1, buf, len), 0);
}

static uint16_t dip_for(const struct vip_view *v, const struct frames_spec *spec)
{
	struct flow_key key;
	enum lookup_reason reason;
	uint32_t dcode;

	flow_key_of(v, &spec->src, htons(spec->sport), htons(spec->dport),
		    spec->proto ? spec->proto : IPPROTO_TCP, &key);
	return snapshot_lookup_one(snap, v, &key, &reason, &dcode);
}

/* --- drops ---------------------------------------------------------------------------------------
 */

/* Give what is in the queue to the pipeline: all n frames must end under this reason alone. */
static void check_all_drop(enum drop_reason reason, unsigned n, uint64_t n_records)
{
	ck_assert_uint_eq(worker_round(w), n);
	for (int i = 0; i < N_DROP_REASONS; i++)
		ck_assert_msg(counter_read(&w->counters->drops[i]) == (i == (int)reason ? n : 0),
			      "%s, not %s", drop_reason_name[i], drop_reason_name[reason]);
	ck_assert_uint_eq(forwarding_sent(w), 0);
	ck_assert_uint_eq(counter_read(&w->counters->rx[1].packets), n);
	ck_assert_uint_eq(forwarding_drain(&fw), n_records);
	ck_assert_uint_eq(port_mem_n_free(fw.port), FORWARDING_FRAMES);
	tear_down();
}

START_TEST(test_drop_malformed)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);

	set_up(forwarding_vip(0, VIP_ADDRESS, 2));
	spec.no_min = true;
	uint32_t len = frames_build(buf, &spec);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, 1, buf, len - 1), 0);
	check_all_drop(DROP_malformed, 1, 0);
}
END_TEST

START_TEST(test_drop_not_l4)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);

	set_up(forwarding_vip(0, VIP_ADDRESS, 2));
	spec.proto = IPPROTO_ICMP;
	inject(&spec);
	check_all_drop(DROP_not_l4, 1, 0);
}
END_TEST

START_TEST(test_drop_no_vip)
{
	struct frames_spec spec = spec_to("198.51.100.2", 1);

	set_up(forwarding_vip(0, VIP_ADDRESS, 2));
	inject(&spec);
	spec = spec_to(VIP_ADDRESS, 1);
	uint32_t len = frames_build(buf, &spec);
	buf[12] = 0x88; /* not IP */
	buf[13] = 0xcc;
	ck_assert_int_eq(port_mem_inject(fw.port, 0, 1, buf, len), 0);
	check_all_drop(DROP_no_vip, 2, 0);
}
END_TEST

/* 0: the VIP has no table; 1: its table names no DIP; 2: it names one that is not usable */
START_TEST(test_drop_no_dip)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, _i ? 1 : 0);

	if (_i == 1)
		memset(vip_view_homes(v), 0, v->n_dcodes * sizeof(*v->homes));
	if (_i == 2)
		vip_view_dips(v)[1].usable = false;
	set_up(v);
	inject(&spec);
	check_all_drop(DROP_no_dip, 1, 0);
}
END_TEST

/* The flow keeps the DIP that it could not be sent to: it is learned. */
START_TEST(test_drop_no_neighbor)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);

	vip_view_dips(v)[1].resolved = false;
	set_up(v);
	spec.tcp_flags = FRAMES_SYN;
	inject(&spec);
	check_all_drop(DROP_no_neighbor, 1, 1);
}
END_TEST

START_TEST(test_drop_frame_too_big)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);

	vip_view_dips(v)[1].mtu = 1000;
	set_up(v);
	spec.payload_len = 961;
	inject(&spec);
	check_all_drop(DROP_frame_too_big, 1, 1);
}
END_TEST

/* Several buffers, of which the first holds too little, whatever that looks like. */
START_TEST(test_drop_multi_buffer)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);

	set_up(forwarding_vip(0, VIP_ADDRESS, 2));
	spec.payload_len = 3000;
	uint32_t len = frames_build(buf, &spec);
	ck_assert_int_eq(port_mem_inject_more(fw.port, 0, 1, buf, len, PARSE_FRONT_MIN - 1), 0);
	memset(buf, 0, len);
	ck_assert_int_eq(port_mem_inject_more(fw.port, 0, 1, buf, len, 1), 0);
	check_all_drop(DROP_frame_too_big, 2, 0);
}
END_TEST

START_TEST(test_drop_no_headroom)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);

	v->mode = VIP_IPIP;
	set_up_with(v, 64, 19, 64);
	inject(&spec);
	check_all_drop(DROP_no_headroom, 1, 1);
}
END_TEST

START_TEST(test_drop_ttl_expired)
{
	struct frames_spec spec = spec_to(VIP6_ADDRESS, 1);
	struct vip_view *v = forwarding_vip(0, VIP6_ADDRESS, 1);

	spec.ttl = 1;
	v->mode = VIP_IPIP;
	set_up(v);
	inject(&spec);
	check_all_drop(DROP_ttl_expired, 1, 1);
}
END_TEST

/* What the egress ring does not take is dropped, the rest is sent and counted for its DIP. */
START_TEST(test_drop_tx_full)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);

	set_up_with(forwarding_vip(0, VIP_ADDRESS, 1), 3, 128, 64);
	for (int i = 0; i < 10; i++)
		inject(&spec);
	ck_assert_uint_eq(worker_round(w), 10);
	ck_assert_uint_eq(counter_read(&w->counters->drops[DROP_tx_full]), 7);
	ck_assert_uint_eq(forwarding_drops(w), 7);
	ck_assert_uint_eq(counter_read(&w->counters->tx[1].packets), 3);
	ck_assert_uint_eq(counter_read(&w->counters->dips[1].packets), 3);
	ck_assert_uint_eq(port_mem_n_free(fw.port), FORWARDING_FRAMES - 3);
	tear_down();
}
END_TEST

START_TEST(test_drop_learn_overflow)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);

	v->on_learn_overflow = OVERFLOW_DROP;
	set_up_with(v, 64, 128, 4);
	spec.tcp_flags = FRAMES_SYN;
	for (int i = 0; i < 6; i++)
		inject(&spec);
	ck_assert_uint_eq(worker_round(w), 6);
	ck_assert_uint_eq(counter_read(&w->counters->drops[DROP_learn_overflow]), 2);
	ck_assert_uint_eq(counter_read(&w->counters->lost_openings), 2);
	ck_assert_uint_eq(counter_read(&w->counters->unlearned), 0);
	ck_assert_uint_eq(forwarding_sent(w), 4);
	tear_down();
}
END_TEST

START_TEST(test_overflow_forwards)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);

	set_up_with(forwarding_vip(0, VIP_ADDRESS, 1), 64, 128, 4);
	spec.tcp_flags = FRAMES_SYN;
	for (int i = 0; i < 6; i++)
		inject(&spec);
	spec.tcp_flags = 0;
	for (spec.sport = 100; spec.sport < 107; spec.sport++)
		inject(&spec);
	spec.proto = IPPROTO_UDP;
	for (spec.sport = 100; spec.sport < 105; spec.sport++)
		inject(&spec);
	ck_assert_uint_eq(worker_round(w), 18);
	ck_assert_uint_eq(forwarding_sent(w), 18);
	ck_assert_uint_eq(counter_read(&w->counters->lost_openings), 2);
	ck_assert_uint_eq(counter_read(&w->counters->lost_refreshes), 3);
	ck_assert_uint_eq(counter_read(&w->counters->lost_datagrams), 1);
	ck_assert_uint_eq(counter_read(&w->counters->unlearned), 3);
	tear_down();
}
END_TEST

/* --- ways out ------------------------------------------------------------------------------------
 */

/* Three egress interfaces in one burst: each frame leaves by its DIP's, with its MACs, in the order
 * of arrival; every counter says so. */
START_TEST(test_egress)
{
	struct vip_view *v = forwarding_vip(3, VIP_ADDRESS, 6);
	uint64_t packets[7] = {0}, bytes[7] = {0};
	uint16_t order[FORWARDING_IFACES][BURST_MAX];
	unsigned n[FORWARDING_IFACES] = {0}, taken;

	set_up(v);
	for (uint16_t i = 0; i < BURST_MAX; i++) {
		struct frames_spec spec = spec_to(VIP_ADDRESS, i);
		spec.payload_len = i * 10u;
		inject(&spec);
		uint16_t dip = dip_for(v, &spec);
		packets[dip]++;
		bytes[dip] += frames_build(buf, &spec);
		order[v->dips[dip].egress][n[v->dips[dip].egress]++] = i;
	}
	ck_assert_uint_eq(worker_round(w), BURST_MAX);
	for (unsigned iface = 0; iface < FORWARDING_IFACES; iface++) {
		uint64_t sent = 0;
		ck_assert_uint_gt(n[iface], 0);
		for (taken = 0; taken < n[iface]; taken++) {
			struct frames_spec spec = spec_to(VIP_ADDRESS, order[iface][taken]);
			spec.payload_len = order[iface][taken] * 10u;
			const struct dip_view *d = &v->dips[dip_for(v, &spec)];
			uint32_t len = port_mem_take(fw.port, iface, buf, sizeof(buf));
			memcpy(spec.dst_mac, d->dst_mac, 6);
			memcpy(spec.src_mac, d->src_mac, 6);
			static uint8_t want[FRAMES_MAX];
			ck_assert_uint_eq(len, frames_build(want, &spec));
			ck_assert_mem_eq(buf, want, len);
			sent += len;
		}
		ck_assert_uint_eq(port_mem_take(fw.port, iface, buf, sizeof(buf)), 0);
		ck_assert_uint_eq(counter_read(&w->counters->tx[iface].packets), n[iface]);
		ck_assert_uint_eq(counter_read(&w->counters->tx[iface].bytes), sent);
	}
	for (unsigned d = 1; d <= 6; d++) {
		ck_assert_uint_eq(counter_read(&w->counters->dips[48 + d].packets), packets[d]);
		ck_assert_uint_eq(counter_read(&w->counters->dips[48 + d].bytes), bytes[d]);
	}
	ck_assert_uint_eq(counter_read(&w->counters->bursts), 1);
	tear_down();
}
END_TEST

/* Received frames are counted by the interface they came by; DIPs count bytes as received,
 * interfaces as sent (ipip adds a header). */
START_TEST(test_ipip_and_rx_counters)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);

	v->mode = VIP_IPIP;
	set_up(v);
	uint32_t len = frames_build(buf, &spec), inner = 40;
	for (unsigned i = 0; i < 7; i++)
		ck_assert_int_eq(port_mem_inject(fw.port, 0, i / 2 % 3, buf, len), 0);
	ck_assert_uint_eq(worker_round(w), 7);
	static const unsigned by[] = {3, 2, 2};
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(counter_read(&w->counters->rx[i].packets), by[i]);
		ck_assert_uint_eq(counter_read(&w->counters->rx[i].bytes), by[i] * len);
	}
	ck_assert_uint_eq(counter_read(&w->counters->dips[1].bytes), 7 * len);
	ck_assert_uint_eq(counter_read(&w->counters->tx[1].bytes), 7 * (14 + 20 + inner));
	ck_assert_uint_eq(port_mem_take(fw.port, 1, buf, sizeof(buf)), 14 + 20 + inner);
	ck_assert_mem_eq(buf + 14 + 16, &v->dips[1].address.b[12], 4);
	tear_down();
}
END_TEST

START_TEST(test_checksum)
{
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	static uint8_t want[FRAMES_MAX];

	set_up(forwarding_vip(0, VIP_ADDRESS, 1));
	spec.payload_len = 100;
	spec.sum = FRAMES_SUM_PARTIAL;
	inject(&spec);
	ck_assert_uint_eq(worker_round(w), 1);
	ck_assert_uint_eq(counter_read(&w->counters->checksums_completed), 1);
	uint32_t len = port_mem_take(fw.port, 1, buf, sizeof(buf));
	spec.sum = FRAMES_SUM_FULL;
	ck_assert_uint_eq(len, frames_build(want, &spec));
	ck_assert_mem_eq(buf + 12, want + 12, len - 12);
	/* asked to keep checksums, it keeps them */
	w->checksum = CHECKSUM_KEEP;
	spec.sum = FRAMES_SUM_PARTIAL;
	inject(&spec);
	ck_assert_uint_eq(worker_round(w), 1);
	ck_assert_uint_eq(counter_read(&w->counters->checksums_completed), 1);
	tear_down();
}
END_TEST

/* --- ICMP
 * ------------------------------------------------------------------------------------------
 */

static struct icmp_spec error_about(const struct frames_spec *flow)
{
	struct icmp_spec s = {.type = ip_addr_is_v4(&flow->dst) ? 3 : 2, .code = 4};

	s.quoted = *flow;
	s.quoted.src = flow->dst;
	s.quoted.dst = flow->src;
	s.quoted.sport = flow->dport;
	s.quoted.dport = flow->sport;
	s.outer.src = frames_ip(ip_addr_is_v4(&flow->dst) ? "203.0.113.1" : "2001:db8:77::1");
	s.outer.dst = flow->dst;
	return s;
}

/* An error goes where its flow goes, in every mode, untouched behind what the mode puts in front,
 * and nothing is learned of it. With affinity client the quoted client counts, not who sent the
 * error. */
START_TEST(test_icmp_error)
{
	static const uint8_t fronts[] = {[VIP_L2] = 0, [VIP_IPIP] = 20, [VIP_GUE] = 32};
	bool v6 = _i & 1;
	struct vip_view *v = forwarding_vip(0, v6 ? VIP6_ADDRESS : VIP_ADDRESS, 6);
	static uint8_t sent[FRAMES_MAX];

	v->mode = (uint8_t)(_i / 2 % 3);
	v->affinity = _i / 6 ? AFFINITY_CLIENT : AFFINITY_FLOW;
	set_up(v);
	for (uint16_t sport = 1; sport <= 20; sport++) {
		struct frames_spec flow = spec_to(v6 ? VIP6_ADDRESS : VIP_ADDRESS, sport);
		flow.src.b[15] = (uint8_t)sport;
		struct icmp_spec s = error_about(&flow);
		const struct dip_view *d = &v->dips[dip_for(v, &flow)];
		uint32_t len = icmp_frames_build(buf, &s), front = fronts[v->mode];

		ck_assert_int_eq(port_mem_inject(fw.port, 0, 1, buf, len), 0);
		ck_assert_uint_eq(worker_round(w), 1);
		ck_assert_uint_eq(port_mem_take(fw.port, d->egress, sent, sizeof(sent)),
				  len + front);
		ck_assert_mem_eq(sent, d->dst_mac, 6);
		ck_assert_mem_eq(sent + 14 + front + 40, buf + 14 + 40, len - 14 - 40);
	}
	ck_assert_uint_eq(forwarding_drain(&fw), 0);
	ck_assert_uint_eq(forwarding_drops(w), 0);
	tear_down();
}
END_TEST

/* Nor does it leave for a DIP whose way is not known. */
START_TEST(test_icmp_error_no_neighbor)
{
	struct frames_spec flow = spec_to(VIP_ADDRESS, 1);
	struct icmp_spec s = error_about(&flow);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);

	vip_view_dips(v)[1].resolved = false;
	set_up(v);
	uint32_t len = icmp_frames_build(buf, &s);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, 1, buf, len), 0);
	check_all_drop(DROP_no_neighbor, 1, 0);
}
END_TEST

START_TEST(test_echo)
{
	struct icmp_spec s = {.type = 8, .no_quote = true, .quoted_len = 30};

	s.outer.src = frames_ip("192.0.2.9");
	s.outer.dst = frames_ip(VIP_ADDRESS);
	set_up_with(forwarding_vip(0, VIP_ADDRESS, 1), 256, 128, 64);
	uint32_t len = icmp_frames_build(buf, &s);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, 2, buf, len), 0);
	ck_assert_uint_eq(worker_round(w), 1);
	ck_assert_uint_eq(counter_read(&w->counters->drops[DROP_answer_limit]), 1);
	/* the rate was 0 */
	w->echo_limit.per_s = 100;
	w->echo_limit.filled_ms -= 1000;
	for (int i = 0; i < 30; i++)
		ck_assert_int_eq(port_mem_inject(fw.port, 0, 2, buf, len), 0);
	ck_assert_uint_eq(worker_round(w), 30);
	uint64_t replies = counter_read(&w->counters->echo_replies);
	ck_assert_uint_eq(replies, 10); /* a tenth of a second's */
	ck_assert_uint_eq(forwarding_drops(w), 31 - replies);
	ck_assert_uint_eq(counter_read(&w->counters->tx[2].packets), replies);
	ck_assert_uint_eq(counter_read(&w->counters->dips[1].packets), 0);
	ck_assert_uint_eq(port_mem_take(fw.port, 2, buf, sizeof(buf)), len);
	ck_assert_uint_eq(buf[14 + 20], 0);
	/* one that gets no answer */
	s.outer.src = frames_ip("224.0.0.1");
	len = icmp_frames_build(buf, &s);
	w->echo_limit.filled_ms -= 1000;
	ck_assert_int_eq(port_mem_inject(fw.port, 0, 2, buf, len), 0);
	ck_assert_uint_eq(worker_round(w), 1);
	ck_assert_uint_eq(counter_read(&w->counters->drops[DROP_not_l4]), 1);
	tear_down();
}
END_TEST

/* Too big for its way: dropped, and the client is told by the way that it came how much fits. The
 * answer is sent besides, so what was received and answered is what was sent and dropped. */
START_TEST(test_too_big_answer)
{
	static const unsigned overheads[] = {[VIP_L2] = 0, [VIP_IPIP] = 20, [VIP_GUE] = 32};
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);
	unsigned mode = (unsigned)_i % 3, tags = (unsigned)_i / 3;

	v->mode = (uint8_t)mode;
	vip_view_dips(v)[1].mtu = 1000;
	set_up_with(v, 2, 128, 64);
	w->too_big_limit.per_s = 100000;
	spec.n_vlans = tags;
	unsigned fits = 1000 - overheads[mode] - (tags > 1 ? 4 : 0);
	spec.payload_len = fits - 40;
	inject(&spec);
	ck_assert_uint_eq(worker_round(w), 1);
	ck_assert_uint_eq(forwarding_drops(w), 0);
	ck_assert_uint_gt(port_mem_take(fw.port, 1, buf, sizeof(buf)), fits);
	spec.payload_len++;
	for (int i = 0; i < 5; i++) {
		uint32_t len = frames_build(buf, &spec);
		ck_assert_int_eq(port_mem_inject(fw.port, 0, 2, buf, len), 0);
	}
	ck_assert_uint_eq(worker_round(w), 5);
	/* the ring took two: the others are drops without an answer, and of no other reason */
	ck_assert_uint_eq(counter_read(&w->counters->too_big_replies), 2);
	ck_assert_uint_eq(counter_read(&w->counters->drops[DROP_frame_too_big]), 5);
	ck_assert_uint_eq(forwarding_drops(w), 5);
	ck_assert_uint_eq(counter_read(&w->counters->tx[2].packets), 2);
	ck_assert_uint_eq(counter_read(&w->counters->dips[1].packets), 1);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(port_mem_take(fw.port, 2, buf, sizeof(buf)), 14 + 4 * tags + 576);
	const uint8_t *ip = buf + 14 + 4 * tags;
	ck_assert_mem_eq(ip + 12, &spec.dst.b[12], 4);
	ck_assert_mem_eq(ip + 16, &spec.src.b[12], 4);
	ck_assert_uint_eq(ip[20 + 6] << 8 | ip[20 + 7], fits);
	w->too_big_limit.per_s = 0;
	inject(&spec);
	ck_assert_uint_eq(worker_round(w), 1);
	ck_assert_uint_eq(counter_read(&w->counters->too_big_replies), 2);
	/* tear_down's sum */
	ck_assert_uint_eq(forwarding_received(w) + 2, forwarding_sent(w) + forwarding_drops(w));
	counter_add(&w->counters->rx[0].packets, 2);
	tear_down();
}
END_TEST

/* An error that is too big itself brings no other one. */
START_TEST(test_too_big_error)
{
	struct frames_spec flow = spec_to(VIP_ADDRESS, 1);
	struct icmp_spec s = error_about(&flow);
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);

	v->mode = VIP_IPIP;
	vip_view_dips(v)[1].mtu = 300;
	set_up(v);
	w->too_big_limit.per_s = 100000;
	s.quoted.payload_len = 400;
	ck_assert_int_eq(port_mem_inject(fw.port, 0, 1, buf, icmp_frames_build(buf, &s)), 0);
	check_all_drop(DROP_frame_too_big, 1, 0);
}
END_TEST

/* --- learning ------------------------------------------------------------------------------------
 */

START_TEST(test_record)
{
	struct vip_view *v = forwarding_vip(5, VIP_ADDRESS, 4);
	struct frames_spec spec = spec_to(VIP_ADDRESS, 4711);
	struct frame frame;

	set_up(v);
	spec.tcp_flags = FRAMES_SYN;
	inject(&spec);
	ck_assert_uint_eq(port_rx(fw.port, 0, &frame, 1), 1);
	pipeline_burst(w, snap, &frame, 1, 0x500000000u + NOW_MS);
	const struct learn_record *r = learn_ring_peek(fw.rings[RING_OPENING]);
	ck_assert_ptr_nonnull(r);
	ck_assert(ip_addr_equal(&r->key.src, &spec.src) && r->key.sport_be == htons(4711));
	ck_assert(r->key.dport_be == htons(80) && r->key.proto == IPPROTO_TCP);
	ck_assert(r->hash == flow_key_hash(&r->key, v->seed));
	ck_assert(r->seq == 1 && r->generation == 42 && r->time_ms == NOW_MS);
	ck_assert(r->vip_uid == 1005 && r->vip_slot == 5 && r->kind == LEARN_SYN);
	ck_assert(r->dip == dip_for(v, &spec) && r->dip != DIP_NONE);
	port_flush(fw.port);
	ck_assert_uint_gt(port_mem_take(fw.port, v->dips[r->dip].egress, buf, sizeof(buf)), 0);
	tear_down();
}
END_TEST

/* A flow of the exact table goes where that says, and its record too. */
START_TEST(test_exact)
{
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 2);
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct flow_key key;

	set_up(v);
	uint16_t home = dip_for(v, &spec), other = home == 1 ? 2 : 1;
	flow_key_of(v, &spec.src, htons(spec.sport), htons(spec.dport), IPPROTO_TCP, &key);
	ck_assert_int_eq(snapshot_exact_add(snap, 0, &key, flow_key_hash(&key, v->seed), other), 0);
	inject(&spec);
	ck_assert_uint_eq(worker_round(w), 1);
	ck_assert_uint_eq(counter_read(&w->counters->dips[other].packets), 1);
	ck_assert_uint_eq(counter_read(&w->counters->dips[home].packets), 0);
	ck_assert_uint_eq(learn_ring_peek(fw.rings[RING_REFRESH])->dip, other);
	tear_down();
}
END_TEST

/* Scenario: a datagram flow comes back after its time-out, its stale seen entry still there, while
 * the rings are full, under `drop`: it is dropped, never carried unlearned. */
START_TEST(test_stale_entry_full_rings)
{
	struct vip_view *v = forwarding_vip(0, VIP_ADDRESS, 1);
	struct frames_spec spec = spec_to(VIP_ADDRESS, 1);
	struct frame frame;
	uint64_t times[] = {NOW_MS, NOW_MS + 70000, NOW_MS + 70001};

	v->on_learn_overflow = OVERFLOW_DROP;
	spec.proto = IPPROTO_UDP;
	set_up_with(v, 64, 128, 1);
	for (unsigned i = 0; i < 3; i++) {
		if (i == 2) /* control has caught up */
			ck_assert_uint_eq(forwarding_drain(&fw), 1);
		inject(&spec);
		ck_assert_uint_eq(port_rx(fw.port, 0, &frame, 1), 1);
		pipeline_burst(w, snap, &frame, 1, times[i]);
		ck_assert_uint_eq(counter_read(&w->counters->drops[DROP_learn_overflow]), i > 0);
		ck_assert_uint_eq(forwarding_sent(w), i == 0 ? 1 : i);
	}
	port_flush(fw.port);
	tear_down();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pipeline");
	TCase *tc = tcase_create("pipeline");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_drop_malformed);
	tcase_add_test(tc, test_drop_not_l4);
	tcase_add_test(tc, test_drop_no_vip);
	tcase_add_loop_test(tc, test_drop_no_dip, 0, 3);
	tcase_add_test(tc, test_drop_no_neighbor);
	tcase_add_test(tc, test_drop_frame_too_big);
	tcase_add_test(tc, test_drop_multi_buffer);
	tcase_add_test(tc, test_drop_no_headroom);
	tcase_add_test(tc, test_drop_ttl_expired);
	tcase_add_test(tc, test_drop_tx_full);
	tcase_add_test(tc, test_drop_learn_overflow);
	tcase_add_test(tc, test_overflow_forwards);
	tcase_add_test(tc, test_egress);
	tcase_add_test(tc, test_ipip_and_rx_counters);
	tcase_add_test(tc, test_checksum);
	tcase_add_loop_test(tc, test_icmp_error, 0, 12);
	tcase_add_test(tc, test_icmp_error_no_neighbor);
	tcase_add_test(tc, test_echo);
	tcase_add_loop_test(tc, test_too_big_answer, 0, 9);
	tcase_add_test(tc, test_too_big_error);
	tcase_add_test(tc, test_record);
	tcase_add_test(tc, test_exact);
	tcase_add_test(tc, test_stale_entry_full_rings);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
