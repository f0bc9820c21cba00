/* What the doctor says of the way to backends, on interfaces of a namespace of its own; what it
 * says of the rest of a machine is in test_options. */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/own_use.h"
#include "control/preflight.h"
#include "tests/unit/netns.h"

static const char *const served[] = {"va"};
static struct vip_conf vips[] = {{.id = "web"}, {.id = "tun", .mode = VIP_IPIP}};
static struct findings found;
static int own, peer;

static struct preflight machine(unsigned n_dips, const struct preflight_dip *dips)
{
	return (struct preflight){.n_ifaces = 1,
				  .ifaces = served,
				  .database = "/tmp/c.db",
				  .state_dir = "/tmp",
				  .n_vips = ARRAY_LEN(vips),
				  .vips = vips,
				  .n_dips = n_dips,
				  .dips = dips};
}

static struct preflight_dip dip(unsigned vip, const char *id, const char *address)
{
	struct preflight_dip d = {.vip = vip};

	snprintf(d.id, sizeof(d.id), "%s", id);
	ck_assert_int_eq(ip_addr_parse(address, &d.address), 0);
	return d;
}

static void look(const struct preflight *p)
{
	findings_free(&found);
	preflight_look(p, &found);
	unsigned n_of[N_FINDING_RANKS] = {0};
	for (unsigned i = 0; i < found.n; i++)
		n_of[found.list[i].rank]++;
	for (unsigned i = 0; i < N_FINDING_RANKS; i++)
		ck_assert_uint_eq(n_of[i], found.n_of[i]);
}

/* The one finding that begins so; NULL: there is none. */
static const struct finding *find(const char *begin)
{
	const struct finding *f = NULL;

	for (unsigned i = 0; i < found.n; i++) {
		if (strncmp(found.list[i].text, begin, strlen(begin)) != 0)
			continue;
		ck_assert_msg(!f, "%s: there are two", begin);
		f = &found.list[i];
	}
	return f;
}

static void assert_note(const char *begin, const char *text, const char *command)
{
	const struct finding *f = find(begin);

	ck_assert_msg(f != NULL, "no finding '%s'", begin);
	ck_assert_msg(f->rank == FINDING_NOTE && strstr(f->text, text), "%s", f->text);
	ck_assert_msg(command ? f->command && strstr(f->command, command) : !f->command,
		      "%s: mend: %s", f->text, f->command ? f->command : "(nothing)");
}

static void set_up(void)
{
	own = netns_new();
	peer = netns_new();
	/* The kernel asks by its link-local address, once it knows that nobody else has it. */
	netns_enter(own);
	ck_assert_int_eq(netns_sh("sysctl -qw net.ipv6.conf.default.accept_dad=0"), 0);
	netns_veth(own, "va", peer, "vb", 1);
	netns_veth(own, "vc", peer, "vd", 1);
	netns_enter(peer);
	ck_assert_int_eq(netns_sh("ip address add 10.1.0.2/24 dev vb && "
				  "ip -6 address add fd01::2/64 dev vb nodad"),
			 0);
	netns_enter(own);
	ck_assert_int_eq(netns_sh("ip address add 10.1.0.1/24 dev va && "
				  "ip -6 address add fd01::1/64 dev va nodad && "
				  "ip address add 10.2.0.1/24 dev vc"),
			 0);
	/* IPv6 begins some time after the carrier is there. */
	ck_assert_int_eq(netns_sh("for i in $(seq 100); do ping -qc 1 -W 1 fd01::2 > /dev/null && "
				  "exec ip neighbour flush dev va; sleep 0.1; done; exit 1"),
			 0);
}

