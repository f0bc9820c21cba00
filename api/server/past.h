/* States of the configuration that were: what the change log tells, undone. Pure work on documents; the log's
 * entries are those of control/history. */
#pragma once

#include <jansson.h>

#include "control/history.h"

/** Read the number of a version: at most 18 digits and nothing else. */
bool past_parse_version(const char *text, uint64_t *out);

/** A desired state by names, to be edited: {"web": {"own": {...}, "dips": {"b1": {...}}}}. From and to the
 *  document {"vips": [...]} of GET /v1/config; NULL without memory. */
MUST_CHECK json_t *past_from_config(const json_t *config);
MUST_CHECK json_t *past_to_config(const json_t *state);

/** False if there is a DIP whose VIP is not there: then it can be no document. */
bool past_is_whole(const json_t *state);

/** Lead state from what it was after the entry to what it was before. 0, -ENOMEM, or -EINVAL: the entry
 *  cannot be understood. */
MUST_CHECK int past_undo(json_t *state, const struct history_entry *e);

/** Add what an entry changed to what the ones before it, in the order of versions, have changed. changes is an
 *  object, empty at first. 0, -ENOMEM, -EINVAL. */
MUST_CHECK int past_add_changes(json_t *changes, const struct history_entry *e);
/** The list of them by path: {"path", "before", "after", "members"}, the last naming what differs in a resource
 *  that is there before and after. What came back to what it was is left out. NULL without memory. */
MUST_CHECK json_t *past_print_changes(const json_t *changes);

/** At most max of the paths that an entry changes; NULL without memory, JSON null if it cannot be
 *  understood. */
MUST_CHECK json_t *past_paths(const struct history_entry *e, size_t max);
/** True if it changes the resource of this path, or one below it. */
bool past_touches(const struct history_entry *e, const char *path);
