/* The forwarding thread and the park protocol.
 *
 * Control swaps snapshots, and empties the learn rings to the last record, while every worker
 * stands still; then no reader is left on the old snapshot and no packet is between "looked up" and
 * "recorded". Standing still is agreed on in one word for each worker, state | flags, by
 * sequentially consistent operations. All that touches packets, snapshot or rings is worker_round,
 * and the thread calls it only in state RUNNING:
 *
 *   worker                                          control
 *   -> RUNNING   CAS, only from a word without HOLD hold:    word |= HOLD
 *   -> ASLEEP    CAS, only from a word without HOLD parked:  state is not RUNNING
 *   -> PARKED    between two rounds, when it sees   ...      drain, swap the pointer, free
 *                HOLD; wakes control                release: word &= ~HOLD, wake
 *   -> STOPPED   as its last act; wakes control
 *
 * Why no packet is touched between "held and parked" and release: after hold, the word has HOLD
 * until release, so every CAS to RUNNING fails: once control has read a state other than RUNNING,
 * the worker stays out of worker_round. Each way out of RUNNING comes after the round's last access
 * and control's read of the new state after that, so what the worker did has happened before what
 * control does; in the same way all of control's doing has happened before the CAS to RUNNING that
 * finds HOLD gone, and the worker loads the snapshot pointer after it.
 *
 * A sleeper in port_sleep counts as parked without being waked: when it wakes up by itself, it
 * finds HOLD, is PARKED from then on and waits on the futex. Who would change the port itself has
 * to wake it and wait for that, since the sleeper is inside the driver (workers_wait_still). A
 * RUNNING worker that meets HOLD on its way to sleep parks instead.
 *
 * tests/model/park.pml is this protocol as a model that spin checks in every state; W1.., C1.. and
 * S1.. below name its steps. */
#include "worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/priority.h"
#include "worker/pipeline.h"

/* Empty rounds before a worker sleeps: some ten microseconds. More would save wake-ups between
 * bursts, but where backends and workers share cores, a spinning worker takes its own backends'
 * time. */
#define IDLE_ROUNDS SIM_SIZE(200u, 2u)

/* A sleep's length at the most: sent frames' buffers are reaped at least so often. */
#define SLEEP_MS 100

/* So too while fragments wait, whose first may come by another worker. */
#define SLEEP_HOLDING_MS 1

/* How long control looks at a word before it waits in the kernel: about two bursts. */
#define WAIT_SPINS 64u

/* --- the word ------------------------------------------------------------------------------------
 */

static enum worker_state state_of(uint32_t word)
{
	return (enum worker_state)(word & WORKER_STATE_MASK);
}

/* Wait until the word is no longer `word`, a wake-up, or the timeout (NULL: none). */
static void word_wait(_Atomic uint32_t *w, uint32_t word, const struct timespec *timeout)
{
	if (FAULT_WAIT())
		return; /* for nothing, perhaps, as from a futex */
	syscall(SYS_futex, w, FUTEX_WAIT_PRIVATE, word, timeout, NULL, 0);
}