START_TEST(ways_to_dips)
{
	struct preflight_dip dips[] = {dip(0, "good", "10.1.0.2"),   dip(0, "six", "fd01::2"),
				       dip(0, "silent", "10.1.0.9"), dip(0, "silent6", "fd01::9"),
				       dip(0, "far", "203.0.113.1"), dip(0, "self", "10.1.0.1"),
				       dip(0, "aside", "10.2.0.2"),  dip(0, "fixed", "10.1.0.77")};
	struct preflight p = machine(ARRAY_LEN(dips), dips);

	dips[7].has_mac = true; /* nobody is there, and nobody is asked */
	look(&p);
	assert_note("DIP web/silent:", "10.1.0.9 does not answer ARP on va", "ping -c 3 10.1.0.9");
	assert_note("DIP web/silent6:", "fd01::9 does not answer neighbour discovery",
		    "ping -c 3 fd01::9");
	assert_note("DIP web/far:", "no route to 203.0.113.1", "ip route add 203.0.113.1 via");
	assert_note("DIP web/self:", "own address", NULL);
	assert_note("DIP web/aside:", "reached by vc, which is not served", "--interface vc");
	ck_assert_ptr_null(find("DIP web/good:"));
	ck_assert_ptr_null(find("DIP web/six:"));
	ck_assert_ptr_null(find("DIP web/fixed:"));
	ck_assert_ptr_nonnull(find("DIPs: 3 of 8 can be reached"));

	/* Each is gone when it was mended. */
	ck_assert_int_eq(netns_sh("ip route add 203.0.113.1 via 10.1.0.2"), 0);
	netns_enter(peer);
	ck_assert_int_eq(netns_sh("ip address add 10.1.0.9/24 dev vb && "
				  "ip -6 address add fd01::9/64 dev vb nodad"),
			 0);
	netns_enter(own);
	look(&p);
	ck_assert_ptr_nonnull(find("DIPs: 6 of 8 can be reached"));
	ck_assert_ptr_null(find("DIP web/silent:"));
	/* A route is not all that a packet to the VIP needs. */
	assert_note("DIP web/far:", "behind 10.1.0.2; mode l2", "vip set web mode=ipip");
	dips[4].vip = 1;
	look(&p);
	ck_assert_ptr_null(find("DIP tun/far: it lies"));
}
END_TEST

START_TEST(packets_that_are_too_long)
{
	struct preflight_dip dips[] = {dip(1, "four", "10.1.0.2"), dip(1, "six", "fd01::2"),
				       dip(0, "plain", "10.1.0.2")};
	struct preflight p = machine(ARRAY_LEN(dips), dips);

	look(&p);
	assert_note("DIP tun/four:", "packets over 1480, ", "ip link set dev va mtu 1520");
	assert_note("DIP tun/six:", "packets over 1460, ", "ip link set dev va mtu 1540");
	ck_assert_ptr_null(find("DIP web/plain:"));
	vips[1].clamp_mss = true; /* clients send no larger ones then */
	look(&p);
	ck_assert_ptr_null(find("DIP tun/four:"));
	vips[1].clamp_mss = false;
	ck_assert_int_eq(netns_sh("ip link set dev va mtu 1520"), 0);
	look(&p);
	ck_assert_ptr_null(find("DIP tun/four:"));
	assert_note("DIP tun/six:", "packets over 1480, ", "ip link set dev va mtu 1540");
	ck_assert_int_eq(netns_sh("ip link set dev va mtu 1540"), 0);
	look(&p);
	ck_assert_ptr_null(find("DIP tun/six:"));
	/* The route may be narrower than the interface. */
	ck_assert_int_eq(netns_sh("ip route add 10.1.0.2 dev va mtu 1400"), 0);
	look(&p);
	assert_note("DIP web/plain:", "takes 1400 bytes, so packets over 1400 are dropped", "mtu");
}
END_TEST

START_TEST(of_a_running_one)
{
	const struct xsk_queue queues[] = {{"va", 0, 0, XDP_MODE_COPY},
					   {"va", 1, 0, XDP_MODE_COPY},
					   {"vc", 0, 0, XDP_MODE_GENERIC}};
	struct preflight p = machine(0, NULL);

	p.database = "/no/such/directory/c.db";
	look(&p);
	ck_assert_ptr_nonnull(find("database"));
	ck_assert_ptr_nonnull(find("privileges"));
	p.running = true;
	p.queues = queues;
	p.n_queues = ARRAY_LEN(queues);
	look(&p);
	ck_assert_ptr_null(find("database"));
	ck_assert_ptr_null(find("privileges"));
	ck_assert_ptr_nonnull(find("va: XDP mode copy"));
	assert_note("vc: generic XDP", "the log of the start", NULL);
	ck_assert_ptr_nonnull(find("va: driver veth"));
	ck_assert_ptr_nonnull(find("BPF: no bpffs"));
	ck_assert_uint_eq(found.n_of[FINDING_BLOCKS], 0);
}
END_TEST

/* The limit of locked memory, which a test may not be allowed to set. */
static struct rlimit locked = {RLIM_INFINITY, RLIM_INFINITY};

int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __real_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);

int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
	if (resource != RLIMIT_MEMLOCK)
		return __real_getrlimit(resource, limit);
	*limit = locked;
	return 0;
}

