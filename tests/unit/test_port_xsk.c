/* AF_XDP ports over veth pairs between namespaces: frames really travel, in native copy and in
 * generic mode. Needs root. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "netns.h"
#include "xsk_bed.h"

/* Over far more frames than the pool has: none may get lost on the way round. */
static void check_forwarding(enum xdp_mode mode)
{
	const unsigned batch = 200, rounds = 80;
	struct xsk *x = bed_open_ports(2, 1, mode);
	struct port *p = xsk_port(x, 0);
	const struct xsk_queue *queues;
	const struct xsk_iface *ifaces;
	uint8_t buf[2048];

	bed_start(x);
	ck_assert_uint_eq(xsk_ifaces(x, &ifaces), 2);
	ck_assert_str_eq(ifaces[1].driver, "veth");
	ck_assert_uint_eq(xsk_queues(x, &queues), 4);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(queues[i].mode, mode);
	for (unsigned r = 0; r < rounds; r++) {
		unsigned got = 0;

		bed_inject_syns(0, batch);
		ck_assert_uint_eq(bed_forward(p, 1, batch, 5000), batch);
		while (got < batch && bed_take(1, bed_macs[1], buf, sizeof(buf), 2000) > 0)
			got++;
		ck_assert_uint_eq(got, batch);
	}
	ck_assert_uint_eq(xsk_rx_kernel_drops(x), 0);
	bed_check_frames(p);
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
	struct xsk *x = bed_open_ports(1, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	uint8_t want[2048], got[2048];

	bed_start(x);
	for (int i = 0; i < 500; i++) {
		struct frames_spec s = bed_syn(0, (uint16_t)frames_random(&rnd), VIP_PORT);

		s.payload_len = (uint32_t)(frames_random(&rnd) % 1400);
		s.payload_seed = (uint32_t)frames_random(&rnd);
		uint32_t len = frames_build(want, &s);
		bed_inject(0, &s);
		ck_assert_uint_eq(bed_forward(p, 0, 1, 2000), 1);
		memcpy(want + 6, bed_macs[0], 6);
		ck_assert_uint_eq(bed_take(0, bed_macs[0], got, sizeof(got), 2000), len);
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
		j->n += bed_forward(j->port, 1, BURST_MAX, 20);
	return NULL;
}

/* Two workers, two queues on two interfaces; flows spread by the sender's TX queue. */
START_TEST(two_workers_share_the_queues)
{
	const unsigned n = 2000;
	struct xsk *x = bed_open_ports(2, 2, XDP_MODE_AUTO);
	_Atomic bool stop = false;
	struct job jobs[2];
	pthread_t threads[2];
	uint8_t buf[2048];
	unsigned got = 0;
	const struct xsk_queue *queues;

	bed_start(x);
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
		bed_inject_syns(0, 200);
		while (got < sent + 200 && bed_take(1, bed_macs[1], buf, sizeof(buf), 3000) > 0)
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
		{{.n_ifaces = 1, .ifaces = {"l0"}}, "ip link set l0 mtu 9217", "limit is 9216"},
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
	ck_assert_int_eq(bed_attached_id("l0", 0), 0);
}
END_TEST

START_TEST(busy_queue)
{
	struct xsk *x = bed_open_ports(1, 1, XDP_MODE_AUTO), *second = NULL;
	struct xsk_config c = {.n_ifaces = 1, .ifaces = {"l0"}};
	struct error err = {""};
	uint64_t t = clock_now_ms();

	ck_assert_int_eq(xsk_open(&c, &second, &err), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err.message, "another program"));
	ck_assert_uint_ge(clock_now_ms() - t, 1900);
	xsk_close(x);
	x = bed_open_ports(1, 1, XDP_MODE_AUTO); /* at once */
	xsk_close(x);
}
END_TEST

/* The largest MTU works, tagged, in a single buffer; longer ones are counted. (veth carries no
 * second tag at full MTU.) */
START_TEST(large_frames)
{
	ck_assert_int_eq(netns_sh("ip link set l0 mtu %d", XSK_MTU_MAX), 0);
	netns_enter(bed_peer);
	ck_assert_int_eq(netns_sh("ip link set p0 mtu 9000"), 0);
	netns_enter(bed_lb);
	struct xsk *x = bed_open_ports(1, 1, XDP_MODE_COPY);
	struct frames_spec s = bed_syn(0, 1, VIP_PORT);

	bed_start(x);
	s.n_vlans = 1;
	s.payload_len = XSK_MTU_MAX - 40;
	bed_inject(0, &s);
	s.n_vlans = 0;
	bed_inject(0, &s);
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
	bed_inject(0, &s);
	usleep(50000);
	ck_assert_uint_eq(xsk_rx_too_big(x), 1);
	ck_assert_uint_eq(bed_forward(p, 0, 1, 50), 0);
	xsk_close(x);
}
END_TEST

/* Frames of one to three buffers come whole and leave whole, in their order; one that nobody sends
 * gives all of them back. */
START_TEST(several_buffers)
{
	static const uint32_t sizes[] = {0, 8900, 3000, 8960, 4000, 1400, 7700, 3800};
	static uint8_t got[16384], want[16384];
	struct frames_spec s = bed_syn(0, 1, VIP_PORT);

	ck_assert_int_eq(netns_sh("ip link set l0 mtu 9000 && ip link set l1 mtu 9000"), 0);
	netns_enter(bed_peer);
	ck_assert_int_eq(netns_sh("ip link set p0 mtu 9000 && ip link set p1 mtu 9000"), 0);
	netns_enter(bed_lb);
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	bed_start(x);
	ck_assert_uint_eq(xsk_mtu_limit(x), XSK_MTU_JUMBO);
	for (unsigned round = 0; round < 400; round++) {
		for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
			s.payload_len = sizes[i];
			s.payload_seed = round * 8 + i;
			bed_inject(0, &s);
		}
		int out = round % 4 ? 1 : -1;
		ck_assert_uint_eq(bed_forward(p, out, ARRAY_LEN(sizes), 2000), ARRAY_LEN(sizes));
		for (unsigned i = 0; out == 1 && i < ARRAY_LEN(sizes); i++) {
			s.payload_len = sizes[i];
			s.payload_seed = round * 8 + i;
			uint32_t len = frames_build(want, &s);
			memcpy(want + 6, bed_macs[1], 6);
			ck_assert_uint_eq(bed_take(1, bed_macs[1], got, sizeof(got), 2000), len);
			ck_assert_mem_eq(got, want, len);
		}
		bed_check_frames(p);
	}
	ck_assert_uint_eq(xsk_rx_too_big(x), 0);
	xsk_close(x);
}
END_TEST

