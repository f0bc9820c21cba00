/* Next hops from the kernel, against the kernel: two network namespaces with a veth pair between,
 * `ip` to change things, and neighbor.c watching. Needs root. */
#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/control.h"

#define MAC_LB "02:00:00:00:00:01"
#define MAC_PEER "02:00:00:00:00:02"

static int ns_lb = -1, ns_peer = -1;
static struct neighbor *nb;

static void run_in(int ns, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A shell command in one of the namespaces; it must succeed. */
static void run_in(int ns, const char *fmt, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, fmt);
	int n = snprintf(command, sizeof(command), "set -e; ");
	vsnprintf(command + n, sizeof(command) - (size_t)n, fmt, ap);
	va_end(ap);
	ck_assert_int_eq(setns(ns, CLONE_NEWNET), 0);
	int rc = system(command);
	ck_assert_int_eq(setns(ns_lb, CLONE_NEWNET), 0);
	ck_assert_msg(rc == 0, "failed: %s", command);
}

#define lb(...) run_in(ns_lb, __VA_ARGS__)
#define peer(...) run_in(ns_peer, __VA_ARGS__)

static int new_namespace(void)
{
	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "needs root: %m");
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static void setup(void)
{
	struct error err = {""};

	ns_peer = new_namespace();
	ns_lb = new_namespace();
	/* No duplicate address detection: it would cost a second each time. */
	lb("echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad");
	peer("echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad");
	lb("ip link add v0 address " MAC_LB " type veth peer name v1 address " MAC_PEER
	   " netns /proc/%d/fd/%d",
	   getpid(), ns_peer);
	lb("ip link set lo up; ip addr add 10.0.0.1/24 dev v0; ip addr add fd00::1/64 dev v0 nodad;"
	   "ip link set v0 up");
	peer("ip link set lo up; ip addr add 10.0.0.2/24 dev v1; ip addr add fd00::2/64 dev v1 "
	     "nodad;"
	     "ip link set v1 up; echo 1 > /proc/sys/net/ipv4/conf/v1/arp_notify");
	ck_assert_msg(neighbor_open(&nb, &err) == 0, "%s", err.message);
	ck_assert_int_ge(neighbor_fd(nb), 0);
}

static void teardown(void)
{
	neighbor_close(nb);
	nb = NULL;
	close(ns_peer);
	close(ns_lb);
}

static struct ip_addr address(const char *text)
{
	struct ip_addr a;

	ck_assert_int_eq(ip_addr_parse(text, &a), 0);
	return a;
}

static void watch(const char *text)
{
	struct ip_addr a = address(text);

	ck_assert_int_eq(neighbor_watch(nb, &a), 0);
}

static void unwatch(const char *text)
{
	struct ip_addr a = address(text);

	neighbor_unwatch(nb, &a);
}

/* "MAC src-MAC mtu", "route src-MAC mtu" (no MAC) or "none". */
static const char *shown(const char *text)
{
	static char buf[96];
	char dst[MAC_STRLEN], src[MAC_STRLEN];
	struct ip_addr a = address(text);
	struct next_hop hop;
	bool has_route;

	memset(&hop, 0xff, sizeof(hop));
	neighbor_get(nb, &a, &hop, &has_route);
	if (!has_route) {
		ck_assert(!hop.resolved);
		return "none";
	}
	ck_assert_int_eq(hop.ifindex, (int)if_nametoindex("v0"));
	snprintf(buf, sizeof(buf), "%s %s %u",
		 hop.resolved ? mac_format(hop.dst_mac, dst) : "route",
		 mac_format(hop.src_mac, src), hop.mtu);
	return buf;
}

static bool poll_once(int timeout_ms)
{
	struct pollfd p = {.fd = neighbor_fd(nb), .events = POLLIN};

	ck_assert_int_ge(poll(&p, 1, timeout_ms), 0);
	return neighbor_poll(nb, clock_now_ms());
}

/* Poll as control does until the address shows what is wanted; ms: how long it may take. Every
 * change must have been reported. */