/* Without CAP_SYS_RESOURCE; with CAP_IPC_LOCK or without. */
static void keep(bool ipc_lock)
{
	static const cap_value_t list[] = {CAP_SYS_RESOURCE, CAP_IPC_LOCK};
	cap_t have = cap_get_proc();

	ck_assert_ptr_nonnull(have);
	ck_assert_int_eq(cap_set_flag(have, CAP_EFFECTIVE, 2, list, CAP_CLEAR), 0);
	if (ipc_lock)
		ck_assert_int_eq(cap_set_flag(have, CAP_EFFECTIVE, 1, &list[1], CAP_SET), 0);
	ck_assert_int_eq(cap_set_proc(have), 0);
	cap_free(have);
}

static void expect_locked(const struct preflight *p, enum finding_rank rank, const char *words)
{
	look(p);
	const struct finding *f = find("locked memory:");
	ck_assert_ptr_nonnull(f);
	ck_assert_msg(f->rank == rank && strstr(f->text, words), "%s: %s",
		      finding_rank_name(f->rank), f->text);
	ck_assert((rank == FINDING_OK) == !f->command);
}

START_TEST(locked_memory)
{
	struct preflight start = machine(0, NULL), kept = start, running = start;
	const rlim_t mib = 1u << 20;

	kept.keep_ipc_lock = running.running = true;
	keep(false);
	expect_locked(&start, FINDING_OK, "no limit");
	expect_locked(&running, FINDING_OK, "no limit");
	locked = (struct rlimit){8 * mib, RLIM_INFINITY}; /* it can be lifted */
	expect_locked(&start, FINDING_OK, "no limit");
	locked.rlim_max = 8 * mib;
	expect_locked(&start, FINDING_BLOCKS, "8192 KiB are too little");
	expect_locked(&kept, FINDING_BLOCKS, "8192 KiB are too little");
	expect_locked(&running, FINDING_NOTE, "at most 8192 KiB now");
	keep(true);
	expect_locked(&start, FINDING_NOTE, "at most 8192 KiB once it is started");
	expect_locked(&kept, FINDING_OK, "no limit");
	expect_locked(&running, FINDING_OK, "no limit");
	keep(false);
	locked = (struct rlimit){512 * mib, 512 * mib};
	expect_locked(&start, FINDING_NOTE, "at most 524288 KiB, without CAP_IPC_LOCK");
	locked = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
	keep(true);
}
END_TEST

/* A connection that has come in; descriptors of both ends, and of the listener. */
struct link_to {
	int listener, here, there;
};

static struct link_to connect_to(const char *address, uint16_t port, int from)
{
	bool v6 = strchr(address, ':') != NULL;
	struct sockaddr_storage to = {.ss_family = v6 ? AF_INET6 : AF_INET};
	struct sockaddr_in *to4 = (void *)&to;
	struct sockaddr_in6 *to6 = (void *)&to;
	struct link_to l = {.listener = socket(to.ss_family, SOCK_STREAM, 0)};

	to4->sin_port = htons(port); /* at the same place in both */
	ck_assert_int_eq(inet_pton(to.ss_family, address,
				   v6 ? (void *)&to6->sin6_addr : (void *)&to4->sin_addr),
			 1);
	ck_assert_int_eq(bind(l.listener, (void *)&to, sizeof(to)), 0);
	ck_assert_int_eq(listen(l.listener, 1), 0);
	netns_enter(from);
	l.there = socket(to.ss_family, SOCK_STREAM, 0);
	ck_assert_int_eq(connect(l.there, (void *)&to, sizeof(to)), 0);
	netns_enter(own);
	l.here = accept(l.listener, NULL, NULL);
	ck_assert_int_ge(l.here, 0);
	return l;
}

static void disconnect(const struct link_to *l)
{
	close(l->there);
	close(l->here);
	close(l->listener);
}

static bool ended_by(const char *address, uint8_t host_bits, uint16_t port, uint16_t port_end,
		     enum vip_protocol protocol, char text[OWN_USE_LEN])
{
	struct vip_match m = {
		.port = port, .port_end = port_end, .protocol = protocol, .host_bits = host_bits};

	ck_assert_int_eq(ip_addr_parse(address, &m.address), 0);
	return own_use_ended_by(&m, text);
}

/* A VIP at an address by which this host is administered, and one at an address that is here only
 * for it. */
