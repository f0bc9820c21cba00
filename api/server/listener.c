#include "api/server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* --- TCP -----------------------------------------------------------------------------------------
 */

static bool parse_port(const char *text, uint16_t *port)
{
	size_t len = strlen(text);
	unsigned long n;

	if (!len || len > 5 || strspn(text, "0123456789") != len)
		return false;
	n = strtoul(text, NULL, 10);
	*port = (uint16_t)n;
	return n <= UINT16_MAX;
}

static int parse_tcp(const char *spec, union address *a, socklen_t *len, bool *loopback)
{
	char host[64];
	const char *colon = strrchr(spec, ':');
	uint16_t port;

	if (!colon || !parse_port(colon + 1, &port))
		return -EINVAL;
	bool bracketed = spec[0] == '[' && colon > spec && colon[-1] == ']';
	size_t n = (size_t)(colon - spec) - (bracketed ? 2 : 0);
	if (n >= sizeof(host))
		return -EINVAL;
	memcpy(host, spec + bracketed, n);
	host[n] = '\0';
	memset(a, 0, sizeof(*a));
	if (bracketed) {
		if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) != 1)
			return -EINVAL;
		a->v6.sin6_family = AF_INET6;
		a->v6.sin6_port = htons(port);
		*len = sizeof(a->v6);
		*loopback = IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
		return 0;
	}
	if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &a->v4.sin_addr) !=
	    1)
		return -EINVAL;
	a->v4.sin_family = AF_INET;
	a->v4.sin_port = htons(port);
	*len = sizeof(a->v4);
	*loopback = ntohl(a->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return 0;
}

static void name_tcp(struct listener *l)
{
	union address a = {.any = {.sa_family = AF_UNSPEC}};
	socklen_t len = sizeof(a);
	char text[INET6_ADDRSTRLEN];

	if (getsockname(l->fd, &a.any, &len))
		return;
	if (a.any.sa_family == AF_INET6)
		snprintf(l->text, sizeof(l->text), "[%s]:%u",
			 inet_ntop(AF_INET6, &a.v6.sin6_addr, text, sizeof(text)),
			 ntohs(a.v6.sin6_port));
	else
		snprintf(l->text, sizeof(l->text), "%s:%u",
			 inet_ntop(AF_INET, &a.v4.sin_addr, text, sizeof(text)),
			 ntohs(a.v4.sin_port));
}

/* What follows a scheme; says what it asks for. */
static const char *parse_scheme(const char *spec, bool has_tls, struct listener *l)
{
	l->tls = has_tls;
	if (!strncmp(spec, "https:", 6)) {
		l->tls = true;
		return spec + 6;
	}
	if (!strncmp(spec, "http:", 5)) {
		l->tls = false;
		l->clear_text = true;
		return spec + 5;
	}
	return spec;
}

static int check_scheme(const char *spec, bool has_tls, const struct listener *l, struct error *err)
{
	if (l->tls && !has_tls)
		return error_set(err, -EINVAL, "--listen %s: needs --tls-cert and --tls-key", spec);
	if (!l->loopback && !l->tls && !l->clear_text)
		return error_set(err, -EACCES,
				 "--listen %s: not a loopback address: give --tls-cert and "
				 "--tls-key, or say http:%s to send tokens in clear text",
				 spec, spec);
	return 0;
}

static int open_tcp(const char *spec, bool has_tls, struct listener *l, struct error *err)
{
	union address a;
	socklen_t len = 0;
	int one = 1;

	int rc = parse_tcp(parse_scheme(spec, has_tls, l), &a, &len, &l->loopback);
	if (rc)
		return error_set(err, rc,
				 "--listen %s: neither ADDR:PORT, [V6ADDR]:PORT nor unix:PATH",
				 spec);
	rc = check_scheme(spec, has_tls, l, err);
	if (rc)
		return rc;
	l->fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return error_set(err, -errno, "--listen %s: %s", spec, strerror(errno));
	if (setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(l->fd, &a.any, len) || listen(l->fd, SOMAXCONN))
		return error_set(err, -errno, "--listen %s: %s%s", spec, strerror(errno),
				 errno == EADDRNOTAVAIL ? " (is the interface lo up?)" : "");
	name_tcp(l);
	return 0;
}

/* --- Unix ----------------------------------------------------------------------------------------
 */

/* Remove what a process that is gone has left at the path: 0, or why it must stay. */
static int remove_stale(const struct sockaddr_un *a, struct error *err)
{
	struct stat st;

	if (lstat(a->sun_path, &st))
		return errno == ENOENT ? 0
				       : error_set(err, -errno, "--listen unix:%s: %s", a->sun_path,
						   strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, -EEXIST,
				 "--listen unix:%s: there is a file that is no socket",
				 a->sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(err, -errno, "--listen unix:%s: %s", a->sun_path, strerror(errno));
	bool dead = connect(fd, (const struct sockaddr *)a, sizeof(*a)) && errno == ECONNREFUSED;
	close(fd);
	if (!dead)
		return error_set(err, -EADDRINUSE,
				 "--listen unix:%s: another process listens on it", a->sun_path);
	if (unlink(a->sun_path))
		return error_set(err, -errno, "--listen unix:%s: %s", a->sun_path, strerror(errno));
	return 0;
}

static int open_unix(const char *path, struct listener *l, struct error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;

	if (!*path || strlen(path) >= sizeof(a.sun_path))
		return error_set(err, -EINVAL,
				 "--listen unix:%s: the path must have 1 to %zu bytes", path,
				 sizeof(a.sun_path) - 1);
	memcpy(a.sun_path, path, strlen(path) + 1);
	int rc = remove_stale(&a, err);
	if (rc)
		return rc;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0 || bind(l->fd, (const struct sockaddr *)&a, sizeof(a)))
		return error_set(err, -errno, "--listen unix:%s: %s", path, strerror(errno));
	l->is_unix = true;
	memcpy(l->path, a.sun_path, sizeof(l->path));
	/* Nobody can connect before listen, so nobody slips in before the mode is set. */
	if (lstat(path, &st) || chmod(path, 0660) || listen(l->fd, SOMAXCONN)) {
		rc = error_set(err, -errno, "--listen unix:%s: %s", path, strerror(errno));
		unlink(path);
		return rc;
	}
	l->has_file = true;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	snprintf(l->text, sizeof(l->text), "unix:%s", path);
	return 0;
}

int listener_open(const char *spec, bool has_tls, struct listener *out, struct error *err)
{
	struct listener l = {.fd = -1};
	int rc = strncmp(spec, "unix:", 5) ? open_tcp(spec, has_tls, &l, err)
					   : open_unix(spec + 5, &l, err);

	if (rc) {
		if (l.fd >= 0)
			close(l.fd);
		return rc;
	}
	*out = l;
	return 0;
}

void listener_close(struct listener *l)
{
	struct stat st;

	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	if (l->has_file && !lstat(l->path, &st) && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->path);
	/* The rest stays as it is: threads of connections may look at it. */
	l->has_file = false;
}
