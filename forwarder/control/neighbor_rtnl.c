/* Every request here is answered before sendto(2) returns: rtnetlink works in the caller's context
 * and none of these is a dump. So a socket that does not block is enough, and control never waits.
 */
#include "control/neighbor_rtnl.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <sys/socket.h>

/* A burst of route changes fits; what does not is repaired by asking anew. */
#define EVENTS_RCVBUF (1 << 20)
#define EVENT_READS_MAX 256

static const int event_groups[] = {RTNLGRP_NEIGH,	RTNLGRP_LINK,	    RTNLGRP_IPV4_IFADDR,
				   RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
				   RTNLGRP_IPV4_RULE,	RTNLGRP_IPV6_RULE,  RTNLGRP_NEXTHOP};

static int open_events(struct rtnl *r, struct error *err)
{
	int size = EVENTS_RCVBUF;

	r->events = mnl_socket_open2(NETLINK_ROUTE, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (!r->events || mnl_socket_bind(r->events, 0, MNL_SOCKET_AUTOPID) < 0)
		return error_set(err, -errno, "neighbor: cannot open rtnetlink: %m");
	int fd = mnl_socket_get_fd(r->events);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) < 0)
		return error_set(err, -errno, "neighbor: cannot size the rtnetlink buffer: %m");
	for (unsigned i = 0; i < ARRAY_LEN(event_groups); i++) {
		int group = event_groups[i];

		if (mnl_socket_setsockopt(r->events, NETLINK_ADD_MEMBERSHIP, &group,
					  sizeof(group)) < 0)
			return error_set(err, -errno,
					 "neighbor: cannot subscribe to rtnetlink group %d: %m",
					 group);
	}
	return 0;
}

int rtnl_open(struct rtnl *r, struct error *err)
{
	r->events = NULL;
	r->seq = 0;
	r->requests = mnl_socket_open2(NETLINK_ROUTE, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (!r->requests)
		return error_set(err, -errno, "neighbor: cannot open rtnetlink: %m");
	int rc = mnl_socket_bind(r->requests, 0, MNL_SOCKET_AUTOPID) < 0
			 ? error_set(err, -errno, "neighbor: cannot bind rtnetlink: %m")
			 : open_events(r, err);
	if (rc < 0)
		rtnl_close(r);
	return rc;
}

void rtnl_close(struct rtnl *r)
{
	if (r->events)
		mnl_socket_close(r->events);
	if (r->requests)
		mnl_socket_close(r->requests);
	r->events = NULL;
	r->requests = NULL;
}

int rtnl_events_fd(const struct rtnl *r)
{
	return mnl_socket_get_fd(r->events);
}

/* Send one request and leave its answer in r->buf: *reply is it, or NULL for a bare
 * acknowledgement. */
static int transact(struct rtnl *r, struct nlmsghdr *req, const struct nlmsghdr **reply)
{
	*reply = NULL;
	req->nlmsg_seq = ++r->seq;
	req->nlmsg_flags |= NLM_F_REQUEST;
	if (mnl_socket_sendto(r->requests, req, req->nlmsg_len) < 0)
		return -errno;
	for (;;) {
		ssize_t got = mnl_socket_recvfrom(r->requests, r->buf, sizeof(r->buf));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		int len = (int)got;
		const struct nlmsghdr *m = (const struct nlmsghdr *)r->buf;
		for (; mnl_nlmsg_ok(m, len); m = mnl_nlmsg_next(m, &len)) {
			if (m->nlmsg_seq != r->seq)
				continue; /* a late answer to an earlier request */
			if (m->nlmsg_type != NLMSG_ERROR) {
				*reply = m;
				return 0;
			}
			if (mnl_nlmsg_get_payload_len(m) < sizeof(struct nlmsgerr))
				return -EBADMSG;
			return ((const struct nlmsgerr *)mnl_nlmsg_get_payload(m))->error;
		}
	}
}

static uint8_t family_of(const struct ip_addr *a)
{
	return ip_addr_is_v4(a) ? AF_INET : AF_INET6;
}

static void put_address(struct nlmsghdr *m, uint16_t type, const struct ip_addr *a)
{
	if (ip_addr_is_v4(a))
		mnl_attr_put(m, type, 4, &a->b[12]);
	else
		mnl_attr_put(m, type, 16, a->b);
}

/* bytes of an address of that family, as far as they have its length. */
static bool read_address(uint8_t family, const void *bytes, size_t len, struct ip_addr *out)
{
	if (family == AF_INET && len == 4) {
		*out = ip_addr_v4(bytes);
		return true;
	}
	if (family == AF_INET6 && len == 16) {
		memcpy(out->b, bytes, 16);
		return true;
	}
	return false;
}

static bool read_address_attr(uint8_t family, const struct nlattr *a, struct ip_addr *out)
{
	return read_address(family, mnl_attr_get_payload(a), mnl_attr_get_payload_len(a), out);
}

static unsigned metrics_mtu(const struct nlattr *metrics)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, metrics)
	{
		if (mnl_attr_get_type(a) == RTAX_MTU && mnl_attr_get_payload_len(a) == 4)
			return mnl_attr_get_u32(a);
	}
	return 0;
}

