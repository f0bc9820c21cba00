/* Packets in fragments through two workers: in order, reversed, by either of them, too late and too
 * many, and by the client's address. */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/unit/forwarding.h"
#include "tests/unit/frames.h"

#define VIP4 "198.51.100.1"
#define VIP6 "2001:db8::1"
#define WORKERS 2u
#define N_DIPS 8u
#define PART 64u /* bytes of a fragment */
#define N_PARTS 4u

static struct forwarding fw[WORKERS];
static struct worker *w[WORKERS];
static struct snapshot *snap;
static uint8_t buf[FRAMES_MAX], whole[FRAMES_MAX], part[FRAMES_MAX];
static uint64_t now_ms = 1000000;

static uint64_t fake_now_ns(void)
{
	return now_ms * 1000000;
}

static int64_t fake_wall_s(void)
{
	return 1000;
}

static void set_up(struct vip_view *v, struct vip_view *v2)
{
	clock_set_source(fake_now_ns, fake_wall_s);
	snap = snapshot_new(42, 0);
	forwarding_add(snap, v);
	if (v2)
		forwarding_add(snap, v2);
	for (unsigned i = 0; i < WORKERS; i++) {
		forwarding_init(&fw[i], 512, 128, 4096);
		w[i] = fw[i].worker;
		w[i]->fragments.cache = fw[0].fragments;
		worker_set_snapshot(w[i], snap);
	}
}

static struct vip_view *vip(const char *address)
{
	return forwarding_vip(0, address, N_DIPS);
}

static unsigned n_held(void)
{
	return port_mem_n_held(fw[0].port) + port_mem_n_held(fw[1].port);
}

static uint64_t drops(enum drop_reason reason)
{
	return counter_read(&w[0]->counters->drops[reason]) +
	       counter_read(&w[1]->counters->drops[reason]);
}

/* What came in went out, was dropped under a reason, or is held. */
static void check_counts(void)
{
	for (unsigned i = 0; i < WORKERS; i++)
		ck_assert_uint_eq(forwarding_received(w[i]), forwarding_sent(w[i]) +
								     forwarding_drops(w[i]) +
								     port_mem_n_held(fw[i].port));
}

static void tear_down(void)
{
	check_counts();
	for (unsigned i = 0; i < WORKERS; i++) {
		for (unsigned k = 0; k < FORWARDING_IFACES; k++)
			while (port_mem_take(fw[i].port, k, buf, sizeof(buf)))
				;
		ck_assert_uint_eq(port_mem_n_free(fw[i].port) + port_mem_n_held(fw[i].port),
				  FORWARDING_FRAMES);
		forwarding_destroy(&fw[i]);
	}
	snapshot_free(snap);
	clock_set_source(NULL, NULL);
}

/* A UDP packet of client number i; it has N_PARTS fragments. */
static void build(const char *dst, uint32_t i)
{
	struct frames_spec spec = {
		.src = frames_ip(strchr(dst, ':') ? "2001:db8:1::9" : "192.0.2.9"),
		.dst = frames_ip(dst),
		.sport = (uint16_t)(1024 + i),
		.dport = 53,
		.proto = IPPROTO_UDP,
		.payload_len = N_PARTS * PART - 8,
		.payload_seed = i,
	};

	frames_build(whole, &spec);
}

static void give(unsigned worker, uint32_t id, unsigned k)
{
	uint32_t len = frames_cut(part, whole, id, k * PART, PART);

	ck_assert_int_eq(port_mem_inject(fw[worker].port, 0, 1, part, len), 0);
}

static void run(unsigned worker)
{
	worker_round(w[worker]);
}

