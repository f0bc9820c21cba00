/* The worker's loop and the park protocol, with real threads. The pipeline is replaced by one that
 * touches plain variables which control touches too while it holds the workers: a packet that is
 * handled under a hold shows as a wrong value here, as a race under ThreadSanitizer, or as a use of
 * a freed snapshot under AddressSanitizer. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/priority.h"
#include "tests/unit/frames.h"
#include "tests/unit/scarce_memory.h"
#include "tests/unit/steered_port.h"
#include "worker/pipeline.h"

#define WORKERS 2
#define QUEUES STEERED_QUEUES

static uint64_t published; /* plain: changed only under a hold */
static _Atomic unsigned n_violations;

/* In place of worker/pipeline.c: all of a snapshot that is still published holds one value. */
void pipeline_burst(struct worker *w, const struct snapshot *s, struct frame *frames, unsigned n,
		    uint64_t now_ms)
{
	struct steered_port *t = (struct steered_port *)w->port;
	unsigned q = (unsigned)frames[0].addr;

	if (s->generation != published || s->match_seed != published ||
	    t->seen_generation > published)
		atomic_fetch_add(&n_violations, 1);
	t->seen_generation = s->generation;
	t->n_bursts++;
	t->last_ms = now_ms;
	t->bursts_of_queue[q]++;
	t->last_queue = q;
	port_free(w->port, frames, n);
}

/* No fragments come, so none are held. */
void pipeline_burst_held(struct worker *w, const struct snapshot *s, struct frame *frames,
			 unsigned n, uint64_t now_ms)
{
	(void)w, (void)s, (void)frames, (void)now_ms;
	if (n != 0)
		atomic_fetch_add(&n_violations, 1);
}

/* --- fixture -------------------------------------------------------------------------------------
 */

static struct steered_port ports[WORKERS];
static struct worker *workers[WORKERS];
static struct learn_ring *rings[WORKERS][N_LEARN_RINGS];

static struct snapshot *test_snapshot(uint64_t generation)
{
	struct snapshot *s = calloc(1, sizeof(*s));

	ck_assert_ptr_nonnull(s);
	s->generation = s->match_seed = generation;
	return s;
}

static struct worker_config config_of(unsigned i)
{
	struct worker_config c = {.id = i, .cpu = -1, .port = &ports[i].port};

	memcpy(c.rings, rings[i], sizeof(c.rings));
	return c;
}

static void set_up_rings(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		steered_port_init(&ports[i]);
		for (int r = 0; r < N_LEARN_RINGS; r++) {
			rings[i][r] = hugemem_alloc(learn_ring_bytes(8), NULL);
			rings[i][r]->n = 8;
		}
	}
}

static void tear_down_rings(void)
{
	for (unsigned i = 0; i < WORKERS; i++)
		for (int r = 0; r < N_LEARN_RINGS; r++)
			hugemem_free(rings[i][r], 0);
	ck_assert_int_eq(allocs_live, 0);
	ck_assert_uint_eq(atomic_load(&n_violations), 0);
}

static struct snapshot *set_up(enum traffic traffic)
{
	struct snapshot *s = test_snapshot(++published);

	set_up_rings();
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker_config c = config_of(i);
		ports[i].traffic = traffic;
		ck_assert_int_eq(worker_new(&c, &workers[i]), 0);
		worker_set_snapshot(workers[i], s);
	}
	return s;
}

static void start(void)
{
	for (unsigned i = 0; i < WORKERS; i++)
		ck_assert_int_eq(worker_start(workers[i]), 0);
}

static void tear_down(struct snapshot *s)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		worker_stop(workers[i]);
		worker_free(workers[i]);
	}
	free(s);
	tear_down_rings();
}

static void hold(void)
{
	workers_hold(workers, WORKERS);
	ck_assert_int_eq(workers_wait_parked(workers, WORKERS, -1), 0);
	ck_assert(workers_parked(workers, WORKERS));
}

static void release(void)
{
	workers_release(workers, WORKERS);
}

static void wait_for(_Atomic unsigned *value, unsigned at_least)
{
	while (atomic_load(value) < at_least)
		sched_yield();
}

/* Bursts of worker i so far, read under a hold of its own. */
static uint64_t bursts(unsigned i)
{
	workers_hold(&workers[i], 1);
	ck_assert_int_eq(workers_wait_parked(&workers[i], 1, -1), 0);
	uint64_t n = ports[i].n_bursts;
	workers_release(&workers[i], 1);
	return n;
}

