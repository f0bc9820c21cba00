/* Errors that a person will read: a negative errno and one line that names the culprit. */
#pragma once

#include "base/cpu.h"

struct error {
	char message[256]; /* one line, no trailing newline */
};

/** Format the message (if err is not NULL) and return code, so that `return error_set(...)` reads
 *  well. code: a negative errno. Thread: any; err is the caller's. */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
