#include "tests/unit/event_client.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/raw_http.h"

static bool receive_byte(struct event_client *c, char *byte)
{
	if (c->at == c->end) {
		ssize_t n = recv(c->fd, c->buf, sizeof(c->buf), 0);
		if (n <= 0)
			return false;
		c->at = 0;
		c->end = (size_t)n;
	}
	*byte = c->buf[c->at++];
	return true;
}

struct event_client event_client_ask(const char *where, const char *query, const char *header)
{
	struct event_client c = {.fd = http_connect(where)};
	char text[512];
	size_t n = 0;

	ck_assert_int_ge(c.fd, 0);
	snprintf(text, sizeof(text), "GET /v1/events%s HTTP/1.1\r\nHost: x\r\n%s\r\n", query,
		 header);
	ck_assert(http_send(c.fd, text, strlen(text)));
	while (n < 4 || memcmp(c.head + n - 4, "\r\n\r\n", 4) != 0) {
		ck_assert_uint_lt(n, sizeof(c.head) - 1);
		ck_assert(receive_byte(&c, c.head + n));
		n++;
	}
	ck_assert_int_eq(sscanf(c.head, "HTTP/1.1 %d", &c.status), 1);
	return c;
}

/* The next byte of the body; -1 at its end. */
static int next_byte(struct event_client *c)
{
	char line[16];
	char byte;

	while (!c->left && !c->ended) {
		size_t n = 0;
		do {
			ck_assert_uint_lt(n, sizeof(line) - 1);
			if (!receive_byte(c, line + n))
				return -1; /* cut off */
			n++;
		} while (line[n - 1] != '\n' || n <= 2);
		line[n] = '\0';
		c->left = strtoul(line[0] == '\r' ? line + 2 : line, NULL, 16);
		c->ended = c->left == 0;
	}
	if (c->ended || !receive_byte(c, &byte))
		return -1;
	c->left--;
	return byte;
}

static bool next_line(struct event_client *c, char *line, size_t size)
{
	size_t n = 0;
	int byte;

	while ((byte = next_byte(c)) >= 0 && byte != '\n') {
		ck_assert_uint_lt(n, size - 1);
		line[n++] = (char)byte;
	}
	line[n] = '\0';
	return byte >= 0;
}

bool event_client_next(struct event_client *c, struct event_message *m)
{
	char line[4200];

	memset(m, 0, sizeof(*m));
	while (next_line(c, line, sizeof(line))) {
		if (!line[0] && (m->comment || m->kind[0]))
			return true;
		m->comment |= line[0] == ':';
		sscanf(line, "id: %63s", m->id);
		sscanf(line, "event: %31s", m->kind);
		if (!strncmp(line, "data: ", 6))
			snprintf(m->data, sizeof(m->data), "%s", line + 6);
	}
	return false;
}

void event_client_expect(struct event_client *c, const char *kind, const char *id,
			 const char *in_data)
{
	struct event_message m;

	ck_assert_msg(event_client_next(c, &m), "the stream has ended");
	ck_assert_str_eq(m.kind, kind);
	ck_assert_str_eq(m.id, id);
	ck_assert_msg(strstr(m.data, in_data) != NULL, "%s: no %s", m.data, in_data);
}

void event_client_expect_end(struct event_client *c)
{
	struct event_message m;

	ck_assert_msg(!event_client_next(c, &m), "%s %s", m.kind, m.data);
	close(c->fd);
}
