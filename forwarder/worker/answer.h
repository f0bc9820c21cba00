/* What a worker says itself, in a VIP's name: echo replies, and to senders of packets that do not
 * fit on the way to their DIP how much would. Seldom, rate-limited, and off the fast path. Thread
 * of all: the worker. */
#pragma once

#include "worker/burst.h"

/** Frame i is an echo request (PARSE_ECHO). steer passes on only those to VIPs whose address the
 * kernel does not have. */
void answer_echo_take(struct burst *b, unsigned i);

/** Send the answers to those that were taken aside, or end them. */
void answer_echoes(struct burst *b);

/** Frame i is too big for its way, and untouched: drop it, and where that helps send its source an
 * answer made of it, which is sent aside. */
void answer_too_big(struct burst *b, unsigned i);

/** Frame i, which is aside, was sent: count it, and the drop that it tells of. */
void answer_sent(struct burst *b, unsigned i);

/** Why frame i is dropped that should have been sent: of an answer, what its packet was dropped
 * for. */
enum drop_reason answer_reason(const struct burst *b, unsigned i, enum drop_reason other);
