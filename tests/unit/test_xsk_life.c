/* Interfaces that go, come back and change under sockets that are in use, over veth pairs: the
 * others go on, and no frame is lost or there twice. Needs root. */
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
#include "io/xsk_driver.h"
#include "io/xsk_life.h"
#include "netns.h"
#include "xsk_bed.h"

/* What main does, in one thread with the worker. */
static void take_back(struct xsk *x, unsigned iface)
{
	struct error err = {""};

	ck_assert_msg(xsk_iface_take(x, iface, &bed_at_once, &err) == 0, "%s", err.message);
	ck_assert_uint_eq(xsk_iface_n_bound(x, iface), 2);
}

static void delete_iface(struct xsk *x, unsigned iface)
{
	const struct xsk_iface *ifaces;

	ck_assert_int_eq(netns_sh("ip link del l%u", iface), 0);
	ck_assert(xsk_iface_is_dead(x, iface));
	ck_assert(!xsk_iface_is_dead(x, iface)); /* once */
	xsk_iface_drop(x, iface, &bed_at_once);
	xsk_ifaces(x, &ifaces);
	ck_assert_int_eq(ifaces[iface].ifindex, 0);
	ck_assert_uint_eq(xsk_iface_n_bound(x, iface), 0);
}

static unsigned count_queues(struct xsk *x, const char *ifname)
{
	struct xsk_queue *queues;
	unsigned n = 0, all = xsk_copy_queues(x, &queues);

	for (unsigned i = 0; i < all; i++)
		n += strcmp(queues[i].iface, ifname) == 0;
	free(queues);
	return n;
}

/* --- interfaces that go and come back ------------------------------------------------------------
 */

/* To another network namespace and back: it carries our program still. */
static void move_away_and_back(struct xsk *x)
{
	int other = netns_new();

	ck_assert_int_eq(netns_sh("ip link set l1 netns /proc/%d/fd/%d", (int)getpid(), other), 0);
	ck_assert(xsk_iface_is_dead(x, 1));
	xsk_iface_drop(x, 1, &bed_at_once);
	bed_check_way(xsk_port(x, 0), 0, 0);
	netns_enter(other);
	ck_assert_int_eq(netns_sh("ip link set l1 netns /proc/%d/fd/%d", (int)getpid(), bed_lb), 0);
	netns_enter(bed_lb);
	ck_assert_int_eq(netns_sh("ip link set l1 up"), 0);
	take_back(x, 1);
	close(other);
}

START_TEST(gone_and_back)
{
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);

	bed_start(x);
	for (unsigned i = 0; i < 4; i++) {
		unsigned gone = i % 2, stays = !gone;

		bed_check_way(p, stays, gone);
		bed_inject_syns(gone, 300); /* with frames in all rings */
		bed_forward(p, (int)gone, 100, 100);
		delete_iface(x, gone);
		ck_assert_uint_eq(p->n_queues, 2);
		bed_check_frames(p);
		/* Into the void, and by the one that is left. */
		bed_inject_syns(stays, 100);
		ck_assert_uint_eq(bed_forward(p, (int)gone, 100, 2000), 100);
		bed_check_way(p, stays, stays);
		bed_remake(gone);
		take_back(x, gone);
		bed_check_way(p, gone, stays);
		bed_check_way(p, stays, gone);
	}
	move_away_and_back(x);
	bed_check_way(p, 0, 1);
	bed_check_way(p, 1, 0);
	ck_assert(!bed_kernel_answers(1));
	xsk_close(x);
}
END_TEST

