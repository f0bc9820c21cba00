/* The lives of the served interfaces, as the supervisor sees and tells them: over veth pairs, at
 * times that the test sets, with a control that runs in the same thread. Needs root. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <check.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/events.h"
#include "control/supervisor.h"
#include "io/xsk_life.h"
#include "netns.h"
#include "tests/unit/world.h"
#include "xsk_bed.h"

static struct world *w;
static struct xsk *x;
static struct supervisor *s;
static struct iface_status now[IFACES_MAX];
static uint64_t told; /* the last event that was looked at */

static void setup(void)
{
	bed_setup();
	w = world_new(1, 1024);
	x = bed_open_ports(2, 1, XDP_MODE_COPY);
	bed_start(x);
	ck_assert_int_eq(supervisor_new(x, w->control, &s), 0);
	told = events_last(control_events(w->control));
}

static void teardown(void)
{
	supervisor_free(s);
	supervisor_free(NULL);
	xsk_close(x);
	world_free(w);
	bed_teardown();
}

static void tick_after(unsigned ms)
{
	world_advance_ms(ms);
	ck_assert_uint_le(supervisor_tick(s), XSK_LOOK_MS);
	ck_assert_uint_eq(supervisor_read(s, now), 2);
}

/* l<iface> is so, for a reason that has these words in it (NULL: for none). */
static void check(unsigned iface, enum iface_state state, const char *words)
{
	const struct iface_status *i = &now[iface];

	ck_assert_msg(i->state == state, "%s is %s (%s)", i->name, iface_state_names[i->state],
		      i->reason);
	if (words)
		ck_assert_msg(strstr(i->reason, words) != NULL, "%s", i->reason);
	else
		ck_assert_str_eq(i->reason, "");
	ck_assert_uint_eq(i->n_bound, i->ifindex ? 2 : 0);
}

/* Exactly these events, in this order, have come of l1: the words that each has in it, NULL ends.
 */
static void check_told(const char *const *words)
{
	struct control_event e;
	uint64_t lost = 0;

	world_advance_ms(1000);
	events_tick(control_events(w->control));
	for (; *words; words++) {
		ck_assert_msg(events_read(control_events(w->control), told, &e, 1, &lost) == 1 &&
				      !lost,
			      "nobody said: %s", *words);
		ck_assert_int_eq(e.kind, EVENT_interface);
		ck_assert_msg(strncmp(e.text, "l1: ", 4) == 0 && strstr(e.text, *words), "%s",
			      e.text);
		told = e.id;
	}
	ck_assert_uint_eq(events_last(control_events(w->control)), told);
}

#define CHECK_TOLD(...) check_told((const char *const[]){__VA_ARGS__, NULL})

static void link_is(const char *what)
{
	ck_assert_int_eq(netns_sh("ip link set l1 %s", what), 0);
}

/* The kernel sees to carriers in its own time. */
static void peer_is(const char *what)
{
	const char *until = strcmp(what, "up") == 0 ? "!" : "";

	netns_enter(bed_peer);
	ck_assert_int_eq(netns_sh("ip link set p1 %s", what), 0);
	netns_enter(bed_lb);
	ck_assert_int_eq(netns_sh("for i in $(seq 1000); do %s ip link show l1 | grep -q "
				  "NO-CARRIER && exit 0; sleep 0.01; done; exit 1",
				  until),
			 0);
}

START_TEST(up_and_down)
{
	tick_after(0);
	check(0, IFACE_UP, NULL);
	check(1, IFACE_UP, NULL);
	ck_assert_str_eq(now[1].name, "l1");
	ck_assert_int_eq(now[1].ifindex, (int)if_nametoindex("l1"));
	ck_assert_uint_eq(now[1].mtu, 1500);
	ck_assert_uint_eq(now[1].n_queues, 2);
	ck_assert_uint_eq(now[1].program_id, (unsigned)bed_attached_id("l1", XDP_FLAGS_DRV_MODE));
	for (unsigned i = 0; i < 20; i++)
		tick_after(XSK_LOOK_MS); /* nothing to tell */

	link_is("down");
	tick_after(1);
	check(0, IFACE_UP, NULL);
	check(1, IFACE_DOWN, NULL);
	link_is("up");
	peer_is("up");
	tick_after(1);
	check(1, IFACE_UP, NULL);
	peer_is("down");
	tick_after(1);
	check(1, IFACE_UP, "no carrier");
	peer_is("up");
	tick_after(1);
	check(1, IFACE_UP, NULL);
	CHECK_TOLD("down", "up", "up (there is no carrier)", "up");

	link_is("mtu 3000");
	tick_after(1);
	check(1, IFACE_UP, "ip link set dev l1 mtu 1770");
	ck_assert_uint_eq(now[1].mtu, 3000);
	link_is("mtu 1400");
	tick_after(1);
	check(1, IFACE_UP, NULL);
	CHECK_TOLD("MTU is 3000 now", "frames of more than 1770 bytes", "MTU is 1400 now", "up");
	ck_assert_uint_eq(now[1].rebinds_total + now[1].stalls_total, 0);
}
END_TEST

