/* The state file: what is kept is kept byte for byte over kills, other capacities and other numbers
 * of workers; what is not kept is all zero. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/state_fixture.h"

static void overwrite(const char *name, size_t at, const void *data, size_t n)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", state_dir, name);
	fd = open(path, O_RDWR);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, data, n, (off_t)at), n);
	close(fd);
}

START_TEST(test_new)
{
	struct stat st;
	struct state_file *f;

	state_wipe();
	f = state_open(STATE_TEST_FLOWS, 3);
	ck_assert_int_eq(stat(state_dir, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
	ck_assert_int_eq(state_file_status(f), STATE_NEW);
	ck_assert_uint_eq(state_file_n_flows(f), STATE_TEST_FLOWS);
	ck_assert_uint_eq(state_file_n_workers(f), 3);
	ck_assert_uint_eq((uintptr_t)state_file_slots(f) % 4096, 0);
	ck_assert(state_slots_zero(f, 0));
	ck_assert(state_rings_are(f, 0, 3, state_ring_new));
	for (unsigned r = 0; r < N_LEARN_RINGS; r++)
		ck_assert_uint_eq(
			(uintptr_t)state_file_ring(f, 1, (enum learn_ring_id)r) % CACHE_LINE, 0);
	state_fill(f); /* nothing overlaps */
	ck_assert(state_slots_kept(f, STATE_TEST_FLOWS) &&
		  state_rings_are(f, 0, 3, state_ring_kept));
	state_file_close(f);
	state_file_close(NULL);
}
END_TEST

START_TEST(test_kept_over_kill)
{
	struct state_file *f;
	int fds[2], status;
	char ready;

	state_wipe();
	ck_assert_int_eq(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		state_fill(state_open(STATE_TEST_FLOWS, 2));
		if (write(fds[1], "r", 1) == 1)
			pause();
		_exit(1);
	}
	ck_assert_int_eq(read(fds[0], &ready, 1), 1);
	struct state_file_config c = state_config(STATE_TEST_FLOWS, 2);
	state_check_refused(&c, -EBUSY, "in use by another process");
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	close(fds[0]);
	close(fds[1]);

	f = state_open(STATE_TEST_FLOWS, 2);
	ck_assert_int_eq(state_file_status(f), STATE_KEPT);
	ck_assert(state_slots_kept(f, STATE_TEST_FLOWS) &&
		  state_rings_are(f, 0, 2, state_ring_kept));
	state_check_refused(&c, -EBUSY, state_dir);
	state_file_close(f);
}
END_TEST

START_TEST(test_learned)
{
	struct state_file *f;

	state_wipe();
	f = state_open(STATE_TEST_FLOWS, 1);
	ck_assert(!state_file_learned(f));
	state_file_close(f);
	f = state_open(STATE_TEST_FLOWS, 1);
	ck_assert_int_eq(state_file_status(f), STATE_KEPT);
	ck_assert(!state_file_learned(f)); /* nobody has said so yet */
	state_file_set_learned(f, true);
	state_file_close(f);
	f = state_open(STATE_TEST_FLOWS + 1000, 2); /* more of each loses nothing */
	ck_assert_int_eq(state_file_status(f), STATE_KEPT);
	ck_assert(state_file_learned(f));
	state_file_set_learned(f, false);
	state_file_close(f);
	f = state_open(STATE_TEST_FLOWS, 1);
	ck_assert(!state_file_learned(f));
	state_file_close(f);
}
END_TEST

START_TEST(test_other_capacity)
{
	struct state_file *f;

	state_leave_filled();
	f = state_open(3 * STATE_TEST_FLOWS, 2); /* grows */
	ck_assert_int_eq(state_file_status(f), STATE_KEPT);
	ck_assert_uint_eq(state_file_n_flows(f), 3 * STATE_TEST_FLOWS);
	ck_assert(state_slots_kept(f, STATE_TEST_FLOWS) && state_slots_zero(f, STATE_TEST_FLOWS) &&
		  state_rings_are(f, 0, 2, state_ring_kept));
	state_fill(f);
	state_file_close(f);
	for (int i = 0; i < 2; i++) { /* keeps its size for less, and for the default */
		f = state_open(i ? 0 : 10, 2);
		ck_assert_int_eq(state_file_status(f), STATE_KEPT);
		ck_assert_uint_eq(state_file_n_flows(f), 3 * STATE_TEST_FLOWS);
		ck_assert(state_slots_kept(f, 3 * STATE_TEST_FLOWS) &&
			  state_rings_are(f, 0, 2, state_ring_kept));
		state_file_close(f);
	}
}
END_TEST

