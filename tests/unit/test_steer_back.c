/* steer's part in mode nat, by BPF_PROG_TEST_RUN in a namespace with real routes and neighbours:
 * which packets of DIPs it takes, which MAC addresses and mark they get, and which next hops it
 * asks for. No socket is bound: what is taken ends as XDP_DROP, with its bytes changed. Needs root.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <check.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "frames.h"
#include "icmp_frames.h"
#include "io/steer.h"
#include "netns.h"

#define FRAME_MAX 1792
#define DIP "10.9.0.11"
#define DIP6 "2001:db8:9::11"
#define VIP "198.51.100.1"
#define VIP6 "2001:db8::100"
#define CLIENT "10.1.0.9"
#define CLIENT6 "2001:db8:1::9"

enum { CLIENT_SIDE, DIP_SIDE, N_SIDES };

static struct steer *steer;
static struct steer_backs *backs;
static int ifindexes[N_SIDES];
static uint8_t macs[N_SIDES][6], in[FRAMES_MAX], out[FRAMES_MAX];
static const uint8_t client_mac[6] = {2, 1, 0, 0, 0, 9};

static void sh(const char *command)
{
	ck_assert_msg(netns_sh("%s", command) == 0, "%s", command);
}

static void add_back(const char *dip, uint16_t port, uint8_t proto, const char *vip)
{
	struct back_key key = {.address = frames_ip(dip), .port_be = htons(port), .proto = proto};
	struct ip_addr a = frames_ip(vip);
	struct error err = {""};

	ck_assert_msg(steer_add_back(backs, &key, &a, &err) == 0, "%s", err.message);
}

static void del_back(const char *dip, uint16_t port, uint8_t proto)
{
	struct back_key key = {.address = frames_ip(dip), .port_be = htons(port), .proto = proto};
	struct error err = {""};

	ck_assert_msg(steer_del_back(backs, &key, &err) == 0, "%s", err.message);
}

static void setup(void)
{
	static const char *const names[N_SIDES] = {"cl", "dp"};
	struct error err = {""};
	int ns = netns_new(), other = netns_new();

	netns_veth(ns, "cl", other, "cl-peer", 1);
	netns_veth(ns, "dp", other, "dp-peer", 1);
	netns_enter(ns);
	sh("sysctl -qw net.ipv4.conf.dp.forwarding=1 net.ipv6.conf.dp.forwarding=1 &&"
	   " ip -batch - <<EOF\n"
	   "address add 10.1.0.1/24 dev cl\n"
	   "address add 10.9.0.1/24 dev dp\n"
	   "address add " VIP "/32 dev cl\n"
	   "address add " VIP6 "/128 dev cl nodad\n"
	   "address add 2001:db8:1::1/64 dev cl nodad\n"
	   "address add 2001:db8:9::1/64 dev dp nodad\n"
	   "neighbor add " CLIENT " lladdr 02:01:00:00:00:09 dev cl\n"
	   "neighbor add " CLIENT6 " lladdr 02:01:00:00:00:09 dev cl\n"
	   "route add 203.0.113.0/24 via 10.1.0.254\n"
	   "route add 2001:db8:f::/48 via 2001:db8:1::254\n"
	   "route add blackhole 203.0.112.0/24\n"
	   "route add 203.0.111.0/24 via " CLIENT " mtu lock 600\n"
	   "EOF\n");
	for (int i = 0; i < N_SIDES; i++) {
		ifindexes[i] = (int)if_nametoindex(names[i]);
		netns_mac(names[i], macs[i]);
	}
	ck_assert_msg(steer_open(N_SIDES, ifindexes, FRAME_MAX, false, &steer, &err) == 0, "%s",
		      err.message);
	for (unsigned i = 0; i < N_SIDES; i++)
		ck_assert(steer_set_mac(steer, i, macs[i]));
	backs = steer_backs(steer);
	add_back(DIP, 8080, IPPROTO_TCP, VIP);
	add_back(DIP6, 8080, IPPROTO_UDP, VIP6);
	add_back("10.9.0.12", 0, IPPROTO_TCP, VIP);
}

static void teardown(void)
{
	steer_close(steer);
}

static struct frames_spec answer(const char *src, const char *dst)
{
	struct frames_spec s = {.src = frames_ip(src),
				.dst = frames_ip(dst),
				.sport = 8080,
				.dport = 40000,
				.proto = strchr(src, ':') ? IPPROTO_UDP : IPPROTO_TCP,
				.payload_len = 100};

	memcpy(s.dst_mac, macs[DIP_SIDE], 6);
	return s;
}

/* What a DIP says about a packet that the client has sent to it. */
static struct icmp_spec error_about(const char *dip, const char *client)
{
	struct frames_spec s = answer(dip, client), quoted = s;
	bool v6 = strchr(dip, ':') != NULL;

