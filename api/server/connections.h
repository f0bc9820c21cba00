/* The connections of one listener: accepting them, and the time and room each may take. Free of any HTTP
 * library: http.c says what a connection is doing, and serves what is admitted. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/log.h"

#define CONNECTIONS_MAX 512u

enum connection_phase {
	CONNECTION_NONE,
	CONNECTION_WAITING,   /* for a request line */
	CONNECTION_RECEIVING, /* the headers and the body */
	CONNECTION_WORKING,   /* on the answer: for as long as it takes */
	CONNECTION_ANSWERING,
	CONNECTION_STREAMING, /* an answer without end waits for what it is to say next */
	CONNECTION_LEAVING, /* shut down; not closed yet */
};

struct connection {
	int fd;
	enum connection_phase phase;
	bool kept; /* a request was answered on it */
	uint64_t since_ms;
};

/** Takes over fd, a connection that was accepted, and must lead to connections_enter soon. */
typedef void (*connections_admit)(void *cls, int fd, const struct sockaddr *peer, socklen_t len);

struct connections {
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t entered;
	struct connection all[CONNECTIONS_MAX];
	unsigned n;
	unsigned n_leaving;
	unsigned n_working;
	uint64_t n_entered;
	bool stop;
	/* the accepting thread's */
	int listen_fd; /* non-blocking */
	int wake_fd;
	connections_admit admit;
	void *cls;
	bool running;
	pthread_t thread;
	struct log_limit scarce;
};

/** Make it ready, accepting nothing yet. Thread: main. */
MUST_CHECK int connections_init(struct connections *c, struct error *err);

/** Accept on listen_fd, which stays the caller's, in a thread of its own. Thread: main. */
MUST_CHECK int connections_start(struct connections *c, int listen_fd, connections_admit admit,
				 void *cls, struct error *err);

/** Accept no more. Thread: main. */
void connections_stop(struct connections *c);

/** After the last connections_leave. Thread: main. */
void connections_free(struct connections *c);

/** A connection is served from now on, with fd open until connections_leave: its number, below
 *  CONNECTIONS_MAX. No more than CONNECTIONS_MAX may be in at one time. Thread: any. */
unsigned connections_enter(struct connections *c, int fd);
void connections_leave(struct connections *c, unsigned i);

/** The other side still listens, and nobody has shut the connection down. Thread: the one that serves
 *  it. */
bool connections_alive(struct connections *c, unsigned i);

/** What connection i does now: its time starts anew. Not for WORKING. Thread: any. */
void connections_move(struct connections *c, unsigned i, enum connection_phase phase);

/** Connection i is WORKING, unless at_most do so already or it was shut down: then false. Thread: any. */
MUST_CHECK bool connections_work(struct connections *c, unsigned i, unsigned at_most);
