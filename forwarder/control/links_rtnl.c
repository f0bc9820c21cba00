#include "control/links_rtnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>

/* linux/if_bonding.h cannot be had beside net/if.h. */
#define BOND_SLAVE_ACTIVE 0
#define BOND_LINK_UP 0

static bool is_word(const struct nlattr *a, const char *word)
{
	size_t len = mnl_attr_get_payload_len(a);

	return strnlen(mnl_attr_get_payload(a), len) == strlen(word) &&
	       memcmp(mnl_attr_get_payload(a), word, strlen(word)) == 0;
}

static uint32_t number(const struct nlattr *a)
{
	uint32_t n = 0;

	if (mnl_attr_get_payload_len(a) == sizeof(n))
		memcpy(&n, mnl_attr_get_payload(a), sizeof(n));
	return n;
}

static void read_vlan(const struct nlattr *data, struct rtnl_link *l)
{
	uint16_t id = 0, protocol = 0;
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, data)
	{
		if (mnl_attr_get_payload_len(a) != sizeof(id))
			continue;
		if (mnl_attr_get_type(a) == IFLA_VLAN_ID)
			memcpy(&id, mnl_attr_get_payload(a), sizeof(id));
		if (mnl_attr_get_type(a) == IFLA_VLAN_PROTOCOL)
			memcpy(&protocol, mnl_attr_get_payload(a), sizeof(protocol));
	}
	l->vlan_id = protocol == htons(ETH_P_8021Q) ? id : 0;
}

static void read_bond(const struct nlattr *data, struct rtnl_link *l)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, data)
	{
		if (mnl_attr_get_type(a) == IFLA_BOND_ACTIVE_SLAVE)
			l->active = (int)number(a);
	}
}

/* In a mode with backups all but one are that; by LACP those that the other side does not take. */
static void read_bond_slave(const struct nlattr *data, struct rtnl_link *l)
{
	const struct nlattr *a;
	bool active = false, up = false;

	mnl_attr_for_each_nested(a, data)
	{
		if (mnl_attr_get_payload_len(a) != 1)
			continue;
		uint8_t value = *(const uint8_t *)mnl_attr_get_payload(a);
		if (mnl_attr_get_type(a) == IFLA_BOND_SLAVE_STATE)
			active = value == BOND_SLAVE_ACTIVE;
		if (mnl_attr_get_type(a) == IFLA_BOND_SLAVE_MII_STATUS)
			up = value == BOND_LINK_UP;
	}
	l->carries = active && up;
}

/* The words come in front of what they are about. */
static void read_info(const struct nlattr *info, struct rtnl_link *l)
{
	bool of_bond = false;
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, info)
	{
		switch (mnl_attr_get_type(a)) {
		case IFLA_INFO_KIND:
			l->kind = is_word(a, "vlan")   ? LINK_VLAN
				  : is_word(a, "bond") ? LINK_BOND
						       : LINK_OTHER;
			break;
		case IFLA_INFO_DATA:
			if (l->kind == LINK_VLAN)
				read_vlan(a, l);
			if (l->kind == LINK_BOND)
				read_bond(a, l);
			break;
		case IFLA_INFO_SLAVE_KIND:
			of_bond = is_word(a, "bond");
			break;
		case IFLA_INFO_SLAVE_DATA:
			if (of_bond)
				read_bond_slave(a, l);
			break;
		default:
			break;
		}
	}
}

/* True if it is a MAC address. */
static bool read_mac(const struct nlattr *a, struct rtnl_link *l)
{
	if (mnl_attr_get_payload_len(a) != sizeof(l->mac))
		return false;
	memcpy(l->mac, mnl_attr_get_payload(a), sizeof(l->mac));
	return true;
}

bool rtnl_read_link(const struct nlmsghdr *m, struct rtnl_link *out)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(m);
	bool has_mac = false, is_foreign = false;
	struct rtnl_link l = {0};
	const struct nlattr *a;
	int below = 0;

	if (m->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(m) < sizeof(*ifi))
		return false;
	l.ifindex = ifi->ifi_index;
	l.up = (ifi->ifi_flags & IFF_UP) != 0;
	mnl_attr_for_each(a, m, sizeof(*ifi))
	{
		switch (mnl_attr_get_type(a)) {
		case IFLA_IFNAME:
			strncpy(l.name, mnl_attr_get_payload(a), sizeof(l.name) - 1);
			break;
		case IFLA_ADDRESS:
			has_mac = read_mac(a, &l);
			break;
		case IFLA_MTU:
			l.mtu = number(a);
			break;
		case IFLA_LINK:
			below = (int)number(a);
			break;
		case IFLA_LINK_NETNSID:
			is_foreign = true;
			break;
		case IFLA_MASTER:
			l.master = (int)number(a);
			break;
		case IFLA_LINKINFO:
			read_info(a, &l);
			break;
		default:
			break;
		}
	}
	if (l.kind == LINK_VLAN && !is_foreign)
		l.parent = below;
	*out = l;
	return ifi->ifi_type == ARPHRD_ETHER && has_mac && l.mtu;
}

struct walk {
	int (*each)(void *ctx, const struct rtnl_link *l);
	void *ctx;
	int rc; /* the first that went wrong */
	bool done;
};

static void read_message(struct walk *w, const struct nlmsghdr *m)
{
	struct rtnl_link l;

	if ((m->nlmsg_flags & NLM_F_DUMP_INTR) && !w->rc)
		w->rc = -EINTR;
	if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR)
		w->done = true;
	if (m->nlmsg_type == NLMSG_ERROR && mnl_nlmsg_get_payload_len(m) >= sizeof(struct nlmsgerr))
		w->rc = ((const struct nlmsgerr *)mnl_nlmsg_get_payload(m))->error;
	if (!w->rc && rtnl_read_link(m, &l))
		w->rc = w->each(w->ctx, &l);
}

/* To its end also when something went wrong: the socket takes no other walk before. */
int rtnl_get_links(struct rtnl *r, int (*each)(void *ctx, const struct rtnl_link *l), void *ctx)
{
	uint8_t buf[64];
	struct nlmsghdr *req = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(req, sizeof(*ifi));
	struct walk w = {.each = each, .ctx = ctx};

	req->nlmsg_type = RTM_GETLINK;
	req->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	req->nlmsg_seq = ++r->seq;
	ifi->ifi_family = AF_UNSPEC;
	mnl_attr_put_u32(req, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	if (mnl_socket_sendto(r->requests, req, req->nlmsg_len) < 0)
		return -errno;
	while (!w.done) {
		ssize_t got = mnl_socket_recvfrom(r->requests, r->buf, sizeof(r->buf));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		int len = (int)got;
		const struct nlmsghdr *m = (const struct nlmsghdr *)r->buf;
		for (; mnl_nlmsg_ok(m, len); m = mnl_nlmsg_next(m, &len))
			if (m->nlmsg_seq == r->seq)
				read_message(&w, m);
	}
	return w.rc;
}