	quoted.src = s.dst;
	quoted.dst = s.src;
	quoted.sport = s.dport;
	quoted.dport = s.sport;
	return (struct icmp_spec){.outer = s, .quoted = quoted, .type = v6 ? 1 : 3, .code = 3};
}

static uint32_t run_frame(uint32_t len)
{
	struct xdp_md ctx = {.data_end = len, .ingress_ifindex = (__u32)ifindexes[DIP_SIDE]};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = in, .data_size_in = len, .data_out = out,
		    .data_size_out = sizeof(out), .ctx_in = &ctx, .ctx_size_in = sizeof(ctx),
		    .repeat = 1);

	int rc = bpf_prog_test_run_opts(steer_program_fd(steer, DIP_SIDE), &o);
	ck_assert_msg(rc == 0, "test run: %s", strerror(-rc));
	ck_assert_uint_eq(o.data_size_out, len);
	if (o.retval == XDP_PASS)
		ck_assert_mem_eq(out, in, len);
	else
		ck_assert_mem_eq(out + 14, in + 14, len - 14);
	return o.retval;
}

static uint32_t run(const struct frames_spec *s)
{
	return run_frame(frames_build(in, s));
}

static void check_passed(const struct frames_spec *s)
{
	ck_assert_uint_eq(run(s), XDP_PASS);
}

/* in has become out, with this code; the MAC addresses are the client's, or as they were. */
static void check_mark(unsigned code)
{
	uint16_t was_type, mark;

	memcpy(&was_type, in + 12, 2);
	memcpy(&mark, out + 12, 2);
	unsigned kind = was_type == htons(0x8100)   ? STEER_BACK_CTAG
			: was_type == htons(0x88a8) ? STEER_BACK_STAG
			: was_type == htons(0x86dd) ? STEER_BACK_V6
						    : STEER_BACK_V4;
	ck_assert_uint_eq(ntohs(mark), STEER_BACK_TYPE | kind << STEER_BACK_KIND_SHIFT | code);
	ck_assert_mem_eq(out, code < STEER_BACK_NO_NEIGHBOR ? client_mac : in, 6);
	ck_assert_mem_eq(out + 6, code < STEER_BACK_NO_NEIGHBOR ? macs[CLIENT_SIDE] : in + 6, 6);
}

static void check_taken(const struct frames_spec *s, unsigned code)
{
	ck_assert_uint_eq(run(s), XDP_DROP);
	check_mark(code);
}

static void check_error_taken(const struct icmp_spec *s)
{
	ck_assert_uint_eq(run_frame(icmp_frames_build(in, s)), XDP_DROP);
	check_mark(CLIENT_SIDE);
}

static void check_error_passed(const struct icmp_spec *s)
{
	ck_assert_uint_eq(run_frame(icmp_frames_build(in, s)), XDP_PASS);
}

START_TEST(test_taken)
{
	struct frames_spec s = answer(DIP, CLIENT);

	for (unsigned vlans = 0; vlans <= 2; vlans++) {
		s = answer(DIP, CLIENT);
		s.n_vlans = vlans;
		check_taken(&s, CLIENT_SIDE);
		s.v4_options_len = 8;
		check_taken(&s, CLIENT_SIDE);
		s = answer(DIP6, CLIENT6);
		s.n_vlans = vlans;
		check_taken(&s, CLIENT_SIDE);
		s.n_exts = 2;
		s.exts[0] = IPPROTO_HOPOPTS;
		s.exts[1] = IPPROTO_DSTOPTS;
		check_taken(&s, CLIENT_SIDE);
	}
	s = answer("10.9.0.12", CLIENT);
	for (uint32_t port = 1; port < 65536; port += 4321) {
		s.sport = (uint16_t)port;
		check_taken(&s, CLIENT_SIDE);
	}
}
END_TEST

