/* The protocol of sd_notify(3) is one datagram, and promised to stay as it is: no reason for a
 * library that brings a compressor, a crypto library and the journal along. */
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

static int send_state(const char *path, const char *state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t len = strlen(path);

	if (len >= sizeof(to.sun_path) || (*path != '/' && *path != '@'))
		return -EINVAL;
	memcpy(to.sun_path, path, len);
	if (*path == '@') /* the abstract namespace */
		to.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	ssize_t n = sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
			   (const struct sockaddr *)&to,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	int rc = n < 0 ? -errno : 0;
	close(fd);
	return rc;
}

void notify_manager(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");

	if (!path || !*path)
		return;
	int rc = send_state(path, state);
	if (rc)
		log_warning("notify", "%s: %s is not told (%s)", path, state, strerror(-rc));
}
