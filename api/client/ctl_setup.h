/* Where to ask and how to print: from the options, else the environment, else the defaults. */
#pragma once

#include "api/client/ctl.h"

/** Set c->target. 0, or -1 with err set: a bad URL, or a token file that cannot be read. */
MUST_CHECK int ctl_setup_target(struct ctl *c, const struct ctl_call *call, struct error *err);

/** Set how to print. 0, or -1 with err set: a format that is not known. */
MUST_CHECK int ctl_setup_output(struct ctl *c, const struct ctl_call *call, struct error *err);
