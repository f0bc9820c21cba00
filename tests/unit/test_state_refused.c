/* What opening the state file refuses: bad arguments, hostile directories, and file systems too
 * small, where nothing that is there gets lost. */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/state_fixture.h"

START_TEST(test_refused)
{
	struct state_file_config c = state_config(STATE_TEST_FLOWS, 0);

	state_wipe();
	state_check_refused(&c, -EINVAL, "workers");
	c.n_workers = STATE_WORKERS_MAX + 1;
	state_check_refused(&c, -EINVAL, "workers");
	c = state_config((uint64_t)STATE_FLOWS_MAX + 1, 1);
	state_check_refused(&c, -EINVAL, "flows");
	ck_assert_int_eq(access(state_dir, F_OK), -1);
	c = state_config(STATE_TEST_FLOWS, 1);

	state_sh("mkdir $D; chmod 0777 $D");
	state_check_refused(&c, -EPERM, "other users can write");
	state_sh("chmod 0755 $D; mkdir $D/flows");
	state_check_refused(&c, -EISDIR, "flows");
	state_sh("rmdir $D/flows; mkfifo $D/flows");
	state_check_refused(&c, -EINVAL, "not a regular file");
	state_sh("rm $D/flows; ln -s /etc/passwd $D/flows");
	state_check_refused(&c, -ELOOP, "flows");
	state_sh("rm $D/flows; mkdir $D/rings.0");
	state_check_refused(&c, -EISDIR, "rings.0");
	state_sh("rm -r $D; ln -s /tmp $D");
	state_check_refused(&c, -ENOTDIR, state_dir);
	state_sh("rm $D; touch $D");
	state_check_refused(&c, -ENOTDIR, state_dir);
	state_sh("rm $D");
	if (geteuid() == 0) {
		state_sh("mkdir -m 700 $D; chown 12345 $D");
		state_check_refused(&c, -EPERM, "uid 12345");
		state_wipe();
	}
	char deep[80];
	snprintf(deep, sizeof(deep), "%s/a/b", state_dir);
	c.dir = deep;
	state_check_refused(&c, -ENOENT, "cannot make it");
	state_file_close(state_open(STATE_TEST_FLOWS, 1)); /* and after all that it works */
}
END_TEST

/* Something takes space in the state directory. */
static bool files_there(void)
{
	struct statvfs vfs;

	return statvfs(state_dir, &vfs) != 0 || vfs.f_bfree != vfs.f_blocks;
}

/* In a mount namespace of its own, on 8 MiB. Returns the line that failed, or 0. */
static int small_disk_child(void)
{
	struct state_file_config c = state_config(1u << 20, 1);
	struct error err = {""};
	struct state_file *f;
	struct stat st;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mkdir(state_dir, 0700) != 0 ||
	    mount("tmpfs", state_dir, "tmpfs", 0, "size=8m,mode=0700") != 0)
		return __LINE__;
	if (state_file_open(&c, &f, &err) != -ENOSPC || !strstr(err.message, state_dir) ||
	    !strstr(err.message, "67112960 bytes") || !strstr(err.message, "8388608"))
		return __LINE__;
	if (files_there())
		return __LINE__;
	c.n_flows =
		(5u << 20) / 64; /* fits, but its rings do not: nothing stays that takes space */
	if (state_file_open(&c, &f, &err) != -ENOSPC || !strstr(err.message, "rings.0") ||
	    files_there())
		return __LINE__;
	for (c.n_workers = 2; c.n_workers > 0; c.n_workers--) { /* half of what rings leave */
		c.n_flows = 0;
		int rc = state_file_open(&c, &f, &err);
		if (c.n_workers == 2) {
			if (rc != -ENOSPC || !strstr(err.message, "rings") || files_there())
				return __LINE__;
			continue;
		}
		if (rc != 0 || state_file_n_flows(f) < 25000 || state_file_n_flows(f) > 34000)
			return __LINE__;
		state_file_close(f);
	}
	c.n_workers = 1;
	c.n_flows = STATE_TEST_FLOWS;
	if (chdir(state_dir) != 0 || unlink("flows") != 0 || state_file_open(&c, &f, &err) != 0)
		return __LINE__;
	if (state_file_status(f) != STATE_NEW)
		return __LINE__;
	state_fill(f);
	state_file_close(f);
	c.n_flows = 1u << 20; /* cannot grow: the old one stays whole */
	if (state_file_open(&c, &f, &err) != -ENOSPC)
		return __LINE__;
	/* grows, but then a second worker's rings do not fit: it shrinks back, the first one's stay
	 */
	c.n_flows = (2u << 20) / 64;
	c.n_workers = 2;
	if (state_file_open(&c, &f, &err) != -ENOSPC || !strstr(err.message, "rings.1") ||
	    access("rings.1", F_OK) == 0 || stat("flows", &st) != 0 ||
	    st.st_size != 4096 + STATE_TEST_FLOWS * 64)
		return __LINE__;
	c.n_workers = 1;
	c.n_flows = STATE_TEST_FLOWS;
	if (state_file_open(&c, &f, &err) != 0 || state_file_status(f) != STATE_KEPT ||
	    state_file_n_flows(f) != STATE_TEST_FLOWS || !state_slots_kept(f, STATE_TEST_FLOWS) ||
	    !state_rings_are(f, 0, 1, state_ring_kept))
		return __LINE__;
	state_file_close(f);
	if (unlink("flows") != 0 || unlink("rings.0") != 0 ||
	    mount(NULL, state_dir, NULL, MS_REMOUNT, "size=16m") != 0)
		return __LINE__;
	c.n_flows = 0;
	if (state_file_open(&c, &f, &err) != 0)
		return __LINE__;
	size_t rings = ((size_t)16 << 20) - state_file_n_flows(f) * 64 * 2;
	if (rings < 65536u * 64 || rings > 65536u * 64 + 16384)
		return __LINE__;
	state_file_close(f);
	if (unlink("flows") != 0 || mount(NULL, state_dir, NULL, MS_REMOUNT, "size=4204k") != 0)
		return __LINE__;
	if (state_file_open(&c, &f, &err) != -ENOSPC || !strstr(err.message, "too few"))
		return __LINE__;
	return 0;
}

START_TEST(test_small_disk)
{
	int status;

	state_wipe();
	pid_t pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) != 0)
			_exit(errno == EPERM ? 255 : 254);
		int line = small_disk_child();
		if (line)
			printf("failed at line %d\n", line);
		fflush(stdout);
		_exit(line ? 1 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 255)
		puts("small disk: skipped (needs root)");
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	state_wipe();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("state_refused");
	TCase *tc = tcase_create("state_refused");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_refused);
	tcase_add_test(tc, test_small_disk);
	suite_add_tcase(suite, tc);
	return state_run(suite);
}
