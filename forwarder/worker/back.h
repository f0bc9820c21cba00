/* Mode nat's way back: packets of DIPs that steer has found a way to the client for. */
#pragma once

#include "worker/burst.h"

/** Frame i is no IP packet by its Ethernet type: if steer has marked it, put the type right, and it is to be
 *  parsed again. (So that parsing, like checksums below, stays in the one loop that it is part of.)
 *  Thread: worker, as of all here. */
MUST_CHECK bool back_unmark(struct burst *b, unsigned i);

/** Frame i, of burst.backs and parsed: take it, to be sent aside, or end it. */
void back_take(struct burst *b, unsigned i);

/** Translate frame i, which was taken. */
void back_rewrite(struct burst *b, unsigned i);

/** Frame i of them was sent. */
void back_count(const struct burst *b, unsigned i);