/* Then no socket is left that the packet memory is registered with. */
START_TEST(all_gone_and_back)
{
	struct xsk *x = bed_open_ports(2, 2, XDP_MODE_COPY);
	const struct xsk_queue *queues;

	bed_start(x);
	for (unsigned i = 0; i < 2; i++) {
		delete_iface(x, i % 2);
		delete_iface(x, !(i % 2));
		ck_assert_uint_eq(xsk_queues(x, &queues), 0);
		for (unsigned w = 0; w < 2; w++) {
			struct port *p = xsk_port(x, w);
			const struct umem *u = &((struct xsk_port *)p)->umem;

			ck_assert_uint_eq(p->n_queues, 0);
			ck_assert_uint_eq(u->n_free, u->n_frames);
			ck_assert_uint_eq(bed_forward(p, 0, 1, 20), 0);
		}
		bed_remake(1);
		take_back(x, 1);
		bed_remake(0);
		take_back(x, 0);
		ck_assert_uint_eq(xsk_queues(x, &queues), 4);
	}
	/* Flows go to both workers. */
	bed_inject_syns(0, 500);
	ck_assert_uint_gt(bed_forward(xsk_port(x, 0), 1, 500, 300), 50);
	ck_assert_uint_gt(bed_forward(xsk_port(x, 1), 1, 500, 300), 50);
	bed_check_frames(xsk_port(x, 0));
	bed_check_frames(xsk_port(x, 1));
	xsk_close(x);
}
END_TEST

/* In another mode than the one in use nothing is attached. */
START_TEST(in_generic_mode)
{
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_GENERIC);

	bed_start(x);
	delete_iface(x, 1);
	bed_remake(1);
	take_back(x, 1);
	ck_assert_int_gt(bed_attached_id("l1", XDP_FLAGS_SKB_MODE), 0);
	bed_check_way(xsk_port(x, 0), 1, 0);
	bed_check_way(xsk_port(x, 0), 0, 1);
	xsk_close(x);
}
END_TEST

/* --- what does not come back ---------------------------------------------------------------------
 */

static int foreign_program(void)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 2},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "steer", "MIT", code, 2, NULL);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static void check_refusal(struct xsk *x, int rc, const char *message)
{
	struct error err = {""};
	int got = xsk_iface_take(x, 1, &bed_at_once, &err);

	ck_assert_msg(rc ? got == rc : got < 0, "%d", got);
	ck_assert_msg(strstr(err.message, message) != NULL, "%s", err.message);
	ck_assert_uint_eq(xsk_iface_n_bound(x, 1), 0);
	bed_check_way(xsk_port(x, 0), 0, 0);
}

/* One of two queues has another owner: the other one serves, and this one later. */
static void check_taken_queue(struct xsk *x)
{
	struct umem umem;
	struct xsk_sock thief;
	struct xsk_socket_spec spec = {
		.ifname = "l1", .queue = 0, .tx = true, .umem = &umem, .shared_fd = -1};
	struct error err = {""};

	spec.ifindex = (int)if_nametoindex("l1");
	ck_assert_int_eq(umem_init(&umem, XSK_FILL_SIZE, 2048, false), 0);
	ck_assert_msg(xsk_socket_open(&thief, &spec, clock_now_ms() + 2000, &err) == 0, "%s",
		      err.message);
	ck_assert_int_eq(xsk_iface_take(x, 1, &bed_at_once, &err), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err.message, "l1 queue 0"));
	ck_assert_uint_eq(xsk_iface_n_bound(x, 1), 1);
	ck_assert_uint_eq(count_queues(x, "l1"), 1);
	bed_check_way(xsk_port(x, 0), 0, 1); /* by the queue that there is */
	ck_assert_int_eq(xsk_iface_fit(x, 1, &bed_at_once, &err), -EBUSY);
	bed_check_frames(xsk_port(x, 0));
	xsk_socket_close(&thief);
	umem_destroy(&umem);
	usleep(50000); /* the kernel frees it late */
	ck_assert_msg(xsk_iface_fit(x, 1, &bed_at_once, &err) == 0, "%s", err.message);
	ck_assert_uint_eq(count_queues(x, "l1"), 2);
}