static void wait_for_bursts(unsigned i, uint64_t at_least)
{
	while (bursts(i) < at_least)
		sched_yield();
}

/* --- without threads -----------------------------------------------------------------------------
 */

START_TEST(test_new_errors)
{
	set_up_rings();
	struct worker_config c = config_of(0);
	struct worker *w = NULL;
	int live = allocs_live;

	rings[0][RING_DATAGRAM]->n = 3;
	ck_assert_int_eq(worker_new(&c, &w), -EINVAL);
	rings[0][RING_DATAGRAM]->n = 8;
	for (int n = 0; n < 4; n++) { /* the seen cache, the loss marks, the counters, the DIPs' */
		allocs_left = n;
		ck_assert_int_eq(worker_new(&c, &w), -ENOMEM);
		ck_assert_int_eq(allocs_live, live);
	}
	allocs_left = -1;
	ck_assert_int_eq(worker_new(&c, &w), 0);
	worker_stop(w); /* not started: nothing to do */
	worker_free(w);
	worker_free(NULL);
	tear_down_rings();
}
END_TEST

START_TEST(test_start_errors)
{
	struct snapshot *s = set_up(NONE);

	workers[0]->cpu = 1 << 20; /* no machine has it */
	ck_assert_int_lt(worker_start(workers[0]), 0);
	ck_assert(workers_parked(workers, 1));
	workers[0]->cpu = -1;
	ck_assert_int_eq(worker_start(workers[0]), 0);
	tear_down(s);
}
END_TEST

START_TEST(test_round)
{
	struct snapshot *s = set_up(STEADY);
	struct steered_port *t = &ports[0];
	uint64_t before_ms = clock_now_ms();
	unsigned total = 0, last_queues[QUEUES] = {0};

	for (unsigned i = 1; i <= 30; i++) {
		total += worker_round(workers[0]);
		ck_assert_uint_eq(atomic_load(&t->n_flushes), i);
		ck_assert_uint_eq(t->n_bursts, i * QUEUES);
		for (unsigned q = 0; q < QUEUES; q++)
			ck_assert_uint_eq(t->bursts_of_queue[q], i);
		last_queues[t->last_queue]++;
	}
	ck_assert_uint_eq(total, t->n_frames);
	ck_assert(t->last_ms >= before_ms && t->last_ms <= clock_now_ms());
	for (unsigned q = 0; q < QUEUES; q++) /* each is the last in turn */
		ck_assert_uint_eq(last_queues[q], 10);
	t->traffic = NONE;
	ck_assert_uint_eq(worker_round(workers[0]), 0);
	ck_assert_uint_eq(atomic_load(&t->n_flushes), 31); /* completions are reaped all the same */
	tear_down(s);
}
END_TEST

/* --- with threads --------------------------------------------------------------------------------
 */

START_TEST(test_not_started_is_parked)
{
	struct snapshot *s = set_up(STEADY);

	hold();
	start(); /* under the hold: they may not begin */
	usleep(20000);
	ck_assert(workers_parked(workers, WORKERS));
	ck_assert_uint_eq(ports[0].n_bursts + ports[1].n_bursts, 0);
	release();
	wait_for_bursts(0, 1);
	wait_for_bursts(1, 1);
	tear_down(s);
}
END_TEST

START_TEST(test_stop_and_start_again)
{
	struct snapshot *s = set_up(ON_AND_OFF);

	for (int i = 0; i < 20; i++) {
		uint64_t before = ports[0].n_bursts;
		start();
		wait_for_bursts(0, before + 1);
		if (i % 2) /* stopped while held: must not wait for the release */
			hold();
		for (unsigned k = 0; k < WORKERS; k++)
			worker_stop(workers[k]);
		ck_assert(workers_parked(workers, WORKERS));
		if (i % 2)
			release();
		ck_assert(workers_parked(workers, WORKERS));
	}
	tear_down(s);
}
END_TEST

/* The niceness of our thread of that name; 100: there is none. */
static int niceness_of(const char *thread)
{
	DIR *tasks = opendir("/proc/self/task");
	int niceness = 100;

	ck_assert_ptr_nonnull(tasks);
	for (struct dirent *e; (e = readdir(tasks));) {
		char path[64], name[32];
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", e->d_name);
		FILE *f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) && strncmp(name, thread, strlen(thread)) == 0)
			niceness = getpriority(PRIO_PROCESS, (id_t)strtoul(e->d_name, NULL, 10));
		fclose(f);
	}
	closedir(tasks);
	return niceness;
}