/* Of all that can keep an interface from being bound again: another program on it. */
START_TEST(gone_and_back)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 2},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "other", "MIT", code, 2, NULL);

	ck_assert_int_ge(fd, 0);
	tick_after(0);
	for (unsigned i = 1; i <= 2; i++) {
		ck_assert_int_eq(netns_sh("ip link del l1"), 0);
		tick_after(1);
		check(0, IFACE_UP, NULL);
		check(1, IFACE_GONE, "deleted or moved");
		ck_assert_int_eq(now[1].ifindex, 0);
		tick_after(10000);
		check(1, IFACE_GONE, "deleted or moved");

		bed_remake(1);
		int ifindex = (int)if_nametoindex("l1");
		ck_assert_int_eq(bpf_xdp_attach(ifindex, fd, XDP_FLAGS_DRV_MODE, NULL), 0);
		tick_after(1);
		check(1, IFACE_REBINDING, "another XDP program");
		tick_after(1);
		ck_assert_int_eq(bpf_xdp_detach(ifindex, XDP_FLAGS_DRV_MODE, NULL), 0);
		/* Tried after 250, 500, 1000 ... ms, but it has gone away in between. */
		tick_after(240);
		check(1, IFACE_REBINDING, "another XDP program");
		tick_after(10);
		check(1, IFACE_UP, NULL);
		ck_assert_int_eq(now[1].ifindex, ifindex);
		ck_assert_uint_eq(now[1].rebinds_total, i);
		CHECK_TOLD("gone (it was deleted", "rebinding (it carries another",
			   "bound again, 2", "up");
	}
	close(fd);
	bed_inject_syns(1, 50);
	ck_assert_uint_eq(bed_forward(xsk_port(x, 0), 0, 50, 2000), 50);
	bed_check_frames(xsk_port(x, 0));
}
END_TEST

/* A place without an interface is tried ever later. */
START_TEST(patience)
{
	static const unsigned waits_ms[] = {250, 500, 1000, 2000, 4000, 8000, 8000};

	tick_after(0);
	ck_assert_int_eq(netns_sh("ip link del l1 && ip tuntap add l1 mode tun"), 0);
	tick_after(1);
	check(1, IFACE_REBINDING, "not an Ethernet");
	for (unsigned i = 0; i < ARRAY_LEN(waits_ms); i++) {
		/* What is tried at the end of each wait finds another fault. */
		ck_assert_int_eq(
			netns_sh("ip link del l1 && %s", i % 2 ? "ip tuntap add l1 mode tun"
							       : "ip link add l1 type bridge"),
			0);
		const char *was = i % 2 ? "cannot attach" : "not an Ethernet";
		const char *is = i % 2 ? "not an Ethernet" : "cannot attach";
		tick_after(waits_ms[i] - 1);
		check(1, IFACE_REBINDING, was);
		tick_after(1);
		check(1, IFACE_REBINDING, is);
	}
	check(0, IFACE_UP, NULL);
}
END_TEST

/* Frames for queue 0 or 1 of l0, as the flow's hash says. */
static void knock(unsigned n)
{
	while (n-- > 0) {
		bed_inject_syns(0, 20);
		bed_forward(xsk_port(x, 0), 1, 1, 0);
		tick_after(XSK_LOOK_MS);
	}
}

static void take_socket_away(uint32_t queue)
{
	int map = steer_xskmap_fd(xsk_steering(x).ctx, 0);

	ck_assert_int_eq(bpf_map_delete_elem(map, &queue), 0);
}

/* Bound anew soon; where that does not help for long, ever later. */
START_TEST(standing_still)
{
	tick_after(0);
	knock(10);
	check(0, IFACE_UP, NULL);
	for (uint32_t queue = 0; queue < 2; queue++)
		take_socket_away(queue);
	knock(3);
	ck_assert_uint_eq(now[0].stalls_total, 0);
	knock(1);
	ck_assert_uint_eq(now[0].stalls_total, 2); /* both at once */
	ck_assert_uint_eq(now[0].rebinds_total, 1);
	check(0, IFACE_UP, NULL);

	take_socket_away(1); /* right again: within a second it is waited */
	knock(3);
	ck_assert_uint_eq(now[0].stalls_total, 2);
	knock(1);
	ck_assert_uint_eq(now[0].stalls_total, 3);
	take_socket_away(1); /* two seconds this time */
	knock(7);
	ck_assert_uint_eq(now[0].stalls_total, 3);
	check(0, IFACE_UP, "queue 1 stands still: frames sent to its socket");
	knock(1);
	ck_assert_uint_eq(now[0].stalls_total, 4);
	check(0, IFACE_UP, NULL);

	world_advance_ms(200000); /* all is forgotten */
	take_socket_away(1);
	knock(4);
	ck_assert_uint_eq(now[0].stalls_total, 5);
	take_socket_away(1);
	knock(4);
	ck_assert_uint_eq(now[0].stalls_total, 6);
	bed_check_frames(xsk_port(x, 0));
	ck_assert_uint_eq(now[1].stalls_total, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("supervisor");
	TCase *t = tcase_create("veth");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, up_and_down);
	tcase_add_test(t, gone_and_back);
	tcase_add_test(t, patience);
	tcase_add_test(t, standing_still);
	suite_add_tcase(suite, t);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
