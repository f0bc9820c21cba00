/* The SQLite file: the only place with SQL. It keeps the desired state, seeds, Dcode tables and pins,
 * and implements control's persist interface with a thread of its own. */
#pragma once

#include "control/history.h"

struct store;

/** Open the database, make it if the file is absent (its directory must be there), check it whole
 *  and bring its schema up to date. It stays locked against other processes until store_close.
 *  If it is there but cannot be written, it is opened all the same, with a warning: commits fail
 *  (-EROFS), and each tries to get write access again. -EINVAL: damaged, not ours, or of a newer
 *  schema: nothing was changed. -EBUSY: in use by another process. -EROFS: it cannot be written, and
 *  would have to be. -ENOSPC, -EIO, and errno of open(2) else. Thread: main. */
MUST_CHECK int store_open(const char *path, struct store **out, struct error *err);

/** Read all of it. *out is the caller's: persist_state_free. -EINVAL: something in it cannot be, err
 *  names it. Before the first submit. Thread: main. */
MUST_CHECK int store_load(struct store *s, struct persist_state *out, struct error *err);

/** What was changed, when and by whom, up to the last commit. The store's: valid until store_close. */
struct history *store_history(struct store *s);

/** The interface for control. One user; valid until store_close. */
struct persist store_persist(struct store *s);

/** End the store's thread when it has done what was asked of it; the next write makes it anew, with the
 *  rights that its maker has by then. Thread: main, while nobody else uses the store. */
void store_rest(struct store *s);

/** End a commit under way, fold the log into the file, unlock. NULL is fine. Thread: main, when the
 *  user of store_persist has stopped. */
void store_close(struct store *s);
