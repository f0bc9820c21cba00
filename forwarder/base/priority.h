/* A thread's place in the queue for a core. */
#pragma once

#include "base/error.h"

/** Niceness of threads on which packets wait. */
#define PRIORITY_NICE (-10)

/** Let the calling thread run before other programs' when cores are short. 0, or a negative error
 *  (-EACCES without CAP_SYS_NICE and with no room in RLIMIT_NICE): it runs on as it was. */
int priority_raise(void);

/** Back to ordinary niceness, if it was raised: for a thread that was made by one with priority. */
void priority_drop(void);
