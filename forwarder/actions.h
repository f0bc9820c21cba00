/* What concuryd does besides forwarding: each prints what it has to say and returns the exit status. */
#pragma once

#include "control/options.h"
#include "schema/store.h"

int action_detach(const struct options *o);
int action_check(const struct options *o);
int action_init_token(const struct options *o);

/** Open o's database as store_open does; the directory of the default one is made. */
MUST_CHECK int action_open_store(const struct options *o, struct store **out, struct error *err);

/** Of a bond its slaves are served, of a VLAN its parent: put them in the place of what was named, in
 *  o->ifaces. 0, or negative with err set. Thread: main. */
MUST_CHECK int action_expand_interfaces(struct options *o, struct error *err);

/** Before anything is made, the most likely mistake in a command line: 0 if all interfaces are there. */
MUST_CHECK int action_find_interfaces(const struct options *o, struct error *err);