static void expect(const char *text, const char *want, uint64_t ms)
{
	uint64_t end = clock_now_ms() + ms;
	char before[96];

	while (strcmp(shown(text), want) != 0) {
		ck_assert_msg(clock_now_ms() < end, "%s shows '%s', not '%s'", text, shown(text),
			      want);
		snprintf(before, sizeof(before), "%s", shown(text));
		bool changed = poll_once(50);
		ck_assert_msg(changed || strcmp(before, shown(text)) == 0,
			      "%s became '%s' without a word", text, shown(text));
	}
}

/* The answer stays the same while polling for some time. */
static void expect_steady(const char *text, const char *want, uint64_t ms)
{
	for (uint64_t end = clock_now_ms() + ms; clock_now_ms() < end; poll_once(20))
		ck_assert_str_eq(shown(text), want);
}

#define RESOLVED MAC_PEER " " MAC_LB " 1500"
#define ROUTED "route " MAC_LB " 1500"

START_TEST(test_on_link)
{
	struct next_hops hops = neighbor_next_hops(nb);
	struct ip_addr v6 = address("fd00::2");
	struct next_hop hop;
	bool has_route;

	watch("10.0.0.2");
	ck_assert_int_eq(hops.watch(hops.ctx, &v6), 0);
	ck_assert_int_eq(hops.fd, neighbor_fd(nb));
	expect("10.0.0.2", RESOLVED, 3000);
	expect("fd00::2", RESOLVED, 3000);
	hops.get(hops.ctx, &v6, &hop, &has_route);
	ck_assert(has_route && hop.resolved);
	/* Nothing changes: nothing is reported. */
	poll_once(0);
	for (int i = 0; i < 5; i++)
		ck_assert(!poll_once(10));
	ck_assert(!hops.poll(hops.ctx, clock_now_ms()));
	hops.unwatch(hops.ctx, &v6);
	unwatch("10.0.0.2");
}
END_TEST

START_TEST(test_counted)
{
	struct ip_addr never = address("10.0.0.2");
	struct next_hop hop = {.resolved = true};
	bool has_route = true;

	neighbor_get(nb, &never, &hop, &has_route);
	ck_assert(!has_route && !hop.resolved);
	watch("10.0.0.2");
	watch("10.0.0.2");
	expect("10.0.0.2", RESOLVED, 3000);
	unwatch("10.0.0.2");
	ck_assert_str_eq(shown("10.0.0.2"), RESOLVED);
	unwatch("10.0.0.2");
	watch("10.0.0.2"); /* the kernel still knows it: no waiting */
	ck_assert_str_eq(shown("10.0.0.2"), RESOLVED);
	unwatch("10.0.0.2");
}
END_TEST

START_TEST(test_behind_router)
{
	char text[32];

	lb("ip route add 10.9.0.0/16 via 10.0.0.2 mtu 1400; ip route add 10.8.0.0/16 via inet6 "
	   "fd00::2;"
	   "ip route add fd09::/16 via fd00::2 mtu 9000");
	for (int i = 0; i < 2000; i++) {
		snprintf(text, sizeof(text), "10.9.%d.%d", i / 250, i % 250 + 1);
		watch(text);
	}
	watch("10.8.0.1");
	watch("fd09::1");
	expect("10.9.0.1", MAC_PEER " " MAC_LB " 1400", 3000);
	expect("10.9.7.250", MAC_PEER " " MAC_LB " 1400", 100);
	expect("10.8.0.1", RESOLVED, 3000);
	expect("fd09::1", RESOLVED, 3000); /* the link's MTU is smaller */
	/* The router is all that the kernel was asked for. */
	lb("test $(ip -4 neigh show dev v0 | wc -l) = 1");
	/* The router is replaced by another one: all follow. */
	peer("ip addr add 10.0.0.3/24 dev v1");
	lb("ip neigh replace 10.0.0.3 lladdr 02:00:00:00:00:03 dev v0 nud permanent");
	lb("ip route replace 10.9.0.0/16 via 10.0.0.3");
	expect("10.9.0.1", "02:00:00:00:00:03 " MAC_LB " 1500", 1000);
	expect("10.9.7.250", "02:00:00:00:00:03 " MAC_LB " 1500", 100);
}
END_TEST

