/* The change log as it is read: who changed what, when. Each accepted request is one version of the
 * configuration; versions are numbered from 1 on, without gaps.
 *
 * The store owns one, fills it from its table at the start and keeps it equal to the table: so reads
 * cost no I/O and never stand in the way of a commit. It is bounded as the table is: the newest
 * HISTORY_ENTRIES_MAX entries, and of those as many as have HISTORY_BYTES_MAX bytes of text together
 * (the newest one is always kept). */
#pragma once

#include "base/error.h"
#include "control/persist.h"

#define HISTORY_ENTRIES_MAX 10000
#define HISTORY_BYTES_MAX (32u << 20)

struct history;

/** One version; never changes. Members as in persist_log_entry. */
struct history_entry {
	uint64_t version;
	uint64_t generation_before, generation;
	int64_t wall_ms;
	unsigned n_edits;
	char author[ID_LEN];
	const char *action;
	const char *edits;
	size_t bytes;    /* of action and edits */
	unsigned n_refs; /* history's, atomic */
};

MUST_CHECK int history_new(struct history **out);
/** When nobody reads any more. NULL is fine. */
void history_free(struct history *h);

/* --- writing (one thread) ------------------------------------------------------------------------ */

/** What a transaction will do to the log, and so to its table, in this order. */
struct history_update {
	uint64_t replace_from; /* versions from this one on go; 0 = none */
	unsigned n;            /* these come, in ascending order */
	struct history_entry **entries;
	uint64_t keep_from; /* versions below this one go; 0 = none */
};

/** Begin. 0 or -ENOMEM. End it by _commit, which cannot fail, once the transaction is durable; or by
 *  _abort. */
MUST_CHECK int history_prepare(struct history *h, const struct persist_txn *txn,
			       struct history_update *u);
void history_commit(struct history *h, struct history_update *u);
void history_abort(struct history_update *u);

/** All three, for a store that keeps nothing else. 0 or -ENOMEM. */
MUST_CHECK int history_apply(struct history *h, const struct persist_txn *txn);

/** Add an entry that the table has, at the start, in ascending order. 0, -ENOMEM, or -EINVAL when its
 *  version does not come right after the one before. */
MUST_CHECK int history_load(struct history *h, uint64_t version, const struct persist_log_entry *e);

/* --- reading (thread: any) ----------------------------------------------------------------------- */

/** Some entries in ascending order. They stay valid until history_view_free. */
struct history_view {
	uint64_t oldest, newest; /* of all that are there up to the generation; 0 = there is none */
	size_t n;
	struct history_entry **entries;
};

/** Versions `from` to `to`, and if these are more than max the last max of them; none whose generation is
 *  above `generation`, the published one: those are not in force yet. 0 or -ENOMEM. Never waits for a
 *  disk. */
MUST_CHECK int history_read(struct history *h, uint64_t generation, uint64_t from, uint64_t to,
			    size_t max, struct history_view *out);
void history_view_free(struct history_view *v);
