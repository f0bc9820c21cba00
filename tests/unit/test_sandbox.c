/* What a confined process cannot do any more, and what it still can: each in a child of its own,
 * which really is confined. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/server/auth.h"
#include "control/confine.h"
#include "schema/store_tokens.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/prng.h"
#include "tests/unit/raw_http.h"

static char dir[64];

/* Run in a child: true if it ends by itself and says 0. What it says else is the line that failed.
 */
static void in_child(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(run());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
	ck_assert_msg(WEXITSTATUS(status) == 0, "exit status %d", WEXITSTATUS(status));
}

/* Exit statuses have 8 bits. */
#define MUST(n, condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%d: %s (errno %d)\n", __LINE__, #condition, errno);       \
			return n;                                                                  \
		}                                                                                  \
	} while (0)

/* --- what is refused -----------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	long call;
	long a, b, c, d;
} forbidden[] = {
	{"execve", SYS_execve, 0, 0, 0, 0},
	{"execveat", SYS_execveat, -1, 0, 0, 0},
	{"fork", SYS_fork, 0, 0, 0, 0},
	{"vfork", SYS_vfork, 0, 0, 0, 0},
	{"kill", SYS_kill, 1, 0, 0, 0},
	{"tkill", SYS_tkill, 1, 0, 0, 0},
	{"process_vm_readv", SYS_process_vm_readv, 1, 0, 0, 0},
	{"process_vm_writev", SYS_process_vm_writev, 1, 0, 0, 0},
	{"pidfd_open", SYS_pidfd_open, 1, 0, 0, 0},
	{"open_by_handle_at", SYS_open_by_handle_at, 0, 0, 0, 0},
	{"mount", SYS_mount, 0, 0, 0, 0},
	{"umount2", SYS_umount2, 0, 0, 0, 0},
	{"pivot_root", SYS_pivot_root, 0, 0, 0, 0},
	{"chroot", SYS_chroot, 0, 0, 0, 0},
	{"unshare", SYS_unshare, CLONE_NEWUSER, 0, 0, 0},
	{"setns", SYS_setns, -1, 0, 0, 0},
	{"setuid", SYS_setuid, 0, 0, 0, 0},
	{"setresuid", SYS_setresuid, 0, 0, 0, 0},
	{"setgroups", SYS_setgroups, 0, 0, 0, 0},
	{"capset", SYS_capset, 0, 0, 0, 0},
	{"seccomp", SYS_seccomp, 0, 0, 0, 0},
	{"init_module", SYS_init_module, 0, 0, 0, 0},
	{"finit_module", SYS_finit_module, -1, 0, 0, 0},
	{"delete_module", SYS_delete_module, 0, 0, 0, 0},
	{"kexec_load", SYS_kexec_load, 0, 0, 0, 0},
	{"reboot", SYS_reboot, 0, 0, 0, 0},
	{"swapon", SYS_swapon, 0, 0, 0, 0},
	{"settimeofday", SYS_settimeofday, 0, 0, 0, 0},
	{"sethostname", SYS_sethostname, 0, 0, 0, 0},
	{"iopl", SYS_iopl, 0, 0, 0, 0},
	{"perf_event_open", SYS_perf_event_open, 0, 0, 0, 0},
	{"userfaultfd", SYS_userfaultfd, 0, 0, 0, 0},
	{"io_uring_setup", SYS_io_uring_setup, 1, 0, 0, 0},
	{"memfd_create", SYS_memfd_create, 0, 0, 0, 0},
	{"keyctl", SYS_keyctl, 0, 0, 0, 0},
	{"add_key", SYS_add_key, 0, 0, 0, 0},
	{"fanotify_init", SYS_fanotify_init, 0, 0, 0, 0},
	{"mknod", SYS_mknod, 0, 0, 0, 0},
	{"link", SYS_link, 0, 0, 0, 0},
	{"symlink", SYS_symlink, 0, 0, 0, 0},
	{"chmod", SYS_chmod, 0, 0, 0, 0},
	{"chown", SYS_chown, 0, 0, 0, 0},
	{"setxattr", SYS_setxattr, 0, 0, 0, 0},
	{"acct", SYS_acct, 0, 0, 0, 0},
	{"quotactl", SYS_quotactl, 0, 0, 0, 0},
	{"syslog", SYS_syslog, 0, 0, 0, 0},
	{"socket AF_VSOCK", SYS_socket, AF_VSOCK, SOCK_STREAM, 0, 0},
	{"socket AF_ALG", SYS_socket, AF_ALG, SOCK_SEQPACKET, 0, 0},
	{"socket AF_BLUETOOTH", SYS_socket, AF_BLUETOOTH, SOCK_RAW, 0, 0},
	{"bpf MAP_CREATE", SYS_bpf, BPF_MAP_CREATE, 0, 0, 0},
	{"bpf PROG_LOAD", SYS_bpf, BPF_PROG_LOAD, 0, 0, 0},
	{"bpf OBJ_PIN", SYS_bpf, BPF_OBJ_PIN, 0, 0, 0},
	{"ioctl TIOCSTI", SYS_ioctl, 0, TIOCSTI, 0, 0},
	{"ioctl TIOCSTI, with more bits", SYS_ioctl, 0, TIOCSTI | 1l << 32, 0, 0},
	{"prlimit of another", SYS_prlimit64, 1, 0, 0, 0},
#if !SANITIZED /* for which the list is wider */
	{"ptrace", SYS_ptrace, 0, 0, 0, 0},
	{"clone", SYS_clone, SIGCHLD, 0, 0, 0},
	{"clone NEWUSER", SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0},
	{"mmap EXEC", SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS},
	{"mprotect EXEC", SYS_mprotect, 0, 4096, PROT_EXEC, 0},
	{"prctl SET_SECCOMP", SYS_prctl, PR_SET_SECCOMP, 0, 0, 0},
	{"prctl SET_DUMPABLE", SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0},
	{"tgkill of another", SYS_tgkill, 1, 1, 0, 0},
