/* The shared memory that outlives a killed process: the flow slots (DIR/flows) and each worker's learn
 * rings (DIR/rings.N), each file with a header that says whether it is ours. Addressed by offset,
 * allocated in full at start, one process at a time (flock on DIR). */
#pragma once

#include "base/error.h"
#include "base/fault.h"
#include "worker/learn.h"

struct flow_slot; /* control/flows.h */

#define FLOW_SLOT_BYTES 64 /* sizeof(struct flow_slot) */
#define STATE_FLOWS_DEFAULT (1u << 20)
#define STATE_FLOWS_MIN 1024u       /* less free space than for these is none */
#define STATE_FLOWS_MAX UINT32_MAX  /* slots are numbered by 32 bits */
#define STATE_WORKERS_MAX 64u

/* Records of each ring. An opening ring holds 30 ms of a million new flows a second. */
#define STATE_OPENING_RECORDS SIM_SIZE(32768u, 64u)
#define STATE_DATAGRAM_RECORDS SIM_SIZE(16384u, 32u)
#define STATE_REFRESH_RECORDS SIM_SIZE(16384u, 64u)

/* Part of the header: raise it when struct flow_slot, struct learn_record, struct learn_ring or the
 * header change their layout or meaning, or flow_key_hash its values. */
#define STATE_LAYOUT 3u

struct state_file_config {
	const char *dir;         /* made if absent, mode 0700 */
	uint64_t n_flows;        /* slots; 0 = 1M, or what fits half of the free space that rings leave */
	unsigned n_workers;      /* 1 .. STATE_WORKERS_MAX */
	uint8_t database_id[16];
};

enum state_file_status { STATE_KEPT, STATE_NEW, STATE_REPLACED };

struct state_file;

/** Lock DIR, open DIR/flows and the rings. Files that bear another version, layout, database id or
 *  boot_id, or are torn, are replaced with a log line; what is new or replaced is all zero (but for
 *  the rings' n). A kept file grows to n_flows and never shrinks. A failed open leaves nothing behind
 *  that was not there. -EBUSY: another process holds it.
 *  -ENOSPC: no room. -EPERM: others can write to the directory. -EINVAL: n_flows or n_workers out of
 *  range. Thread: main. */
MUST_CHECK int state_file_open(const struct state_file_config *c, struct state_file **out,
			       struct error *err);
/** Unmap and unlock; the file stays. NULL is fine. */
void state_file_close(struct state_file *f);

enum state_file_status state_file_status(const struct state_file *f);
uint64_t state_file_n_flows(const struct state_file *f);
/** Whether its flows are all that speak. A new file's are not, nor those of one that lost records to a
 *  damaged ring, until somebody who has listened for long enough says so. It outlives the process. */
bool state_file_learned(const struct state_file *f);
void state_file_set_learned(struct state_file *f, bool learned);
struct flow_slot *state_file_slots(struct state_file *f);
/** A worker's ring. */
struct learn_ring *state_file_ring(struct state_file *f, unsigned worker, enum learn_ring_id ring);
/** Workers that the file has rings for (a kept file may have more than now run: their rings are
 *  drained too). */
unsigned state_file_n_workers(const struct state_file *f);