START_TEST(test_runs_before_others)
{
	struct snapshot *s = set_up(STEADY);
	int own = getpriority(PRIO_PROCESS, 0);

	start();
	for (unsigned k = 0; k < WORKERS; k++) {
		char name[16];
		wait_for_bursts(k, 1);
		snprintf(name, sizeof(name), "worker-%u\n", workers[k]->id);
		ck_assert_int_eq(niceness_of(name), PRIORITY_NICE);
	}
	for (unsigned k = 0; k < WORKERS; k++)
		worker_stop(workers[k]);
	ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), own);
	tear_down(s);
}
END_TEST

/* A sleeper that nobody wakes but worker_stop. */
START_TEST(test_stop_wakes)
{
	struct snapshot *s = set_up(NONE);

	ports[0].block_sleep = ports[1].block_sleep = true;
	start();
	wait_for(&ports[0].in_sleep, 1);
	ck_assert_uint_ge(counter_read(&workers[0]->counters->sleeps), 1);
	tear_down(s); /* the case's timeout is the check */
}
END_TEST

START_TEST(test_asleep_is_parked)
{
	struct snapshot *s = set_up(NONE);
	struct steered_port *t = &ports[0];

	t->block_sleep = true;
	start();
	wait_for(&t->in_sleep, 1);
	hold();
	ck_assert_uint_eq(atomic_load(&t->n_wakes), 0); /* nobody had to wake it */
	/* it wakes up by itself, to traffic, and still may not touch a packet */
	unsigned rounds = t->n_rx;
	t->traffic = STEADY;
	steered_port_set(t, &t->block_sleep, false);
	port_wake(&t->port);
	while (atomic_load(&t->in_sleep))
		sched_yield();
	usleep(20000);
	ck_assert(workers_parked(workers, WORKERS));
	ck_assert_uint_eq(t->n_rx, rounds);
	ck_assert_uint_eq(t->n_bursts, 0);
	release();
	wait_for_bursts(0, 1);
	tear_down(s);
}
END_TEST

/* The worker is held within each of many empty rounds, so within the one before it would sleep too:
 * it parks instead, and the hold is not lost. */
START_TEST(test_hold_before_sleep)
{
	struct snapshot *s = set_up(NONE);
	struct steered_port *t = &ports[0];

	t->block_rx = true;
	ck_assert_int_eq(worker_start(workers[0]), 0);
	for (unsigned i = 1; i <= 500; i++) {
		wait_for(&t->in_rx, 1);
		workers_hold(workers, 1);
		steered_port_set(t, &t->block_rx, false);
		ck_assert_int_eq(workers_wait_parked(workers, 1, -1), 0);
		ck_assert_uint_eq(atomic_load(&workers[0]->state), WORKER_PARKED | WORKER_HOLD);
		ck_assert_uint_eq(t->n_rx, i * QUEUES);
		steered_port_set(t, &t->block_rx, true);
		workers_release(workers, 1);
	}
	steered_port_set(t, &t->block_rx, false);
	tear_down(s);
}
END_TEST

/* Who changes ports: none is inside its own, sleepers are waked, and what there is of queues
 * afterwards is what is looked at. */
START_TEST(test_still) /* _i: enum traffic */
{
	struct snapshot *s = set_up((enum traffic)_i);

	workers_hold(workers, WORKERS);
	workers_wait_still(workers, WORKERS); /* not started */
	release();
	ports[0].block_sleep = ports[1].block_sleep = true;
	start();
	for (unsigned i = 0; i < 300; i++) {
		if (_i == NONE && i < 10)
			wait_for(&ports[i % WORKERS].in_sleep, 1);
		workers_hold(workers, WORKERS);
		workers_wait_still(workers, WORKERS);
		for (unsigned w = 0; w < WORKERS; w++) {
			struct steered_port *t = &ports[w];
			uint32_t state = atomic_load(&workers[w]->state) & WORKER_STATE_MASK;

			/* A thread that is not there yet is still, too. */
			ck_assert(state == WORKER_PARKED || state == WORKER_STOPPED);
			ck_assert_uint_eq(atomic_load(&t->in_rx), 0);
			ck_assert_uint_eq(atomic_load(&t->in_sleep), 0);
			t->port.n_queues = (i + w) % (QUEUES + 1);
			memset(t->bursts_of_queue, 0, sizeof(t->bursts_of_queue));
		}
		release();
		if (i % 8 == 0)
			usleep(500);
		hold();
		for (unsigned w = 0; w < WORKERS; w++)
			for (unsigned q = ports[w].port.n_queues; q < QUEUES; q++)
				ck_assert_uint_eq(ports[w].bursts_of_queue[q], 0);
		release();
	}
	tear_down(s);
}
END_TEST