#endif
};

static int all_forbidden(void)
{
	for (size_t i = 0; i < ARRAY_LEN(forbidden); i++) {
		errno = 0;
		long rc = syscall(forbidden[i].call, forbidden[i].a, forbidden[i].b, forbidden[i].c,
				  forbidden[i].d, -1, 0);
		if (rc != -1 || errno != EPERM) {
			fprintf(stderr, "%s: %ld, errno %d\n", forbidden[i].name, rc, errno);
			return 1;
		}
	}
	errno = 0;
	return syscall(SYS_clone3, 0, 0) != -1 || errno != ENOSYS;
}

static int refused(void)
{
	struct error err;

	/* Not by want of rights: this process keeps all of root's. */
	MUST(2, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	MUST(3, confine_calls(&err) == 0);
	return all_forbidden();
}

START_TEST(calls_are_refused)
{
	in_child(refused);
}
END_TEST

/* --- threads that were there before, and those that come -----------------------------------------
 */

static int gate;

static void *try_later(void *arg)
{
	uint64_t n;

	if (read(gate, &n, sizeof(n)) != (ssize_t)sizeof(n))
		return NULL;
	*(int *)arg = all_forbidden();
	return NULL;
}

static void *try_now(void *arg)
{
	*(int *)arg = all_forbidden();
	return NULL;
}

static int with_threads(void)
{
	const uint64_t one = 1;
	int before = -1, after = -1;
	pthread_t old, young;
	struct error err;

	gate = eventfd(0, EFD_CLOEXEC);
	MUST(2, pthread_create(&old, NULL, try_later, &before) == 0);
	MUST(3, confine_enter(false, &err) == -EBUSY); /* its capabilities would stay */
	MUST(4, confine_calls(&err) == 0);
	MUST(5, write(gate, &one, sizeof(one)) == (ssize_t)sizeof(one));
	MUST(6, pthread_join(old, NULL) == 0 && before == 0);
	MUST(7, pthread_create(&young, NULL, try_now, &after) == 0);
	MUST(8, pthread_join(young, NULL) == 0 && after == 0);
	return 0;
}

START_TEST(threads_are_confined)
{
	in_child(with_threads);
}
END_TEST

/* --- rights --------------------------------------------------------------------------------------
 */

static int rights(void)
{
	cap_flag_value_t there;
	struct error err;
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/others", dir);
	MUST(2, (fd = open(path, O_CREAT | O_WRONLY, 0600)) >= 0);
	MUST(3, fchown(fd, 4711, 4711) == 0 && close(fd) == 0);
	MUST(4, confine_enter(false, &err) == 0);
	cap_t have = cap_get_proc();
	for (cap_value_t cap = 0; cap < cap_max_bits(); cap++) {
		bool kept = cap == CAP_NET_ADMIN || cap == CAP_NET_RAW;
		for (cap_flag_t flag = CAP_EFFECTIVE; flag <= CAP_INHERITABLE; flag++) {
			MUST(5, cap_get_flag(have, cap, flag, &there) == 0);
			MUST(6, (there == CAP_SET) == (kept && flag != CAP_INHERITABLE));
		}
		MUST(7, cap_get_bound(cap) == kept);
	}
	cap_free(have);
	MUST(9, open(path, O_RDONLY) == -1 && errno == EACCES); /* even as root */
	MUST(10, all_forbidden() == 0);
	return 0;
}

START_TEST(rights_are_given_up)
{
	char path[96];

	in_child(rights);
	snprintf(path, sizeof(path), "%s/others", dir);
	unlink(path);
}
END_TEST

/* --- what goes on working ------------------------------------------------------------------------
 */

static int make_map(void)
{
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.map_type = BPF_MAP_TYPE_HASH;
	a.key_size = a.value_size = 4;
	a.max_entries = 8;
	return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof(a));
}