START_TEST(test_other_workers)
{
	struct state_file *f;

	state_leave_filled();
	f = state_open(STATE_TEST_FLOWS, 4); /* more: theirs are new */
	ck_assert_uint_eq(state_file_n_workers(f), 4);
	ck_assert(state_slots_kept(f, STATE_TEST_FLOWS) &&
		  state_rings_are(f, 0, 2, state_ring_kept));
	ck_assert(state_rings_are(f, 2, 4, state_ring_new));
	state_fill(f);
	for (unsigned r = 0; r < N_LEARN_RINGS; r++) /* all read but the last of worker 2 */
		for (unsigned w = 1; w < 4; w++) {
			struct learn_ring *ring = state_file_ring(f, w, (enum learn_ring_id)r);
			ring->tail = ring->head - (w == 2 && r == N_LEARN_RINGS - 1);
		}
	state_file_close(f);

	f = state_open(STATE_TEST_FLOWS,
		       1); /* fewer: rings are shown up to the last with a record */
	ck_assert_int_eq(state_file_status(f), STATE_KEPT);
	ck_assert_uint_eq(state_file_n_workers(f), 3);
	ck_assert(state_rings_are(f, 0, 1, state_ring_kept));
	struct learn_ring *left = state_file_ring(f, 2, N_LEARN_RINGS - 1);
	ck_assert_uint_eq(left->head - left->tail, 1);
	left->tail++;
	state_file_close(f);
	f = state_open(STATE_TEST_FLOWS, 1); /* drained: gone */
	ck_assert_uint_eq(state_file_n_workers(f), 1);
	ck_assert(state_rings_are(f, 0, 1, state_ring_kept));
	state_file_close(f);
	state_sh("test ! -e $D/rings.1 -a ! -e $D/rings.3");
	f = state_open(STATE_TEST_FLOWS, 8);
	ck_assert(state_rings_are(f, 1, 8, state_ring_new));
	state_file_close(f);
	f = state_open(STATE_TEST_FLOWS, 1);
	ck_assert_uint_eq(state_file_n_workers(f), 1);
	state_file_close(f);
}
END_TEST

static void check_replaced(const struct state_file_config *c, const char *why)
{
	struct state_file *f = state_open_with(c);

	ck_assert_msg(state_file_status(f) == STATE_REPLACED, "%s", why);
	ck_assert_msg(state_slots_zero(f, 0), "%s", why);
	ck_assert_msg(state_rings_are(f, 0, 2, state_ring_new), "%s", why);
	state_file_close(f);
	f = state_open_with(c);
	ck_assert_msg(state_file_status(f) == STATE_KEPT, "%s", why);
	state_file_close(f);
}

/* Offset of the boot id in the header page. */
static size_t find_boot_id(void)
{
	char id[36], header[4096], path[100];
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

	ck_assert(f && fread(id, 1, sizeof(id), f) == sizeof(id));
	fclose(f);
	snprintf(path, sizeof(path), "%s/flows", state_dir);
	f = fopen(path, "r");
	ck_assert(f && fread(header, 1, sizeof(header), f) == sizeof(header));
	fclose(f);
	char *at = memmem(header, sizeof(header), id, sizeof(id));
	ck_assert_ptr_nonnull(at);
	return (size_t)(at - header);
}