/* By the DIP itself or by a router, however little they quote. */
START_TEST(test_errors_taken)
{
	static const uint8_t types[2][4] = {{3, 11, 12, 3}, {1, 2, 3, 4}};

	for (unsigned k = 0; k < 48; k++) {
		bool v6 = k & 1;
		struct icmp_spec s = error_about(v6 ? DIP6 : DIP, v6 ? CLIENT6 : CLIENT);

		s.type = types[v6][k >> 1 & 3];
		s.outer.n_vlans = k / 16;
		s.quoted_len = k & 8 ? (v6 ? 44 : 24) : 0;
		check_error_taken(&s);
		s.outer.src = frames_ip(v6 ? "2001:db8:9::99" : "10.9.0.99");
		check_error_taken(&s);
	}
	struct icmp_spec s = error_about(DIP, CLIENT);
	s.quoted.v4_options_len = 8;
	s.outer.v4_options_len = 4;
	s.quoted.v4_frag = 0x2000; /* the first of several */
	check_error_taken(&s);
	s = error_about(DIP6, CLIENT6);
	s.quoted.n_exts = 3;
	s.quoted.exts[0] = IPPROTO_HOPOPTS;
	s.quoted.exts[1] = IPPROTO_FRAGMENT;
	s.quoted.exts[2] = IPPROTO_DSTOPTS;
	check_error_taken(&s);
	s.outer.n_exts = 1;
	s.outer.exts[0] = IPPROTO_DSTOPTS;
	check_error_taken(&s);
}
END_TEST

/* The fragment is of the packet with this number; at: its offset, 0 is the first. */
static struct frames_spec fragment(const char *src, const char *dst, uint16_t id, uint16_t at)
{
	struct frames_spec s = answer(src, dst);
	bool v6 = strchr(src, ':') != NULL;

	s.ip_id = id;
	s.v4_frag = v6 ? 0 : (uint16_t)(at / 8) | (at ? 0 : 0x2000);
	s.n_exts = v6;
	s.exts[0] = IPPROTO_FRAGMENT;
	s.v6_frag = at ? at : 1;
	return s;
}

START_TEST(test_fragments)
{
	for (int v6 = 0; v6 < 2; v6++) {
		const char *dip = v6 ? DIP6 : DIP, *client = v6 ? CLIENT6 : CLIENT;
		struct frames_spec first = fragment(dip, client, 7, 0),
				   later = fragment(dip, client, 7, 800);

		check_taken(&first, CLIENT_SIDE);
		check_taken(&later, CLIENT_SIDE);
		first.sport++; /* another packet of this number: no VIP's */
		check_passed(&first);
		check_passed(&later);
		first.sport--;
		check_taken(&first, CLIENT_SIDE);
		check_taken(&later, CLIENT_SIDE);
		/* the first has not come yet */
		later = fragment(dip, v6 ? "2001:db8:1::8" : "10.1.0.8", 8, 800);
		check_taken(&later, STEER_BACK_NO_NEIGHBOR);
		/* an address that no VIP has */
		first = fragment(v6 ? "2001:db8:9::13" : "10.9.0.13", client, 9, 0);
		later = fragment(v6 ? "2001:db8:9::13" : "10.9.0.13", client, 9, 800);
		check_passed(&first);
		check_passed(&later);
		later = fragment(dip, client, 10, 800);
		later.proto = 47;
		check_passed(&later);
		later = fragment(dip, v6 ? "2001:db8:9::1" : "10.9.0.1", 11, 800);
		check_passed(&later); /* to the load balancer itself */
	}
}
END_TEST

/* Of an address of which no end is left. */
START_TEST(test_fragments_of_what_has_gone)
{
	struct frames_spec later = fragment("10.9.0.12", CLIENT, 7, 800);

	check_taken(&later, CLIENT_SIDE);
	add_back("10.9.0.12", 80, IPPROTO_TCP, VIP);
	del_back("10.9.0.12", 80, IPPROTO_TCP);
	check_taken(&later, CLIENT_SIDE);
	del_back("10.9.0.12", 0, IPPROTO_TCP);
	check_passed(&later);
}
END_TEST

