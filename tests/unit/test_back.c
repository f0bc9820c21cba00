/* The way back: the table against a naive list, and a worker over port_mem that gets frames as
 * steer hands them over. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "io/steer_map.h"
#include "tests/unit/forwarding.h"
#include "tests/unit/frames.h"
#include "tests/unit/icmp_frames.h"
#include "tests/unit/prng.h"

#define N_WAYS 200
#define DIP "10.9.0.1"
#define DIP6 "2001:db8:d::1"
#define VIP "198.51.100.1"
#define VIP6 "2001:db8::100"
#define CLIENT "192.0.2.9"
#define CLIENT6 "2001:db8:c::9"
#define EGRESS 2
#define DIP_IFACE 1 /* where inject() puts frames */

/* --- the table ------------------------------------------------------------------------------ */

static struct back_key random_key(struct prng *r)
{
	const uint8_t ip[4] = {10, 0, 0, (uint8_t)prng_below(r, 8)};

	return (struct back_key){.address = ip_addr_v4(ip),
				 .port_be = (uint16_t)prng_below(r, 6),
				 .proto = prng_below(r, 2) ? IPPROTO_TCP : IPPROTO_UDP};
}

static const struct back_way *naive_get(const struct back_way *w, unsigned n,
					const struct back_key *key)
{
	for (unsigned i = 0; i < n; i++)
		if (memcmp(&w[i].key, key, sizeof(*key)) == 0)
			return &w[i];
	return NULL;
}

static const struct back_way *naive_find(const struct back_way *w, unsigned n, struct back_key key)
{
	const struct back_way *exact = naive_get(w, n, &key);

	key.port_be = 0;
	return exact ? exact : naive_get(w, n, &key);
}

static void check_found(const struct back_way *got, const struct back_way *want)
{
	expect(!got == !want);
	expect(!want || memcmp(got, want, sizeof(*want)) == 0);
}

START_TEST(test_table_against_a_list)
{
	struct prng r = prng_new("table_against_a_list");

	for (unsigned round = 0; round < 50; round++) {
		unsigned room = prng_below(&r, N_WAYS), n = 0;
		struct back_way ways[N_WAYS];
		struct back_table *t = back_table_new(room);

		ck_assert_ptr_nonnull(t);
		for (unsigned i = 0; i < room; i++) {
			struct back_way w = {.key = random_key(&r), .counter = i};
			int rc = back_table_add(t, &w);
			ck_assert_int_eq(rc, naive_get(ways, n, &w.key) ? -EEXIST : 0);
			if (rc == 0)
				ways[n++] = w;
		}
		ck_assert_uint_eq(t->n, n);
		for (unsigned i = 0; i < 500; i++) {
			struct back_key k = random_key(&r);
			check_found(back_table_get(t, &k), naive_get(ways, n, &k));
			check_found(back_table_find(t, &k.address, k.port_be, k.proto),
				    naive_find(ways, n, k));
		}
		back_table_ref(t);
		back_table_unref(t);
		ck_assert_uint_eq(t->refs, 1);
		back_table_unref(t);
	}
	back_table_unref(NULL);
}
END_TEST

/* --- a worker ------------------------------------------------------------------------------- */

static struct forwarding fw;
static struct snapshot *snap;
static uint8_t buf[FRAMES_MAX], want[FRAMES_MAX];

static void add_way(const char *dip, uint16_t port, uint8_t proto, const char *vip, uint16_t vport)
{
	struct back_way w = {
		.key = {.address = frames_ip(dip), .port_be = htons(port), .proto = proto},
		.vip = frames_ip(vip),
		.vip_port_be = htons(vport),
		.ifaces = 1u << DIP_IFACE,
		.counter = port};

	ck_assert_int_eq(back_table_add(snap->back, &w), 0);
}

static void set_up(void)
{
	forwarding_init(&fw, 64, 128, 64);
	snap = snapshot_new(42, 8);
	ck_assert_ptr_nonnull(snap);
	snap->back = back_table_new(8);
	ck_assert_ptr_nonnull(snap->back);
	add_way(DIP, 8080, IPPROTO_TCP, VIP, 80);
	add_way(DIP, 5353, IPPROTO_UDP, VIP, 53);
	add_way(DIP6, 8080, IPPROTO_TCP, VIP6, 80);
	add_way("10.9.0.2", 0, IPPROTO_TCP, VIP, 0);
	worker_set_snapshot(fw.worker, snap);
}

