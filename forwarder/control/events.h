/* What happens, one event after the other, for whoever watches: a ring of the last ones, overwritten from
 * its oldest on, that any number of readers follow by the events' ids. */
#pragma once

#include <stdbool.h>

#include "base/cpu.h"
#include "control/model.h"

/*           kind         a second  what it tells */
#define EVENT_KINDS(X)                                                                             \
	X(start, 0, "the forwarder has started")                                                   \
	X(end, 0, "the forwarder is ending: the last event")                                       \
	X(change, 0, "a change of the configuration was applied")                                  \
	X(publish, 4, "a new snapshot was published")                                              \
	X(health, 100, "a DIP's health, or what is made of it, has changed")                       \
	X(drain_done, 100, "a VIP or DIP that was draining, or was cut, is gone")                  \
	X(resolved, 100, "the next hop of a DIP is known again")                                   \
	X(unresolved, 100, "the next hop of a DIP is not known any more")                          \
	X(violation, 2, "a flow was found on another DIP than its own: must not be")               \
	X(overload, 1, "flows could not be recorded, or were forgotten for want of room")          \
	X(interface, 20, "a served interface went down, up or away, or was bound anew")            \
	X(warning, 20, "something keeps the forwarder from serving, or no longer does")            \
	X(audit, 2, "all known flows were compared with the snapshot")

enum event_kind {
#define EVENT_ENUM(kind, per_second, text) EVENT_##kind,
	EVENT_KINDS(EVENT_ENUM)
#undef EVENT_ENUM
		N_EVENT_KINDS
};

extern const char *const event_kind_names[]; /* NULL ends */

#define EVENT_TEXT_LEN 384
#define EVENT_VALUES_MAX 6
#define EVENTS_BOOT_LEN 17

/** A figure, under the name that the API shows. */
struct event_value {
	const char *name; /* lives for ever; NULL ends a list that is not full */
	uint64_t value;
};

struct control_event {
	uint64_t id; /* from 1 on, without holes */
	enum event_kind kind;
	int64_t wall_ms;
	uint64_t generation; /* published at its time */
	uint64_t count;      /* events of its kind that it stands for: the text and figures are the last
			      * one's, and vip or dip is "" if they had different ones */
	char vip[ID_LEN];    /* "" = of none, or of several */
	char dip[ID_LEN];
	char text[EVENT_TEXT_LEN]; /* one sentence for people */
	struct event_value values[EVENT_VALUES_MAX];
};

struct events;

/** An empty ring. boot: a word for this process, so that ids of another one are known as such; at most
 *  EVENTS_BOOT_LEN - 1 bytes. NULL without memory. */
MUST_CHECK struct events *events_new(const char *boot);
/** Nobody may use it any more. NULL is fine. */
void events_free(struct events *e);

const char *events_boot(const struct events *e);

/** What there is to say; the rest of the event follows from it. */
struct event_note {
	enum event_kind kind;
	const char *vip; /* NULL = none */
	const char *dip;
	uint64_t generation; /* 0 = that of the event before */
	uint64_t count;	     /* 0 = 1 */
	struct event_value values[EVENT_VALUES_MAX];
};

/** Add an event. Where a kind comes more often than its share of a second, the others are held back and
 *  come as one that counts them, at the next events_tick of the next second. Never waits for a reader
 *  (who holds the lock for the time of a copy). Thread: any. */
void events_emit(struct events *e, const struct event_note *note, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Let out what was held back for long enough. Thread: any; control does some times a second. */
void events_tick(struct events *e);

/** Copy up to n events that come after the id `after` and return how many. *lost: how many of those that
 *  came after it are overwritten; what is copied begins behind them. Thread: any. */
unsigned events_read(struct events *e, uint64_t after, struct control_event *out, unsigned n,
		     uint64_t *lost);

/** Id of the last one, 0 = none yet. Thread: any. */
uint64_t events_last(struct events *e);

/** Wait until there is one after `after`, the time-out, or events_close; false after the latter, and then
 *  at once for ever. Thread: any. */
bool events_wait(struct events *e, uint64_t after, unsigned timeout_ms);
void events_close(struct events *e);
