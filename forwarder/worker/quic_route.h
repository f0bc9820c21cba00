/* QUIC packets that go where their connection ID says. */
#pragma once

#include "worker/burst.h"

/** Of each packet of a VIP with server IDs that has been looked up: put the DIP that its connection ID
 *  names, if it is usable, in the place of its flow's. If that is another one, the packet becomes
 *  SEG_UNTOLD. Thread: the worker. Not inlined: most bursts have no such VIP. */
__attribute__((noinline)) void quic_route(struct burst *b);
