/* Packets that come in fragments: they go where their flow goes, which only the first one tells. Those
 * that come before it are held until it is there. */
#pragma once

#include "io/port.h"
#include "worker/fragment_cache.h"

/* How long a fragment waits for the first. Paths that reorder do so by some milliseconds. */
#define FRAGMENT_HOLD_MS 500u

struct burst;
struct worker;

struct held_fragment {
	struct frame frame;
	uint64_t tag;
	uint32_t since_ms;
	bool used; /* false: it has left already */
};

/** One worker's part. */
struct fragments {
	struct fragment_cache *cache; /* all workers' */
	uint64_t puts_seen;	      /* of the cache, when held ones were last looked for */
	/* Held ones by their age: positions first .. end - 1 (they only grow), of which first is used. */
	uint32_t first, end;
	struct held_fragment held[PORT_HELD_MAX];
};

/** Frame i is a fragment (PARSE_FRAGMENT). True: it goes on as a packet of its flow. False: it is held
 *  or has ended. Thread: worker, as of all here. */
MUST_CHECK bool fragments_take(struct burst *b, unsigned i);

/** Frame i is a later fragment with this tag whose ports are not known: it is held, as it is now, until
 *  they are; or ends, if it has waited already. */
void fragments_hold(struct burst *b, unsigned i, uint64_t tag);

/** The burst has fragments, and all VIPs are known: choose what goes by the client. */
void fragments_classify(struct burst *b);

/** Some are held. */
static ALWAYS_INLINE bool fragments_wait(const struct fragments *f)
{
	return f->first != f->end;
}

/** Send those whose first has come, and end those that have waited for too long. Between two bursts. */
void fragments_release(struct worker *w);

/** End them all. Thread: the worker's, or any while it stands still. */
void fragments_drop(struct worker *w);
