/* How the checks of preflight print what they find. */
#pragma once

#include "control/preflight.h"

struct report {
	FILE *out;
	unsigned n_blocking;
	unsigned n_notes;
};

/** One finding; fix is the command that mends it (NULL = there is none). */
void report_ok(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_note(struct report *r, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void report_block(struct report *r, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** The checks of every interface. */
void preflight_ifaces(const struct preflight *p, struct report *r);