START_TEST(test_replaced)
{
	struct state_file_config c = state_config(STATE_TEST_FLOWS, 2);

	state_leave_filled();
	c.database_id[15] = 1;
	check_replaced(&c, "database id");
	c = state_config(STATE_TEST_FLOWS, 2);

	state_leave_filled();
	overwrite("flows", find_boot_id(), "00000000", 8);
	check_replaced(&c, "boot id");

	state_leave_filled();
	overwrite("flows", 0, "something else", 14);
	check_replaced(&c, "magic");

	state_leave_filled();
	state_sh("truncate -s -1 $D/flows");
	check_replaced(&c, "cut by a byte");

	state_leave_filled();
	state_sh("truncate -s 100 $D/flows");
	check_replaced(&c, "cut within the header");

	state_leave_filled();
	state_sh("head -c 100000 /dev/urandom > $D/flows");
	check_replaced(&c, "random");

	/* Allocated, but killed before the header was whole. */
	state_leave_filled();
	state_sh("s=$(stat -c %s $D/flows); truncate -s 0 $D/flows; truncate -s $s $D/flows");
	check_replaced(&c, "all zero");

	/* Removed: the rings that are left belong to other slots. */
	state_leave_filled();
	state_sh("rm $D/flows");
	struct state_file *f = state_open(STATE_TEST_FLOWS, 2);
	ck_assert_int_eq(state_file_status(f), STATE_NEW);
	ck_assert(state_slots_zero(f, 0) && state_rings_are(f, 0, 2, state_ring_new));
	state_file_close(f);
}
END_TEST

/* Any byte of the header changed: kept whole or replaced whole, and never a capacity beyond the
 * file. */
START_TEST(test_header_damage)
{
	size_t n_replaced = 0;

	for (int i = 0; i < 40; i++) {
		size_t at = (size_t)rand() % 128;
		uint8_t byte = (uint8_t)(1 + rand() % 255), old;
		struct state_file *f;
		char path[100];

		state_leave_filled();
		snprintf(path, sizeof(path), "%s/flows", state_dir);
		int fd = open(path, O_RDONLY);
		ck_assert_int_eq(pread(fd, &old, 1, (off_t)at), 1);
		close(fd);
		byte ^= old;
		overwrite("flows", at, &byte, 1);
		f = state_open(100, 2);
		if (state_file_status(f) == STATE_REPLACED) {
			ck_assert_uint_eq(state_file_n_flows(f), 100);
			ck_assert(state_slots_zero(f, 0) &&
				  state_rings_are(f, 0, 2, state_ring_new));
			n_replaced++;
		} else {
			ck_assert_uint_le(state_file_n_flows(f), STATE_TEST_FLOWS);
			ck_assert(state_slots_kept(f, state_file_n_flows(f)));
		}
		state_file_close(f);
	}
	ck_assert_uint_gt(n_replaced, 15);
}
END_TEST

START_TEST(test_ring_damage)
{
	struct learn_ring bad = {.head = 40000, .tail = 1, .n = STATE_OPENING_RECORDS};
	struct learn_ring wrong_n = {.n = STATE_OPENING_RECORDS / 2};
	struct learn_ring behind = {.head = 1, .tail = 2, .n = STATE_OPENING_RECORDS};

	for (int i = 0; i < 5; i++) {
		struct state_file *f;

		state_leave_filled();
		f = state_open(STATE_TEST_FLOWS, 2);
		state_file_set_learned(f, true);
		state_file_close(f);
		if (i == 0)
			overwrite("rings.1", 4096, &bad, sizeof(bad));
		else if (i == 1)
			overwrite("rings.1", 4096, &wrong_n, sizeof(wrong_n));
		else if (i == 2)
			overwrite("rings.1", 4096, &behind, sizeof(behind));
		else if (i == 3)
			state_sh("truncate -s -64 $D/rings.1");
		else
			state_sh("cp $D/flows $D/rings.1");
		f = state_open(STATE_TEST_FLOWS, 2);
		ck_assert_int_eq(state_file_status(f), STATE_KEPT);
		ck_assert_msg(state_slots_kept(f, STATE_TEST_FLOWS) &&
				      state_rings_are(f, 0, 1, state_ring_kept),
			      "%d", i);
		ck_assert_msg(state_rings_are(f, 1, 2, state_ring_new), "%d", i);
		ck_assert_msg(!state_file_learned(f), "%d: records are lost", i);
		state_file_close(f);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("state_file");
	TCase *tc = tcase_create("state_file");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_new);
	tcase_add_test(tc, test_kept_over_kill);
	tcase_add_test(tc, test_learned);
	tcase_add_test(tc, test_other_capacity);
	tcase_add_test(tc, test_other_workers);
	tcase_add_test(tc, test_replaced);
	tcase_add_test(tc, test_header_damage);
	tcase_add_test(tc, test_ring_damage);
	suite_add_tcase(suite, tc);
	return state_run(suite);
}