START_TEST(own_use)
{
	char t[OWN_USE_LEN];
	struct preflight p = machine(0, NULL);
	struct vip_conf all = {.id = "all"};
	struct link_to ssh, more[6];

	ck_assert(!ended_by("10.1.0.1", 0, 0, 0, VIP_ANY, t)); /* nobody is there */
	ssh = connect_to("10.1.0.1", 22, peer);
	ck_assert(ended_by("10.1.0.1", 0, 0, 0, VIP_ANY, t));
	ck_assert_ptr_nonnull(strstr(t, "10.1.0.1 takes packets of 1 open connection of"));
	ck_assert_ptr_nonnull(strstr(t, "(port 22)"));
	ck_assert(ended_by("10.1.0.1", 0, 0, 0, VIP_TCP, t));
	ck_assert(ended_by("10.1.0.1", 0, 22, 0, VIP_TCP, t));
	ck_assert(ended_by("10.1.0.1", 0, 20, 25, VIP_TCP, t));
	ck_assert(ended_by("10.1.0.0", 8, 0, 0, VIP_ANY, t));
	ck_assert_ptr_nonnull(strstr(t, "10.1.0.0/24 takes"));
	ck_assert(!ended_by("10.1.0.1", 0, 80, 0, VIP_TCP, t));
	ck_assert(!ended_by("10.1.0.1", 0, 0, 0, VIP_UDP, t));
	ck_assert(!ended_by("10.2.0.1", 0, 0, 0, VIP_ANY, t));
	ck_assert(!ended_by("10.1.0.2", 0, 0, 0, VIP_ANY, t)); /* another host's */
	for (unsigned i = 0; i < 6; i++)
		more[i] = connect_to("fd01::1", (uint16_t)(2201 + i), i < 5 ? peer : own);
	ck_assert(ended_by("fd01::1", 0, 0, 0, VIP_ANY, t));
	/* Not the one from this host to itself. */
	ck_assert_ptr_nonnull(strstr(t, "of 5 open connections of"));
	ck_assert_ptr_nonnull(strstr(t, ", ...)"));
	ck_assert_int_eq(ip_addr_parse("10.1.0.1", &all.match.address), 0);
	all.match.protocol = VIP_ANY;
	p.vips = &all;
	p.n_vips = 1;
	look(&p);
	assert_note("VIP all: 10.1.0.1 takes", "no longer gets any", NULL);
	for (unsigned i = 0; i < 6; i++)
		disconnect(&more[i]);
	disconnect(&ssh);
}
END_TEST

/* DIPs that are down on purpose are not looked for. */
START_TEST(configuration)
{
	struct persist_dip stored[] = {{.conf = {.id = "b1"}},
				       {.conf = {.id = "b2", .admin_state = ADMIN_DOWN}}};
	struct persist_vip store[] = {{.conf = {.id = "web"}, .n_dips = 2, .dips = stored},
				      {.conf = {.id = "bare"}}};
	struct persist_state s = {.n_vips = 2, .vips = store};
	struct dip_info infos[] = {{.conf = {.id = "b3", .has_mac = true}}};
	struct vip_info info = {
		.conf = {.id = "live", .mode = VIP_IPIP}, .n_dips = 1, .dips = infos};
	struct preflight p = {.n_vips = 0};

	ck_assert(preflight_take_state(&p, &s));
	ck_assert_uint_eq(p.n_vips, 2);
	ck_assert_str_eq(p.vips[1].id, "bare");
	ck_assert_uint_eq(p.n_dips, 1);
	ck_assert_str_eq(p.dips[0].id, "b1");
	ck_assert(!p.dips[0].has_mac);
	preflight_drop(&p);
	ck_assert(preflight_take_infos(&p, &info, 1));
	ck_assert_uint_eq(p.n_vips, 1);
	ck_assert_int_eq(p.vips[0].mode, VIP_IPIP);
	ck_assert_uint_eq(p.n_dips, 1);
	ck_assert(p.dips[0].has_mac);
	preflight_drop(&p);
	ck_assert_uint_eq(p.n_vips + p.n_dips, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("preflight");
	TCase *tc = tcase_create("preflight");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, NULL);
	tcase_add_test(tc, ways_to_dips);
	tcase_add_test(tc, packets_that_are_too_long);
	tcase_add_test(tc, of_a_running_one);
	tcase_add_test(tc, locked_memory);
	tcase_add_test(tc, own_use);
	tcase_add_test(tc, configuration);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	findings_free(&found);
	return failed != 0;
}
