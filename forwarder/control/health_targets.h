/* What the engine checks: the DIPs, kept over changes of the configuration, in the order of when something
 * is due. For the engine alone; thread: health. */
#pragma once

#include "control/health_check.h"
#include "control/health_state.h"

struct target {
	struct check check; /* first: the one is the other */
	struct health_target dip;
	struct check_spec *spec;
	struct health_state state;
	struct health_stats stats;
	uint64_t due_ms;  /* running: when it has taken too long; else: when the next one starts */
	unsigned heap_at; /* place in targets.heap */
	bool running;
	bool news; /* to be told to control */
	bool kept; /* by the sync under way */
	uint64_t started_ns;
};

struct targets {
	unsigned n;
	struct target **list; /* sorted by dip_uid */
	struct target **heap; /* the first to be due at its root */
};

/** Take over what is to be checked now: a DIP that is known keeps its state and its place in time; if it
 *  is asked something else from now on, the check under way is given up. loop, ended: for new ones. 0,
 *  or -ENOMEM with nothing changed. */
MUST_CHECK int targets_sync(struct targets *t, const struct health_targets *now,
			    struct check_loop *loop,
			    void (*ended)(struct check *c, enum check_result result,
					  const char *error));
void targets_free(struct targets *t);

/** The first that is due, or NULL if there is none at all. */
struct target *targets_first(const struct targets *t);
/** Change when a target is due. */
void targets_move(struct targets *t, struct target *target, uint64_t due_ms);