/* The DIP that all fragments which a worker has sent went to, 0: nothing was. *n: how many. */
static unsigned take(unsigned worker, unsigned *n)
{
	unsigned dip = 0;

	*n = 0;
	for (unsigned k = 0; k < FORWARDING_IFACES; k++)
		for (uint32_t len; (len = port_mem_take(fw[worker].port, k, buf, sizeof(buf)));
		     ++*n) {
			ck_assert(dip == 0 || dip == buf[5]);
			dip = buf[5];
			bool v6 = buf[12] == 0x86;
			uint32_t at = v6 ? ((buf[56] << 8 | buf[57]) & 0xfff8u)
					 : ((buf[20] << 8 | buf[21]) & 0x1fffu) * 8;
			uint32_t header = v6 ? 48 : 20, from = 14 + (v6 ? 40 : 20);
			ck_assert_uint_eq(len, 14 + header + PART);
			ck_assert(memcmp(buf + 14 + header, whole + from + at, PART) == 0);
		}
	return dip;
}

static unsigned flow_dip(const char *dst, uint32_t i)
{
	struct flow_key key;
	enum lookup_reason why;
	uint32_t dcode;
	struct ip_addr a = frames_ip(dst),
		       src = frames_ip(strchr(dst, ':') ? "2001:db8:1::9" : "192.0.2.9");
	const struct vip_view *v = snapshot_match(snap, &a, 53, IPPROTO_UDP);

	flow_key_of(v, &src, htons((uint16_t)(1024 + i)), htons(53), IPPROTO_UDP, &key);
	return snapshot_lookup_one(snap, v, &key, &why, &dcode);
}

static const char *const families[] = {VIP4, VIP6};

/* The first by worker `first`, the others by `later`; `reversed`: they come before it. */
static void check_order(const char *dst, unsigned first, unsigned later, bool reversed)
{
	unsigned n, total = 0;

	set_up(vip(dst), NULL);
	for (uint32_t i = 0; i < 30; i++) {
		build(dst, i);
		if (!reversed)
			give(first, i, 0);
		if (!reversed && first != later)
			run(first);
		for (unsigned k = N_PARTS - 1; k > 0; k--)
			give(later, i, k);
		run(later);
		if (reversed) {
			ck_assert_uint_eq(n_held(), N_PARTS - 1);
			check_counts();
			give(first, i, 0);
			run(first);
			if (first != later)
				run(later);
		}
		for (unsigned k = 0; k < WORKERS; k++) {
			unsigned dip = take(k, &n);

			ck_assert(n == 0 || dip == flow_dip(dst, i));
			total += n;
		}
		ck_assert_uint_eq(n_held(), 0);
	}
	ck_assert_uint_eq(total, 30 * N_PARTS);
	/* One record a flow: the first tells of it, the others nothing. */
	ck_assert_uint_eq(forwarding_drain(&fw[first]), 30);
	ck_assert_uint_eq(forwarding_drain(&fw[!first]), 0);
	tear_down();
}

START_TEST(test_orders)
{
	for (unsigned f = 0; f < 2; f++)
		for (unsigned later = 0; later < WORKERS; later++)
			for (unsigned reversed = 0; reversed < 2; reversed++)
				check_order(families[f], 0, later, reversed);
}
END_TEST

/* All of a packet in one burst, whichever way it is mixed up. */
START_TEST(test_one_burst)
{
	static const unsigned orders[][N_PARTS] = {
		{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 2, 3}, {2, 3, 0, 1}};
	unsigned n;

	for (unsigned i = 0; i < ARRAY_LEN(orders); i++) {
		set_up(vip(VIP4), NULL);
		build(VIP4, i);
		for (unsigned k = 0; k < N_PARTS; k++)
			give(0, 7, orders[i][k]);
		run(0);
		ck_assert_uint_eq(take(0, &n), flow_dip(VIP4, i));
		ck_assert_uint_eq(n, N_PARTS);
		tear_down();
	}
}
END_TEST

START_TEST(test_too_late)
{
	unsigned n;

	set_up(vip(VIP4), NULL);
	build(VIP4, 1);
	give(0, 7, 1);
	run(0);
	now_ms += FRAGMENT_HOLD_MS;
	run(0);
	ck_assert_uint_eq(n_held(), 1);
	now_ms++;
	give(0, 8, 2); /* a younger one stays */
	run(0);
	ck_assert_uint_eq(n_held(), 1);
	ck_assert_uint_eq(drops(DROP_fragment_timeout), 1);
	give(0, 7, 0);
	run(0);
	ck_assert_uint_eq(take(0, &n), flow_dip(VIP4, 1));
	ck_assert_uint_eq(n, 1);
	/* what is remembered has its time, too */
	now_ms += FRAGMENT_LIFE_MS + 1;
	give(0, 7, 2);
	run(0);
	take(0, &n);
	ck_assert_uint_eq(n, 0);
	ck_assert_uint_eq(drops(DROP_fragment_timeout), 2);
	ck_assert_uint_eq(n_held(), 1);
	tear_down();
}
END_TEST

