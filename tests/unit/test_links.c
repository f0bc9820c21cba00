/* Interfaces that stand on others: what rtnetlink's messages say, by messages made here as the
 * kernel makes them (not every kernel has VLANs and bonds), and what follows from a list of them.
 * Real ones: tests/zerocopy/test_links.sh. */
#include "control/links.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>

#include "control/internal.h"
#include "tests/unit/netns.h"

#define ETH0 2
#define ETH1 3
#define ETH2 4
#define VLAN 5
#define BOND 6
#define ON_BOND 7
#define ON_VLAN 8
#define AWAY 9
#define QINQ 10

/* A message as the kernel sends it, in a few words. */
struct said {
	int ifindex;
	const char *name;
	bool down, no_mac;
	uint16_t type; /* 0: ARPHRD_ETHER */
	int link, netnsid, master, active;
	const char *kind, *slave_kind;
	uint16_t vlan_id, vlan_protocol;
	uint8_t slave_state, slave_mii;
	unsigned mtu;
};

static void put_info(struct nlmsghdr *m, const struct said *s)
{
	struct nlattr *info = mnl_attr_nest_start(m, IFLA_LINKINFO);
	struct nlattr *data;

	if (s->kind) {
		mnl_attr_put_str(m, IFLA_INFO_KIND, s->kind);
		data = mnl_attr_nest_start(m, IFLA_INFO_DATA);
		if (s->vlan_id) {
			mnl_attr_put_u16(m, IFLA_VLAN_PROTOCOL,
					 htons(s->vlan_protocol ? s->vlan_protocol : 0x8100));
			mnl_attr_put_u16(m, IFLA_VLAN_ID, s->vlan_id);
		}
		if (!strcmp(s->kind, "bond"))
			mnl_attr_put_u8(m, IFLA_BOND_MODE, 1);
		if (s->active)
			mnl_attr_put_u32(m, IFLA_BOND_ACTIVE_SLAVE, (uint32_t)s->active);
		mnl_attr_nest_end(m, data);
	}
	if (s->slave_kind) {
		mnl_attr_put_str(m, IFLA_INFO_SLAVE_KIND, s->slave_kind);
		data = mnl_attr_nest_start(m, IFLA_INFO_SLAVE_DATA);
		mnl_attr_put_u8(m, IFLA_BOND_SLAVE_STATE, s->slave_state);
		mnl_attr_put_u8(m, IFLA_BOND_SLAVE_MII_STATUS, s->slave_mii);
		mnl_attr_nest_end(m, data);
	}
	mnl_attr_nest_end(m, info);
}

static bool hear(const struct said *s, struct rtnl_link *out)
{
	static uint8_t buf[4096];
	const uint8_t mac[6] = {2, 0, 0, 0, 0, (uint8_t)s->ifindex};
	struct nlmsghdr *m = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(m, sizeof(*ifi));

	m->nlmsg_type = RTM_NEWLINK;
	ifi->ifi_type = s->type ? s->type : ARPHRD_ETHER;
	ifi->ifi_index = s->ifindex;
	ifi->ifi_flags = s->down ? 0 : IFF_UP;
	mnl_attr_put_strz(m, IFLA_IFNAME, s->name);
	mnl_attr_put_u32(m, IFLA_MTU, s->mtu ? s->mtu : 1500);
	if (!s->no_mac)
		mnl_attr_put(m, IFLA_ADDRESS, sizeof(mac), mac);
	if (s->link)
		mnl_attr_put_u32(m, IFLA_LINK, (uint32_t)s->link);
	if (s->netnsid)
		mnl_attr_put_u32(m, IFLA_LINK_NETNSID, (uint32_t)s->netnsid);
	if (s->master)
		mnl_attr_put_u32(m, IFLA_MASTER, (uint32_t)s->master);
	put_info(m, s);
	return rtnl_read_link(m, out);
}

/* --- messages --------------------------------------------------------------------------------- */

START_TEST(test_messages)
{
	struct rtnl_link l;

	ck_assert(hear(&(struct said){.ifindex = ETH0, .name = "eth0", .mtu = 9000}, &l));
	ck_assert_int_eq(l.ifindex, ETH0);
	ck_assert_str_eq(l.name, "eth0");
	ck_assert_uint_eq(l.mtu, 9000);
	ck_assert(l.up && l.kind == LINK_OTHER && !l.parent && !l.master && !l.vlan_id);
	ck_assert_uint_eq(l.mac[5], ETH0);
	ck_assert(hear(&(struct said){.ifindex = ETH0, .name = "eth0", .down = true}, &l));
	ck_assert(!l.up);
	ck_assert(!hear(&(struct said){.ifindex = ETH0, .name = "ip0", .type = ARPHRD_TUNNEL}, &l));
	ck_assert(!hear(&(struct said){.ifindex = ETH0, .name = "eth0", .no_mac = true}, &l));
}
END_TEST

