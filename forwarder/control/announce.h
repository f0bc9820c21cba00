/* Control's events: one function for each thing that happens, so that what is told of it stands in one
 * place. Internal to control, like internal.h. Thread of all: control. */
#pragma once

#include "control/internal.h"

/** The forwarder has taken over what it found. */
void announce_start(struct control *c);

/** A request was applied. */
void announce_change(struct control *c, const struct control_request *r);

/** A batch was published; it is installed. */
void announce_publish(struct control *c, const struct batch *b);

/** A VIP, or with a DIP's id one of its DIPs, is no longer there. n_flows: flows it took along. */
void announce_gone(struct control *c, const char *vip, const char *dip, uint64_t n_flows);

/** Violations since the last call, with c->violation as the example. */
void announce_violations(struct control *c);

/** The published view's DIP has got its next hop, or lost it. */
void announce_hop(struct control *c, const struct vip_runtime *v, const struct dip_version *d,
		  bool resolved);

void announce_audit(struct control *c, const struct audit *found);

/** What could not be recorded, or was forgotten, since the last call. */
void announce_overload(struct control *c);
