/* Mode nat's way back: packets of DIPs that steer has found a way to the client for. */
#pragma once

#include "worker/burst.h"

/** Frame i, which is no IP packet by its Ethernet type: if steer has marked it, take it (or end it) and
 *  put the type right. False: it is something else, and as it was. Thread: worker. */
bool back_take(struct burst *b, unsigned i);

/** Translate the frames that were taken, and send them aside. To be called if there are any. */
void back_rewrite(struct burst *b);

/** Frame i of them was sent. */
void back_count(const struct burst *b, unsigned i);