START_TEST(test_vlan_messages)
{
	struct said s = {
		.ifindex = VLAN, .name = "eth0.10", .link = ETH0, .kind = "vlan", .vlan_id = 10};
	struct rtnl_link l;

	ck_assert(hear(&s, &l));
	ck_assert(l.kind == LINK_VLAN && l.parent == ETH0 && l.vlan_id == 10);
	s.vlan_protocol = 0x88a8;
	ck_assert(hear(&s, &l));
	ck_assert(l.kind == LINK_VLAN && l.vlan_id == 0);
	s.vlan_protocol = 0;
	s.netnsid = 1; /* the parent's index is another namespace's */
	ck_assert(hear(&s, &l));
	ck_assert(l.kind == LINK_VLAN && l.parent == 0);
	s.netnsid = 0;
	s.kind = "veth"; /* IFLA_LINK is its peer */
	ck_assert(hear(&s, &l));
	ck_assert(l.kind == LINK_OTHER && l.parent == 0 && l.vlan_id == 0);
	s.kind = "vlanish";
	ck_assert(hear(&s, &l));
	ck_assert(l.kind == LINK_OTHER);
}
END_TEST

START_TEST(test_bond_messages)
{
	struct said s = {.ifindex = BOND, .name = "bond0", .kind = "bond", .active = ETH1};
	struct said slave = {.ifindex = ETH0,
			     .name = "eth0",
			     .kind = "veth",
			     .master = BOND,
			     .slave_kind = "bond"};
	struct rtnl_link l;

	ck_assert(hear(&s, &l));
	ck_assert(l.kind == LINK_BOND && l.active == ETH1);
	for (unsigned k = 0; k < 8; k++) { /* MII: up, going down, down, coming back */
		slave.slave_state = k & 1;
		slave.slave_mii = k / 2;
		ck_assert(hear(&slave, &l));
		ck_assert(l.master == BOND && l.carries == (k == 0));
	}
	slave.slave_state = slave.slave_mii = 0;
	slave.slave_kind = "bridge"; /* its numbers mean something else */
	ck_assert(hear(&slave, &l));
	ck_assert(!l.carries);
}
END_TEST

/* --- what follows ----------------------------------------------------------------------------- */

static struct links ls;

static void add(struct said s)
{
	ls.list = realloc(ls.list, (ls.n + 1) * sizeof(*ls.list));
	ck_assert_ptr_nonnull(ls.list);
	ck_assert(hear(&s, &ls.list[ls.n]));
	ck_assert(!ls.n || ls.list[ls.n - 1].ifindex < s.ifindex); /* sorted, as after links_read */
	ls.n++;
}

/* eth0 and eth1 in a bond, eth2 by itself; VLANs on eth2, the bond and the first of them. */
static void set_up(uint8_t second_state)
{
	ls = (struct links){0};
	add((struct said){.ifindex = ETH0, .name = "eth0", .master = BOND, .slave_kind = "bond"});
	add((struct said){.ifindex = ETH1,
			  .name = "eth1",
			  .master = BOND,
			  .slave_kind = "bond",
			  .slave_state = second_state});
	add((struct said){.ifindex = ETH2, .name = "eth2", .mtu = 1600});
	add((struct said){
		.ifindex = VLAN, .name = "eth2.10", .kind = "vlan", .link = ETH2, .vlan_id = 10});
	add((struct said){.ifindex = BOND, .name = "bond0", .kind = "bond"});
	add((struct said){.ifindex = ON_BOND,
			  .name = "bond0.20",
			  .kind = "vlan",
			  .link = BOND,
			  .vlan_id = 4094,
			  .mtu = 9000});
	add((struct said){.ifindex = ON_VLAN,
			  .name = "eth2.10.30",
			  .kind = "vlan",
			  .link = VLAN,
			  .vlan_id = 30});
	add((struct said){.ifindex = AWAY,
			  .name = "away",
			  .kind = "vlan",
			  .link = ETH2,
			  .netnsid = 3,
			  .vlan_id = 40});
	add((struct said){.ifindex = QINQ,
			  .name = "qinq",
			  .kind = "vlan",
			  .link = ETH2,
			  .vlan_id = 50,
			  .vlan_protocol = 0x88a8});
}

