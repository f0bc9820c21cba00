/* What `concuryctl top` shows, free of terminals: from two looks to a screenful of lines. */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/** One look: the API's answers, each owned; NULL = not there. */
struct ctl_top_look {
	uint64_t at_ms; /* clock_now_ms */
	json_t *status;
	json_t *counters;
	json_t *consistency;
	json_t *vips; /* {"items": ...} */
	json_t *dips; /* by VIP's id: {"items": ...} */
};

void ctl_top_look_free(struct ctl_top_look *l);

/** Print what the second look shows, with the rates since the first one; no line is longer than
 * columns, and there are at most rows (0 = all). skip: lines of the table that are scrolled away.
 * Returns how many lines the table has. */
unsigned ctl_top_print(const struct ctl_top_look *before, const struct ctl_top_look *now,
		       unsigned rows, unsigned columns, unsigned skip, FILE *out);
