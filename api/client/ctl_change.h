/* Changes of one resource: the parameters and headers that all of them take, and what has changed.
 */
#pragma once

#include "api/client/ctl.h"

/** Send a change with the call's --dry-run, --override-hold, --if-match; print the answer: as it
 * came with -o json, else what has changed, in a sentence that begins with `what`. An enum
 * ctl_exit. */
MUST_CHECK int ctl_change(struct ctl *c, const struct ctl_call *call, struct ctl_request *r,
			  struct ctl_path *path, const char *what);

/** {"member": value} of the call's arguments from the first-th on, as a body to send; free it. NULL
 * with the mistake told. */
json_t *ctl_change_body(const struct ctl_call *call, unsigned first);
