/* Checks over sockets of our own: a TCP connection, a datagram and its reply, a DNS query. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/entropy.h"
#include "control/health_check.h"
#include "control/health_dns.h"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

bool check_errno_is_ours(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
	       error == EADDRNOTAVAIL || error == EAGAIN;
}

static socklen_t fill_address(union address *a, const struct ip_addr *ip, uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (ip_addr_is_v4(ip)) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htons(port);
		memcpy(&a->v4.sin_addr, &ip->b[12], 4);
		return sizeof(a->v4);
	}
	a->v6.sin6_family = AF_INET6;
	a->v6.sin6_port = htons(port);
	memcpy(&a->v6.sin6_addr, ip->b, 16);
	return sizeof(a->v6);
}

/* Closing takes the socket out of epoll too. A connection is reset: it has done its work, and must
 * not linger in TIME_WAIT, of which there would be tens of thousands. */
static void close_socket(struct check *c)
{
	struct linger at_once = {.l_onoff = 1};

	if (c->fd < 0)
		return;
	if (c->spec->conf.type == HEALTH_TCP)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(c->fd);
	c->fd = -1;
}

static void end(struct check *c, enum check_result result, const char *error)
{
	close_socket(c);
	c->ended(c, result, error);
}

static void end_errno(struct check *c, const char *what, int error)
{
	char text[HEALTH_CAUSE_LEN], reason[64];

	snprintf(text, sizeof(text), "%s: %s", what, strerror_r(error, reason, sizeof(reason)));
	end(c, check_errno_is_ours(error) ? CHECK_SKIPPED : CHECK_FAILED, text);
}

static int watch(const struct check *c, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = (void *)c};

	return epoll_ctl(c->loop->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) ? -errno : 0;
}

static void send_datagram(struct check *c)
{
	uint8_t query[HEALTH_DNS_MAX];
	const uint8_t *bytes = c->spec->send;
	size_t n = (size_t)c->spec->n_send;

	if (c->spec->conf.type == HEALTH_DNS) {
		c->dns_id = (uint16_t)entropy_u64();
		n = health_dns_query(&c->spec->conf, c->dns_id, query);
		bytes = query;
	}
	if (send(c->fd, bytes, n, 0) < 0)
		end_errno(c, "cannot send", errno);
}

void check_socket_start(struct check *c)
{
	bool tcp = c->spec->conf.type == HEALTH_TCP;
	union address a;
	socklen_t len = fill_address(&a, &c->address, c->spec->port);

	c->fd = socket(a.any.sa_family,
		       (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0) {
		end_errno(c, "no socket", errno);
		return;
	}
	if (connect(c->fd, &a.any, len) && errno != EINPROGRESS) {
		end_errno(c, "cannot connect", errno);
		return;
	}
	int rc = watch(c, tcp ? EPOLLOUT : EPOLLIN);
	if (rc)
		end(c, CHECK_SKIPPED, strerror(-rc));
	else if (!tcp)
		send_datagram(c);
}

static void connection_event(struct check *c)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len))
		error = errno;
	if (error)
		end_errno(c, "cannot connect", error);
	else
		end(c, CHECK_PASSED, "");
}

static void datagram_event(struct check *c)
{
	const struct check_spec *s = c->spec;
	uint8_t reply[65536];
	char error[HEALTH_CAUSE_LEN];
	ssize_t n = recv(c->fd, reply, sizeof(reply), 0);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			end_errno(c, "no reply", errno);
		return;
	}
	if (s->conf.type == HEALTH_UDP) {
		if (memmem(reply, (size_t)n, s->expect, (size_t)s->n_expect))
			end(c, CHECK_PASSED, "");
		else
			end(c, CHECK_FAILED, "the reply has not in it what is expected");
		return;
	}
	switch (health_dns_judge(&s->conf, c->dns_id, reply, (size_t)n, error, sizeof(error))) {
	case DNS_GOOD:
		end(c, CHECK_PASSED, "");
		break;
	case DNS_BAD:
		end(c, CHECK_FAILED, error);
		break;
	default:
		break; /* not an answer to this query: it may still come */
	}
}

void check_socket_event(struct check *c)
{
	if (c->fd < 0)
		return; /* ended since the event came */
	if (c->spec->conf.type == HEALTH_TCP)
		connection_event(c);
	else
		datagram_event(c);
}

void check_socket_abort(struct check *c)
{
	close_socket(c);
}

/* --- what all kinds share ------------------------------------------------------------------- */

void check_start(struct check *c)
{
	c->fd = -1;
	if (c->spec->conf.type == HEALTH_HTTP || c->spec->conf.type == HEALTH_HTTPS)
		check_http_start(c);
	else
		check_socket_start(c);
}

void check_event(struct check *c)
{
	check_socket_event(c);
}

void check_abort(struct check *c)
{
	check_http_abort(c);
	check_socket_abort(c);
}

struct check_spec *check_spec_new(const struct health_vip *v)
{
	struct check_spec *s = calloc(1, sizeof(*s));
	const char *body = v->conf.expect_body;

	if (!s)
		return NULL;
	s->conf = v->conf;
	s->port = v->port;
	s->refs = 1;
	s->n_send = health_bytes(v->conf.send, s->send);
	s->n_expect = health_bytes(v->conf.expect, s->expect);
	if (strncmp(body, "regex:", 6) == 0) {
		if (regcomp(&s->regex, body + 6, REG_EXTENDED | REG_NOSUB)) {
			free(s);
			return NULL; /* it was validated, so memory has run out */
		}
		s->has_regex = true;
	}
	return s;
}

void check_spec_unref(struct check_spec *s)
{
	if (!s || --s->refs)
		return;
	if (s->has_regex)
		regfree(&s->regex);
	free(s);
}
