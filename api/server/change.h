/* What all changes have in common: the flags of the query, preconditions, the record for the log, the call of
 * control, and its outcome as an answer. */
#pragma once

#include "api/server/etag.h"
#include "api/server/exchange.h"
#include "api/server/scribe.h"

/** A change under way. Does not move in memory. */
struct change_call {
	const struct api_request *req;
	struct control_request r;
	struct control_transaction t; /* of r */
	struct scribe scribe;
	char action[192];
	char current[ETAG_LEN]; /* of what is there, when a precondition fails */
};

/** Start the change of one resource: op, ids from the path, flags from the query. False with the answer set
 *  when the daemon does not forward yet, a flag or header is ill-formed, or an id cannot be one. */
MUST_CHECK bool change_init(const struct api_request *req, enum control_op op,
			    struct change_call *c, struct api_response *resp);

/** Start one of several edits: flags, author, log. action: for the log. As change_init. */
MUST_CHECK bool change_init_several(const struct api_request *req, const char *action,
				    struct change_call *c, struct api_response *resp);

/** Refuse the body of r for these faults (422). */
void change_refuse(struct api_response *resp, const struct field_errors *errors);

/** Carry the change of one resource out and answer: the resource with "change", the plan of a dry run, or a
 *  problem. */
void change_run(struct change_call *c, struct api_response *resp);

/** Carry out several. True if it succeeded and was no dry run: the answer is the caller's to set; in any case
 *  change_end is. */
MUST_CHECK bool change_run_several(struct change_call *c, struct api_response *resp);

/** HTTP status of an outcome of control. */
unsigned change_http_status(enum control_status status);

/** Free what it holds. */
void change_end(struct change_call *c);

/** True if the value of a query parameter that is true or false is; *out is false where it is absent. False
 *  with 400 set. */
MUST_CHECK bool change_read_flag(const struct api_request *req, const char *name, bool *out,
				 struct api_response *resp);
