/* A dump that is in several parts goes on by position, so a socket may be passed by when others of
 * its hash bucket go meanwhile. Hence nothing is taken for gone because a dump does not show it:
 * the kernel is asked for that very socket, by its cookie.
 *
 * The destroy event of a socket that its program has aborted (SO_LINGER of 0) does not name the
 * peer any more; its end is found by the next dump. */
#include "api/client/agent_sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"

/* The kernel's numbers; netinet/tcp.h does not know the last. */
enum {
	ESTABLISHED = 1,
	SYN_RECV = 3,
	FIN_WAIT1 = 4,
	FIN_WAIT2 = 5,
	CLOSE_WAIT = 8,
	LAST_ACK = 9,
	CLOSING = 11,
	NEW_SYN_RECV = 12
};

#define TCP_OPEN                                                                                   \
	(1u << ESTABLISHED | 1u << SYN_RECV | 1u << FIN_WAIT1 | 1u << FIN_WAIT2 |                  \
	 1u << CLOSE_WAIT | 1u << LAST_ACK | 1u << CLOSING | 1u << NEW_SYN_RECV)
#define UDP_CONNECTED (1u << ESTABLISHED)

#define EVENTS_BUFFER (8 << 20)
#define MESSAGE_BUFFER (64u << 10)

struct agent_sockets {
	struct mnl_socket *ask;
	struct mnl_socket *events;
	uint32_t seq;
	uint8_t buffer[MESSAGE_BUFFER] __attribute__((aligned(8)));
};

/* --- reading messages ----------------------------------------------------------------------------
 */

static struct ip_addr address_of(uint8_t family, const __be32 *words)
{
	struct ip_addr a;

	if (family == AF_INET)
		return ip_addr_v4(words);
	memcpy(a.b, words, sizeof(a.b)); /* a v4-mapped one is IPv4 here and there */
	return a;
}

static uint64_t cookie_of(const struct inet_diag_msg *m)
{
	return (uint64_t)m->id.idiag_cookie[1] << 32 | m->id.idiag_cookie[0];
}

static struct agent_key key_of(const struct inet_diag_msg *m, uint8_t proto)
{
	return (struct agent_key){.src = address_of(m->idiag_family, m->id.idiag_dst),
				  .dst = address_of(m->idiag_family, m->id.idiag_src),
				  .sport = ntohs(m->id.idiag_dport),
				  .dport = ntohs(m->id.idiag_sport),
				  .proto = proto};
}

/* A connection (not a listener) of one of the local addresses? */
static bool is_ours(const struct inet_diag_msg *m, uint8_t proto, const struct agent_vip *vips,
		    unsigned n)
{
	struct ip_addr local = address_of(m->idiag_family, m->id.idiag_src);

	for (unsigned i = 0; m->id.idiag_dport && i < n; i++)
		if (agent_vip_has_address(&vips[i], &local) &&
		    agent_vip_has_port(&vips[i], ntohs(m->id.idiag_sport)) &&
		    (!vips[i].proto || vips[i].proto == proto))
			return true;
	return false;
}

struct reading {
	struct agent_table *table;
	const struct agent_vip *vips;
	unsigned n_vips;
	uint8_t proto;
	uint64_t at_ms;
};

static const struct inet_diag_msg *diag_message(const struct nlmsghdr *h)
{
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    mnl_nlmsg_get_payload_len(h) < sizeof(struct inet_diag_msg))
		return NULL;
	return mnl_nlmsg_get_payload(h);
}

static int on_socket(const struct nlmsghdr *h, void *arg)
{
	const struct reading *r = arg;
	const struct inet_diag_msg *m = diag_message(h);

	if (!m || !is_ours(m, r->proto, r->vips, r->n_vips))
		return MNL_CB_OK;
	/* The server has closed it altogether; what is left waits for the client's FIN. */
	if (m->idiag_state == FIN_WAIT2 && m->idiag_inode == 0)
		return MNL_CB_OK;
	struct agent_key key = key_of(m, r->proto);
	if (agent_table_seen(r->table, &key, cookie_of(m), r->at_ms))
		return MNL_CB_OK;
	errno = ENOMEM;
	return MNL_CB_ERROR;
}