START_TEST(test_wait_times_out)
{
	struct snapshot *s = set_up(STEADY);
	struct steered_port *t = &ports[1];

	t->block_rx = true;
	start();
	wait_for(&t->in_rx, 1);
	workers_hold(workers, WORKERS);
	ck_assert_int_eq(workers_wait_parked(workers, WORKERS, 0), -ETIMEDOUT);
	uint64_t before_ms = clock_now_ms();
	ck_assert_int_eq(workers_wait_parked(workers, WORKERS, 30), -ETIMEDOUT);
	ck_assert_uint_ge(clock_now_ms() - before_ms, 29);
	ck_assert(!workers_parked(workers, WORKERS));
	ck_assert_int_eq(workers_wait_parked(workers, 1, -1), 0); /* the other one is */
	/* given up: both go on */
	uint64_t before = ports[0].n_bursts;
	release();
	wait_for_bursts(0, before + 1);
	/* asked again, it parks as soon as it can */
	workers_hold(workers, WORKERS);
	steered_port_set(t, &t->block_rx, false);
	ck_assert_int_eq(workers_wait_parked(workers, WORKERS, -1), 0);
	release();
	wait_for_bursts(1, 1);
	tear_down(s);
}
END_TEST

/* Thousands of publishes: under each hold control owns all plain variables, changes them, frees the
 * old snapshot, and finds after a while what it left there. */
static struct snapshot *publish(struct snapshot *old, uint64_t *rng,
				uint64_t frames_before[WORKERS])
{
	hold();
	struct snapshot *s = test_snapshot(++published);
	for (unsigned i = 0; i < WORKERS; i++) {
		ck_assert_uint_ge(ports[i].n_frames, frames_before[i]);
		ports[i].n_bursts = published;
		worker_set_snapshot(workers[i], s);
	}
	memset(old, 0xa5, sizeof(*old));
	free(old);
	uint64_t r = frames_random(rng);
	if (r % 4 == 0)
		port_wake(&ports[r / 4 % WORKERS].port);
	for (unsigned n = (unsigned)(r >> 32) % 8; n; n--)
		sched_yield();
	for (unsigned i = 0; i < WORKERS; i++) {
		ck_assert_uint_eq(ports[i].n_bursts, published);
		frames_before[i] = ports[i].n_frames;
	}
	release();
	if (r % 16 == 0)
		usleep(300);
	return s;
}

START_TEST(test_publishes) /* _i: enum traffic */
{
	struct snapshot *s = set_up((enum traffic)_i);
	uint64_t rng = frames_seed(), frames[WORKERS] = {0};

	ports[0].sleep_ms_max = 1;
	ports[1].sleep_ms_max = 0;
	start();
	for (int i = 0; i < 2000; i++)
		s = publish(s, &rng, frames);
	for (unsigned i = 0; i < WORKERS; i++) {
		ck_assert_uint_gt(frames[i], 0);
		ck_assert(_i == STEADY || atomic_load(&ports[i].n_sleeps) > 0);
	}
	tear_down(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker");
	TCase *tc = tcase_create("worker");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_new_errors);
	tcase_add_test(tc, test_start_errors);
	tcase_add_test(tc, test_round);
	tcase_add_test(tc, test_not_started_is_parked);
	tcase_add_test(tc, test_stop_and_start_again);
	tcase_add_test(tc, test_runs_before_others);
	tcase_add_test(tc, test_stop_wakes);
	tcase_add_test(tc, test_asleep_is_parked);
	tcase_add_test(tc, test_hold_before_sleep);
	tcase_add_loop_test(tc, test_still, NONE, STEADY + 1);
	tcase_add_test(tc, test_wait_times_out);
	tcase_add_loop_test(tc, test_publishes, STEADY, ON_AND_OFF + 1);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
