/* Servers on loopback for health checks to ask: they behave well, badly, or not at all. */
#pragma once

#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct check_server {
	int fd;
	uint16_t port;
	bool udp, v6;
	const char *reply; /* NULL: silence */
	size_t n_reply;	   /* 0 = strlen(reply) */
	bool blurts;	   /* whatever is asked */
	bool stall;	   /* after the reply: neither more nor an end */
	gnutls_certificate_credentials_t tls;
	char request[2048];
	pthread_t thread;
};

/** Bind to a port of the system's choice; it listens to nobody yet. */
void check_server_bind(struct check_server *s);

/** Bind and serve, in a thread, until it is stopped. */
void check_server_start(struct check_server *s);
void check_server_stop(struct check_server *s);

/** A port where nobody listens. */
struct check_server check_server_nobody(bool udp);

/** Credentials for tls, of CN=example.org. */
gnutls_certificate_credentials_t check_server_self_signed(void);

/** A name server in a thread: what it says is told to it. */
struct check_name_server {
	struct check_server s;
	_Atomic int rcode;
	_Atomic bool strays_first; /* answers to queries that nobody made */
	_Atomic bool lie;	   /* about the question */
};

/** Bind and serve; to be ended by check_server_stop(&ns->s). */
void check_name_server_start(struct check_name_server *ns);
