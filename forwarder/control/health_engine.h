/* The thread that checks DIPs: it asks control what there is to check, and tells it what came of it.
 * (health_engine.c) */
#pragma once

#include "control/health.h"

struct health_engine;

/** Start it. It ends with health_engine_stop, before control does. c is the caller's. 0, -ENOMEM, or errno
 *  of what could not be made. Thread: main, when control was started. */
MUST_CHECK int health_engine_start(struct control *c, struct health_engine **out,
				   struct error *err);

/** End the thread and free everything; what it had not told yet is told. NULL is fine. */
void health_engine_stop(struct health_engine *e);
