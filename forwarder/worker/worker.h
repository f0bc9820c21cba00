/* Workers: the threads that forward. Control speaks to them only by the snapshot pointer and the park
 * protocol. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "io/port.h"
#include "packet/checksum.h"
#include "worker/answer_limit.h"
#include "worker/counters.h"
#include "worker/fragments.h"
#include "worker/learn.h"
#include "worker/trace.h"

/* A worker's state is one word; control or-s HOLD to it, and whoever stops the worker QUIT. */
enum worker_state { WORKER_RUNNING, WORKER_ASLEEP, WORKER_PARKED, WORKER_STOPPED };
#define WORKER_HOLD 0x100u
#define WORKER_QUIT 0x200u
#define WORKER_STATE_MASK 0xffu

struct host_links;

struct worker {
	CACHE_ALIGNED _Atomic uint32_t state;  /* futex word */
	_Atomic(const struct snapshot *) snapshot;
	CACHE_ALIGNED unsigned first_queue; /* of the next round; from here on the worker's own */
	unsigned id;
	int cpu; /* pinned to; -1 = none */
	struct port *port;
	enum checksum_mode checksum;
	struct learn learn;
	struct answer_limit too_big_limit, echo_limit;
	struct worker_counters *counters;
	pthread_t thread;
	bool started;
	struct trace_tap trace;
	struct fragments fragments;
	const struct host_links *links;
};

struct worker_config {
	unsigned id;
	int cpu; /* -1: do not pin */
	struct port *port;
	enum checksum_mode checksum;
	uint32_t answers_per_s; /* of each sort in a VIP's name; 0: it never speaks itself */
	struct learn_ring *rings[N_LEARN_RINGS];
	struct fragment_cache *fragments; /* of all workers; NULL: later fragments find nothing */
	const struct host_links *links; /* of all workers; NULL: none stands on others */
};

/** A worker that does not run yet (STOPPED, which counts as parked). snapshot must be set by
 *  worker_set_snapshot before it starts. 0, -ENOMEM, or -EINVAL for a ring that cannot be. The port,
 *  the rings, the cache and the links stay the caller's. */
MUST_CHECK int worker_new(const struct worker_config *c, struct worker **out);
/** The worker must not run. NULL is fine. */
void worker_free(struct worker *w);

/** Start the thread / ask it to end and join it, held or not. A stopped one can be started again; one
 *  that was not started may be stopped. 0 or a negative error of pthread_create. Thread: main. */
MUST_CHECK int worker_start(struct worker *w);
void worker_stop(struct worker *w);

/** What the thread does, in the caller's: returns when the worker shall end. For the simulation, which
 *  runs workers as coroutines. */
void worker_run(struct worker *w);

/** One round over all queues in the caller's thread: what the thread's loop does between two looks at
 *  the state word. Returns packets received. For the simulation, tests and benches. */
unsigned worker_round(struct worker *w);

/* --- parked publish: hold, wait, (drain, swap), release ------------------------------------------ */

/** Ask all to park at their next burst boundary. Thread: control. */
void workers_hold(struct worker *const *w, unsigned n);
/** True when every one is parked, asleep (it cannot wake while held) or not started. Means something
 *  only between hold and release. */
bool workers_parked(struct worker *const *w, unsigned n);
/** Wait for that; futex, never spins long. timeout_ms < 0: for ever. 0 or -ETIMEDOUT (the hold is still
 *  on). */
MUST_CHECK int workers_wait_parked(struct worker *const *w, unsigned n, int timeout_ms);
/** Wait, for ever, until none is even inside its port: sleepers are waked. From then until the release the
 *  caller may change the ports. */
void workers_wait_still(struct worker *const *w, unsigned n);
/** Let them go on. */
void workers_release(struct worker *const *w, unsigned n);
/** Swap the snapshot: only while all are parked, or before the start. */
void worker_set_snapshot(struct worker *w, const struct snapshot *s);