START_TEST(refusals)
{
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct error err = {""};

	bed_start(x);
	delete_iface(x, 1);
	check_refusal(x, -ENODEV, "no such interface");
	ck_assert_int_eq(netns_sh("ip link add l1 type bridge && ip link set l1 up"), 0);
	check_refusal(x, 0, "cannot attach"); /* no native XDP */
	ck_assert_int_eq(netns_sh("ip link del l1 && ip tuntap add l1 mode tun"), 0);
	check_refusal(x, -EINVAL, "not an Ethernet");
	ck_assert_int_eq(netns_sh("ip link del l1"), 0);
	ck_assert_int_eq(xsk_iface_fit(x, 1, &bed_at_once, &err), -ENODEV);

	bed_remake(1);
	int fd = foreign_program(), ifindex = (int)if_nametoindex("l1");
	ck_assert_int_eq(bpf_xdp_attach(ifindex, fd, XDP_FLAGS_DRV_MODE, NULL), 0);
	check_refusal(x, 0, "another XDP program");
	ck_assert_int_eq(bpf_xdp_detach(ifindex, XDP_FLAGS_DRV_MODE, NULL), 0);
	close(fd);
	check_taken_queue(x);
	bed_check_way(xsk_port(x, 0), 0, 1);
	bed_check_way(xsk_port(x, 0), 1, 0);
	xsk_close(x);
}
END_TEST

/* --- changes -------------------------------------------------------------------------------------
 */

/* A veth that is up does not run the program on queues that it gets, so it is down meanwhile. */
static void set_queues(unsigned n)
{
	ck_assert_int_eq(netns_sh("ip link set l1 down && ethtool -L l1 rx %u tx %u && "
				  "ip link set l1 up",
				  n, n),
			 0);
	netns_enter(bed_peer);
	ck_assert_int_eq(netns_sh("ethtool -L p1 rx %u tx %u", n, n), 0);
	netns_enter(bed_lb);
}

static void make_wide_pair(unsigned n)
{
	ck_assert_int_eq(netns_sh("ip link del l1 && ip link add l1 numrxqueues %u numtxqueues %u "
				  "type veth peer name p1 netns /proc/%d/fd/%d numrxqueues %u "
				  "numtxqueues %u && ethtool -L l1 rx 1 tx 1",
				  n, n, (int)getpid(), bed_peer, n, n),
			 0);
	netns_enter(bed_peer);
	ck_assert_int_eq(netns_sh("ethtool -L p1 rx 1 tx 1 && ip link set p1 up"), 0);
	netns_enter(bed_lb);
	ck_assert_int_eq(netns_sh("ip link set l1 up"), 0);
	netns_mac("l1", bed_macs[1]);
}

START_TEST(more_queues)
{
	struct error err = {""};
	const struct xsk_iface *ifaces;

	make_wide_pair(64);
	struct xsk *x = bed_open_ports(2, 1, XDP_MODE_COPY);
	struct port *p = xsk_port(x, 0);
	bed_start(x);
	xsk_ifaces(x, &ifaces);
	ck_assert_uint_eq(ifaces[1].n_queues, 1);
	for (unsigned n = 2; n <= 40; n += 19) {
		set_queues(n);
		ck_assert_msg(xsk_iface_fit(x, 1, &bed_at_once, &err) == 0, "%s", err.message);
		ck_assert_uint_eq(ifaces[1].n_queues, n);
		ck_assert_uint_eq(xsk_iface_n_bound(x, 1), n);
		bed_check_frames(p);
		/* Those of before give way, as far as they can without losing what they hold. */
		for (unsigned r = 0; r < 20; r++) {
			bed_inject_syns(0, 200);
			ck_assert_uint_eq(bed_forward(p, 1, 200, 5000), 200);
		}
		bed_check_frames(p);
	}
	ck_assert_int_eq(netns_sh("ip link set l1 mtu 1400"), 0);
	ck_assert_int_eq(xsk_iface_fit(x, 1, &bed_at_once, &err), 0);
	ck_assert_uint_eq(ifaces[1].mtu, 1400);
	ck_assert_uint_lt(ifaces[1].mtu, xsk_mtu_limit(x));
	/* More than a worker can have: those for which there is room serve. */
	set_queues(64);
	ck_assert_int_eq(xsk_iface_fit(x, 1, &bed_at_once, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.message, "restart concuryd"));
	ck_assert_uint_ge(xsk_iface_n_bound(x, 1), 40);
	bed_check_frames(p);
	xsk_close(x);
}
END_TEST

/* --- workers that run ----------------------------------------------------------------------------
 */

