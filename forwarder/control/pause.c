/* For who changes what workers work with, besides snapshots: in control's thread, so that no
 * publish is in the middle of the same handshake. */
#include "control/control.h"
#include "control/internal.h"
#include "worker/fragments.h"

struct pause_call {
	void (*fn)(void *arg);
	void *arg;
};

/* Fragments that wait are dropped: whose frames are a socket's is about to be told anew. */
static void pause_workers(struct control *c, void *arg)
{
	const struct pause_call *call = arg;

	workers_hold(c->conf.workers, c->conf.n_workers);
	workers_wait_still(c->conf.workers, c->conf.n_workers);
	for (unsigned i = 0; i < c->conf.n_workers; i++)
		fragments_drop(c->conf.workers[i]);
	call->fn(call->arg);
	workers_release(c->conf.workers, c->conf.n_workers);
}

void control_pause(struct control *c, void (*fn)(void *arg), void *arg)
{
	struct pause_call call = {fn, arg};

	control_call(c, pause_workers, &call);
}

struct move_call {
	unsigned iface;
	int ifindex;
};

static void move_iface(struct control *c, void *arg)
{
	const struct move_call *call = arg;

	c->conf.ifindexes[call->iface] = call->ifindex;
	c->hops_changed = true;
}

void control_move_iface(struct control *c, unsigned iface, int ifindex)
{
	struct move_call call = {iface, ifindex};

	control_call(c, move_iface, &call);
}