int rtnl_get_route(struct rtnl *r, const struct ip_addr *a, struct rtnl_route *out)
{
	uint8_t req_buf[256];
	struct nlmsghdr *req = mnl_nlmsg_put_header(req_buf);
	struct rtmsg *rt = mnl_nlmsg_put_extra_header(req, sizeof(*rt));
	const struct nlmsghdr *m;
	const struct nlattr *attr;
	struct rtnl_route found = {.via = *a};

	req->nlmsg_type = RTM_GETROUTE;
	rt->rtm_family = family_of(a);
	rt->rtm_dst_len = ip_addr_is_v4(a) ? 32 : 128;
	put_address(req, RTA_DST, a);
	int rc = transact(r, req, &m);
	if (rc < 0)
		return rc;
	if (!m || m->nlmsg_type != RTM_NEWROUTE)
		return -EBADMSG;
	rt = mnl_nlmsg_get_payload(m);
	mnl_attr_for_each(attr, m, sizeof(*rt))
	{
		switch (mnl_attr_get_type(attr)) {
		case RTA_OIF:
			found.ifindex = (int)mnl_attr_get_u32(attr);
			break;
		case RTA_GATEWAY:
			if (!read_address_attr(rt->rtm_family, attr, &found.via))
				return -EBADMSG;
			break;
		case RTA_VIA: { /* a gateway of the other family (RFC 5549) */
			const struct rtvia *via = mnl_attr_get_payload(attr);
			size_t len = mnl_attr_get_payload_len(attr);
			if (len < sizeof(*via) ||
			    !read_address((uint8_t)via->rtvia_family, via->rtvia_addr,
					  len - sizeof(*via), &found.via))
				return -EBADMSG;
			break;
		}
		case RTA_METRICS:
			found.mtu = metrics_mtu(attr);
			break;
		default:
			break;
		}
	}
	if (rt->rtm_type != RTN_UNICAST)
		return -EHOSTUNREACH;
	if (found.ifindex <= 0)
		return -ENETUNREACH;
	*out = found;
	return 0;
}

