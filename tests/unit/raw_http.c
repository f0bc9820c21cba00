#include "tests/unit/raw_http.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int http_connect(const char *where)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	bool is_unix = !strncmp(where, "unix:", 5);
	struct timeval limit = {.tv_sec = 20};
	int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (is_unix)
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", where + 5);
	else
		in.sin_port = htons((uint16_t)atoi(strrchr(where, ':') + 1));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, is_unix ? (struct sockaddr *)&un : (struct sockaddr *)&in,
		    is_unix ? sizeof(un) : sizeof(in))) {
		close(fd);
		return -1;
	}
	return fd;
}

bool http_send(int fd, const void *data, size_t n)
{
	const char *at = data;

	while (n) {
		ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
		if (sent < 0)
			return false;
		at += sent;
		n -= (size_t)sent;
	}
	return true;
}

int http_say(const char *where, const char *text)
{
	int fd = http_connect(where);

	ck_assert_int_ge(fd, 0);
	http_send(fd, text, strlen(text));
	return fd;
}

bool http_ends_within(int fd, unsigned ms)
{
	char buf[65536];
	struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		;
	return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

const char *http_header(const struct http_answer *a, const char *name)
{
	static _Thread_local char value[512];
	size_t len = strlen(name);

	for (const char *line = strstr(a->headers, "\r\n"); line; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, len) != 0 || line[len] != ':')
			continue;
		line += len + 1;
		line += strspn(line, " ");
		snprintf(value, sizeof(value), "%.*s", (int)strcspn(line, "\r"), line);
		return value;
	}
	return NULL;
}

/* Byte by byte, so that nothing of the next answer is taken. */
static bool read_headers(int fd, struct http_answer *a)
{
	size_t n = 0;

	while (n < sizeof(a->headers) - 1 && recv(fd, a->headers + n, 1, 0) == 1) {
		a->headers[++n] = '\0';
		if (n >= 4 && !strcmp(a->headers + n - 4, "\r\n\r\n"))
			return true;
	}
	return false;
}

void http_read(int fd, bool to_head, struct http_answer *a)
{
	memset(a, 0, sizeof(*a));
	do {
		if (!read_headers(fd, a) || sscanf(a->headers, "HTTP/1.%*d %d", &a->status) != 1) {
			a->status = 0;
			return;
		}
	} while (a->status == 100);
	const char *length = http_header(a, "Content-Length");
	a->len = length && !to_head ? strtoul(length, NULL, 10) : 0;
	a->body = calloc(1, a->len + 1);
	for (size_t n = 0; n < a->len;) {
		ssize_t got = recv(fd, a->body + n, a->len - n, 0);
		if (got <= 0) {
			a->status = 0;
			return;
		}
		n += (size_t)got;
	}
}

void http_answer_free(struct http_answer *a)
{
	free(a->body);
	a->body = NULL;
}
