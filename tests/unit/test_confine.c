/* Giving up privileges, in processes of their own: with threads that are about to be gone, and with
 * some that stay; with locked memory that has a limit, and without. (What is left of a whole
 * concuryd is for the end-to-end tests.) The processes are this program again, with an argument: in
 * one that was only forked a sanitizer has more threads. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "control/confine.h"

#define LEAVE_US 100000
#define N_THREADS 2 /* a sanitizer may have one of its own, which counts as none */

static void *leave(void *arg)
{
	usleep(LEAVE_US);
	return arg;
}

static void *stay(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static int enter_beside(void *(*f)(void *))
{
	struct error err;
	pthread_t thread;

	for (unsigned i = 0; i < N_THREADS; i++)
		if (pthread_create(&thread, NULL, f, NULL) || pthread_detach(thread))
			return 255;
	return -confine_enter(false, &err);
}

/* Not everybody who runs this may lift the limit of locked memory, so it is as if. */
static rlim_t locked_memory;

int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_setrlimit(__rlimit_resource_t resource, const struct rlimit *limit);

int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
	if (syscall(SYS_prlimit64, 0, resource, NULL, limit))
		return -1;
	if (resource == RLIMIT_MEMLOCK && locked_memory)
		limit->rlim_cur = limit->rlim_max = locked_memory;
	return 0;
}

int __wrap_setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	if (resource == RLIMIT_MEMLOCK && locked_memory) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_prlimit64, 0, resource, limit, NULL);
}

/* Which of the three are left, as bits; 128: another is, or it cannot be told. */
static int enter_with_limit(rlim_t limit, bool keep_ipc_lock)
{
	static const cap_value_t known[] = {CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK};
	struct error err;
	int left = 0;

	locked_memory = limit;
	if (confine_enter(keep_ipc_lock, &err))
		return 128;
	cap_t have = cap_get_proc();
	for (cap_value_t cap = 0; have && cap < cap_max_bits(); cap++) {
		cap_flag_value_t there = CAP_CLEAR;
		int bit = 128;

		if (cap_get_flag(have, cap, CAP_PERMITTED, &there) || !there)
			continue;
		for (unsigned i = 0; i < ARRAY_LEN(known); i++)
			if (known[i] == cap)
				bit = 1 << i;
		left |= bit;
	}
	return have ? left : 128;
}

/* The exit code of a process that does it. */
static int in_process(const char *what)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/proc/self/exe", "test_confine", what, NULL);
		_exit(254);
	}
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(waits_for_ending_threads)
{
	ck_assert_int_eq(in_process("leave"), 0);
}
END_TEST

START_TEST(refuses_beside_threads)
{
	ck_assert_int_eq(in_process("stay"), EBUSY);
}
END_TEST

/* The kernel takes one of the two for packet memory that is registered anew, and the operator says.
 */
START_TEST(keeps_what_locks_memory)
{
	ck_assert_int_eq(in_process("unlimited"), 1 | 2);
	ck_assert_int_eq(in_process("limited"), 1 | 2);
	ck_assert_int_eq(in_process("limited-kept"), 1 | 2 | 4);
}
END_TEST

static int act(const char *what)
{
	if (strcmp(what, "unlimited") == 0)
		return enter_with_limit(RLIM_INFINITY, true);
	if (strcmp(what, "limited") == 0)
		return enter_with_limit(8 << 20, false);
	if (strcmp(what, "limited-kept") == 0)
		return enter_with_limit(8 << 20, true);
	return enter_beside(strcmp(what, "leave") == 0 ? leave : stay);
}

int main(int argc, char **argv)
{
	if (argc == 2)
		_exit(act(argv[1]));

	Suite *s = suite_create("confine");
	TCase *tc = tcase_create("confine");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, waits_for_ending_threads);
	tcase_add_test(tc, refuses_beside_threads);
	tcase_add_test(tc, keeps_what_locks_memory);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
