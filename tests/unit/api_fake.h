/* A daemon made up for the API's tests: one VIP "web" with two DIPs, changes that are recorded and
 * answered as the test says. */
#pragma once

#include <stdatomic.h>

#include "api/server/auth.h"
#include "api/server/http.h"

struct api_fake {
	/* what the next changes get */
	enum control_status status;
	char detail[64];
	uint32_t retry_after_s;
	uint64_t flows_remaining;
	struct field_errors errors;
	unsigned change_ms;	   /* how long one takes */
	_Atomic bool hold_changes; /* none ends while this is set */
	bool no_vips;
	bool not_serving;
	unsigned n_more_warnings;
	bool draining; /* VIP and DIPs */
	bool no_audit; /* control has ended */
	uint64_t misplaced;
	uint64_t flows;
	/* what came */
	_Atomic unsigned n_changes;
	_Atomic unsigned n_changes_now;
	_Atomic unsigned n_changes_together; /* the most at one time */
	struct control_request last;
	struct health_request health;	   /* the last override */
	struct explain_question explained; /* its vip is gone */
	bool ends_own_use;		   /* any VIP */
	/* the one agent, "a1", and what it sent */
	bool agent_bound;
	uint8_t token_hash[32];
	struct agent_info agent;
	struct agent_report report; /* entries: those below */
	struct agent_entry entries[AGENT_ENTRIES_MAX];
	_Atomic unsigned n_reports;
};

extern struct api_fake api_fake;

/** A store of tokens that keeps nothing, and fails (-EROFS) while api_fake.status is not OK. */
extern const struct auth_store api_fake_store;

/** Everything of the context: the functions above and figures to recognise. */
void api_fake_context(struct api_context *api);