/* The oldest give way. */
START_TEST(test_too_many)
{
	unsigned n, first_kept = 40, n_given = PORT_HELD_MAX - 20 + first_kept;

	set_up(vip(VIP6), NULL);
	build(VIP6, 3);
	/* Twenty leave from the middle; their places are not there for others while older ones
	 * wait. */
	for (uint32_t i = 0; i < n_given; i++) {
		give(0, i, 1);
		run(0);
		if (i == 120)
			for (uint32_t k = 100; k < 120; k++)
				give(0, k, 0);
	}
	run(0);
	take(0, &n);
	ck_assert_uint_eq(n, 40);
	ck_assert_uint_eq(drops(DROP_fragment_overflow), first_kept - 20);
	for (uint32_t i = 0; i < n_given; i++) {
		give(0, i, 0);
		run(0);
		take(0, &n);
		bool gone = i < first_kept - 20 || (i >= 100 && i < 120);
		ck_assert_msg(n == (gone ? 1 : 2), "fragment %u: %u", i, n);
	}
	ck_assert_uint_eq(n_held(), 0);
	tear_down();
}
END_TEST

/* What is held goes by the snapshot of the time when it leaves. */
START_TEST(test_over_a_publish)
{
	struct vip_view *v = forwarding_vip(0, VIP4, N_DIPS);
	unsigned n;

	set_up(vip(VIP4), NULL);
	build(VIP4, 1);
	give(1, 7, 1);
	run(1);
	for (uint32_t c = 0; c < v->n_dcodes; c++)
		vip_view_homes(v)[c] = 5;
	struct snapshot *next = snapshot_new(43, 0);
	forwarding_add(next, v);
	for (unsigned i = 0; i < WORKERS; i++)
		worker_set_snapshot(w[i], next);
	snapshot_free(snap);
	snap = next;
	give(0, 7, 0);
	run(0);
	run(1);
	ck_assert_uint_eq(take(0, &n), 5);
	ck_assert_uint_eq(take(1, &n), 5);
	ck_assert_uint_eq(n, 1);
	tear_down();
}
END_TEST

/* A VIP that has gone: its fragments end as all its packets. */
START_TEST(test_without_the_vip)
{
	set_up(vip(VIP4), NULL);
	build(VIP6, 1);
	give(0, 7, 1);
	give(0, 7, 0);
	run(0);
	ck_assert_uint_eq(drops(DROP_no_vip), 2);
	ck_assert_uint_eq(n_held(), 0);
	tear_down();
}
END_TEST

/* --- by the client -------------------------------------------------------------------------------
 */

/* Whole packets by flow, parts by client; later ones need no first. */
START_TEST(test_fragments_by_client)
{
	for (unsigned f = 0; f < 2; f++) {
		struct vip_view *v = vip(families[f]);
		unsigned n, client = 0, n_flow_elsewhere = 0;

		v->fragments = FRAGMENTS_CLIENT;
		v->match.port = 53;
		set_up(v, NULL);
		for (uint32_t i = 0; i < 40; i++) {
			build(families[f], i);
			give(i % 2, i, 3 - i % 4); /* the first is one of four */
			run(i % 2);
			unsigned dip = take(i % 2, &n);
			ck_assert_uint_eq(n, 1);
			ck_assert(dip == client || !client);
			client = dip;
			n_flow_elsewhere += flow_dip(families[f], i) != client;
		}
		ck_assert_uint_gt(n_flow_elsewhere, 10);
		ck_assert_uint_eq(forwarding_drain(&fw[0]) + forwarding_drain(&fw[1]), 0);
		tear_down();
	}
}
END_TEST