/* Frames for others on the wire go by; a new MAC address is taken over, before attaching too. */
START_TEST(follows_mac_addresses)
{
	static const char *const addresses[] = {"02:00:00:00:0a:01", "02:00:00:00:0a:02"};
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);

	ck_assert_int_eq(netns_sh("ip link set l0 address 02:00:00:00:0a:00"), 0);
	netns_mac("l0", bed_macs[0]);
	bed_start(x);
	bed_inject_syns(0, 10);
	ck_assert_uint_eq(bed_forward(p, 0, 10, 2000), 10);
	for (unsigned i = 0; i < ARRAY_LEN(addresses); i++) {
		ck_assert_int_eq(netns_sh("ip link set l0 address %s", addresses[i]), 0);
		xsk_follow_macs(x);
		bed_inject_syns(0, 10); /* to the old one */
		ck_assert_uint_eq(bed_forward(p, 0, 1, 100), 0);
		netns_mac("l0", bed_macs[0]);
		bed_inject_syns(0, 10);
		bed_inject_syns(1, 10); /* the other interface's is its own */
		ck_assert_uint_eq(bed_forward(p, 0, 20, 2000), 20);
	}
	ck_assert(!bed_kernel_answers(0));
	bed_check_frames(p);
	xsk_close(x);
}
END_TEST

