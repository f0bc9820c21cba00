/* A client of GET /v1/events, for tests. What is not as it should be aborts the test. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct event_client {
	int fd;
	int status; /* HTTP */
	char head[1024];
	char buf[4096]; /* received, from `at` to `end` not looked at yet */
	size_t at, end;
	size_t left; /* of the chunk at hand */
	bool ended;
};

struct event_message {
	char id[64];
	char kind[32];
	char data[4200];
	bool comment;
};

/** Ask with this query ("" or "?...") and these header lines; reads the answer's head. The caller
 * closes fd. */
struct event_client event_client_ask(const char *where, const char *query, const char *header);

/** The next message or comment; false at the end. */
bool event_client_next(struct event_client *c, struct event_message *m);

/** The next one is of this kind and id, with in_data in its data. */
void event_client_expect(struct event_client *c, const char *kind, const char *id,
			 const char *in_data);

/** There is none, and the stream has ended; closes fd. */
void event_client_expect_end(struct event_client *c);