static void check_way(int ifindex, uint16_t vlan, unsigned mtu, int first, int second)
{
	struct link_way w;

	ck_assert_int_eq(links_way(&ls, ifindex, &w), 0);
	ck_assert_uint_eq(w.vlan, vlan);
	ck_assert_uint_eq(w.mtu, mtu);
	ck_assert_uint_eq(w.n_ports, second ? 2 : 1);
	ck_assert_int_eq(w.ports[0], first);
	ck_assert_int_eq(w.ports[1], second);
	ck_assert_uint_eq(w.mac[5], ifindex);
}

static void check_no_way(int ifindex)
{
	struct link_way w;

	ck_assert_int_eq(links_way(&ls, ifindex, &w), -ENODEV);
}

START_TEST(test_ways)
{
	set_up(0);
	check_way(ETH2, 0, 1600, ETH2, 0);
	check_way(VLAN, 10, 1500, ETH2, 0);
	check_way(BOND, 0, 1500, ETH0, ETH1);
	check_way(ON_BOND, 4094, 1500, ETH0, ETH1); /* no longer than what it stands on takes */
	check_no_way(ON_VLAN);
	check_no_way(AWAY);
	check_no_way(QINQ);
	check_no_way(99);
	ls.list[2].up = 0; /* eth2 */
	check_no_way(ETH2);
	check_no_way(VLAN);
	links_free(&ls);

	set_up(1); /* eth1 is a backup */
	check_way(BOND, 0, 1500, ETH0, 0);
	ls.list[4].active = ETH1;
	check_way(ON_BOND, 4094, 1500, ETH1, 0);
	ls.list[1].up = 0;
	check_no_way(ON_BOND);
	links_free(&ls);
}
END_TEST

static unsigned count_vlans(int ifindex, unsigned id)
{
	uint64_t ids[VLAN_IDS / 64];
	unsigned n = 0;

	links_vlans(&ls, ifindex, ids);
	for (unsigned i = 0; i < VLAN_IDS / 64; i++)
		n += (unsigned)__builtin_popcountll(ids[i]);
	ck_assert_uint_eq(ids[id / 64] >> (id % 64) & 1, n > 0);
	return n;
}

/* A bond's VLANs are its slaves'; those of 802.1ad, or of a VLAN, are nobody's. */
START_TEST(test_vlans)
{
	set_up(1);
	ck_assert_uint_eq(count_vlans(ETH2, 10), 1);
	ck_assert_uint_eq(count_vlans(ETH0, 4094), 1);
	ck_assert_uint_eq(count_vlans(ETH1, 4094), 1);
	ck_assert_uint_eq(count_vlans(99, 10), 0);
	ls.list[3].up = 0;
	ck_assert_uint_eq(count_vlans(ETH2, 10), 0);
	links_free(&ls);
}
END_TEST

START_TEST(test_stacked)
{
	int stacked[8];

	set_up(0);
	ck_assert_uint_eq(links_stacked(&ls, stacked, 8), 3);
	ck_assert_int_eq(stacked[0], VLAN);
	ck_assert_int_eq(stacked[1], BOND);
	ck_assert_int_eq(stacked[2], ON_BOND);
	ck_assert_uint_eq(links_stacked(&ls, stacked, 2), 2);
	links_free(&ls);
}
END_TEST

static void check_below(const char *name, int n, const char *first, const char *second)
{
	char names[4][IF_NAMESIZE];

	ck_assert_int_eq(links_below(&ls, name, names, 4), n);
	if (n > 0)
		ck_assert_str_eq(names[0], first);
	if (n > 1)
		ck_assert_str_eq(names[1], second);
}

START_TEST(test_below)
{
	set_up(1);
	check_below("eth2", 1, "eth2", NULL);
	check_below("eth2.10", 1, "eth2", NULL);
	check_below("bond0", 2, "eth0", "eth1");
	check_below("bond0.20", 2, "eth0", "eth1");
	check_below("away", 1, "away", NULL); /* what it is on is out of reach */
	check_below("eth9", -ENODEV, NULL, NULL);
	ls.list[0].master = ls.list[1].master = 0;
	check_below("bond0", 0, NULL, NULL);
	links_free(&ls);
}
END_TEST

/* --- codes ------------------------------------------------------------------------------------ */

static int told[STEER_STACKED_MAX];
static unsigned n_told;

static int tell(void *ctx, const int ifindexes[STEER_STACKED_MAX], struct error *err)
{
	(void)ctx;
	(void)err;
	memcpy(told, ifindexes, sizeof(told));
	n_told++;
	return 0;
}

static unsigned code_of(int ifindex)
{
	unsigned i = 0;

	while (i < STEER_STACKED_MAX && told[i] != ifindex)
		i++;
	return i;
}