START_TEST(test_errors_passed)
{
	for (int v6 = 0; v6 < 2; v6++) {
		const char *dip = v6 ? DIP6 : DIP, *client = v6 ? CLIENT6 : CLIENT;
		struct icmp_spec s = error_about(dip, client);

		s.quoted.dport++; /* no VIP's */
		check_error_passed(&s);
		s = error_about(dip, client);
		s.quoted.proto = v6 ? IPPROTO_TCP : IPPROTO_UDP;
		check_error_passed(&s);
		s = error_about(dip, client); /* to another than has sent the packet */
		s.outer.dst = frames_ip(v6 ? "2001:db8:1::8" : "10.1.0.8");
		check_error_passed(&s);
		s = error_about(dip, client);
		s.type = v6 ? 129 : 0; /* an echo reply */
		check_error_passed(&s);
		s = error_about(dip, client);
		s.quoted_len = v6 ? 43 : 23;
		check_error_passed(&s);
		s = error_about(dip, client);
		s.no_quote = true;
		s.quoted_len = 60;
		check_error_passed(&s);
		s = error_about(dip, client);
		s.outer.ttl = 1;
		check_error_passed(&s);
		s = error_about(dip, v6 ? "2001:db8:9::1" : "10.9.0.1"); /* about a health check */
		check_error_passed(&s);
	}
	struct icmp_spec s = error_about(DIP, CLIENT);
	s.quoted.v4_frag = 100;
	check_error_passed(&s);
	s = error_about(DIP, CLIENT);
	s.outer.v4_frag = 0x2000;
	check_error_passed(&s);
	s = error_about(DIP6, CLIENT6);
	s.quoted.n_exts = 1;
	s.quoted.exts[0] = IPPROTO_FRAGMENT;
	s.quoted.v6_frag = 800;
	check_error_passed(&s);
}
END_TEST

/* Not a way back's, or what the kernel does for a router. */
START_TEST(test_passed)
{
	struct frames_spec s = answer(DIP, CLIENT);

	s.sport = 8081;
	check_passed(&s);
	s = answer(DIP, CLIENT);
	s.proto = IPPROTO_UDP;
	check_passed(&s);
	s = answer("10.9.0.13", CLIENT);
	check_passed(&s);
	s = answer(DIP, CLIENT);
	s.dst_mac[5] ^= 1;
	check_passed(&s);
	s = answer(DIP, CLIENT);
	s.ttl = 1;
	check_passed(&s);
	s = answer(DIP, "10.9.0.1"); /* a health check's */
	check_passed(&s);
	s = answer(DIP, VIP);
	check_passed(&s);
	s = answer(DIP, "203.0.112.7"); /* a black hole */
	check_passed(&s);
	s = answer(DIP, "192.0.2.7"); /* no route */
	check_passed(&s);
	s = answer(DIP, "203.0.111.7");
	s.payload_len = 700;
	s.v4_frag = 0x4000;
	check_passed(&s); /* the kernel says what fits */
	sh("sysctl -qw net.ipv4.conf.dp.forwarding=0");
	s = answer(DIP, CLIENT);
	check_passed(&s);
}
END_TEST

START_TEST(test_too_big_and_elsewhere)
{
	struct frames_spec s = answer(DIP, "203.0.111.7");

	check_taken(&s, CLIENT_SIDE);
	s.payload_len = 700;
	check_taken(&s, STEER_BACK_TOO_BIG);
	sh("ip link add ot address $(ip -br link show dev cl | awk '{ print $3 }')"
	   " type veth peer name ot-peer && ip link set ot up &&"
	   " ip link set ot-peer up && ip address add 10.7.0.1/24 dev ot &&"
	   " ip neighbor add 10.7.0.9 lladdr 02:01:00:00:00:09 dev ot");
	s = answer(DIP, "10.7.0.9");
	check_taken(&s, STEER_BACK_ELSEWHERE);

	/* It stands on a served one, and has a code for that; later another one; then none. */
	int outs[STEER_STACKED_MAX] = {[3] = 77, [5] = (int)if_nametoindex("ot"), [95] = 78};
	struct error err;
	ck_assert_int_eq(steer_set_outs(backs, outs, &err), 0);
	check_taken(&s, STEER_IFACES_MAX + 5);
	outs[95] = outs[5];
	outs[5] = 0;
	ck_assert_int_eq(steer_set_outs(backs, outs, &err), 0);
	check_taken(&s, STEER_IFACES_MAX + 95);
	outs[95] = 0;
	ck_assert_int_eq(steer_set_outs(backs, outs, &err), 0);
	check_taken(&s, STEER_BACK_ELSEWHERE);
}
END_TEST

