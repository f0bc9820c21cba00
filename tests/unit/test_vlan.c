/* Tags of frames that leave: a worker over port_mem whose host is in some VLANs. What a frame that
 * changes its VLAN looks like is told by another that was in the new one all the way. */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>

#include "tests/unit/forwarding.h"
#include "tests/unit/frames.h"
#include "worker/vlan.h"

#define VIP "198.51.100.1"
#define VIP6 "2001:db8::100"
#define CLIENT "192.0.2.9"
#define CLIENT6 "2001:db8:c::9"
#define IN 1	   /* interface by which frames come */
#define OUT 2	   /* and by which they leave */
#define OURS 10	   /* a VLAN of the host's, at IN alone */
#define DIPS 20	   /* the DIP's */
#define FOREIGN 30 /* one that is not the host's */

static struct forwarding fw;
static struct host_links links;
static struct snapshot *snap;
static struct vip_view *views[2]; /* by whether it is IPv6 */
static uint8_t buf[FRAMES_MAX], want[FRAMES_MAX];

static void join(unsigned iface, unsigned id)
{
	links.vlans[iface][id / 64] |= 1ull << (id % 64);
}

static struct vip_view *make_vip(uint16_t slot, const char *address, const char *dip)
{
	struct vip_view *v = forwarding_vip(slot, address, 1);
	struct dip_view *d = &vip_view_dips(v)[1];

	d->address = frames_ip(dip);
	d->egress = OUT;
	forwarding_add(snap, v);
	return v;
}

static void set_up_with(unsigned headroom)
{
	links = (struct host_links){0};
	join(IN, OURS);
	forwarding_init(&fw, 64, headroom, 256);
	fw.worker->links = &links;
	snap = snapshot_new(42, 8);
	ck_assert_ptr_nonnull(snap);
	views[0] = make_vip(0, VIP, "10.9.0.1");
	views[1] = make_vip(1, VIP6, "fd09::1");
	worker_set_snapshot(fw.worker, snap);
}

static void set_up(void)
{
	set_up_with(128);
}

static void tear_down(void)
{
	ck_assert_uint_eq(forwarding_received(fw.worker),
			  forwarding_sent(fw.worker) + forwarding_drops(fw.worker));
	ck_assert_uint_eq(port_mem_n_free(fw.port), FORWARDING_FRAMES);
	forwarding_destroy(&fw);
	snapshot_free(snap);
}

static struct dip_view *dip_of(bool v6)
{
	return &vip_view_dips(views[v6])[1];
}

static struct frames_spec request(bool v6)
{
	return (struct frames_spec){
		.src = frames_ip(v6 ? CLIENT6 : CLIENT),
		.dst = frames_ip(v6 ? VIP6 : VIP),
		.sport = 40000,
		.dport = 80,
		.payload_len = 100,
		.padding = 7,
	};
}

/* What leaves for this frame, in out; its length, 0 = nothing. */
static uint32_t carry(const struct frames_spec *s, uint8_t *out)
{
	uint32_t len = frames_build(buf, s);

	ck_assert_int_eq(port_mem_inject(fw.port, 0, IN, buf, len), 0);
	ck_assert_uint_eq(worker_round(fw.worker), 1);
	len = port_mem_take(fw.port, OUT, out, FRAMES_MAX);
	forwarding_drain(&fw);
	return len;
}

/* The same frame where the host is in no VLAN at all. */
static uint32_t carry_as_it_is(const struct frames_spec *s, uint8_t *out, bool v6)
{
	struct dip_view *d = dip_of(v6);
	uint16_t vlan = d->vlan;

	d->vlan = 0;
	fw.worker->links = NULL;
	uint32_t len = carry(s, out);
	fw.worker->links = &links;
	d->vlan = vlan;
	return len;
}

struct tags {
	unsigned n;
	uint16_t tci[2], tpid[2];
};

