/* Routines: control and each worker, all in one thread. One runs until it comes to a point where the
 * scheduler takes over, and may never be resumed: then its process has died there. */
#pragma once

#include <stdbool.h>

struct routine;

/** fn(arg) runs at the first resume. */
struct routine *routine_new(void (*fn)(void *arg), void *arg);

/** Run it until it has passed `fuel` points, waits, yields or ends. */
void routine_resume(struct routine *r, unsigned fuel);

/** True once fn has returned. */
bool routine_ended(const struct routine *r);

/** Whether it ended or not: it is never resumed. NULL is fine. */
void routine_free(struct routine *r);

/** In a routine: run past all points until it is false again, as what holds a lock must. */
void routine_hold(bool yes);

/** In a routine: let others run. */
void routine_yield(void);