struct gate {
	pthread_mutex_t mutex;
	_Atomic bool ends;
};

static struct gate gates[2] = {{PTHREAD_MUTEX_INITIALIZER, false},
			       {PTHREAD_MUTEX_INITIALIZER, false}};

struct job {
	struct port *port;
	struct gate *gate;
};

static void *run_worker(void *arg)
{
	const struct job *j = arg;

	while (!j->gate->ends) {
		pthread_mutex_lock(&j->gate->mutex);
		bed_forward(j->port, 0, BURST_MAX, 2);
		pthread_mutex_unlock(&j->gate->mutex);
		usleep(100);
	}
	return NULL;
}

static void run_paused(void *ctx, void (*fn)(void *arg), void *arg)
{
	(void)ctx;
	for (unsigned w = 0; w < 2; w++)
		pthread_mutex_lock(&gates[w].mutex);
	fn(arg);
	for (unsigned w = 0; w < 2; w++)
		pthread_mutex_unlock(&gates[w].mutex);
}

/* As the API's threads. */
static void *run_reader(void *arg)
{
	struct xsk *x = arg;
	struct xsk_queue *queues;

	while (!gates[0].ends) {
		ck_assert_uint_le(xsk_copy_queues(x, &queues), 4);
		free(queues);
		(void)xsk_rx_kernel_drops(x);
		usleep(200);
	}
	return NULL;
}

/* As the supervisor does: a busy kernel frees what was closed late, and the next try succeeds. */
static void fit_retrying(struct xsk *x, const struct xsk_pause *pause)
{
	struct error err = {""};
	int rc = -EBUSY;

	for (unsigned i = 0; i < 20 && rc == -EBUSY; i++)
		rc = xsk_iface_fit(x, 0, pause, &err);
	ck_assert_msg(rc == 0, "%s", err.message);
}

START_TEST(under_running_workers)
{
	const struct xsk_pause pause = {NULL, run_paused};
	struct xsk *x = bed_open_ports(2, 2, XDP_MODE_COPY);
	struct job jobs[2];
	pthread_t threads[3];
	struct error err = {""};

	bed_start(x);
	for (unsigned w = 0; w < 2; w++) {
		gates[w].ends = false;
		jobs[w] = (struct job){xsk_port(x, w), &gates[w]};
		ck_assert_int_eq(pthread_create(&threads[w], NULL, run_worker, &jobs[w]), 0);
	}
	ck_assert_int_eq(pthread_create(&threads[2], NULL, run_reader, x), 0);
	for (unsigned i = 0; i < 6; i++) {
		bed_inject_syns(0, 100);
		bed_inject_syns(1, 100);
		if (i % 2) {
			ck_assert_int_eq(netns_sh("ip link del l1"), 0);
			bed_inject_syns(0, 100);
			ck_assert(xsk_iface_is_dead(x, 1));
			xsk_iface_drop(x, 1, &pause);
			bed_remake(1);
			bed_inject_syns(0, 100);
			ck_assert_msg(xsk_iface_take(x, 1, &pause, &err) == 0, "%s", err.message);
		} else {
			xsk_queue_drop(x, 0, i % 4 / 2, &pause);
			fit_retrying(x, &pause);
		}
		bed_inject_syns(1, 100);
		xsk_look_at_queues(x, 0, true);
		xsk_look_at_queues(x, 1, true);
	}
	gates[0].ends = gates[1].ends = true;
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (unsigned w = 0; w < 2; w++) {
		bed_check_frames(xsk_port(x, w));
		ck_assert_uint_eq(((struct xsk_port *)xsk_port(x, w))->n_limbo, 0);
	}
	xsk_close(x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("xsk_life");
	TCase *t = tcase_create("veth");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, bed_setup, bed_teardown);
	tcase_add_test(t, gone_and_back);
	tcase_add_test(t, all_gone_and_back);
	tcase_add_test(t, in_generic_mode);
	tcase_add_test(t, refusals);
	tcase_add_test(t, more_queues);
	suite_add_tcase(s, t);
	t = tcase_create("threads");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, bed_setup, bed_teardown);
	tcase_add_test(t, under_running_workers);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
