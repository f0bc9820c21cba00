/* A list of what is allowed. What is not gets EPERM, and the process goes on: a call that some
 * library makes one day in a corner of its own must not end the forwarding of packets, and a call
 * that an intruder makes is refused as well. The kernel's log names each one (audit type 1326)
 * where kernel.seccomp.actions_logged has "errno".
 *
 * Nothing here runs programs, makes processes, changes who we are or where we live, looks into
 * others, or makes memory executable. Where a call does many things, its arguments are looked at;
 * what stands behind a pointer cannot be. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/confine.h"

static const int plain[] = {
	/* files: database and log, flow slots, certificates, /proc and /sys */
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(pread64),
	SCMP_SYS(preadv),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(pwrite64),
	SCMP_SYS(pwritev),
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(close),
	SCMP_SYS(lseek),
	SCMP_SYS(stat),
	SCMP_SYS(fstat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(statfs),
	SCMP_SYS(fstatfs),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getcwd),
	SCMP_SYS(getdents64),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(flock),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchown),
	SCMP_SYS(fcntl),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	/* memory */
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(mlock),
	SCMP_SYS(munlock),
	SCMP_SYS(msync),
	/* sockets, once they are made */
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(connect),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(setsockopt),
	SCMP_SYS(getsockopt),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(recvmmsg),
	SCMP_SYS(sendfile),
	/* waiting */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(eventfd2),
	SCMP_SYS(pipe),
	SCMP_SYS(pipe2),
	SCMP_SYS(signalfd4),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(futex),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(restart_syscall),
	/* threads */
	SCMP_SYS(clone3), /* see hide_clone3 */
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(getpriority),
	SCMP_SYS(setpriority),
	SCMP_SYS(membarrier),
	SCMP_SYS(getcpu),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(sigaltstack),
	/* asking */
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(getrandom),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(capget),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(times),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(umask),
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* their leak checker stops all threads from a process of its own */
	SCMP_SYS(clone),
	SCMP_SYS(wait4),
	SCMP_SYS(ptrace),
	SCMP_SYS(tgkill),
	SCMP_SYS(prctl),
	SCMP_SYS(personality),
	SCMP_SYS(getppid),
	SCMP_SYS(mmap),
	SCMP_SYS(mprotect),
#endif
};

/* Calls with an argument that must be one of some. */
struct choice {
	int call;
	unsigned argument;
	uint64_t value;
};

static const struct choice choices[] = {
	{SCMP_SYS(socket), 0, AF_UNIX},
	{SCMP_SYS(socket), 0, AF_INET},
	{SCMP_SYS(socket), 0, AF_INET6},
	{SCMP_SYS(socket), 0, AF_NETLINK},
	{SCMP_SYS(socket), 0, AF_PACKET},
	{SCMP_SYS(socket), 0, AF_XDP},
	{SCMP_SYS(socketpair), 0, AF_UNIX},
	/* entries of maps, and questions; nothing is loaded any more */
	{SCMP_SYS(bpf), 0, BPF_MAP_LOOKUP_ELEM},
	{SCMP_SYS(bpf), 0, BPF_MAP_UPDATE_ELEM},
	{SCMP_SYS(bpf), 0, BPF_MAP_DELETE_ELEM},
	{SCMP_SYS(bpf), 0, BPF_MAP_GET_NEXT_KEY},
	{SCMP_SYS(bpf), 0, BPF_OBJ_GET_INFO_BY_FD},
	{SCMP_SYS(bpf), 0, BPF_PROG_GET_FD_BY_ID},
	{SCMP_SYS(prctl), 0, PR_SET_NAME},
	{SCMP_SYS(prctl), 0, PR_GET_NAME},
	{SCMP_SYS(prctl), 0, PR_CAPBSET_READ},
	{SCMP_SYS(ioctl), 1, FIONREAD},
	{SCMP_SYS(ioctl), 1, FIONBIO},
	{SCMP_SYS(ioctl), 1, TCGETS}, /* isatty */
	{SCMP_SYS(ioctl), 1, SIOCETHTOOL},
	{SCMP_SYS(ioctl), 1, SIOCGIFNAME},
	{SCMP_SYS(ioctl), 1, SIOCGIFINDEX},
	{SCMP_SYS(ioctl), 1, SIOCGIFFLAGS},
	{SCMP_SYS(ioctl), 1, SIOCGIFMTU},
	{SCMP_SYS(ioctl), 1, SIOCGIFHWADDR},
	{SCMP_SYS(ioctl), 1, SIOCGIFADDR},
	/* our own limits */
	{SCMP_SYS(prlimit64), 0, 0},
};

static int allow_choices(scmp_filter_ctx f)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < ARRAY_LEN(choices); i++) {
		const struct choice *c = &choices[i];
		/* The kernel looks at 32 bits of these. */
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, c->call, 1,
				      SCMP_CMP(c->argument, SCMP_CMP_MASKED_EQ, UINT32_MAX,
					       c->value & UINT32_MAX));
	}
	return rc;
}

static int allow_with_arguments(scmp_filter_ctx f)
{
	const scmp_datum_t process = (scmp_datum_t)getpid();

	/* Memory is data. */
	int rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (!rc)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* Threads, no processes. */
	if (!rc)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	/* abort() */
	if (!rc)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				      SCMP_A0(SCMP_CMP_EQ, process));
	return rc;
}

static int fill(scmp_filter_ctx f)
{
	int rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_LOG, 1);

	if (!rc)
		rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; !rc && i < ARRAY_LEN(plain); i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, plain[i], 0);
	if (!rc)
		rc = allow_choices(f);
	if (!rc)
		rc = allow_with_arguments(f);
	return rc;
}

/* The flags of this call stand behind a pointer. The C library does without it where it is not
 * there, and asks for it with each thread: a filter of its own, so that the log does not tell each
 * time. */
static int hide_clone3(scmp_filter_ctx f)
{
	return seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int install(uint32_t otherwise, int (*fill_filter)(scmp_filter_ctx))
{
	scmp_filter_ctx f = seccomp_init(otherwise);

	if (!f)
		return -ENOMEM;
	int rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!rc)
		rc = fill_filter(f);
	if (!rc)
		rc = seccomp_load(f);
	seccomp_release(f);
	return rc;
}

int confine_calls(struct error *err)
{
	int rc = install(SCMP_ACT_ALLOW, hide_clone3);

	if (!rc)
		rc = install(SCMP_ACT_ERRNO(EPERM), fill);
	return rc ? error_set(err, -EIO, "cannot filter system calls: %s (CONFIG_SECCOMP_FILTER?)",
			      strerror(-rc))
		  : 0;
}
