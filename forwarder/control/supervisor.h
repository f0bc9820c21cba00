/* The served interfaces' lives: who watches them, and has them bound anew when they come back, change their
 * queues or stand still, while the others forward on. */
#pragma once

#include <net/if.h>

#include "control/control.h"
#include "io/port_xsk.h"

enum iface_state {
	IFACE_UP,
	IFACE_DOWN, /* by the administrator; bound all the same */
	IFACE_GONE, /* there is none of its name */
	IFACE_REBINDING, /* it is there, but not all of it is bound: tried again and again */
};

extern const char *const iface_state_names[]; /* up down gone rebinding */

#define IFACE_REASON_LEN 256

struct iface_status {
	char name[IF_NAMESIZE]; /* as on the command line */
	enum iface_state state;
	char reason[IFACE_REASON_LEN]; /* why it is not up, or serves in part only; "" = nothing to say */
	int ifindex;		       /* 0 = gone */
	uint32_t program_id;	       /* of our steer for it */
	unsigned mtu;
	unsigned n_queues; /* RX queues that it has */
	unsigned n_bound;  /* and those bound */
	uint64_t rebinds_total;
	uint64_t stalls_total;
};

struct supervisor;

/** After xsk_attach. xsk and control stay the caller's. 0 or -ENOMEM. */
MUST_CHECK int supervisor_new(struct xsk *x, struct control *control, struct supervisor **out);
/** NULL is fine. */
void supervisor_free(struct supervisor *s);

/** Look at all interfaces and do what is due. Returns in how many ms to come again at the latest; at
 *  once when the kernel says that an interface has changed. Thread: main. */
unsigned supervisor_tick(struct supervisor *s);

/** How the interfaces are as last looked at; returns how many (at most IFACES_MAX). Thread: any. */
unsigned supervisor_read(struct supervisor *s, struct iface_status out[IFACES_MAX]);