static void word_wake(_Atomic uint32_t *w)
{
	syscall(SYS_futex, w, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Change the state, keep the flags; returns the new word. Only the worker changes its state, so it
 * cannot fail, but flags may come and go meanwhile. */
static uint32_t state_set(struct worker *w, enum worker_state to)
{
	uint32_t word = atomic_load(&w->state);

	while (!atomic_compare_exchange_weak(&w->state, &word,
					     (word & ~WORKER_STATE_MASK) | (uint32_t)to))
		;
	return (word & ~WORKER_STATE_MASK) | (uint32_t)to;
}

/* From any other state to RUNNING as soon as there is no hold; false if the worker shall end. */
static bool enter_running(struct worker *w)
{
	uint32_t word = atomic_load(&w->state); /* W1 */

	for (;;) {
		if (word & WORKER_QUIT) /* W2 */
			return false;
		if ((word & WORKER_HOLD) && state_of(word) == WORKER_ASLEEP) { /* W3a */
			word = state_set(w, WORKER_PARKED);
			word_wake(&w->state);
		} else if (word & WORKER_HOLD) { /* W3 */
			word_wait(&w->state, word, NULL);
			word = atomic_load(&w->state);
		} else if (atomic_compare_exchange_weak(&w->state, &word, WORKER_RUNNING)) {
			return true; /* W4 */
		}
	}
}

/* --- the thread ----------------------------------------------------------------------------------
 */

unsigned worker_round(struct worker *w)
{
	const struct snapshot *s = atomic_load_explicit(&w->snapshot, memory_order_acquire);
	struct frame frames[BURST_MAX];
	unsigned n_queues = w->port->n_queues;
	unsigned q = w->first_queue < n_queues ? w->first_queue : 0; /* there may be fewer now */
	uint64_t now_ms = 0;
	unsigned total = 0;

	for (unsigned i = 0; i < n_queues; i++) {
		unsigned n = port_rx(w->port, q, frames, BURST_MAX);
		if (n != 0) {
			if (now_ms == 0)
				now_ms = clock_now_ms();
			pipeline_burst(w, s, frames, n, now_ms);
			total += n;
		}
		if (++q == n_queues)
			q = 0;
	}
	/* the first queue finds the emptiest TX rings: let each be the first in turn */
	if (++w->first_queue >= n_queues)
		w->first_queue = 0;
	if (unlikely(fragments_wait(&w->fragments)))
		fragments_release(w);
	port_flush(w->port);
	return total;
}

/* Between two rounds, HOLD or QUIT seen. */
static bool park(struct worker *w)
{
	uint32_t word = state_set(w, WORKER_PARKED); /* W9 */

	if (word & WORKER_HOLD)
		word_wake(&w->state); /* W10 */
	return enter_running(w);
}

static bool sleep_until_traffic(struct worker *w)
{
	uint32_t word = WORKER_RUNNING;

	if (!atomic_compare_exchange_strong(&w->state, &word, WORKER_ASLEEP)) /* W7 */
		return park(w);
	counter_add(&w->counters->sleeps, 1);
	port_sleep(w->port, fragments_wait(&w->fragments) ? SLEEP_HOLDING_MS : SLEEP_MS); /* W8 */
	return enter_running(w);
}

void worker_run(struct worker *w)
{
	unsigned idle = 0;
	bool running = enter_running(w);

	while (running) {
		FAULT_POINT();
		if (atomic_load(&w->state) != WORKER_RUNNING) { /* W5 */
			running = park(w);
		} else if (worker_round(w) != 0) { /* W6 */
			idle = 0;
		} else if (++idle >= IDLE_ROUNDS) {
			idle = 0;
			running = sleep_until_traffic(w);
		}
	}
	fragments_drop(w);
	state_set(w, WORKER_STOPPED); /* W11 */
	word_wake(&w->state);
}

static void *worker_main(void *arg)
{
	(void)priority_raise(); /* it forwards without, too */
	worker_run(arg);
	return NULL;
}

int worker_new(const struct worker_config *c, struct worker **out)
{
	struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct worker){
		.state = WORKER_STOPPED,
		.id = c->id,
		.cpu = c->cpu,
		.port = c->port,
		.checksum = c->checksum,
		.too_big_limit = {.per_s = c->answers_per_s},
		.echo_limit = {.per_s = c->answers_per_s},
		.fragments = {.cache = c->fragments},
		.links = c->links,
	};
	int ret = learn_init(&w->learn, c->rings);
	if (ret != 0)
		goto err_worker;
	w->counters = worker_counters_new();
	if (!w->counters) {
		ret = -ENOMEM;
		goto err_learn;
	}
	*out = w;
	return 0;

err_learn:
	learn_destroy(&w->learn);
err_worker:
	free(w);
	return ret;
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	assert(!w->started);
	learn_destroy(&w->learn);
	worker_counters_free(w->counters);
	trace_tap_destroy(&w->trace);
	free(w);
}

/* Signals are main's: a worker blocks them all, so it is born with them blocked. */
static int thread_create(struct worker *w, const pthread_attr_t *attr)
{
	sigset_t all, before;
	char name[16];

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int ret = pthread_create(&w->thread, attr, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret == 0) {
		snprintf(name, sizeof(name), "worker-%u", w->id);
		pthread_setname_np(w->thread, name);
	}
	return -ret;
}

int worker_start(struct worker *w)
{
	pthread_attr_t attr;

	assert(!w->started && atomic_load(&w->snapshot));
	int ret = -pthread_attr_init(&attr);
	if (ret != 0)
		return ret;
	if (w->cpu >= 0) {
		cpu_set_t cpus;
		CPU_ZERO(&cpus);
		CPU_SET((unsigned)w->cpu, &cpus);
		ret = -pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	}
	atomic_fetch_and(&w->state, ~WORKER_QUIT);
	if (ret == 0)
		ret = thread_create(w, &attr);
	pthread_attr_destroy(&attr);
	w->started = ret == 0;
	return ret;
}

void worker_stop(struct worker *w)
{
	if (!w->started)
		return;
	atomic_fetch_or(&w->state, WORKER_QUIT); /* S1 */
	word_wake(&w->state);			 /* S2 */
	port_wake(w->port);			 /* S3 */
	pthread_join(w->thread, NULL);		 /* S4 */
	w->started = false;
}

/* --- parked publish: control's side --------------------------------------------------------------
 */

void workers_hold(struct worker *const *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		atomic_fetch_or(&w[i]->state, WORKER_HOLD); /* C1 */
}

bool workers_parked(struct worker *const *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (state_of(atomic_load(&w[i]->state)) == WORKER_RUNNING)
			return false;
	return true;
}

/* Wait for one worker until deadline_ns (0: for ever); false when it has passed. */
static bool wait_parked(struct worker *w, uint64_t deadline_ns)
{
	for (unsigned spins = 0;; spins++) {
		uint32_t word = atomic_load(&w->state); /* C2 */
		if (state_of(word) != WORKER_RUNNING)
			return true;
		if (spins < WAIT_SPINS) {
			cpu_relax();
			continue;
		}
		if (deadline_ns == 0) {
			word_wait(&w->state, word, NULL);
			continue;
		}
		uint64_t now_ns = clock_now_ns();
		if (now_ns >= deadline_ns)
			return false;
		uint64_t left = deadline_ns - now_ns;
		struct timespec ts = {.tv_sec = (time_t)(left / 1000000000u),
				      .tv_nsec = (long)(left % 1000000000u)};
		word_wait(&w->state, word, &ts);
	}
}

int workers_wait_parked(struct worker *const *w, unsigned n, int timeout_ms)
{
	uint64_t deadline_ns =
		timeout_ms < 0 ? 0 : clock_now_ns() + (uint64_t)timeout_ms * 1000000u + 1;

	for (unsigned i = 0; i < n; i++)
		if (!wait_parked(w[i], deadline_ns))
			return -ETIMEDOUT;
	return 0;
}

void workers_wait_still(struct worker *const *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t word;

		port_wake(w[i]->port);
		while ((word = atomic_load(&w[i]->state)),
		       state_of(word) == WORKER_RUNNING || state_of(word) == WORKER_ASLEEP)
			word_wait(&w[i]->state, word, NULL);
	}
}

void workers_release(struct worker *const *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		atomic_fetch_and(&w[i]->state, ~WORKER_HOLD); /* C5 */
		word_wake(&w[i]->state);		      /* C6 */
	}
}

void worker_set_snapshot(struct worker *w, const struct snapshot *s)
{
	assert(workers_parked(&w, 1) || FAULT(swap_unparked));
	/* C4 (C3, the drain, is control's: publish.c) */
	atomic_store_explicit(&w->snapshot, s, memory_order_release);
}
