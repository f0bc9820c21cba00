/* Reports on their way: one at a time over HTTP, without blocking. */
#pragma once

#include <curl/curl.h>

#include "api/client/agent_options.h"
#include "api/client/agent_table.h"

#define AGENT_NEWS_MAX 4096u /* of one report, as the API takes them */

/** A report, kept until it is acknowledged. */
struct agent_outgoing {
	uint64_t sequence;
	bool full;
	unsigned part;
	bool more;
	unsigned n;
	struct agent_news news[AGENT_NEWS_MAX];
};

/** What goes into each, as of its sending. */
struct agent_state {
	char instance[17];
	uint64_t clock_base_ms; /* the forwarder's clock less ours, never too much; 0 = unknown */
	bool clock_known;
	uint64_t orphans;
	uint64_t connections;
	unsigned cpus;
	unsigned load_percent;
};

/** What came back. */
struct agent_reply {
	long status; /* HTTP; 0 = no answer, error says why */
	char error[160];
	uint64_t ack;
	bool resync;
	uint64_t clock_ms;
	unsigned refused;
	char instance[17];
	unsigned n_vips;
	struct agent_vip vips[AGENT_VIPS_MAX];
};

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