START_TEST(test_mac_change)
{
	watch("10.0.0.2");
	expect("10.0.0.2", RESOLVED, 3000);
	poll_once(1100); /* the kernel believes no other answer for a second (locktime) */
	peer("ip link set v1 address 02:00:00:00:00:22");
	expect("10.0.0.2", "02:00:00:00:00:22 " MAC_LB " 1500", 1000);
	lb("ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:33 dev v0 nud reachable");
	expect("10.0.0.2", "02:00:00:00:00:33 " MAC_LB " 1500", 1000);
}
END_TEST

START_TEST(test_link_change)
{
	watch("10.0.0.2");
	expect("10.0.0.2", RESOLVED, 3000);
	lb("ip link set v0 mtu 1300");
	expect("10.0.0.2", MAC_PEER " " MAC_LB " 1300", 1000);
	lb("ip link set v0 address 02:00:00:00:00:11");
	expect("10.0.0.2", MAC_PEER " 02:00:00:00:00:11 1300", 2000);
	/* A link that bounces is forgiven, one that stays down is not. */
	lb("ip link set v0 down; sleep 0.1; ip link set v0 up");
	expect_steady("10.0.0.2", MAC_PEER " 02:00:00:00:00:11 1300", 1500);
	lb("ip link set v0 down");
	expect_steady("10.0.0.2", MAC_PEER " 02:00:00:00:00:11 1300", 500);
	ck_assert(neighbor_poll(nb, clock_now_ms() + 4100));
	ck_assert_str_eq(shown("10.0.0.2"), "none");
	lb("ip link set v0 up");
	expect("10.0.0.2", MAC_PEER " 02:00:00:00:00:11 1300", 3000);
}
END_TEST

START_TEST(test_fails_and_returns)
{
	lb("cd /proc/sys/net/ipv4/neigh/v0; echo 300 > base_reachable_time_ms; echo 100 > "
	   "retrans_time_ms;"
	   "echo 1 > delay_first_probe_time; echo 300 > interval_probe_time_ms");
	watch("10.0.0.2");
	watch("10.0.0.77"); /* nobody has it */
	expect("10.0.0.2", RESOLVED, 3000);
	expect("10.0.0.77", ROUTED, 0);
	/* The kernel finds out by itself, as the entry is managed; our own probes would come later.
	 */
	peer("ip addr del 10.0.0.2/24 dev v1");
	expect("10.0.0.2", ROUTED, 8000);
	peer("ip addr add 10.0.0.2/24 dev v1; ip addr add 10.0.0.77/24 dev v1");
	expect("10.0.0.2", RESOLVED, 3000);
	expect("10.0.0.77", RESOLVED, 3000);
}
END_TEST

START_TEST(test_flush_is_forgiven)
{
	watch("10.0.0.2");
	watch("fd00::2");
	expect("10.0.0.2", RESOLVED, 3000);
	expect("fd00::2", RESOLVED, 3000);
	for (int i = 0; i < 3; i++) {
		lb("ip neigh del 10.0.0.2 dev v0; ip neigh del fd00::2 dev v0");
		expect_steady("10.0.0.2", RESOLVED, 300);
		ck_assert_str_eq(shown("fd00::2"), RESOLVED);
		lb("ip neigh show 10.0.0.2 | grep -q lladdr"); /* asked again */
	}
	/* Now it is removed and nobody answers: the kernel's verdict counts at the latest. */
	peer("ip addr del 10.0.0.2/24 dev v1");
	lb("ip neigh del 10.0.0.2 dev v0");
	expect_steady("10.0.0.2", RESOLVED, 200);
	expect("10.0.0.2", ROUTED, 5000);
}
END_TEST

