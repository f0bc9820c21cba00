/* What agent_post.c and the API's server make of reports and answers between agent and control. */
#pragma once

#include "api/client/agent_talk.h"
#include "control/agents.h"

/** The report as control gets it; entries: room for AGENT_NEWS_MAX. */
void wire_report(const struct agent_outgoing *out, const struct agent_state *s,
		 struct agent_report *r, struct agent_entry *entries);
/** The answer as the agent gets it. */
void wire_reply(const struct agent_answer *a, struct agent_reply *r);
