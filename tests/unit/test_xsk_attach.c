/* Attaching, replacing and detaching steer under live sockets: what a start, a restart and their
 * failures leave behind, and that the kernel never gets a packet of a VIP meanwhile. Needs root. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <check.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "netns.h"
#include "xsk_bed.h"

/* Closed and reopened: steer stays, VIP packets never reach the kernel; detached, they do. */
static void check_restart(enum xdp_mode mode)
{
	uint32_t flags = mode == XDP_MODE_GENERIC ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
	struct error err = {""};

	ck_assert(bed_kernel_answers(0)); /* the test can see a RST */
	struct xsk *x = bed_open_ports(2, 1, mode);
	bed_start(x);
	int first = bed_attached_id("l0", flags);
	ck_assert_int_gt(first, 0);
	ck_assert(!bed_kernel_answers(0));
	xsk_close(x);
	ck_assert_int_eq(bed_attached_id("l0", flags), first);
	ck_assert(!bed_kernel_answers(0));

	x = bed_open_ports(2, 1, mode); /* sockets of the new process, program of the old one */
	ck_assert(!bed_kernel_answers(0));
	bed_start(x);
	ck_assert_int_ne(bed_attached_id("l0", flags), first);
	bed_inject_syns(0, 10);
	/* 1 more from kernel_answers would be a packet that the old program passed on. */
	ck_assert_uint_eq(bed_forward(xsk_port(x, 0), 1, 11, 500), 10);
	xsk_close(x);

	ck_assert_int_eq(steer_detach("l0", &err), 0);
	ck_assert_int_eq(steer_detach("l0", &err), -ENOENT);
	ck_assert_int_eq(bed_attached_id("l0", 0), 0);
	ck_assert(bed_kernel_answers(0));
}

START_TEST(restart_never_lets_the_kernel_answer)
{
	check_restart(XDP_MODE_COPY);
}
END_TEST

START_TEST(restart_in_generic_mode)
{
	check_restart(XDP_MODE_GENERIC);
}
END_TEST

static void *inject_until_stop(void *arg)
{
	const _Atomic bool *stop = arg;

	while (!*stop) {
		bed_inject_syns(0, 20);
		usleep(200);
	}
	return NULL;
}

/* Programs replaced under traffic, by processes that start and end: no packet slips through. */
START_TEST(replacing_leaks_nothing)
{
	_Atomic bool stop = false;
	uint8_t buf[2048];
	pthread_t t;

	struct xsk *x = bed_open_ports(1, 1, XDP_MODE_COPY);
	bed_start(x);
	ck_assert_int_eq(pthread_create(&t, NULL, inject_until_stop, &stop), 0);
	for (int i = 0; i < 20; i++) {
		bed_forward(xsk_port(x, 0), -1, 100, 20);
		xsk_close(x);
		x = bed_open_ports(1, 1, XDP_MODE_COPY);
		bed_start(x);
	}
	ck_assert_uint_gt(bed_forward(xsk_port(x, 0), -1, 100, 1000),
			  0); /* traffic is still there */
	stop = true;
	pthread_join(t, NULL);
	ck_assert_uint_eq(bed_take(0, bed_macs[0], buf, sizeof(buf), 300), 0);
	xsk_close(x);
}
END_TEST

/* An old program in the other mode is replaced; auto mode stays with a generic one. */
START_TEST(mode_changes)
{
	struct xsk *x = bed_open_ports(1, 1, XDP_MODE_GENERIC);
	const struct xsk_queue *queues;

	bed_start(x);
	xsk_close(x);
	x = bed_open_ports(1, 1, XDP_MODE_AUTO);
	bed_start(x);
	xsk_queues(x, &queues);
	ck_assert_int_eq(queues[0].mode, XDP_MODE_GENERIC);
	xsk_close(x);
	x = bed_open_ports(1, 1, XDP_MODE_COPY);
	bed_start(x);
	ck_assert_int_gt(bed_attached_id("l0", XDP_FLAGS_DRV_MODE), 0);
	bed_inject_syns(0, 10);
	ck_assert_uint_eq(bed_forward(xsk_port(x, 0), 0, 10, 1000), 10);
	xsk_close(x);
	x = bed_open_ports(1, 1, XDP_MODE_GENERIC);
	bed_start(x);
	ck_assert_int_gt(bed_attached_id("l0", XDP_FLAGS_SKB_MODE), 0);
	xsk_close(x);
}
END_TEST

