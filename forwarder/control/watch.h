/* The watch over a running concuryd: what keeps it from serving, each thing as one sentence with the
 * command that mends it. Others may take the steer program off or remove an address; nothing here undoes
 * that, since whoever did it may have meant to. (Interfaces that come back: control/supervisor.) */
#pragma once

#include <net/if.h>

#include "control/supervisor.h"

#define WARNING_LEN 384
#define WARNINGS_MAX 256 /* what goes beyond is only counted */

struct warnings {
	bool serving; /* every interface is up, bound, and has our program */
	unsigned n;
	char (*list)[WARNING_LEN];
	unsigned n_more;
};

struct watch;

/** supervisor: of the interfaces, NULL = none. control: NULL = interfaces only. Both stay the caller's.
 *  -ENOMEM or 0. */
MUST_CHECK int watch_new(struct supervisor *supervisor, struct control *control,
			 struct watch **out);
void watch_free(struct watch *w);

/** Look at everything now. Without memory *out may lack sentences. Free it. Thread: any but
 *  control's; blocks like a read of control. */
void watch_look(struct watch *w, struct warnings *out);
void warnings_free(struct warnings *w);

/** Look, and log what has changed: a warning for each sentence that has been true at two calls in a row
 *  (a VIP has no DIP for the moment until it gets its first), a line of information for each of these
 *  that is no longer true. Thread: main, about once a second. */
void watch_tick(struct watch *w);

/** `serving` as last looked at. Thread: any. */
bool watch_serving(const struct watch *w);

/** Names of the interfaces that do not have our program, as last looked at; "" = all have it.
 *  Thread: any. */
const char *watch_detached(struct watch *w, char *buf, size_t size);
