/* The disk of a box: the store that production has, on a file, and beside it a copy in memory of all that
 * was committed, which each start holds against what the store reads. */
#pragma once

#include "tests/sim/box.h"

void disk_init(struct box *b);

/** The database goes, and the copy. */
void disk_remove(struct box *b);

/** A process starts / is gone. */
void disk_open(struct box *b);
void disk_close(struct box *b);

/** All of it, as a start reads it: persist_state_free. */
struct persist_state disk_read(struct box *b);

/** What control writes through: a commit is written some polls after its submit, and seen to be some polls
 *  later. */
struct persist disk_persist(struct box *b);
