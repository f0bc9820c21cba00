/* One check of one DIP under way, and the kinds of it: sockets of our own (health_socket.c) and HTTP by
 * libcurl (health_http.c). Everything here runs in the health thread, never blocks, and ends each check
 * that was started exactly once, by check_end or check_abort. Time-outs are the caller's. */
#pragma once

#include <regex.h>

#include "control/health.h"

#define CHECK_BODY_MAX 65536u /* what is read of an answer's body; the rest is not looked at */

/** What to ask, made of a VIP's configuration once; shared by the checks of its DIPs. */
struct check_spec {
	struct health_conf conf;
	uint16_t port;
	int n_send, n_expect;
	uint8_t send[HEALTH_TEXT_LEN], expect[HEALTH_TEXT_LEN];
	bool has_regex;
	regex_t regex; /* of the body */
	unsigned refs;
};

/** NULL without memory. */
MUST_CHECK struct check_spec *check_spec_new(const struct health_vip *v);
void check_spec_unref(struct check_spec *s); /* frees at 0; NULL is fine */

enum check_result {
	CHECK_PASSED,
	CHECK_FAILED,
	CHECK_SKIPPED, /* it could not be made here (no memory, no descriptor): says nothing of the DIP */
};

struct check_loop {
	int epoll_fd;
	struct check_http *http; /* NULL until the first one is needed */
};

struct check {
	struct check_loop *loop;
	const struct check_spec *spec;
	struct ip_addr address;
	void (*ended)(struct check *c, enum check_result result, const char *error);
	/* the kind's own */
	int fd; /* -1 = none */
	uint16_t dns_id;
	void *easy; /* libcurl's, as the lists that it needs meanwhile */
	void *connect_to, *headers;
	int open_error; /* errno of a socket that could not be made */
	size_t n_body;
	char *body;
	char curl_error[256];
};

/** Start; c->ended may be called before it returns. */
void check_start(struct check *c);
/** An event of the check's socket. */
void check_event(struct check *c);
/** End it without a result. */
void check_abort(struct check *c);

/** Sockets: tcp, udp, dns. */
void check_socket_start(struct check *c);
void check_socket_event(struct check *c);
void check_socket_abort(struct check *c);
/** True for an errno that tells of this host, not of the DIP. */
bool check_errno_is_ours(int error);

/** HTTP. Events of libcurl's sockets bear CHECK_HTTP_EVENT | fd as epoll data. */
#define CHECK_HTTP_EVENT (1ull << 63)
void check_http_start(struct check *c);
void check_http_abort(struct check *c);
void check_http_event(struct check_loop *l, int fd, uint32_t events);
/** When check_http_timer wants to be called (clock_now_ms; UINT64_MAX = never). */
uint64_t check_http_due_ms(const struct check_loop *l);
void check_http_timer(struct check_loop *l);
void check_http_close(struct check_loop *l);
