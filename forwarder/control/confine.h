/* What a running forwarder gives up: nearly all that root may do, for good, before it takes the first
 * packet or request. Whoever gets hold of one of its threads then holds a network card, and no machine. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/** Keep CAP_NET_ADMIN and CAP_NET_RAW (as far as they are there) and nothing else; gain nothing by running
 *  programs, and let the kernel refuse (EPERM) every system call that a forwarder has no use for; for the
 *  calling thread and all that it makes. keep_ipc_lock: CAP_IPC_LOCK stays, too, if locked memory has a
 *  limit that cannot be lifted. Waits some seconds for joined threads to be gone. -EBUSY: there is another
 *  thread. -EIO: the kernel does not do it. Thread: main, when all that needs more is done and no other
 *  thread is there. */
MUST_CHECK int confine_enter(bool keep_ipc_lock, struct error *err);

/** The last part of it alone: the filter of system calls, for all threads. Thread: main. */
MUST_CHECK int confine_calls(struct error *err);
