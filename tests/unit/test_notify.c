/* The service manager: a socket of ours, by path and in the abstract namespace. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/notify.h"

static char path[108];
static int manager = -1;
static FILE *log_file;
static int old_stderr;

/* What is logged from here on is read by logged(). */
static void catch_log(void)
{
	log_file = tmpfile();
	ck_assert_ptr_nonnull(log_file);
	fflush(stderr);
	old_stderr = dup(STDERR_FILENO);
	ck_assert_int_ge(dup2(fileno(log_file), STDERR_FILENO), 0);
}

static const char *logged(void)
{
	static char text[512];

	ck_assert_int_ge(dup2(old_stderr, STDERR_FILENO), 0);
	close(old_stderr);
	rewind(log_file);
	text[fread(text, 1, sizeof(text) - 1, log_file)] = '\0';
	fclose(log_file);
	return text;
}

static void open_manager(bool abstract)
{
	struct sockaddr_un own = {.sun_family = AF_UNIX};

	snprintf(path, sizeof(path), "%s/tmp/concury-test-notify.%d", abstract ? "@" : "",
		 (int)getpid());
	size_t len = strlen(path);
	memcpy(own.sun_path, path, len);
	if (abstract)
		own.sun_path[0] = '\0';
	else
		unlink(path);
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(manager, 0);
	ck_assert_int_eq(bind(manager, (struct sockaddr *)&own,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
			 0);
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", path, 1), 0);
}

static void close_manager(void)
{
	close(manager);
	if (*path == '/')
		unlink(path);
}

START_TEST(is_told)
{
	char got[64];

	open_manager(_i);
	catch_log();
	notify_manager("READY=1");
	ck_assert_str_eq(logged(), "");
	ck_assert_int_eq(recv(manager, got, sizeof(got), 0), 7);
	ck_assert_mem_eq(got, "READY=1", 7);
	ck_assert_int_eq(recv(manager, got, sizeof(got), 0), -1);
	ck_assert_int_eq(errno, EAGAIN);
	close_manager();
}
END_TEST

START_TEST(nobody_asks)
{
	int next = dup(STDERR_FILENO);

	close(next);
	catch_log();
	unsetenv("NOTIFY_SOCKET");
	notify_manager("READY=1");
	setenv("NOTIFY_SOCKET", "", 1);
	notify_manager("READY=1");
	ck_assert_str_eq(logged(), "");
	/* And no descriptor is left. */
	int now = dup(STDERR_FILENO);
	ck_assert_int_eq(now, next);
	close(now);
}
END_TEST

static void refused(const char *where, const char *why)
{
	catch_log();
	setenv("NOTIFY_SOCKET", where, 1);
	notify_manager("STOPPING=1");
	const char *line = logged();
	ck_assert_msg(strstr(line, "STOPPING=1 is not told") && strstr(line, why), "%s: %s", where,
		      line);
}

START_TEST(cannot_be_told)
{
	char full[32], too_long[128] = "/";

	refused("/nonexistent/notify", "No such file");
	refused("relative", "Invalid argument");
	memset(too_long + 1, 'a', sizeof(too_long) - 2);
	refused(too_long, "Invalid argument");
	/* One that does not read holds nobody up. */
	open_manager(false);
	int n = 0;
	for (const char *line = ""; !*line && n < 100000; n++) {
		catch_log();
		notify_manager("READY=1");
		line = logged();
		snprintf(full, sizeof(full), "%s", *line ? "full" : "");
	}
	ck_assert_str_eq(full, "full");
	ck_assert_int_gt(n, 1);
	close_manager();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("notify");
	TCase *t = tcase_create("notify");

	tcase_add_loop_test(t, is_told, 0, 2);
	tcase_add_test(t, nobody_asks);
	tcase_add_test(t, cannot_be_told);
	tcase_set_timeout(t, 30);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
