/* What a VIP takes away from this host itself. An address that is the VIP's alone, and is here only
 * to be answered for, looks like one by which the host is administered; that connections of its own
 * go on there tells them apart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lookup/vip_match.h"

#define OWN_USE_LEN 256

/** True if TCP connections of this network namespace are open whose packets the VIP takes, so that
 * they end; text says which, with what to do. It looks at every socket. Thread: any. */
bool own_use_ended_by(const struct vip_match *m, char text[OWN_USE_LEN]);