static void put_tags(struct frames_spec *s, const struct tags *t)
{
	s->n_vlans = t->n;
	memcpy(s->vlan_tci, t->tci, sizeof(t->tci));
	memcpy(s->vlan_tpid, t->tpid, sizeof(t->tpid));
}

#define PRIORITY 0xb000u /* PCP 5, DEI */

static const struct {
	struct tags in;
	uint16_t vlan; /* the DIP's */
	struct tags out;
} cases[] = {
	/* into a VLAN: its tag alone, with the priority of the one before */
	{{0}, DIPS, {1, {DIPS}, {0}}},
	{{1, {OURS}, {0}}, DIPS, {1, {DIPS}, {0}}},
	{{1, {OURS | PRIORITY}, {0}}, DIPS, {1, {DIPS | PRIORITY}, {0}}},
	{{1, {FOREIGN}, {0}}, DIPS, {1, {DIPS}, {0}}},
	{{1, {PRIORITY}, {0}}, DIPS, {1, {DIPS | PRIORITY}, {0}}},
	{{1, {FOREIGN}, {0x88a8}}, DIPS, {1, {DIPS}, {0}}},
	{{2, {FOREIGN | PRIORITY, OURS}, {0}}, DIPS, {1, {DIPS | PRIORITY}, {0}}},
	{{1, {DIPS}, {0}}, DIPS, {1, {DIPS}, {0}}},
	/* out of one */
	{{1, {OURS}, {0}}, 0, {0}},
	{{1, {OURS | PRIORITY}, {0}}, 0, {0}},
	/* none of the host's */
	{{0}, 0, {0}},
	{{1, {FOREIGN}, {0}}, 0, {1, {FOREIGN}, {0}}},
	{{1, {PRIORITY}, {0}}, 0, {1, {PRIORITY}, {0}}},
	{{1, {OURS}, {0x88a8}}, 0, {1, {OURS}, {0x88a8}}},
	{{2, {OURS, FOREIGN}, {0x8100, 0x8100}}, 0, {2, {OURS, FOREIGN}, {0x8100, 0x8100}}},
};

static void check_case(size_t k, enum vip_mode mode, bool v6)
{
	struct frames_spec s = request(v6);

	views[v6]->mode = (uint8_t)mode;
	dip_of(v6)->vlan = cases[k].vlan;
	put_tags(&s, &cases[k].out);
	uint32_t len = carry_as_it_is(&s, want, v6);
	ck_assert_uint_ne(len, 0);
	put_tags(&s, &cases[k].in);
	ck_assert_msg(carry(&s, buf) == len, "case %zu, mode %d", k, mode);
	ck_assert_msg(memcmp(buf, want, len) == 0, "case %zu, mode %d", k, mode);
}

START_TEST(test_tags)
{
	static const enum vip_mode modes[] = {VIP_L2, VIP_IPIP, VIP_GUE, VIP_NAT};

	set_up();
	for (size_t k = 0; k < ARRAY_LEN(cases); k++)
		for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
			check_case(k, modes[m], false);
			check_case(k, modes[m], true);
		}
	tear_down();
}
END_TEST

/* Byte for byte what was meant, and not only like another one. */
START_TEST(test_bytes)
{
	struct frames_spec s = request(false);

	set_up();
	dip_of(false)->vlan = DIPS;
	s.n_vlans = 1;
	s.vlan_tci[0] = OURS;
	uint32_t len = carry(&s, buf);
	s.vlan_tci[0] = DIPS;
	memcpy(s.dst_mac, dip_of(false)->dst_mac, 6);
	memcpy(s.src_mac, dip_of(false)->src_mac, 6);
	ck_assert_uint_eq(frames_build(want, &s), len);
	ck_assert_mem_eq(buf, want, len);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->tx[OUT].bytes), len);
	tear_down();
}
END_TEST

