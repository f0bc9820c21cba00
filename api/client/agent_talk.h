/* What an agent says, and what it makes of the answers. It neither waits nor sends: agent.c does, and
 * the simulation. One thread. */
#pragma once

#include "api/client/agent_options.h"
#include "api/client/agent_table.h"
#include "base/fault.h"

#define AGENT_NEWS_MAX SIM_SIZE(4096u, 8u) /* of one report, as the API takes them */

/** A report, kept until it is acknowledged. */
struct agent_outgoing {
	uint64_t sequence;
	uint64_t made_ms; /* clock_now_ms: what is in it was so then */
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

enum agent_mode { AGENT_GREETING, AGENT_TELLING, AGENT_IN_STEP };

struct agent_talk {
	/* the caller's, set by agent_talk_init */
	const char *url; /* for messages */
	unsigned interval_ms;
	bool vips_given; /* what to watch is not for the forwarder to say */
	void (*look)(void *ctx); /* give all connections that there are to the table */
	void *ctx;
	/* for the caller to read */
	struct agent_table *table;
	unsigned n_vips;
	struct agent_vip vips[AGENT_VIPS_MAX];
	uint64_t send_ms; /* nothing is to be sent before (clock_now_ms) */
	struct agent_state state; /* orphans, connections, cpus, load: the caller's to write */
	/* its own */
	struct agent_outgoing out;
	bool waiting; /* out is not acknowledged */
	enum agent_mode mode;
	bool begin; /* TELLING: from its first part */
	uint64_t asked_ms; /* when out was last sent */
	char forwarder[17]; /* instance */
	unsigned n_failures;
	unsigned n_refusals; /* in a row */
};

/** A new instance, as after every start. vips: NULL: what the forwarder says. 0 or -ENOMEM. */
MUST_CHECK int agent_talk_init(struct agent_talk *t, const struct agent_options *o,
			       void (*look)(void *ctx), void *ctx);
void agent_talk_destroy(struct agent_talk *t);

/** The report to send now: a new one, or the last one once more if it was not acknowledged. Valid until
 *  the next call. */
const struct agent_outgoing *agent_talk_next(struct agent_talk *t);

/** How old a piece of news was when the report was made. */
uint32_t agent_talk_age_ms(const struct agent_outgoing *r, const struct agent_news *n);
/** When that was by the forwarder's clock, as far as we know it; 0: unknown. */
uint64_t agent_talk_clock_ms(const struct agent_outgoing *r, const struct agent_state *s);

/** An answer, or that there is none. next_ms: when a report is due if there is nothing to tell. */
void agent_talk_reply(struct agent_talk *t, const struct agent_reply *r, uint64_t next_ms);

/** The forwarder has closed the connection, as it does when it ends: see soon whether it is back. */
void agent_talk_hung_up(struct agent_talk *t);
