/* What a change has done, as the log keeps it: see persist_log_entry.edits. */
#pragma once

#include "control/control.h"

struct scribe {
	char *text;
	size_t len, capacity;
	unsigned n;
	bool failed;
};

void scribe_free(struct scribe *s);

/* The callbacks of a control_transaction; ctx is the scribe. */
void scribe_begin(struct scribe *s);
void scribe_edited(struct scribe *s, const struct control_seen *seen);
const char *scribe_text(struct scribe *s, unsigned *n_edits);
