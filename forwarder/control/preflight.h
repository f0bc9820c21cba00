/* `concuryd --check` and GET /v1/doctor: looks at the machine, before anything is attached or while
 * concuryd runs, and says what it finds, each finding with the command that mends it. */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "control/control.h"
#include "io/port_xsk.h"

/** A backend, as configured. */
struct preflight_dip {
	unsigned vip; /* index in vips */
	char id[ID_LEN];
	struct ip_addr address;
	bool has_mac; /* so no neighbour is asked for it */
};

struct preflight {
	unsigned n_ifaces;
	const char *const *ifaces;
	const char *database;
	const char *state_dir;
	unsigned n_workers; /* 0 = the default */
	uint64_t n_flows;   /* 0 = the default */
	bool keep_ipc_lock;
	/* What the caller found in the database: VIPs in it, or why it cannot be read (NULL = it
	 * can, or is not there yet). */
	unsigned n_vips;
	const struct vip_conf *vips;
	const char *database_fault;
	bool database_in_use; /* by another process: no fault */
	const char *listen;   /* where that one's API most likely is; NULL = not known */
	unsigned n_dips;      /* of all these VIPs */
	const struct preflight_dip *dips;
	/* Asked by the running concuryd itself: what only a start needs is passed by. */
	bool running;
	unsigned n_queues;
	const struct xsk_queue *queues; /* in use */
};

/** Fill vips and dips in; drop them when they are no longer needed. False without memory. */
MUST_CHECK bool preflight_take_state(struct preflight *p, const struct persist_state *s);
MUST_CHECK bool preflight_take_infos(struct preflight *p, const struct vip_info *v, size_t n);
void preflight_drop(struct preflight *p);

enum finding_rank {
	FINDING_OK,
	FINDING_NOTE,	/* works, but slower or not as meant */
	FINDING_BLOCKS, /* a start would fail, or no packet would get through */
	N_FINDING_RANKS
};

/** "ok", "note", "blocks". */
const char *finding_rank_name(enum finding_rank rank);

struct finding {
	enum finding_rank rank;
	char *text;
	char *command; /* that mends it; NULL = there is none */
};

struct findings {
	unsigned n;
	struct finding *list;
	unsigned n_of[N_FINDING_RANKS]; /* right even where memory ran out and the list is not whole
					 */
};

/** 0, or -EPERM with err set if this process lacks capabilities that concuryd needs. Thread: main.
 */
MUST_CHECK int preflight_privileges(struct error *err);

/** Look at everything. It may take two seconds: DIPs are asked for whether they are there. Free the
 * findings. Thread: any. */
void preflight_look(const struct preflight *p, struct findings *out);
void findings_free(struct findings *f);

/** Look, and print; returns how many findings keep concuryd from starting. Thread: main. */
unsigned preflight_run(const struct preflight *p, FILE *out);
