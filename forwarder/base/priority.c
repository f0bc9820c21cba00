/* All packets wait while control has the workers parked, and a worker's packets while it waits for
 * a core. On a machine whose cores others want too (its own backends, a flood's softirqs in a
 * neighbour) a thread of ordinary niceness waits for tens of milliseconds, and a publish for the
 * slowest worker. Niceness and not a real-time class: a thread that spins still leaves others a
 * share. */
#include "base/priority.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int priority_raise(void)
{
	/* Linux keeps niceness by thread, not by process as POSIX has it. */
	id_t self = (id_t)syscall(SYS_gettid);

	errno = 0;
	int now = getpriority(PRIO_PROCESS, self);
	if (errno || now <= PRIORITY_NICE)
		return -errno;
	return setpriority(PRIO_PROCESS, self, PRIORITY_NICE) ? -errno : 0;
}

void priority_drop(void)
{
	id_t self = (id_t)syscall(SYS_gettid);

	/* What is given up needs no right, so this cannot fail. */
	if (getpriority(PRIO_PROCESS, self) == PRIORITY_NICE)
		(void)setpriority(PRIO_PROCESS, self, 0);
}
