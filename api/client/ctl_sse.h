/* Server-sent events, read from a stream that comes in pieces. (The HTML standard,
 * "text/event-stream") */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct ctl_sse;

struct ctl_sse_event {
	const char *id;	  /* of the last event that had one; "" = none yet */
	const char *kind; /* "message" if it names none */
	const char *data; /* lines are joined by '\n' */
};

/** False ends the stream. The event's texts live as long as the call. */
typedef bool (*ctl_on_event)(void *ctx, const struct ctl_sse_event *e);

/** NULL without memory. */
struct ctl_sse *ctl_sse_new(ctl_on_event on_event, void *ctx);
void ctl_sse_free(struct ctl_sse *s);

/** The next piece. False: the handler wants no more, an event is too long, or there is no memory.
 */
bool ctl_sse_feed(struct ctl_sse *s, const char *data, size_t len);

/** A new stream begins: half an event is forgotten, the last id is kept. */
void ctl_sse_restart(struct ctl_sse *s);

/** Id to go on from after a cut: of the last event that was handed over; "" = none. */
const char *ctl_sse_last_id(const struct ctl_sse *s);
