/* Rings that stand still, over veth pairs: noticed, and not seen where there are none; what becomes
 * of the frames when such a queue is bound anew. Needs root. */
#include <bpf/bpf.h>
#include <check.h>
#include <stdlib.h>

#include "io/xsk_driver.h"
#include "io/xsk_life.h"
#include "netns.h"
#include "xsk_bed.h"

static void look(struct xsk *x, unsigned iface, unsigned n, bool link_runs)
{
	while (n-- > 0)
		xsk_look_at_queues(x, iface, link_runs);
}

static void knock_and_look(struct xsk *x, unsigned n)
{
	while (n-- > 0) {
		bed_inject_syns(0, 20);
		bed_forward(xsk_port(x, 0), 1, 20, 30);
		xsk_look_at_queues(x, 0, true);
	}
}

/* A worker that is behind is no stall: what has arrived waits for it. */
static void check_late_worker(struct xsk *x)
{
	for (unsigned i = 0; i < 20; i++) {
		bed_inject_syns(0, 400);
		look(x, 0, 1, true);
	}
	for (unsigned q = 0; q < 2; q++)
		ck_assert_int_eq(xsk_queue_stall(x, 0, q), XSK_RUNS);
	ck_assert_uint_gt(xsk_rx_kernel_drops(x), 0);
}

START_TEST(nothing_arrives)
{
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct error err = {""};

	bed_start(x);
	knock_and_look(x, 20);
	look(x, 0, 20, true);
	for (unsigned q = 0; q < 2; q++)
		ck_assert_int_eq(xsk_queue_stall(x, 0, q), XSK_RUNS);
	ck_assert_int_eq(xsk_queue_stall(x, 0, 200), XSK_RUNS); /* there is no such */

	uint32_t queue = 1;
	ck_assert_int_eq(bpf_map_delete_elem(steer_xskmap_fd(xsk_steering(x).ctx, 0), &queue), 0);
	knock_and_look(x, 1);
	ck_assert_int_eq(xsk_queue_stall(x, 0, 1), XSK_RUNS); /* one look is none */
	look(x, 0, 20, true);				      /* nor is silence */
	ck_assert_int_eq(xsk_queue_stall(x, 0, 1), XSK_RUNS);
	knock_and_look(x, 3);
	ck_assert_int_eq(xsk_queue_stall(x, 0, 0), XSK_RUNS);
	ck_assert_int_eq(xsk_queue_stall(x, 0, 1), XSK_STALL_RX);
	ck_assert_uint_gt(xsk_rx_kernel_drops(x), 0);

	xsk_queue_drop(x, 0, 1, &bed_at_once);
	ck_assert_int_eq(xsk_queue_stall(x, 0, 1), XSK_RUNS);
	ck_assert_uint_eq(xsk_iface_n_bound(x, 0), 1);
	bed_check_frames(xsk_port(x, 0));
	ck_assert_msg(xsk_iface_fit(x, 0, &bed_at_once, &err) == 0, "%s", err.message);
	ck_assert_uint_eq(((struct xsk_port *)xsk_port(x, 0))->n_limbo, 0);
	bed_check_way(xsk_port(x, 0), 0, 1);
	knock_and_look(x, 20);
	ck_assert_int_eq(xsk_queue_stall(x, 0, 1), XSK_RUNS);
	check_late_worker(x);
	xsk_close(x);
}
END_TEST

/* The queue that sends is another one afterwards, or the same. */
START_TEST(nothing_is_sent)
{
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	struct error err = {""};

	bed_start(x);
	bed_check_way(p, 0, 1);
	ck_assert_int_eq(netns_sh("ip link set l1 down"), 0);
	bed_inject_syns(0, 50);
	ck_assert_uint_eq(bed_forward(p, 1, 50, 2000), 50);
	look(x, 1, 50, false); /* it is known why */
	ck_assert_int_eq(xsk_queue_stall(x, 1, 0), XSK_RUNS);
	look(x, 1, 11, true);
	ck_assert_int_eq(xsk_queue_stall(x, 1, 0), XSK_RUNS);
	look(x, 1, 1, true);
	ck_assert_int_eq(xsk_queue_stall(x, 1, 0), XSK_STALL_TX);
	ck_assert_int_eq(xsk_queue_stall(x, 1, 1), XSK_RUNS);
	look(x, 1, 1000, true);
	ck_assert_int_eq(xsk_queue_stall(x, 1, 0), XSK_STALL_TX);
	ck_assert_int_eq(netns_sh("ip link set l1 up"), 0);
	xsk_queue_drop(x, 1, 0, &bed_at_once);
	bed_check_frames(p);
	bed_inject_syns(0, 50);
	ck_assert_uint_eq(bed_forward(p, 1, 50, 2000), 50); /* no queue that sends */
	ck_assert_msg(xsk_iface_fit(x, 1, &bed_at_once, &err) == 0, "%s", err.message);
	ck_assert_uint_eq(((struct xsk_port *)p)->n_limbo, 0);
	bed_check_way(p, 0, 1);
	bed_check_way(p, 1, 0);
	xsk_close(x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("xsk_stall");
	TCase *t = tcase_create("veth");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, bed_setup, bed_teardown);
	tcase_add_test(t, nothing_arrives);
	tcase_add_test(t, nothing_is_sent);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