static int on_destroyed(const struct nlmsghdr *h, void *arg)
{
	const struct reading *r = arg;
	const struct inet_diag_msg *m = diag_message(h);

	if (!m || !is_ours(m, IPPROTO_TCP, r->vips, r->n_vips))
		return MNL_CB_OK;
	struct agent_key key = key_of(m, IPPROTO_TCP);
	if (agent_table_ended(r->table, &key, cookie_of(m), r->at_ms))
		return MNL_CB_OK;
	errno = ENOMEM;
	return MNL_CB_ERROR;
}

/* --- asking --------------------------------------------------------------------------------------
 */

/* A program of one condition for the kernel's filter: the local address or prefix, and the port, if
 * it is one. */
static void put_filter(struct nlmsghdr *h, const struct agent_vip *vip)
{
	bool v4 = ip_addr_is_v4(&vip->address);
	struct {
		struct inet_diag_bc_op op;
		struct inet_diag_hostcond cond;
		uint8_t address[16];
	} filter = {.op = {.code = INET_DIAG_BC_S_COND},
		    .cond = {.family = v4 ? AF_INET : AF_INET6,
			     .prefix_len = (unsigned char)((v4 ? 32 : 128) - vip->host_bits),
			     .port = vip->port && !vip->port_end ? vip->port : -1}};
	size_t len = sizeof(filter) - (v4 ? 12 : 0);

	memcpy(filter.address, v4 ? vip->address.b + 12 : vip->address.b, v4 ? 4 : 16);
	filter.op.yes = (unsigned char)len;
	filter.op.no = (unsigned short)(len + 4); /* past the end: no */
	mnl_attr_put(h, INET_DIAG_REQ_BYTECODE, len, &filter);
}

static int exchange(struct agent_sockets *s, struct nlmsghdr *h, mnl_cb_t on_message, void *arg)
{
	unsigned port = mnl_socket_get_portid(s->ask);
	uint32_t seq = h->nlmsg_seq;
	int rc;

	if (mnl_socket_sendto(s->ask, h, h->nlmsg_len) < 0)
		return -errno;
	do {
		ssize_t n = mnl_socket_recvfrom(s->ask, s->buffer, sizeof(s->buffer));
		if (n < 0)
			return -errno;
		rc = mnl_cb_run(s->buffer, (size_t)n, seq, port, on_message, arg);
	} while (rc > MNL_CB_STOP && (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP);
	return rc < 0 ? -errno : 0;
}

static struct nlmsghdr *new_request(struct agent_sockets *s, uint8_t *buffer, uint16_t flags,
				    uint8_t family, uint8_t proto, struct inet_diag_req_v2 **req)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);

	h->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	h->nlmsg_seq = ++s->seq;
	*req = mnl_nlmsg_put_extra_header(h, sizeof(**req));
	(*req)->sdiag_family = family;
	(*req)->sdiag_protocol = proto;
	return h;
}

static int dump_one(struct agent_sockets *s, const struct agent_vip *vip, uint8_t family,
		    struct reading *r)
{
	uint8_t buffer[512] __attribute__((aligned(8)));
	struct inet_diag_req_v2 *req;
	struct nlmsghdr *h = new_request(s, buffer, NLM_F_DUMP, family, r->proto, &req);

	req->idiag_states = r->proto == IPPROTO_TCP ? TCP_OPEN : UDP_CONNECTED;
	put_filter(h, vip);
	int rc = exchange(s, h, on_socket, r);
	/* A kernel without that protocol's (or family's) diagnosis has no such sockets to show. */
	return r->proto == IPPROTO_UDP && rc == -ENOENT ? 0 : rc;
}

static int on_found(const struct nlmsghdr *h, void *arg)
{
	const struct inet_diag_msg *m = diag_message(h);
	bool *found = arg;

	*found = m && m->idiag_state < 32 && (TCP_OPEN >> m->idiag_state & 1) &&
		 !(m->idiag_state == FIN_WAIT2 && m->idiag_inode == 0);
	return MNL_CB_STOP;
}

struct asking {
	struct agent_sockets *sockets;
};

