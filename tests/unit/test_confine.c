/* Giving up privileges, in processes of their own: with threads that are about to be gone, and with
 * some that stay. (What is left after it is for the end-to-end tests.) The processes are this
 * program again, with an argument: in one that was only forked a sanitizer has more threads. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
	return -confine_enter(&err);
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

int main(int argc, char **argv)
{
	if (argc == 2)
		_exit(enter_beside(strcmp(argv[1], "leave") == 0 ? leave : stay));

	Suite *s = suite_create("confine");
	TCase *tc = tcase_create("confine");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, waits_for_ending_threads);
	tcase_add_test(tc, refuses_beside_threads);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
