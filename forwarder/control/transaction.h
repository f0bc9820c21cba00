/* What a change may be besides one edit: several edits in one piece; on conditions; only planned;
 * and with a record of what it did. Control knows no JSON and no entity tags: what has to do with
 * those is called back. */
#pragma once

#include "control/model.h"

struct control;

enum control_op {
	OP_VIP_PUT,
	OP_VIP_PATCH,
	OP_VIP_DELETE,
	OP_DIP_PUT,
	OP_DIP_PATCH,
	OP_DIP_DELETE,
};

static inline bool control_op_is_dip(enum control_op op)
{
	return op >= OP_DIP_PUT;
}

enum control_status {
	CONTROL_OK,	      /* 200 */
	CONTROL_CREATED,      /* 201 */
	CONTROL_ACCEPTED,     /* 202: drains; flows_remaining says how many flows are left */
	CONTROL_NOT_FOUND,    /* 404: errors name which (vip or dip) in detail */
	CONTROL_CONFLICT,     /* 409: duplicate, immutable member, overlap */
	CONTROL_PRECONDITION, /* 412: what `prepare` said */
	CONTROL_INVALID,      /* 422: errors */
	CONTROL_UNAVAILABLE,  /* 503 with retry_after_s */
	CONTROL_NO_STORAGE,   /* 507: the disk is full or read-only; the old state goes on */
	CONTROL_FAILED,	      /* 500 */
};

/** One edit of several. */
struct control_edit {
	/* in */
	enum control_op op;
	bool force;	 /* as in struct control_request */
	const char *vip; /* the caller's, as the edits below */
	const char *dip; /* OP_DIP_* */
	const struct vip_edit *vip_edit;
	const struct dip_edit *dip_edit;
	char pointer[24]; /* goes before the pointers of its faults: "/operations/3/body" */
	/* out */
	enum control_status status;
	uint64_t flows_remaining; /* DELETE */
	bool deleting;		  /* what it concerns drains when all is done */
	/** What it concerns, when all is done; NULL: it is not there, or `want_conf` was not set.
	 * malloc. */
	struct vip_conf *vip_conf;
	struct dip_conf *dip_conf;
};

/** The desired state, in the control thread, while a callback runs. */
struct control_view;

struct control_view_vip {
	const struct vip_conf *conf;
	bool deleting;
	unsigned n_dips;
	const void *dips; /* control's: ask control_view_dip */
};

/** VIP number i, in the order of ids. False past the last. Drains the rings, so that a walk through
 * all may take its time. */
MUST_CHECK bool control_view_vip(struct control_view *view, unsigned i,
				 struct control_view_vip *out);
/** True if a walk has ended early for want of memory. */
bool control_view_failed(const struct control_view *view);
/** The one with this id. */
MUST_CHECK bool control_view_find(struct control_view *view, const char *id,
				  struct control_view_vip *out);
/** DIP number i < n_dips, in the order of ids. */
const struct dip_conf *control_view_dip(const struct control_view_vip *v, unsigned i,
					bool *deleting);
/** The one with this id, or NULL. */
const struct dip_conf *control_view_find_dip(const struct control_view_vip *v, const char *id,
					     bool *deleting);
/** The generation that is published. */
uint64_t control_view_generation(const struct control_view *view);

/** Call fn with the published desired state. It must not call control. Thread: any but control's.
 */
void control_look(struct control *c, void (*fn)(void *ctx, struct control_view *view), void *ctx);

/** A resource as an edit found and left it; NULL: it was, or is, not there, or drains. */
struct control_seen {
	const char *vip;
	const char *dip; /* NULL: the VIP itself */
	const struct vip_conf *vip_before, *vip_after;
	const struct dip_conf *dip_before, *dip_after;
	bool draining; /* it is not there any more because it drains */
};

/** What would become of a DIP or a VIP. */
struct plan_dip {
	char id[ID_LEN];
	uint32_t dcodes, dcodes_before;
	bool created, removed;
	bool changed; /* it is configured otherwise, whether or not that moves a Dcode */
};

struct plan_info {
	char id[ID_LEN];
	bool created, removed;
	uint64_t flows_known, flows_pinned, flows_moved, dcodes_moved;
	uint64_t pin_bytes, dcode_bytes;
	uint64_t build_us;
	uint32_t n_dcodes;
	unsigned n_dips;
	struct plan_dip *dips; /* in the order of ids; those that go are at the end */
};

/** What a change may ask for besides its one edit. All but `dry_run` and the edits may be unset. */
struct control_transaction {
	/* in */
	void *ctx; /* of the callbacks, all of which run in the control thread and must not call
		      control */
	/** Before the edits, at the moment at which they are applied: CONTROL_OK to go on, else the
	 * status to refuse with. May set the edits below. Called again if all has to be applied
	 * anew. */
	enum control_status (*prepare)(void *ctx, struct control_view *view,
				       struct control_transaction *t);
	/** For each resource that an edit changes, in the order of the edits; undone from the last
	 * to the first they lead back. What `text` tells begins anew with `begin`. */
	void (*begin)(void *ctx);
	void (*edited)(void *ctx, const struct control_seen *seen);
	/** What was told, as persist_log_entry.edits wants it (valid as long as the transaction),
	 * and of how many edits. NULL without memory, which fails the change. */
	const char *(*text)(void *ctx, unsigned *n_edits);
	const char *action; /* of the log entry: "PATCH /v1/vips/web" */
	/** After the publish, and before anything else is published. */
	void (*published)(void *ctx, struct control_view *view);
	bool dry_run;	/* plan, tell, and throw away */
	bool want_conf; /* fill vip_conf and dip_conf of the edits */
	bool several;	/* the edits below count, not the request's own; also if there are none */
	unsigned n_edits;
	struct control_edit *edits;
	/* out */
	unsigned n_plans;	 /* dry_run: one for each VIP that would be published anew */
	struct plan_info *plans; /* free with control_transaction_clear */
};

/** Free what control filled in. */
void control_transaction_clear(struct control_transaction *t);
