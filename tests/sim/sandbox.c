#include "tests/sim/sandbox.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Who is not root is it in a user namespace, as himself. */
static bool own_mounts(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char users[32], groups[32];

	if (unshare(CLONE_NEWNS) == 0)
		return true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return false;
	snprintf(users, sizeof(users), "%u %u 1", uid, uid);
	snprintf(groups, sizeof(groups), "%u %u 1", gid, gid);
	return put("/proc/self/setgroups", "deny") && put("/proc/self/gid_map", groups) &&
	       put("/proc/self/uid_map", users);
}

void sandbox_enter(void)
{
	if (!own_mounts() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, NULL) != 0)
		fprintf(stderr, "/dev/shm is the machine's: what a kill leaves there stays\n");
}