static void tear_down(void)
{
	for (unsigned i = 0; i < FORWARDING_IFACES; i++)
		while (port_mem_take(fw.port, i, buf, sizeof(buf)))
			;
	ck_assert_uint_eq(forwarding_received(fw.worker),
			  forwarding_sent(fw.worker) + forwarding_drops(fw.worker));
	ck_assert_uint_eq(port_mem_n_free(fw.port), FORWARDING_FRAMES);
	ck_assert_uint_eq(forwarding_drain(&fw), 0); /* nothing is learned from it */
	forwarding_destroy(&fw);
	snapshot_free(snap);
}

static struct frames_spec answer(bool v6, uint16_t sport)
{
	return (struct frames_spec){.src = frames_ip(v6 ? DIP6 : DIP),
				    .dst = frames_ip(v6 ? CLIENT6 : CLIENT),
				    .sport = sport,
				    .dport = 40000,
				    .payload_len = 50,
				    .dst_mac = {2, 7, 7, 7, 7, 7},
				    .src_mac = {2, 8, 8, 8, 8, 8}};
}

/* As steer does it. */
static void mark(uint8_t *frame, unsigned code)
{
	uint16_t type = (uint16_t)(frame[12] << 8 | frame[13]);
	unsigned kind = type == 0x8100	 ? STEER_BACK_CTAG
			: type == 0x88a8 ? STEER_BACK_STAG
			: type == 0x86dd ? STEER_BACK_V6
					 : STEER_BACK_V4;
	uint16_t m = htons((uint16_t)(STEER_BACK_TYPE | kind << STEER_BACK_KIND_SHIFT | code));

	memcpy(frame + 12, &m, 2);
}

static void inject(const struct frames_spec *s, unsigned code)
{
	uint32_t len = frames_build(buf, s);

	mark(buf, code);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, DIP_IFACE, buf, len), 0);
}

/* The frame of this answer goes out as that of the VIP, at the expense of this counter. */
static void check_sent(struct frames_spec s, const char *vip, uint16_t port, uint32_t counter)
{
	const struct traffic_counter *c = &fw.worker->counters->back[counter];
	uint64_t packets = counter_read(&c->packets), bytes = counter_read(&c->bytes);

	inject(&s, EGRESS);
	ck_assert_uint_eq(worker_round(fw.worker), 1);
	s.src = frames_ip(vip);
	s.sport = port;
	s.ttl = 63;
	s.sum = s.sum == FRAMES_SUM_ZERO ? FRAMES_SUM_ZERO : FRAMES_SUM_FULL;
	uint32_t len = frames_build(want, &s);
	ck_assert_uint_eq(port_mem_take(fw.port, EGRESS, buf, sizeof(buf)), len);
	ck_assert_mem_eq(buf, want, len);
	ck_assert_uint_eq(counter_read(&c->packets), packets + 1);
	ck_assert_uint_eq(counter_read(&c->bytes), bytes + len);
}

START_TEST(test_answers)
{
	struct frames_spec s;

	set_up();
	for (unsigned vlans = 0; vlans <= 2; vlans++)
		for (int sum = FRAMES_SUM_FULL; sum <= FRAMES_SUM_PARTIAL; sum++) {
			s = answer(false, 8080);
			s.n_vlans = vlans;
			s.sum = (enum frames_sum)sum;
			check_sent(s, VIP, 80, 8080);
			s = answer(true, 8080);
			s.n_vlans = vlans;
			s.sum = (enum frames_sum)sum;
			check_sent(s, VIP6, 80, 8080);
		}
	s = answer(false, 5353);
	s.proto = IPPROTO_UDP;
	check_sent(s, VIP, 53, 5353);
	s.sum = FRAMES_SUM_ZERO;
	check_sent(s, VIP, 53, 5353);
	s = answer(false, 7);
	s.src = frames_ip("10.9.0.2");
	check_sent(s, VIP, 7, 0);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->checksums_completed), 6);
	tear_down();
}
END_TEST

/* What a DIP says about a packet that the client has sent to this port of it. */
static struct icmp_spec error_about(bool v6, uint16_t dport)
{
	struct frames_spec s = answer(v6, 0), quoted = s;

	quoted.src = s.dst;
	quoted.dst = s.src;
	quoted.sport = s.dport;
	quoted.dport = dport;
	return (struct icmp_spec){.outer = s, .quoted = quoted, .type = v6 ? 1 : 3, .code = 3};
}

static void inject_error(const struct icmp_spec *s, unsigned iface)
{
	uint32_t len = icmp_frames_build(buf, s);

	mark(buf, EGRESS);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, iface, buf, len), 0);
	ck_assert_uint_eq(worker_round(fw.worker), 1);
}

