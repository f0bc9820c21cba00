/* The whole desired state as a document. */
#pragma once

#include <jansson.h>

#include "control/control.h"

struct config_dip {
	unsigned at; /* place in the document */
	struct dip_edit edit;
	struct dip_conf conf; /* what the edit makes */
};

struct config_vip {
	unsigned at;
	struct vip_edit edit;
	struct vip_conf conf;
	unsigned n_dips;
	struct config_dip *dips; /* in the order of ids */
};

/** A document that was read. */
struct config {
	unsigned n;
	struct config_vip *vips; /* in the order of ids */
};

/** What becomes of VIPs and DIPs that the document does not name. */
enum config_prune { PRUNE_NONE, PRUNE_DRAIN, PRUNE_REMOVE };
extern const char *const config_prune_names[];

/** Read a document. Every fault is appended to errors. False if there is one, or without memory (then
 *  errors is empty). Free out in any case. Thread: any. */
MUST_CHECK bool config_parse(const json_t *body, struct config *out, struct field_errors *errors);
void config_free(struct config *c);

/** The edits that lead from a desired state to the document. */
struct config_diff {
	struct control_edit *edits;
	unsigned n, capacity;
	struct config_id *ids; /* of what is not in the document */
	bool failed;           /* for want of memory */
};

/** Compute it anew. wanted stays the caller's and must outlive the edits. Thread: control's. */
void config_diff_make(struct config_diff *d, const struct config *wanted, enum config_prune prune,
		      struct control_view *view);
void config_diff_free(struct config_diff *d);

/** A view's desired state, copied; NULL without memory. Thread: control's; what is below: any. */
struct config_copy;
MUST_CHECK struct config_copy *config_copy_new(struct control_view *view);
/** {"vips": [...]}, without what drains; NULL without memory. */
MUST_CHECK json_t *config_copy_print(const struct config_copy *c);
/** Its tag, which is etag_of_view's. */
MUST_CHECK bool config_copy_tag(const struct config_copy *c, char *tag);
uint64_t config_copy_generation(const struct config_copy *c);
void config_copy_free(struct config_copy *c);

/** Make a document that was read before the desired state, as PUT does, and answer. action: for the log. */
struct api_request;
struct api_response;
void config_apply(const struct api_request *req, const json_t *document, enum config_prune prune,
		  const char *action, struct api_response *resp);

/** Hold the request's preconditions against the whole desired state. Thread: control's, in `prepare`. */
struct change_call;
MUST_CHECK enum control_status config_check_whole(struct change_call *c, struct control_view *view);