/* The tag needs 4 bytes in front, behind a tunnel's header 24 in all. */
START_TEST(test_headroom)
{
	struct frames_spec s = request(false);

	for (unsigned headroom = 20; headroom <= 24; headroom++) {
		set_up_with(headroom);
		views[0]->mode = VIP_IPIP;
		dip_of(false)->vlan = DIPS;
		s.n_vlans = 0;
		ck_assert_uint_eq(carry(&s, buf) != 0, headroom == 24);
		ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_no_headroom]),
				  headroom < 24);
		s.n_vlans = 1; /* it has room for one already */
		s.vlan_tci[0] = FOREIGN;
		ck_assert_uint_ne(carry(&s, buf), 0);
		tear_down();
	}
}
END_TEST

/* A link takes one tag on top of its MTU, not two: what counts are those with which a frame leaves.
 */
START_TEST(test_mtu)
{
	struct frames_spec s = request(false);

	set_up();
	s.padding = 0;
	s.payload_len = 1500 - 40;
	s.n_vlans = 2;
	s.vlan_tci[0] = FOREIGN;
	ck_assert_uint_eq(carry(&s, buf), 0);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_frame_too_big]), 1);
	dip_of(false)->vlan = DIPS;
	ck_assert_uint_eq(carry(&s, buf), 14 + 4 + 1500);
	s.n_vlans = 0;
	ck_assert_uint_eq(carry(&s, buf), 14 + 4 + 1500);
	tear_down();
}
END_TEST

/* What the VIP itself says goes back where the packet came from. */
START_TEST(test_answer)
{
	struct frames_spec s = request(false);

	set_up();
	fw.worker->too_big_limit.per_s = 1000;
	dip_of(false)->vlan = DIPS;
	dip_of(false)->mtu = 1400;
	s.payload_len = 1400;
	s.v4_frag = 0x4000;
	s.n_vlans = 1;
	s.vlan_tci[0] = OURS;
	ck_assert_uint_eq(carry(&s, buf), 0);
	ck_assert_uint_ne(port_mem_take(fw.port, IN, buf, sizeof(buf)), 0);
	ck_assert_uint_eq(buf[12] << 8 | buf[13], 0x8100);
	ck_assert_uint_eq(buf[14] << 8 | buf[15], OURS);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->too_big_replies), 1);
	forwarding_destroy(&fw);
	snapshot_free(snap);
}
END_TEST

/* --- on the way back -------------------------------------------------------------------------- */

#define CODE (STEER_IFACES_MAX + 5)

static void add_way_back(uint16_t vlan)
{
	struct back_way w = {.key = {.address = frames_ip("10.9.0.1"),
				     .port_be = htons(8080),
				     .proto = IPPROTO_TCP},
			     .vip = frames_ip(VIP),
			     .vip_port_be = htons(80),
			     .ifaces = 1u << IN,
			     .vlan = vlan,
			     .counter = BACK_UNCOUNTED};

	snap->back = back_table_new(1);
	ck_assert_ptr_nonnull(snap->back);
	ck_assert_int_eq(back_table_add(snap->back, &w), 0);
}

static uint32_t give_answer(const struct tags *t, unsigned code, bool translated)
{
	struct frames_spec s = {.src = frames_ip(translated ? VIP : "10.9.0.1"),
				.dst = frames_ip(CLIENT),
				.sport = translated ? 80 : 8080,
				.dport = 40000,
				.payload_len = 100,
				.ttl = translated ? 63 : 64};

	put_tags(&s, t);
	uint32_t len = frames_build(translated ? want : buf, &s);
	if (translated)
		return len;
	bool tagged = s.n_vlans != 0;
	uint16_t mark = htons(
		(uint16_t)(STEER_BACK_TYPE |
			   (tagged ? STEER_BACK_CTAG : STEER_BACK_V4) << STEER_BACK_KIND_SHIFT |
			   code));
	memcpy(buf + 12, &mark, 2);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, IN, buf, len), 0);
	ck_assert_uint_eq(worker_round(fw.worker), 1);
	return 0;
}