START_TEST(test_errors)
{
	set_up();
	for (unsigned k = 0; k < 12; k++) {
		bool v6 = k & 1, by_router = k & 2;
		struct icmp_spec s = error_about(v6, 8080);
		struct ip_addr vip = frames_ip(v6 ? VIP6 : VIP);

		s.outer.n_vlans = k / 4;
		if (by_router)
			s.outer.src = frames_ip(v6 ? "2001:db8:d::99" : "10.9.0.99");
		inject_error(&s, DIP_IFACE);
		s.quoted.dst = vip;
		s.quoted.dport = 80;
		s.outer.ttl = 63;
		if (!by_router)
			s.outer.src = vip;
		uint32_t len = icmp_frames_build(want, &s);
		ck_assert_uint_eq(port_mem_take(fw.port, EGRESS, buf, sizeof(buf)), len);
		ck_assert_mem_eq(buf, want, len);
		ck_assert_uint_eq(counter_read(&fw.worker->counters->back[8080].packets), k + 1);
	}
	tear_down();
}
END_TEST

/* About a port that is no VIP's, and by another interface than the DIP's. */
START_TEST(test_errors_dropped)
{
	struct icmp_spec s = error_about(false, 8081);

	set_up();
	inject_error(&s, DIP_IFACE);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_back_unknown]), 1);
	s = error_about(true, 8080);
	inject_error(&s, DIP_IFACE - 1);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_back_spoofed]), 1);
	ck_assert_uint_eq(forwarding_sent(fw.worker), 0);
	tear_down();
}
END_TEST

static const struct {
	const char *what;
	unsigned code;
	enum drop_reason reason;
	struct {
		uint16_t sport, v4_frag;
		uint8_t ttl, proto, ah;
		bool v6;
	} s;
} drops[] = {
	{"no neighbour", STEER_BACK_NO_NEIGHBOR, DROP_back_unresolved, {.sport = 8080}},
	{"too big", STEER_BACK_TOO_BIG, DROP_frame_too_big, {.sport = 8080}},
	{"an egress that is not served",
	 STEER_BACK_ELSEWHERE,
	 DROP_back_elsewhere,
	 {.sport = 8080}},
	{"an egress that is none", FORWARDING_IFACES, DROP_back_elsewhere, {.sport = 8080}},
	{"no way", EGRESS, DROP_back_unknown, {.sport = 8081}},
	{"no way of this protocol",
	 EGRESS,
	 DROP_back_unknown,
	 {.sport = 8080, .proto = IPPROTO_UDP}},
	{"no hop left", EGRESS, DROP_ttl_expired, {.sport = 8080, .ttl = 1}},
	{"a first fragment of no way",
	 EGRESS,
	 DROP_back_unknown,
	 {.sport = 8081, .v4_frag = 0x2000}},
	{"a later fragment that could not leave",
	 STEER_BACK_NO_NEIGHBOR,
	 DROP_back_unresolved,
	 {.sport = 8080, .v4_frag = 100}},
	{"not TCP or UDP", EGRESS, DROP_not_l4, {.sport = 8080, .proto = IPPROTO_ICMP}},
	{"an authentication header",
	 EGRESS,
	 DROP_untranslatable,
	 {.sport = 8080, .v6 = true, .ah = 1}},
};

START_TEST(test_drops)
{
	struct frames_spec s = answer(drops[_i].s.v6, drops[_i].s.sport);

	set_up();
	s.v4_frag = drops[_i].s.v4_frag;
	s.ttl = drops[_i].s.ttl;
	s.proto = drops[_i].s.proto;
	s.n_exts = drops[_i].s.ah;
	s.exts[0] = IPPROTO_AH;
	inject(&s, drops[_i].code);
	ck_assert_uint_eq(worker_round(fw.worker), 1);
	ck_assert_msg(counter_read(&fw.worker->counters->drops[drops[_i].reason]) == 1, "%s",
		      drops[_i].what);
	ck_assert_uint_eq(forwarding_sent(fw.worker), 0);
	tear_down();
}
END_TEST

/* A client that pretends to be a DIP, by another interface than the DIP's; and a frame that no
 * steer has marked is none of a way back's. */