/* Link down: sends fail and are counted, nothing breaks; up again: it goes on. */
START_TEST(survives_link_flaps)
{
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	uint8_t buf[2048];

	bed_start(x);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(netns_sh("ip link set l1 down"), 0);
		for (int k = 0; k < 12; k++) { /* more than a TX ring */
			bed_inject_syns(0, 250);
			bed_forward(p, 1, 250, 1000);
		}
		ck_assert_int_eq(netns_sh("ip link set l1 up"), 0);
		for (int k = 0; k < 20; k++)
			bed_forward(p, 1, 1, 10);
		while (bed_take(1, bed_macs[1], buf, sizeof(buf), 100) > 0)
			;
		unsigned got = 0;
		bed_inject_syns(0, 100);
		ck_assert_uint_eq(bed_forward(p, 1, 100, 2000), 100);
		while (got < 100 && bed_take(1, bed_macs[1], buf, sizeof(buf), 1000) > 0)
			got++;
		ck_assert_uint_eq(got, 100);
		bed_check_frames(p);
	}
	ck_assert_int_eq(netns_sh("ip link set l0 down && ip link set l0 up"), 0);
	bed_inject_syns(0, 10);
	ck_assert_uint_eq(bed_forward(p, 0, 10, 2000), 10);
	xsk_close(x);
}
END_TEST

/* An interface is removed under us: the other one goes on, and sleeping still sleeps. */
START_TEST(survives_a_removed_interface)
{
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);

	bed_start(x);
	ck_assert_int_eq(netns_sh("ip link del l1"), 0);
	bed_inject_syns(0, 100);
	ck_assert_uint_eq(bed_forward(p, 1, 100, 2000), 100); /* into the void */
	bed_inject_syns(0, 100);
	ck_assert_uint_eq(bed_forward(p, 0, 100, 2000), 100);
	bed_check_frames(p);
	bed_forward(p, -1, 1, 50);
	/* Frames for the interface wait in its ring for ever, so each sleep is a millisecond long.
	 */
	uint64_t t = clock_now_ms();
	for (int i = 0; i < 50; i++)
		port_sleep(p, 20);
	ck_assert_uint_ge(clock_now_ms() - t, 45);
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
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	pthread_t t;

	bed_start(x);
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
	bed_inject_syns(1, 1); /* a frame on any queue ends it */
	port_sleep(p, 10000);
	ck_assert_uint_lt(clock_now_ms() - t0, 5000);
	ck_assert_uint_eq(bed_forward(p, 0, 1, 1000), 1);
	xsk_close(x);
}
END_TEST

/* Overload: a worker that does not receive. The excess is lost in the kernel, counted, and
 * afterwards everything works. */
START_TEST(overload_is_counted)
{
	struct xsk *x = bed_open_ports(1, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	const unsigned n = 6000;
	unsigned got;

	bed_start(x);
	bed_inject_syns(0, n);
	got = bed_forward(p, 0, n, 500);
	for (unsigned i = 0; i < 50 && got + xsk_rx_kernel_drops(x) < n; i++)
		got += bed_forward(p, 0, n, 500); /* a busy machine takes longer */
	ck_assert_uint_lt(got, n);
	ck_assert_uint_eq(got + xsk_rx_kernel_drops(x), n);
	bed_inject_syns(0, 100);
	ck_assert_uint_eq(bed_forward(p, 0, 100, 2000), 100);
	bed_check_frames(p);
	xsk_close(x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("port_xsk");
	TCase *t = tcase_create("veth");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, bed_setup, bed_teardown);
	tcase_add_test(t, forwards_in_copy_mode);
	tcase_add_test(t, forwards_in_generic_mode);
	tcase_add_test(t, sends_what_it_got);
	tcase_add_test(t, two_workers_share_the_queues);
	tcase_add_test(t, bad_configurations);
	tcase_add_test(t, busy_queue);
	tcase_add_test(t, large_frames);
	tcase_add_test(t, several_buffers);
	tcase_add_test(t, follows_mac_addresses);
	tcase_add_test(t, survives_link_flaps);
	tcase_add_test(t, survives_a_removed_interface);
	tcase_add_test(t, sleep_and_wake);
	tcase_add_test(t, overload_is_counted);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
