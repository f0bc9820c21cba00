/* What a document would change of the configuration, line by line. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct ctl_diff_style {
	bool colour;
	bool keep; /* what the document does not name stays (prune=none): no line for it */
};

/** Print how {"vips": [{"id": ..., "dips": [...]}]} `wanted` differs from `current`, which names
 * every member: "+ vip web ...", "- dip web/b1", "~ dip web/b2 weight: 1 -> 5". Members that
 * `wanted` does not name, and those that `current` does not have (read-only ones), are passed by.
 * Returns the number of lines. */
unsigned ctl_diff_print(const json_t *current, const json_t *wanted,
			const struct ctl_diff_style *style, FILE *out);

/** The same of one object: before or after may be null, which is that it is not there. */
unsigned ctl_diff_object(const char *what, const json_t *before, const json_t *after,
			 const struct ctl_diff_style *style, FILE *out);