START_TEST(test_spoofed_and_unmarked)
{
	struct frames_spec s = answer(false, 8080);

	set_up();
	uint32_t len = frames_build(buf, &s);
	mark(buf, EGRESS);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, DIP_IFACE - 1, buf, len), 0);
	ck_assert_uint_eq(worker_round(fw.worker), 1);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_back_spoofed]), 1);
	frames_build(buf, &s);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, DIP_IFACE, buf, len), 0);
	ck_assert_uint_eq(worker_round(fw.worker), 1);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_no_vip]), 1);
	mark(buf, EGRESS);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, DIP_IFACE, buf, 13), 0); /* no type at all */
	ck_assert_uint_eq(worker_round(fw.worker), 1);
	ck_assert_uint_eq(counter_read(&fw.worker->counters->drops[DROP_malformed]), 1);
	tear_down();
}
END_TEST

/* --- in fragments --------------------------------------------------------------------------- */

#define PART 64u
#define N_PARTS 4u

static uint64_t now_ms = 1000000;
static uint8_t whole[FRAMES_MAX];

static uint64_t fake_now_ns(void)
{
	return now_ms * 1000000;
}

static int64_t fake_wall_s(void)
{
	return 1000;
}

/* The DIP's answer, or what the client is to get of it. */
static void build_whole(bool v6, bool translated)
{
	struct frames_spec s = answer(v6, v6 ? 8080 : 5353);

	s.proto = v6 ? IPPROTO_TCP : IPPROTO_UDP;
	s.payload_len = N_PARTS * PART - (v6 ? 20 : 8);
	if (translated) {
		s.src = frames_ip(v6 ? VIP6 : VIP);
		s.sport = v6 ? 80 : 53;
		s.ttl = 63;
	}
	frames_build(whole, &s);
}

static void give_part(unsigned iface, uint32_t id, unsigned k, unsigned code)
{
	uint32_t len = frames_cut(buf, whole, id, k * PART, PART);

	mark(buf, code);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, iface, buf, len), 0);
	worker_round(fw.worker);
}

/* Which parts of the translated packet have left; each at most once, byte for byte. */
static unsigned take_parts(bool v6, uint32_t id)
{
	unsigned seen = 0;

	build_whole(v6, true);
	while (port_mem_take(fw.port, EGRESS, buf, sizeof(buf))) {
		uint32_t at = v6 ? ((buf[56] << 8 | buf[57]) & 0xfff8u)
				 : ((buf[20] << 8 | buf[21]) & 0x1fffu) * 8;
		uint32_t len = frames_cut(want, whole, id, at, PART);
		ck_assert_mem_eq(buf, want, len);
		ck_assert(!(seen >> at / PART & 1));
		seen |= 1u << at / PART;
	}
	build_whole(v6, false);
	return seen;
}

static uint64_t drops_of(enum drop_reason reason)
{
	return counter_read(&fw.worker->counters->drops[reason]);
}

static void set_up_fragments(void)
{
	clock_set_source(fake_now_ns, fake_wall_s);
	set_up();
}

static void tear_down_fragments(void)
{
	tear_down();
	clock_set_source(NULL, NULL);
}

START_TEST(test_fragments_in_every_order)
{
	set_up_fragments();
	for (uint32_t n = 0; n < 24 * 2; n++) {
		unsigned order[N_PARTS] = {0, 1, 2, 3};
		bool v6 = n & 1;

		build_whole(v6, false);
		for (uint32_t i = N_PARTS - 1, r = n / 2; i > 0; r /= i + 1, i--) {
			unsigned k = r % (i + 1), t = order[i];
			order[i] = order[k];
			order[k] = t;
		}
		for (unsigned i = 0, seen = 0; i < N_PARTS; i++) {
			give_part(DIP_IFACE, n, order[i], EGRESS);
			seen |= take_parts(v6, n);
			bool first_came = false;
			for (unsigned k = 0; k <= i; k++)
				first_came |= order[k] == 0;
			/* all that have come once the first has, none before */
			ck_assert_int_eq(__builtin_popcount(seen), first_came ? (int)i + 1 : 0);
		}
		ck_assert_uint_eq(port_mem_n_held(fw.port), 0);
	}
	ck_assert_uint_eq(counter_read(&fw.worker->counters->back[5353].packets), 24 * N_PARTS);
	ck_assert_uint_eq(forwarding_drops(fw.worker), 0);
	tear_down_fragments();
}
END_TEST