/* Who is there keeps its code; who comes does not get one that has just become free. */
START_TEST(test_codes)
{
	struct control *c = calloc(1, sizeof(*c));
	struct host_links known = {0};

	ck_assert_ptr_nonnull(c);
	set_up(0);
	c->conf = (struct control_config){.n_ifaces = 2,
					  .ifindexes = {ETH2, ETH1},
					  .links = &known,
					  .next_hops = {.links = &ls},
					  .steering = {.set_outs = tell}};
	host_links_fill(c);
	host_links_steer(c);
	ck_assert_uint_eq(n_told, 1);
	ck_assert(known.vlans[0][0] == 1u << 10 && known.vlans[1][4094 / 64]);
	unsigned vlan = code_of(VLAN), bond = code_of(BOND), on_bond = code_of(ON_BOND);
	ck_assert(vlan < STEER_STACKED_MAX && bond < STEER_STACKED_MAX);
	ck_assert(known.outs[vlan].ports == 1 && known.outs[vlan].vlan == 10);
	ck_assert(known.outs[bond].ports == 2 && known.outs[bond].vlan == 0);
	ck_assert(known.outs[on_bond].ports == 2 && known.outs[on_bond].vlan == 4094);
	ls.list[3].up = 0; /* eth2.10 */
	host_links_fill(c);
	host_links_steer(c);
	ck_assert_uint_eq(code_of(VLAN), STEER_STACKED_MAX);
	ck_assert_uint_eq(known.outs[vlan].ports, 0);
	ck_assert_uint_eq(code_of(BOND), bond);
	ls.list[3].up = 1;
	host_links_fill(c);
	host_links_steer(c);
	ck_assert_uint_lt(code_of(VLAN), STEER_STACKED_MAX);
	ck_assert_uint_ne(code_of(VLAN), vlan);
	ck_assert_uint_eq(code_of(ON_BOND), on_bond);
	free(c);
	links_free(&ls);
}
END_TEST

/* --- the kernel's own ------------------------------------------------------------------------- */

START_TEST(test_read)
{
	int ns = netns_new(), peer = netns_new();
	struct links real = {0};
	struct link_way w;
	struct error err;
	struct rtnl rtnl;

	netns_enter(ns);
	for (unsigned i = 0; i < 40; i++) { /* more than one message's worth */
		char name[IF_NAMESIZE], other[IF_NAMESIZE];
		snprintf(name, sizeof(name), "v%u", i);
		snprintf(other, sizeof(other), "w%u", i);
		netns_veth(ns, name, peer, other, 1);
	}
	netns_enter(ns);
	ck_assert_int_eq(rtnl_open(&rtnl, &err), 0);
	ck_assert_int_eq(links_read(&real, &rtnl), 0); /* nothing that stands on others */
	ck_assert_uint_eq(real.n, 40);		       /* lo is not of Ethernet */
	int ifindex = (int)if_nametoindex("v7");
	ck_assert_int_eq(links_way(&real, ifindex, &w), 0);
	ck_assert_int_eq(w.ports[0], ifindex);
	ck_assert_int_eq(netns_sh("ip link set v7 down; ip link del v8"), 0);
	ck_assert_int_eq(links_read(&real, &rtnl), 0);
	ck_assert_uint_eq(real.n, 39);
	ck_assert_int_eq(links_way(&real, ifindex, &w), -ENODEV);
	ck_assert_int_eq(netns_sh("ip link add br0 type bridge; ip link set v9 master br0"), 0);
	ck_assert_int_eq(links_read(&real, &rtnl), 0); /* as those of containers are */
	links_free(&real);
	set_up(1); /* of which nothing is left */
	ck_assert_int_eq(links_read(&ls, &rtnl), 1);
	ck_assert_int_eq(links_read(&ls, &rtnl), 0);
	ck_assert_uint_eq(ls.n, 40);
	links_free(&ls);
	rtnl_close(&rtnl);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("links");
	TCase *tc = tcase_create("links");

	tcase_add_test(tc, test_messages);
	tcase_add_test(tc, test_vlan_messages);
	tcase_add_test(tc, test_bond_messages);
	tcase_add_test(tc, test_ways);
	tcase_add_test(tc, test_vlans);
	tcase_add_test(tc, test_stacked);
	tcase_add_test(tc, test_below);
	tcase_add_test(tc, test_codes);
	tcase_add_test(tc, test_read);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int n = srunner_ntests_failed(sr);
	srunner_free(sr);
	return n ? EXIT_FAILURE : EXIT_SUCCESS;
}