START_TEST(test_no_route)
{
	lb("ip route add blackhole 10.7.0.0/16; ip -6 route add blackhole fd07::/16;"
	   "ip route add unreachable 10.6.0.0/16; ip route add prohibit 10.5.0.0/16");
	const char *const refused[] = {"10.0.0.1",  "fd00::1",	  "127.0.0.1", "10.7.0.1",
				       "fd07::1",   "10.6.0.1",	  "10.5.0.1",  "10.0.0.255",
				       "192.0.2.1", "2001:db8::1"};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		watch(refused[i]);
		ck_assert_str_eq(shown(refused[i]), "none");
	}
	poll_once(300);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		ck_assert_str_eq(shown(refused[i]), "none");

	lb("ip route add 192.0.2.0/24 via 10.0.0.2; ip -6 route add default via fd00::2");
	expect("192.0.2.1", RESOLVED, 3000);
	expect("2001:db8::1", RESOLVED, 3000);
	/* A withdrawn route is held for a moment, a refusing one counts at once. */
	lb("ip route del 192.0.2.0/24; ip -6 route replace blackhole 2001:db8::/32");
	expect("2001:db8::1", "none", 1000);
	expect_steady("192.0.2.1", RESOLVED, 300);
	ck_assert(neighbor_poll(nb, clock_now_ms() + 4100));
	ck_assert_str_eq(shown("192.0.2.1"), "none");
	/* The address becomes the host's own. */
	lb("ip route add 192.0.2.0/24 via 10.0.0.2");
	expect("192.0.2.1", RESOLVED, 3000);
	lb("ip addr add 192.0.2.1/32 dev lo");
	expect("192.0.2.1", "none", 1000);
	/* A rule decides otherwise. */
	watch("10.0.0.2");
	expect("10.0.0.2", RESOLVED, 3000);
	lb("ip rule add to 10.0.0.2 prohibit");
	expect("10.0.0.2", "none", 1000);
}
END_TEST

START_TEST(test_kernel_entries)
{
	lb("ip neigh add 10.0.0.50 lladdr 02:00:00:00:00:50 dev v0 nud permanent");
	watch("10.0.0.50");
	watch("10.0.0.2");
	ck_assert_str_eq(shown("10.0.0.50"), "02:00:00:00:00:50 " MAC_LB " 1500");
	expect("10.0.0.2", RESOLVED, 3000);
	/* Past every time of asking: the operator's entry stays as it is, ours is managed. */
	for (int s = 1; s <= 20; s++)
		neighbor_poll(nb, clock_now_ms() + (uint64_t)s * 1000);
	lb("ip neigh show 10.0.0.50 | grep -q PERMANENT");
	lb("ip neigh show 10.0.0.2 | grep -q managed");
	unwatch("10.0.0.50");
	unwatch("10.0.0.2");
	lb("ip neigh show 10.0.0.50 | grep -q PERMANENT");
	lb("ip neigh show 10.0.0.2 | grep lladdr | grep -qv managed");
	watch("10.0.0.2");
	neighbor_close(nb);
	nb = NULL;
	lb("ip neigh show 10.0.0.2 | grep lladdr | grep -qv managed");
}
END_TEST

/* Sum of the drops of this process's rtnetlink sockets. */
static unsigned long netlink_drops(void)
{
	FILE *f = fopen("/proc/thread-self/net/netlink", "r");
	unsigned long sum = 0, drops;
	char line[256];

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %lu", &drops) == 1)
			sum += drops;
	}
	ck_assert_int_eq(fclose(f), 0);
	return sum;
}

