/* Health checks as somebody might configure them, at random. */
#pragma once

#include "control/model.h"

/** A valid configuration of a random type, none included, for any VIP with a port. rnd(n): a number below
 *  n. */
void random_health(struct health_conf *c, unsigned (*rnd)(unsigned n));