/* Without a first, or with one of somebody else's. */
START_TEST(test_fragments_in_vain)
{
	set_up_fragments();
	for (uint32_t n = 0; n < 2; n++) {
		build_whole(n, false);
		give_part(DIP_IFACE - 1, n, 0, EGRESS);
		ck_assert_uint_eq(drops_of(DROP_back_spoofed), n + 1);
		for (unsigned k = 1; k < N_PARTS; k++)
			give_part(DIP_IFACE, n, k, EGRESS);
		ck_assert_uint_eq(port_mem_n_held(fw.port), 3);
		now_ms += FRAGMENT_HOLD_MS + 1;
		worker_round(fw.worker);
		ck_assert_uint_eq(port_mem_n_held(fw.port), 0);
		ck_assert_uint_eq(drops_of(DROP_fragment_timeout), 3 * (n + 1));
	}
	ck_assert_uint_eq(forwarding_sent(fw.worker), 0);
	tear_down_fragments();
}
END_TEST

START_TEST(test_fragments_overflow)
{
	set_up_fragments();
	build_whole(false, false);
	for (uint32_t n = 0; n < PORT_HELD_MAX + 10; n++)
		give_part(DIP_IFACE, n, 1, EGRESS);
	ck_assert_uint_eq(drops_of(DROP_fragment_overflow), 10);
	ck_assert_uint_eq(port_mem_n_held(fw.port), PORT_HELD_MAX);
	/* the youngest is there, the oldest has gone */
	give_part(DIP_IFACE, PORT_HELD_MAX + 9, 0, EGRESS);
	ck_assert_uint_eq(take_parts(false, PORT_HELD_MAX + 9), 3);
	give_part(DIP_IFACE, 9, 0, EGRESS);
	ck_assert_uint_eq(take_parts(false, 9), 1);
	now_ms += FRAGMENT_HOLD_MS + 1;
	worker_round(fw.worker);
	ck_assert_uint_eq(drops_of(DROP_fragment_timeout), PORT_HELD_MAX - 1);
	tear_down_fragments();
}
END_TEST

/* The way goes while they wait: the snapshot of the time when they leave counts. */
START_TEST(test_fragments_over_a_change)
{
	struct snapshot *other = snapshot_new(43, 8);

	set_up_fragments();
	ck_assert_ptr_nonnull(other);
	build_whole(false, false);
	give_part(DIP_IFACE, 1, 1, EGRESS);
	worker_set_snapshot(fw.worker, other);
	give_part(DIP_IFACE, 1, 0, EGRESS);
	ck_assert_uint_eq(drops_of(DROP_back_unknown), 1);
	now_ms += FRAGMENT_HOLD_MS + 1;
	worker_round(fw.worker);
	ck_assert_uint_eq(drops_of(DROP_fragment_timeout), 1);
	worker_set_snapshot(fw.worker, snap);
	snapshot_free(other);
	tear_down_fragments();
}
END_TEST

/* To the DIP, by a VIP of mode nat. */
START_TEST(test_forth)
{
	struct vip_view *v = forwarding_vip(0, VIP, 1);
	struct frames_spec s = {.src = frames_ip(CLIENT),
				.dst = frames_ip(VIP),
				.sport = 40000,
				.dport = 80,
				.sum = FRAMES_SUM_PARTIAL,
				.ttl = 9};

	set_up();
	v->mode = VIP_NAT;
	vip_view_dips(v)[1].nat_port_be = htons(8080);
	forwarding_add(snap, v);
	ck_assert_int_eq(port_mem_inject(fw.port, 0, 0, buf, frames_build(buf, &s)), 0);
	ck_assert_uint_eq(worker_round(fw.worker), 1);
	s.dst = v->dips[1].address;
	s.dport = 8080;
	s.sum = FRAMES_SUM_FULL;
	s.ttl = 8;
	memcpy(s.dst_mac, v->dips[1].dst_mac, 6);
	memcpy(s.src_mac, v->dips[1].src_mac, 6);
	uint32_t len = frames_build(want, &s);
	ck_assert_uint_eq(port_mem_take(fw.port, v->dips[1].egress, buf, sizeof(buf)), len);
	ck_assert_mem_eq(buf, want, len);
	ck_assert_uint_eq(forwarding_drain(&fw), 1);
	tear_down();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("back");
	TCase *tc = tcase_create("back");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_table_against_a_list);
	tcase_add_test(tc, test_answers);
	tcase_add_test(tc, test_errors);
	tcase_add_test(tc, test_errors_dropped);
	tcase_add_loop_test(tc, test_drops, 0, ARRAY_LEN(drops));
	tcase_add_test(tc, test_spoofed_and_unmarked);
	tcase_add_test(tc, test_fragments_in_every_order);
	tcase_add_test(tc, test_fragments_in_vain);
	tcase_add_test(tc, test_fragments_overflow);
	tcase_add_test(tc, test_fragments_over_a_change);
	tcase_add_test(tc, test_forth);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
