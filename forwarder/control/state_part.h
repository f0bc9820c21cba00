/* One file of the state directory: a header page that says whether the file is ours and whole, and
 * what follows it, mapped. For state_file.c alone. Thread: main. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "worker/learn.h"

#define STATE_HEADER_BYTES 4096u
#define STATE_BOOT_ID_BYTES 36
#define STATE_COMPLETE 0x636f6d706c657465u

/** The first page. All but n_flows, flows_id and learned must be equal for a file to be kept. */
struct state_header {
	char magic[16];
	uint32_t layout;
	uint32_t slot_bytes;
	uint32_t record_bytes;
	uint32_t ring_records[N_LEARN_RINGS];
	uint8_t database_id[16];
	char boot_id[STATE_BOOT_ID_BYTES + 4];
	uint8_t flows_id[16]; /* random, made with the flows file */
	uint64_t n_flows;     /* flows file: slots; ring file: 0 */
	_Atomic uint64_t complete;
	_Atomic uint64_t learned; /* flows file: no flow that speaks is missing */
};
_Static_assert(sizeof(struct state_header) <= STATE_HEADER_BYTES, "one page");

struct state_part {
	const char *dir; /* for messages; the caller's, valid while opening */
	int dirfd;       /* where it lies */
	char name[16];
	int fd;        /* -1: not open */
	size_t bytes;  /* of the file */
	size_t bytes_before; /* this open; 0: of no use before */
	uint8_t *base; /* NULL: not mapped */
};

/** Open it (not through a symbolic link) and learn its size. create: make it, empty, if absent;
 *  otherwise -ENOENT, without a message. */
MUST_CHECK int state_part_open(struct state_part *p, bool create, struct error *err);

/** Allocate the file up to `bytes` in full (a file that is larger stays so) and map it. On failure,
 *  -ENOSPC among others, it keeps its old size. */
MUST_CHECK int state_part_map(struct state_part *p, size_t bytes, struct error *err);

/** Why the open file cannot be kept, as words in a log line, or NULL. *h gets its header. */
const char *state_part_mismatch(const struct state_part *p, const struct state_header *want,
				struct state_header *h);

/** Make an open file anew and map it: all zero but for the header, which lacks its completion mark
 *  until state_part_complete. */
MUST_CHECK int state_part_format(struct state_part *p, const struct state_header *h, size_t bytes,
				 struct error *err);
void state_part_complete(struct state_part *p);

/** Unmap and close; the file stays. */
void state_part_close(struct state_part *p);

/** The same when the open of the whole failed: a file that was made goes, one that grew shrinks back. */
void state_part_undo(struct state_part *p);

static inline struct state_header *state_part_header(const struct state_part *p)
{
	return (struct state_header *)p->base;
}