/* A neighbour message as far as it is one of an IP address. */
static bool read_neigh(const struct nlmsghdr *m, struct rtnl_neigh *out)
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(m);
	const struct nlattr *attr;
	struct rtnl_neigh found = {0};
	bool has_address = false;

	if (mnl_nlmsg_get_payload_len(m) < sizeof(*nd) || (nd->ndm_flags & NTF_PROXY))
		return false;
	found.ifindex = nd->ndm_ifindex;
	found.state = m->nlmsg_type == RTM_DELNEIGH ? NUD_NONE : nd->ndm_state;
	mnl_attr_for_each(attr, m, sizeof(*nd))
	{
		if (mnl_attr_get_type(attr) == NDA_DST)
			has_address = read_address_attr(nd->ndm_family, attr, &found.address);
		if (mnl_attr_get_type(attr) == NDA_LLADDR && mnl_attr_get_payload_len(attr) == 6) {
			memcpy(found.mac, mnl_attr_get_payload(attr), 6);
			found.has_mac = true;
		}
	}
	if (has_address)
		*out = found;
	return has_address;
}

static struct nlmsghdr *neigh_request(uint8_t *buf, uint16_t type, int ifindex,
				      const struct ip_addr *a, uint8_t flags)
{
	struct nlmsghdr *req = mnl_nlmsg_put_header(buf);
	struct ndmsg *nd = mnl_nlmsg_put_extra_header(req, sizeof(*nd));

	req->nlmsg_type = type;
	nd->ndm_family = family_of(a);
	nd->ndm_ifindex = ifindex;
	nd->ndm_flags = flags;
	put_address(req, NDA_DST, a);
	return req;
}

int rtnl_get_neigh(struct rtnl *r, int ifindex, const struct ip_addr *a, struct rtnl_neigh *out)
{
	uint8_t req_buf[256];
	struct nlmsghdr *req = neigh_request(req_buf, RTM_GETNEIGH, ifindex, a, 0);
	const struct nlmsghdr *m;

	int rc = transact(r, req, &m);
	if (rc == -ENOENT) {
		*out = (struct rtnl_neigh){.ifindex = ifindex, .address = *a, .state = NUD_NONE};
		return 0;
	}
	if (rc < 0)
		return rc;
	return m && m->nlmsg_type == RTM_NEWNEIGH && read_neigh(m, out) ? 0 : -EBADMSG;
}

int rtnl_use_neigh(struct rtnl *r, int ifindex, const struct ip_addr *a, bool managed)
{
	uint8_t req_buf[256];
	struct nlmsghdr *req = neigh_request(req_buf, RTM_NEWNEIGH, ifindex, a, NTF_USE);
	const struct nlmsghdr *m;

	req->nlmsg_flags = NLM_F_CREATE | NLM_F_ACK;
	if (managed) /* kernels before 5.16 skip the attribute */
		mnl_attr_put_u32(req, NDA_FLAGS_EXT, NTF_EXT_MANAGED);
	return transact(r, req, &m);
}

static void hand_over(const struct nlmsghdr *m, const struct rtnl_event_handler *h)
{
	struct rtnl_neigh neigh;

	switch (m->nlmsg_type) {
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH:
		if (read_neigh(m, &neigh))
			h->neigh(h->ctx, &neigh);
		break;
	case NLMSG_NOOP:
	case NLMSG_ERROR:
	case NLMSG_DONE:
		break;
	case RTM_NEWLINK:
	case RTM_DELLINK:
		h->links(h->ctx);
		break;
	default:
		h->routes(h->ctx);
	}
}

int rtnl_read_events(struct rtnl *r, const struct rtnl_event_handler *h)
{
	bool lost = false;

	/* Bounded, so that a storm of route changes cannot hold control here. */
	for (int i = 0; i < EVENT_READS_MAX; i++) {
		ssize_t got = mnl_socket_recvfrom(r->events, r->buf, sizeof(r->buf));
		if (got < 0 && errno == EAGAIN)
			break;
		if (got < 0) { /* ENOBUFS, or a message too long for us */
			lost |= errno != EINTR;
			continue;
		}
		int len = (int)got;
		const struct nlmsghdr *m = (const struct nlmsghdr *)r->buf;
		for (; mnl_nlmsg_ok(m, len); m = mnl_nlmsg_next(m, &len))
			hand_over(m, h);
	}
	return lost ? -ENOBUFS : 0;
}
