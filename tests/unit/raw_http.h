/* A client for the API's tests that speaks raw HTTP, right or wrong. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct http_answer {
	int status; /* 0: the connection was closed without an answer */
	char headers[2048];
	char *body; /* owned, NUL-terminated */
	size_t len;
};

/** Connect to a listener text ("unix:PATH", "127.0.0.1:PORT"); -1 when refused. */
int http_connect(const char *where);

/** Send n bytes. False if the other side has closed. */
bool http_send(int fd, const void *data, size_t n);

/** Connect, and send a text; the test fails if it is refused. */
int http_say(const char *where, const char *text);

/** True if the other side ends the connection within ms of real time; what it sent is dropped. */
bool http_ends_within(int fd, unsigned ms);

/** Read one answer (to_head: without body). Free with http_answer_free. */
void http_read(int fd, bool to_head, struct http_answer *a);
void http_answer_free(struct http_answer *a);

/** Value of a header, or NULL; valid until the thread's next call. */
const char *http_header(const struct http_answer *a, const char *name);
