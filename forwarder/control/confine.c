/* What is needed after the start, and by whom: CAP_NET_ADMIN for attaching steer again, the
 * neighbours' table, busy polling; CAP_NET_RAW for AF_XDP sockets. Entries of BPF maps are written
 * through descriptors, for which the kernel (since 5.19) asks no more. Files are opened with the
 * rights of the user alone, as CAP_DAC_OVERRIDE goes too.
 *
 * Niceness is inherited: main raises its own before, and threads on which packets wait are made
 * with it.
 *
 * Packet memory is registered with the kernel anew when a worker's last interface comes back, and
 * counts as locked then. The kernel takes either a limit or a capability for that. The limit needs
 * no trust, so it is lifted here, or was by who started us (LimitMEMLOCK=); where neither could be
 * (a container without CAP_SYS_RESOURCE) CAP_IPC_LOCK stays if the operator says so. */
#include "control/confine.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#ifdef __SANITIZE_THREAD__
#define THREADS 2u /* and the sanitizer's own */
#else
#define THREADS 1u
#endif

#define GONE_MS 2000 /* an ended thread's time to leave */
#define LOOK_US 500

static const cap_value_t kept[] = {CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK};
#define N_KEPT 2u /* where locked memory has no limit */

static unsigned count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned n = 0;

	if (!tasks)
		return 0;
	for (const struct dirent *e; (e = readdir(tasks)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(tasks);
	return n;
}

/* How many threads there are besides those that have ended: the kernel wakes who joins a thread
 * before it strikes it off its lists, milliseconds before on a busy machine. */
static unsigned wait_for_ended(void)
{
	uint64_t deadline_ms = clock_now_ms() + GONE_MS;
	unsigned n;

	while ((n = count_threads()) > THREADS && clock_now_ms() < deadline_ms)
		usleep(LOOK_US);
	return n;
}

static void raise_limit(__rlimit_resource_t resource, rlim_t wanted)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) || limit.rlim_cur >= wanted)
		return;
	if (limit.rlim_max < wanted)
		limit.rlim_max = wanted;
	limit.rlim_cur = wanted;
	if (setrlimit(resource, &limit))
		log_debug("concuryd", "limit %d stays: %s", (int)resource, strerror(errno));
}

/* How many of the list are kept. */
static unsigned count_kept(bool keep_ipc_lock)
{
	struct rlimit limit;

	raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY)
		return N_KEPT;
	if (keep_ipc_lock)
		return ARRAY_LEN(kept);
	log_info("concuryd", "locked memory has a limit: an interface that vanishes may need a "
			     "restart to be served again (LimitMEMLOCK=infinity in the unit or "
			     "ulimit -l unlimited, else --keep-ipc-lock)");
	return N_KEPT;
}

static bool is_kept(cap_value_t cap, unsigned n_kept)
{
	for (size_t i = 0; i < n_kept; i++)
		if (kept[i] == cap)
			return true;
	return false;
}

/* Without CAP_SETPCAP the bounding set stays: no program can be run that would gain by it. */
static void drop_bounding_set(unsigned n_kept)
{
	for (cap_value_t cap = 0; cap < cap_max_bits(); cap++)
		if (!is_kept(cap, n_kept) && cap_get_bound(cap) == 1 && cap_drop_bound(cap))
			return;
}

static int drop_capabilities(unsigned n_kept)
{
	cap_t had = cap_get_proc();
	cap_t have = cap_init();
	int rc = had && have ? 0 : -ENOMEM;

	for (size_t i = 0; !rc && i < n_kept; i++) {
		cap_flag_value_t there = CAP_CLEAR;
		if (cap_get_flag(had, kept[i], CAP_PERMITTED, &there) ||
		    cap_set_flag(have, CAP_PERMITTED, 1, &kept[i], there) ||
		    cap_set_flag(have, CAP_EFFECTIVE, 1, &kept[i], there))
			rc = -errno;
	}
	if (!rc && (cap_reset_ambient() || cap_set_proc(have)))
		rc = -errno;
	cap_free(had);
	cap_free(have);
	return rc;
}

int confine_enter(bool keep_ipc_lock, struct error *err)
{
	unsigned n = wait_for_ended();

	if (!n || n > THREADS)
		return error_set(err, -EBUSY, "cannot give up privileges: %u threads", n);
	unsigned n_kept = count_kept(keep_ipc_lock);
	drop_bounding_set(n_kept);
	int rc = drop_capabilities(n_kept);
	if (!rc && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		rc = -errno;
	if (rc)
		return error_set(err, -EIO, "cannot give up privileges: %s", strerror(-rc));
	return confine_calls(err);
}
