/* A port that a test steers: it makes frames up, or blocks, as it is told. The frames all show the
 * same 64 bytes; their handle is the queue they came by. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "io/port.h"

#define STEERED_QUEUES 3

enum traffic { NONE, STEADY, ON_AND_OFF };

struct steered_port {
	struct port port;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	enum traffic traffic; /* changed only while the worker does not run */
	unsigned n_rx;	      /* the worker's own */
	bool woken;
	bool block_rx, block_sleep; /* until unblocked */
	int sleep_ms_max;
	_Atomic unsigned in_rx, in_sleep, n_sleeps, n_wakes, n_flushes;
	/* plain: the worker's between holds, control's under one */
	uint64_t n_bursts, n_frames, last_ms;
	uint64_t seen_generation;
	unsigned bursts_of_queue[STEERED_QUEUES], last_queue;
};

/** A port without traffic, whose sleeps last as long as they are asked to. */
void steered_port_init(struct steered_port *t);

/** Change block_rx or block_sleep of a port in use. Thread: any. */
void steered_port_set(struct steered_port *t, bool *flag, bool value);
