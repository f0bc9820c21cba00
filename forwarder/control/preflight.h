/* `concuryd --check`: looks at the machine before anything is attached and prints what it finds, each
 * finding with the command that mends it. */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "control/model.h"

struct preflight {
	unsigned n_ifaces;
	const char *const *ifaces;
	const char *database;
	const char *state_dir;
	unsigned n_workers; /* 0 = the default */
	uint64_t n_flows;   /* 0 = the default */
	/* What the caller found in the database: VIPs in it, or why it cannot be read (NULL = it can,
	 * or is not there yet). */
	unsigned n_vips;
	const struct vip_conf *vips;
	const char *database_fault;
	bool database_in_use; /* by another process: no fault */
	const char *listen;   /* where that one's API most likely is; NULL = not known */
};

/** 0, or -EPERM with err set if this process lacks capabilities that concuryd needs. Thread: main. */
MUST_CHECK int preflight_privileges(struct error *err);

/** Print all findings; returns how many of them keep concuryd from starting. Thread: main. */
unsigned preflight_run(const struct preflight *p, FILE *out);
