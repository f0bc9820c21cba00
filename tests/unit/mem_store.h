/* A database in memory for tests: what the last commit left. */
#pragma once

#include "control/persist.h"

/** Carry out a transaction. */
void mem_store_commit(struct persist_state *disk, const struct persist_txn *txn);

/** Write an agent of a DIP that is there (else -ENOENT). It goes with its DIP. */
MUST_CHECK int mem_store_put_agent(struct persist_state *disk, const struct persist_agent *a,
				   struct error *err);

/** A copy of all of it, as a start reads it: persist_state_free. */
struct persist_state mem_store_read(const struct persist_state *disk);