static const struct {
	uint16_t dips_vlan;
	struct tags in;
	uint16_t out_vlan; /* of the code; 0: a plain interface */
	struct tags out;
	bool spoofed;
} backs[] = {
	{OURS, {1, {OURS}, {0}}, DIPS, {1, {DIPS}, {0}}, false},
	{OURS, {1, {OURS | PRIORITY}, {0}}, DIPS, {1, {DIPS | PRIORITY}, {0}}, false},
	{OURS, {1, {OURS}, {0}}, 0, {0}, false},
	{0, {0}, DIPS, {1, {DIPS}, {0}}, false},
	{0, {0}, 0, {0}, false},
	{0, {1, {FOREIGN}, {0}}, 0, {1, {FOREIGN}, {0}}, false},
	/* a client in another VLAN than the DIP, at the same interface */
	{OURS, {0}, 0, {0}, true},
	{OURS, {1, {FOREIGN}, {0}}, 0, {0}, true},
	{0, {1, {OURS}, {0}}, 0, {0}, true},
};

START_TEST(test_back)
{
	unsigned code = backs[_i].out_vlan ? CODE : OUT;

	set_up();
	links.outs[CODE - STEER_IFACES_MAX] = (struct way_out){1u << OUT, backs[_i].out_vlan};
	add_way_back(backs[_i].dips_vlan);
	give_answer(&backs[_i].in, code, false);
	uint32_t len = port_mem_take(fw.port, OUT, buf, sizeof(buf));
	ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_back_spoofed]),
			  backs[_i].spoofed);
	if (!backs[_i].spoofed) {
		ck_assert_uint_eq(len, give_answer(&backs[_i].out, 0, true));
		ck_assert_mem_eq(buf, want, len);
	}
	tear_down();
}
END_TEST

/* Of a bond any slave that is in use; of an interface that has just gone, none. */
START_TEST(test_back_ports)
{
	const struct tags none = {0};

	set_up();
	add_way_back(0);
	give_answer(&none, CODE, false);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_back_elsewhere]), 1);
	links.outs[CODE - STEER_IFACES_MAX].ports = 1u << 0 | 1u << OUT;
	give_answer(&none, CODE, false);
	ck_assert(!port_mem_take(fw.port, 0, buf, sizeof(buf)) !=
		  !port_mem_take(fw.port, OUT, buf, sizeof(buf)));
	tear_down();
}
END_TEST

START_TEST(test_port_choose)
{
	unsigned n[32] = {0};

	for (unsigned i = 0; i < 3000; i++) {
		const uint8_t ip[4] = {10, 1, (uint8_t)(i >> 8), (uint8_t)i};
		struct ip_addr a = ip_addr_v4(ip);
		unsigned port = port_choose(0x80000021, &a);

		ck_assert_uint_eq(port, port_choose(0x80000021, &a));
		ck_assert_uint_eq(port_choose(1u << 7, &a), 7);
		n[port]++;
	}
	ck_assert_uint_eq(n[0] + n[5] + n[31], 3000);
	ck_assert_uint_gt(n[0], 800);
	ck_assert_uint_gt(n[5], 800);
	ck_assert_uint_gt(n[31], 800);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("vlan");
	TCase *tc = tcase_create("vlan");

	tcase_add_test(tc, test_tags);
	tcase_add_test(tc, test_bytes);
	tcase_add_test(tc, test_headroom);
	tcase_add_test(tc, test_mtu);
	tcase_add_test(tc, test_answer);
	tcase_add_loop_test(tc, test_back, 0, (int)ARRAY_LEN(backs));
	tcase_add_test(tc, test_back_ports);
	tcase_add_test(tc, test_port_choose);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int n = srunner_ntests_failed(sr);
	srunner_free(sr);
	return n ? EXIT_FAILURE : EXIT_SUCCESS;
}
