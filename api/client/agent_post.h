/* Reports on their way: one at a time over HTTP, without blocking. */
#pragma once

#include <curl/curl.h>

#include "api/client/agent_talk.h"

struct agent_post;

MUST_CHECK int agent_post_open(const struct agent_options *o, struct agent_post **out,
			       struct error *err);
void agent_post_close(struct agent_post *p);

/** Begin to send. 0 or -ENOMEM. Nothing else may be on its way. */
MUST_CHECK int agent_post_send(struct agent_post *p, const struct agent_outgoing *r,
			       const struct agent_state *s);
bool agent_post_busy(const struct agent_post *p);

/** Wait for the answer, the other descriptors or the time; true: there is an answer in *reply. */
bool agent_post_wait(struct agent_post *p, struct curl_waitfd *more, unsigned n_more,
		     unsigned timeout_ms, struct agent_reply *reply);

/** Readable when the forwarder has closed the connection between two reports; to be waited for. */
int agent_post_hangup_fd(const struct agent_post *p);
/** True once, if it has. */
bool agent_post_hung_up(struct agent_post *p);