static int use_map(int fd)
{
	uint32_t key = 1, value = 2;
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.map_fd = (uint32_t)fd;
	a.key = (uintptr_t)&key;
	a.value = (uintptr_t)&value;
	return (int)syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &a, sizeof(a));
}

/* A forwarder's own: maps, AF_XDP, threads, big memory. */
static int forward(void)
{
	int map = make_map();
	struct error err;

	MUST(2, map >= 0);
	MUST(3, confine_enter(false, &err) == 0);
	MUST(4, use_map(map) == 0);
	int xsk = socket(AF_XDP, SOCK_RAW, 0);
	MUST(5, xsk >= 0);
	size_t len = 64u << 10;
	void *umem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(6, umem != MAP_FAILED && madvise(umem, len, MADV_HUGEPAGE) == 0);
	struct xdp_umem_reg reg = {.addr = (uintptr_t)umem, .len = len, .chunk_size = 4096};
	MUST(7, setsockopt(xsk, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) == 0);
	MUST(8, socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
	MUST(9, socket(AF_PACKET, SOCK_RAW, 0) >= 0);
	return 0;
}

START_TEST(forwarding_goes_on)
{
	in_child(forward);
}
END_TEST

/* The API with its database, over both kinds of sockets, and the thread that the store makes. */
static int serve(void)
{
	static const char get[] = "GET /v1/vips HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	char path[96], where[112];
	const char *listen[] = {where, "127.0.0.1:0"};
	const struct http_config config = {.n = 2, .listen = listen};
	struct store_token t = {.id = "t", .role = "read", .created_s = 1};
	struct http_server *server;
	struct api_context api;
	struct http_answer a;
	struct store *store;
	struct error err;

	snprintf(path, sizeof(path), "%s/db", dir);
	snprintf(where, sizeof(where), "unix:%s/sock", dir);
	memset(&api_fake, 0, sizeof(api_fake));
	api_fake_context(&api);
	MUST(2, store_open(path, &store, &err) == 0);
	MUST(3, http_open(&config, &server, &err) == 0);
	MUST(4, confine_enter(false, &err) == 0);
	MUST(5, http_start(server, &api, &err) == 0);
	MUST(6, store_put_token(store, &t, &err) == 0);
	for (unsigned i = 0; i < 2; i++) {
		int fd = http_connect(http_listener_text(server, i));
		MUST(7, fd >= 0 && http_send(fd, get, sizeof(get) - 1));
		http_read(fd, false, &a);
		MUST(8, a.status == (i ? 403 : 200)); /* Host: x is no loopback's name */
		http_answer_free(&a);
		close(fd);
	}
	http_close(server);
	store_close(store);
	MUST(9, unlink(path) == 0);
	return 0;
}

START_TEST(serving_goes_on)
{
	in_child(serve);
}
END_TEST

static int abort_now(void)
{
	struct error err;

	return confine_enter(false, &err) ? 1 : (abort(), 2);
}

/* A broken invariant still ends the process, by its proper signal. */
START_TEST(abort_works)
{
	const struct rlimit none = {0, 0};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		setrlimit(RLIMIT_CORE, &none);
		_exit(abort_now());
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

static void set_up(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_sandbox.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
	rmdir(dir);
}

int main(void)
{
	Suite *s = suite_create("sandbox");
	TCase *tc = tcase_create("sandbox");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, calls_are_refused);
	tcase_add_test(tc, threads_are_confined);
	tcase_add_test(tc, rights_are_given_up);
	tcase_add_test(tc, forwarding_goes_on);
	tcase_add_test(tc, serving_goes_on);
	tcase_add_test(tc, abort_works);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
