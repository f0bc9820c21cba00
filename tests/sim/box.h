/* The forwarder in a box: one process after another over what outlives it, the disk and the state
 * directory. Control and workers are routines, the clock and all randomness are the box's own, so the
 * same steps end in the same state. */
#pragma once

#include "control/internal.h"
#include "schema/store.h"
#include "tests/sim/routine.h"
#include "tests/unit/prng.h"

#define BOX_WORKERS_MAX 3

struct box {
	/* what the next process starts with */
	unsigned n_workers;
	uint64_t n_flows;
	unsigned tx_ring, headroom;
	/* the process, if there is one */
	bool alive;
	struct port *ports[BOX_WORKERS_MAX];
	struct worker *workers[BOX_WORKERS_MAX];
	struct fragment_cache *fragments;
	struct routine *worker_routines[BOX_WORKERS_MAX]; /* from when control has booted */
	struct routine *control_routine;
	struct control *control; /* NULL while it boots */
	bool stopping;
	bool at_rest; /* control is between two steps: others may read as its thread would */
	uint64_t generation_at_start; /* on disk */
	uint64_t n_idle; /* times that control found nothing to do */
	/* what outlives it */
	char dir[64];
	struct state_file *state;
	struct persist_state disk; /* what it holds */
	struct store *store;
	/* the commit under way */
	const struct persist_txn *txn;
	unsigned polls_before, polls_after; /* ... being written, and waiting to be seen */
	int result;
	struct error error;
	/* faults of the disk, and how long a commit takes */
	int fail_commits; /* errno, 0 = they succeed */
	unsigned polls_max;
	unsigned n_commits;
	/* next hops: which are not resolved, or have a smaller MTU */
	unsigned hops_salt; /* 0: all are, and none has */
	bool hops_changed;
	struct prng random;
};

/** One box at a time: clock and entropy are global. seed decides all that is random in it. */
struct box *box_new(uint64_t seed);
void box_free(struct box *b);

/** A process starts; control boots within the first resumes of its routine. */
void box_start(struct box *b);
/** ... and ends as it should: held to leave no memory and no file descriptor. */
void box_stop(struct box *b);
/** ... or is killed where it stands; reboot: the state directory is lost too. */
void box_kill(struct box *b, bool reboot);

/** Run control or a worker past `fuel` points. */
void box_run_control(struct box *b, unsigned fuel);
void box_run_worker(struct box *b, unsigned i, unsigned fuel);
/** Have control run q->fn between two steps of its work, as it answers reads: then q->done. q stays valid
 *  until then, or until the process ends. control must not be NULL. */
void box_call(struct box *b, struct queued_call *q);
/** Run all until control has booted and then twice had nothing to do. */
void box_settle(struct box *b);

uint64_t box_now_ms(void);
/** Seconds that no step of the wall clock moves. */
int64_t box_time_s(void);
void box_advance_ms(uint64_t ms);
/** From now on clock_now_ms is this much ahead, for code that runs on another machine; 0 = again ours. */
void box_shift_clock(int64_t ms);
/** Step the wall clock alone. */
void box_step_wall_s(int64_t seconds);