/* macvlan has no native XDP: auto falls back to generic on all interfaces. */
START_TEST(falls_back_to_generic)
{
	struct error err = {""};
	struct xsk_config c = {.n_ifaces = 2, .ifaces = {"l1", "m0"}, .mode = XDP_MODE_AUTO};
	const struct xsk_queue *queues;
	struct xsk *x = NULL;

	ck_assert_int_eq(netns_sh("ip link add link l0 name m0 type macvlan && ip link set m0 up"),
			 0);
	ck_assert_msg(xsk_open(&c, &x, &err) == 0, "%s", err.message);
	bed_start(x);
	unsigned n = xsk_queues(x, &queues);
	ck_assert_uint_ge(n, 3);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(queues[i].mode, XDP_MODE_GENERIC);
	ck_assert_int_gt(bed_attached_id("l1", XDP_FLAGS_SKB_MODE), 0);
	xsk_close(x);

	/* Asked for by name there is no fallback, and what was there stays. */
	c.mode = XDP_MODE_COPY;
	int before = bed_attached_id("l1", XDP_FLAGS_SKB_MODE);
	ck_assert_int_eq(xsk_open(&c, &x, &err), 0);
	ck_assert_int_lt(xsk_attach(x, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.message, "m0"));
	xsk_close(x);
	ck_assert_int_eq(bed_attached_id("l1", XDP_FLAGS_SKB_MODE), before);
	c.mode = XDP_MODE_ZEROCOPY;
	ck_assert_int_lt(xsk_open(&c, &x, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.message, "zero-copy"));
}
END_TEST

/* An XDP_PASS program that is not ours. Returns its descriptor. */
static int foreign_program(const char *name)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 2},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, name, "MIT", code, 2, NULL);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* A first start that fails on its second interface leaves nothing on the first. */
START_TEST(foreign_program_is_refused)
{
	struct error err = {""};
	int ifindex = (int)if_nametoindex("l1");
	int fd = foreign_program("somebody_else");

	ck_assert_int_eq(bpf_xdp_attach(ifindex, fd, XDP_FLAGS_DRV_MODE, NULL), 0);
	int id = bed_attached_id("l1", 0);
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_AUTO);
	ck_assert_int_eq(xsk_attach(x, &err), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.message, "somebody_else"));
	ck_assert_ptr_nonnull(strstr(err.message, "l1"));
	xsk_close(x);
	ck_assert_int_eq(bed_attached_id("l0", 0), 0);
	ck_assert_int_eq(bed_attached_id("l1", 0), id);
	ck_assert_int_eq(steer_detach("l1", &err), -EPERM);
	ck_assert_int_eq(bed_attached_id("l1", 0), id);
	ck_assert_int_eq(steer_detach("nosuch", &err), -ENODEV);
	close(fd);
}
END_TEST

/* A restart that fails on its second interface leaves the old program on the first: the second
 * refuses because its peer's MTU has become too large for any program without... it has generic XDP
 * on. */
START_TEST(failed_restart_leaves_the_old_one)
{
	struct error err = {""};
	struct xsk *x = bed_open_ports(1, 1, XDP_MODE_COPY);

	bed_start(x);
	xsk_close(x);
	int old = bed_attached_id("l0", XDP_FLAGS_DRV_MODE);
	/* veth refuses a native program when the peer has more TX queues than it has RX queues. */
	ck_assert_int_eq(netns_sh("ethtool -L l1 rx 1"), 0);
	x = bed_open_ports(2, 1, XDP_MODE_COPY);
	ck_assert_int_lt(xsk_attach(x, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.message, "l1: cannot attach"));
	xsk_close(x);
	ck_assert_int_eq(bed_attached_id("l0", XDP_FLAGS_DRV_MODE), old);
	ck_assert_int_eq(bed_attached_id("l1", 0), 0);
	ck_assert(!bed_kernel_answers(0));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("xsk_attach");
	TCase *t = tcase_create("veth");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, bed_setup, bed_teardown);
	tcase_add_test(t, restart_never_lets_the_kernel_answer);
	tcase_add_test(t, restart_in_generic_mode);
	tcase_add_test(t, replacing_leaks_nothing);
	tcase_add_test(t, mode_changes);
	tcase_add_test(t, falls_back_to_generic);
	tcase_add_test(t, foreign_program_is_refused);
	tcase_add_test(t, failed_restart_leaves_the_old_one);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