START_TEST(test_lost_events)
{
	lb("ip neigh add 10.0.0.50 lladdr 02:00:00:00:00:50 dev v0 nud permanent;"
	   "ip route add 10.9.0.0/16 via 10.0.0.50");
	watch("10.0.0.50");
	watch("10.9.0.1");
	watch("10.0.0.60");
	expect("10.0.0.50", "02:00:00:00:00:50 " MAC_LB " 1500", 1000);
	expect("10.9.0.1", "02:00:00:00:00:50 " MAC_LB " 1500", 1000);
	for (int round = 0; round < 8 && netlink_drops() == 0; round++)
		lb("for a in 1 2 3 4 5 6 7 8; do for b in $(seq 250); do"
		   "  echo neigh replace 10.0.%d.$b lladdr 02:00:00:00:0$a:01 dev v0 nud permanent;"
		   "done; done | ip -batch -",
		   100 + round);
	ck_assert_msg(netlink_drops() > 0, "the flood was too small");
	lb("ip neigh replace 10.0.0.50 lladdr 02:00:00:00:00:51 dev v0 nud permanent;"
	   "ip neigh replace 10.0.0.60 lladdr 02:00:00:00:00:60 dev v0 nud permanent;"
	   "ip route replace 10.9.0.0/16 via 10.0.0.60");
	/* One call: all is asked anew, though no event tells of it. */
	ck_assert(poll_once(0));
	ck_assert_str_eq(shown("10.0.0.50"), "02:00:00:00:00:51 " MAC_LB " 1500");
	ck_assert_str_eq(shown("10.0.0.60"), "02:00:00:00:00:60 " MAC_LB " 1500");
	ck_assert_str_eq(shown("10.9.0.1"), "02:00:00:00:00:60 " MAC_LB " 1500");
}
END_TEST

#define MANY 6000

/* Thousands at once are asked some at a time, but all of them. They have entries already, so that
 * each shows its MAC address as soon as it is asked. */
START_TEST(test_many)
{
	char text[32];
	unsigned n_resolved = 0;

	lb("ip addr add 10.7.0.1/16 dev v0; for i in $(seq 0 %d); do "
	   "echo neigh add 10.7.$((i / 250 + 1)).$((i %% 250 + 1)) lladdr " MAC_PEER
	   " dev v0 nud permanent; done | ip -batch -",
	   MANY - 1);
	while (poll_once(200))
		;
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(text, sizeof(text), "10.7.%u.%u", i / 250 + 1, i % 250 + 1);
		watch(text);
	}
	for (unsigned polls = 0; polls < 3000 && n_resolved < MANY; polls++) {
		(void)neighbor_poll(nb, clock_now_ms());
		for (n_resolved = 0; n_resolved < MANY; n_resolved++) {
			snprintf(text, sizeof(text), "10.7.%u.%u", n_resolved / 250 + 1,
				 n_resolved % 250 + 1);
			if (strncmp(shown(text), MAC_PEER, strlen(MAC_PEER)) != 0)
				break;
		}
	}
	ck_assert_uint_eq(n_resolved, MANY);
}
END_TEST

START_TEST(test_open_fails)
{
	struct rlimit old, none;
	struct neighbor *other = NULL;
	struct error err = {""};

	/* Descriptors run out at the first and at the second socket. */
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	int lowest = open("/dev/null", O_RDONLY);
	ck_assert_int_ge(lowest, 0);
	close(lowest);
	for (int free_fds = 0; free_fds < 2; free_fds++) {
		none = old;
		none.rlim_cur = (rlim_t)lowest + (rlim_t)free_fds;
		err.message[0] = '\0';
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
		int rc = neighbor_open(&other, &err);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		ck_assert_int_lt(rc, 0);
		ck_assert_ptr_null(other);
		ck_assert_msg(strstr(err.message, "rtnetlink"), "'%s'", err.message);
	}
	neighbor_close(NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("neighbor");
	TCase *tc = tcase_create("kernel");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 90);
	tcase_add_test(tc, test_on_link);
	tcase_add_test(tc, test_counted);
	tcase_add_test(tc, test_behind_router);
	tcase_add_test(tc, test_mac_change);
	tcase_add_test(tc, test_link_change);
	tcase_add_test(tc, test_fails_and_returns);
	tcase_add_test(tc, test_flush_is_forgiven);
	tcase_add_test(tc, test_no_route);
	tcase_add_test(tc, test_kernel_entries);
	tcase_add_test(tc, test_lost_events);
	tcase_add_test(tc, test_many);
	tcase_add_test(tc, test_open_fails);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