/* True if these next hops are asked for, and no others. */
static bool are_asked_for(const char *const *addresses, unsigned n)
{
	struct back_hop hops[16];
	unsigned found = 0, got = steer_take_hops(backs, hops, ARRAY_LEN(hops));

	for (unsigned i = 0; i < n; i++) {
		struct ip_addr a = frames_ip(addresses[i]);
		for (unsigned k = 0; k < got; k++)
			found += ip_addr_equal(&hops[k].address, &a) &&
				 hops[k].ifindex == ifindexes[CLIENT_SIDE];
	}
	return found == n && got == n;
}

START_TEST(test_next_hops)
{
	struct frames_spec s = answer(DIP, "203.0.113.7"), s6 = answer(DIP6, "2001:db8:f::7");

	static const char *const routers[] = {"10.1.0.254", "2001:db8:1::254"};

	for (int i = 0; i < 3; i++) {
		check_taken(&s, STEER_BACK_NO_NEIGHBOR);
		check_taken(&s6, STEER_BACK_NO_NEIGHBOR);
	}
	ck_assert(are_asked_for(routers, 2));
	ck_assert(are_asked_for(NULL, 0)); /* once */
	sh("ip neighbor replace 10.1.0.254 lladdr 02:01:00:00:00:09 dev cl &&"
	   " ip neighbor replace 2001:db8:1::254 lladdr 02:01:00:00:00:09 dev cl");
	check_taken(&s, CLIENT_SIDE);
	check_taken(&s6, CLIENT_SIDE);
}
END_TEST

/* What is in use is to be kept, too. */
START_TEST(test_hops_in_use)
{
	struct frames_spec s = answer(DIP, CLIENT), s6 = answer(DIP6, CLIENT6);

	static const char *const clients[] = {CLIENT, CLIENT6};

	check_taken(&s, CLIENT_SIDE);
	check_taken(&s6, CLIENT_SIDE);
	ck_assert(are_asked_for(clients, 2));
	ck_assert(are_asked_for(NULL, 0)); /* not again so soon */
}
END_TEST

/* The route may depend on the source that the client will see. */
START_TEST(test_route_of_the_vip)
{
	struct frames_spec s = answer(DIP, "203.0.113.7");
	struct icmp_spec e = error_about(DIP, "203.0.113.7");

	sh("ip route add 203.0.113.0/24 via " CLIENT " table 7 &&"
	   " ip rule add from " VIP " lookup 7");
	check_taken(&s, CLIENT_SIDE);
	check_error_taken(&e);
	e.outer.src = frames_ip("10.9.0.99"); /* a router's own stays */
	ck_assert_uint_eq(run_frame(icmp_frames_build(in, &e)), XDP_DROP);
	check_mark(STEER_BACK_NO_NEIGHBOR);
}
END_TEST

START_TEST(test_come_and_go)
{
	struct frames_spec s = answer(DIP, CLIENT);

	del_back(DIP, 8080, IPPROTO_TCP);
	check_passed(&s);
	del_back(DIP, 8080, IPPROTO_TCP); /* it was not there */
	add_back(DIP, 8080, IPPROTO_TCP, VIP);
	add_back(DIP, 8080, IPPROTO_TCP, VIP); /* it was */
	check_taken(&s, CLIENT_SIDE);
	del_back(DIP, 8080, IPPROTO_TCP);
	del_back(DIP6, 8080, IPPROTO_UDP);
	ck_assert_uint_eq(backs->n, 1);
	del_back("10.9.0.12", 0, IPPROTO_TCP);
	ck_assert_uint_eq(backs->n, 0);
	check_passed(&s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("steer_back");
	TCase *tc = tcase_create("steer_back");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_taken);
	tcase_add_test(tc, test_errors_taken);
	tcase_add_test(tc, test_errors_passed);
	tcase_add_test(tc, test_fragments);
	tcase_add_test(tc, test_fragments_of_what_has_gone);
	tcase_add_test(tc, test_passed);
	tcase_add_test(tc, test_too_big_and_elsewhere);
	tcase_add_test(tc, test_next_hops);
	tcase_add_test(tc, test_hops_in_use);
	tcase_add_test(tc, test_route_of_the_vip);
	tcase_add_test(tc, test_come_and_go);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