/* Ask for a TCP socket by its cookie. */
static bool is_there(struct agent_sockets *s, const struct agent_key *key, uint64_t cookie)
{
	uint8_t buffer[512] __attribute__((aligned(8)));
	bool v4 = ip_addr_is_v4(&key->src);
	struct inet_diag_req_v2 *req;
	struct nlmsghdr *h = new_request(s, buffer, 0, v4 ? AF_INET : AF_INET6, IPPROTO_TCP, &req);
	bool found = false;

	req->id.idiag_sport = htons(key->dport);
	req->id.idiag_dport = htons(key->sport);
	memcpy(req->id.idiag_src, v4 ? key->dst.b + 12 : key->dst.b, v4 ? 4 : 16);
	memcpy(req->id.idiag_dst, v4 ? key->src.b + 12 : key->src.b, v4 ? 4 : 16);
	req->id.idiag_cookie[0] = (uint32_t)cookie;
	req->id.idiag_cookie[1] = (uint32_t)(cookie >> 32);
	int rc = exchange(s, h, on_found, &found);
	return found || (rc != 0 && rc != -ENOENT && rc != -ESTALE); /* unknown: not gone */
}

static bool is_gone(void *ctx, const struct agent_key *key, uint64_t cookie)
{
	const struct asking *a = ctx;

	return key->proto != IPPROTO_TCP || !is_there(a->sockets, key, cookie);
}

int agent_sockets_dump(struct agent_sockets *s, struct agent_table *t, const struct agent_vip *vips,
		       unsigned n_vips, struct error *err)
{
	static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
	struct reading r = {.table = t, .vips = vips, .n_vips = n_vips, .at_ms = clock_now_ms()};
	int rc = 0;

	agent_table_dump_begin(t);
	for (unsigned i = 0; rc == 0 && i < n_vips; i++) {
		for (unsigned p = 0; rc == 0 && p < ARRAY_LEN(protocols); p++) {
			if (vips[i].proto && vips[i].proto != protocols[p])
				continue;
			r.proto = protocols[p];
			/* IPv4 connections of a server that listens on :: are IPv6 sockets. */
			rc = dump_one(s, &vips[i], AF_INET6, &r);
			if (rc == 0 && ip_addr_is_v4(&vips[i].address))
				rc = dump_one(s, &vips[i], AF_INET, &r);
		}
	}
	if (rc)
		return error_set(err, rc, "the kernel's sockets cannot be read: %s", strerror(-rc));
	struct asking a = {.sockets = s};
	agent_table_dump_end(t, is_gone, &a);
	return 0;
}

int agent_sockets_destroyed(struct agent_sockets *s, struct agent_table *t,
			    const struct agent_vip *vips, unsigned n_vips, uint64_t at_ms)
{
	struct reading r = {.table = t, .vips = vips, .n_vips = n_vips, .at_ms = at_ms};
	int fd = mnl_socket_get_fd(s->events);

	for (;;) {
		ssize_t n = recv(fd, s->buffer, sizeof(s->buffer), MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (mnl_cb_run(s->buffer, (size_t)n, 0, 0, on_destroyed, &r) < 0)
			return -errno;
	}
}

/* --- life ----------------------------------------------------------------------------------------
 */

static int join(const struct agent_sockets *s, int group)
{
	return mnl_socket_setsockopt(s->events, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0
		       ? -errno
		       : 0;
}

static int open_both(struct agent_sockets *s)
{
	int size = EVENTS_BUFFER;

	s->ask = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	s->events = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	if (!s->ask || !s->events || mnl_socket_bind(s->ask, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_bind(s->events, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	int fd = mnl_socket_get_fd(s->events);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)))
		return -errno;
	int rc = join(s, SKNLGRP_INET_TCP_DESTROY);
	return rc ? rc : join(s, SKNLGRP_INET6_TCP_DESTROY);
}

int agent_sockets_open(struct agent_sockets **out, struct error *err)
{
	struct agent_sockets *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	int rc = open_both(s);
	if (rc) {
		agent_sockets_close(s);
		return error_set(err, rc, "NETLINK_SOCK_DIAG: %s (is inet_diag in this kernel?)",
				 strerror(-rc));
	}
	*out = s;
	return 0;
}

void agent_sockets_close(struct agent_sockets *s)
{
	if (!s)
		return;
	if (s->ask)
		mnl_socket_close(s->ask);
	if (s->events)
		mnl_socket_close(s->events);
	free(s);
}

int agent_sockets_fd(const struct agent_sockets *s)
{
	return mnl_socket_get_fd(s->events);
}
