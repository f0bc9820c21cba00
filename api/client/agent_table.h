/* The backend's connections as the agent knows them, and what of that the forwarder has not been
 * told: connections that are open and ends. All times are clock_now_ms. */
#pragma once

#include "base/addr.h"

#define AGENT_ENDS_MAX 65536u /* untold ends kept; beyond, everything is told anew */

struct agent_key {
	struct ip_addr src;
	struct ip_addr dst; /* of the VIP */
	uint16_t sport, dport; /* host order */
	uint8_t proto;
	uint8_t zero[3];
};
_Static_assert(sizeof(struct agent_key) == 40, "no padding: compared and hashed as bytes");

/** One thing to be told. */
struct agent_news {
	struct agent_key key;
	bool ended;
	uint64_t at_ms; /* of the end, not later than it; or since when it is known to be open */
};

struct agent_table;

/** NULL without memory. */
struct agent_table *agent_table_new(void);
void agent_table_free(struct agent_table *t);

/** Forget everything. */
void agent_table_clear(struct agent_table *t);

/** A dump begins: what it shows is given to agent_table_seen. */
void agent_table_dump_begin(struct agent_table *t);
/** A connection is there. cookie: the kernel's number of the socket. False without memory. */
MUST_CHECK bool agent_table_seen(struct agent_table *t, const struct agent_key *key,
				 uint64_t cookie, uint64_t now_ms);
/** Its end: whatever it did not show and `gone` confirms is ended as of the moment the last dump
 * that showed it began. */
void agent_table_dump_end(struct agent_table *t,
			  bool (*gone)(void *ctx, const struct agent_key *key, uint64_t cookie),
			  void *ctx);

/** The kernel says that the socket is no more; the table need not know it. False without memory. */
MUST_CHECK bool agent_table_ended(struct agent_table *t, const struct agent_key *key,
				  uint64_t cookie, uint64_t at_ms);

/** Take up to max pieces of news; they are then the caller's to deliver. */
unsigned agent_table_take(struct agent_table *t, struct agent_news *out, unsigned max);
/** Is there more? */
bool agent_table_has_news(const struct agent_table *t);

/** All open connections are news again, ends are none (whoever is told all knows them). */
void agent_table_all_news(struct agent_table *t);

/** Ends were too many to keep: agent_table_all_news is due. */
bool agent_table_overflowed(const struct agent_table *t);

/** Connections that are open. */
uint64_t agent_table_open(const struct agent_table *t);
