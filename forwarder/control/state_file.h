/* The shared-memory file that outlives a killed process: a header that says whether it is ours, the
 * learn rings of each worker, and the flow slots. Addressed by offset, allocated in full at start, one
 * process at a time (flock). (DESIGN 6) */
#pragma once

#include "base/error.h"
#include "worker/learn.h"

struct flow_slot; /* control/flows.h */

struct state_file_config {
	const char *dir;         /* made if absent, mode 0700 */
	uint64_t n_flows;        /* slots; 0 = 1M, or what fits half of the directory's free space */
	unsigned n_workers;
	uint8_t database_id[16];
};

enum state_file_status { STATE_KEPT, STATE_NEW, STATE_REPLACED };

struct state_file;

/** Open and lock DIR/flows. A file that bears another version, layout, database id or boot_id, or is
 *  torn, is replaced with a log line. -EBUSY: another process holds it. -ENOSPC: no room. Thread:
 *  main. */
MUST_CHECK int state_file_open(const struct state_file_config *c, struct state_file **out,
			       struct error *err);
/** Unmap and unlock; the file stays. NULL is fine. */
void state_file_close(struct state_file *f);

enum state_file_status state_file_status(const struct state_file *f);
uint64_t state_file_n_flows(const struct state_file *f);
struct flow_slot *state_file_slots(struct state_file *f);
/** A worker's ring. */
struct learn_ring *state_file_ring(struct state_file *f, unsigned worker, enum learn_ring_id ring);
/** Workers that the file has rings for (a kept file may have more than now run: their rings are
 *  drained too). */
unsigned state_file_n_workers(const struct state_file *f);