/* Two VIPs of the address: only the first fragment tells which of them it is. */
START_TEST(test_fragments_by_client_of_one_of_two)
{
	struct vip_view *v = vip(VIP4), *v2 = forwarding_vip(1, VIP4, N_DIPS);
	unsigned n, dip;

	v->fragments = FRAGMENTS_CLIENT;
	v->match.port = 53;
	v2->match.port = 54;
	set_up(v, v2);
	build(VIP4, 1);
	give(0, 7, 2);
	run(0);
	ck_assert_uint_eq(n_held(), 1);
	give(1, 7, 0);
	run(1);
	run(0);
	dip = take(0, &n);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(take(1, &n), dip);
	ck_assert_uint_eq(n, 1);
	tear_down();
}
END_TEST

/* With affinity client the flow is the client: whole packets go there, too, and are learned. */
START_TEST(test_affinity_client)
{
	struct vip_view *v = vip(VIP6);
	unsigned n;

	v->affinity = AFFINITY_CLIENT;
	set_up(v, NULL);
	for (uint32_t i = 0; i < 20; i++) {
		build(VIP6, i);
		give(i % 2, i, 3 - i % 4);
		run(i % 2);
		ck_assert_uint_eq(take(i % 2, &n), flow_dip(VIP6, 0));
		ck_assert_uint_eq(n, 1);
	}
	ck_assert_uint_eq(forwarding_drain(&fw[0]) + forwarding_drain(&fw[1]), 1);
	tear_down();
}
END_TEST

/* --- the thread ----------------------------------------------------------------------------------
 */

/* A worker that stops gives all its frames back. */
START_TEST(test_stop)
{
	set_up(vip(VIP4), NULL);
	clock_set_source(NULL, NULL); /* which the thread may read */
	build(VIP4, 1);
	for (uint32_t i = 0; i < 100; i++)
		give(1, i, 1 + i % 3);
	ck_assert_int_eq(worker_start(w[1]), 0);
	while (counter_read(&w[1]->counters->bursts) < 4)
		;
	worker_stop(w[1]);
	ck_assert_uint_eq(n_held(), 0);
	ck_assert_uint_eq(port_mem_n_free(fw[1].port), FORWARDING_FRAMES);
	ck_assert_uint_eq(drops(DROP_fragment_timeout), 100);
	tear_down();
}
END_TEST

/* Asleep or not, a worker sends what it holds soon after another one has got the first. */
START_TEST(test_two_threads)
{
	unsigned n_sent = 0, n;

	set_up(vip(VIP4), NULL);
	clock_set_source(NULL, NULL);
	for (unsigned i = 0; i < WORKERS; i++)
		ck_assert_int_eq(worker_start(w[i]), 0);
	for (uint32_t i = 0; i < 50; i++) {
		uint64_t start = clock_now_ms();

		build(VIP4, i);
		give(1, i, 1);
		while (port_mem_n_held(fw[1].port) == 0 && drops(DROP_fragment_timeout) == 0)
			;
		give(0, i, 0);
		do {
			unsigned dip = take(1, &n);
			ck_assert(n == 0 || dip == flow_dip(VIP4, i));
		} while (n == 0 && clock_now_ms() - start < 10000);
		n_sent += n;
	}
	for (unsigned i = 0; i < WORKERS; i++)
		worker_stop(w[i]);
	ck_assert_uint_eq(n_sent + drops(DROP_fragment_timeout), 50);
	ck_assert_uint_gt(n_sent, 40); /* 500 ms should do, in nearly all cases at least */
	tear_down();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fragments");
	TCase *tc = tcase_create("fragments");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_orders);
	tcase_add_test(tc, test_one_burst);
	tcase_add_test(tc, test_too_late);
	tcase_add_test(tc, test_too_many);
	tcase_add_test(tc, test_over_a_publish);
	tcase_add_test(tc, test_without_the_vip);
	tcase_add_test(tc, test_fragments_by_client);
	tcase_add_test(tc, test_fragments_by_client_of_one_of_two);
	tcase_add_test(tc, test_affinity_client);
	tcase_add_test(tc, test_stop);
	tcase_add_test(tc, test_two_threads);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
