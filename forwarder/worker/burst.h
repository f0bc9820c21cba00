/* A burst under way: what its stages (pipeline.c) and the seldom ways aside share. */
#pragma once

#include "worker/worker.h"

#define ANSWERS_NONE TRACE_FORWARDED
#define EGRESS_NONE 0xff /* of a frame that has ended */
#define EGRESS_HELD 0xfe /* of one that the worker keeps */
_Static_assert(IFACES_MAX <= 32, "a bit for each egress, and less than EGRESS_HELD");

struct burst {
	struct worker *w;
	const struct snapshot *s;
	struct frame *frames;
	unsigned n;
	uint32_t now_ms; /* low bits of clock_now_ms */
	unsigned n_ended;
	uint32_t egress; /* bit i: a frame goes out by interface i */
	uint32_t aside;	 /* bit i: frame i leaves, but not to a DIP */
	uint32_t echoes; /* bit i: frame i is an echo request */
	uint32_t backs;	 /* bit i: frame i is a DIP's, on its way back */
	uint32_t fragments; /* bit i: frame i is a fragment whose flow is known */
	uint32_t kept;	 /* bit i: frame i is held, and no longer the burst's */
	bool have_waited; /* they come from where fragments are held */
	struct packet packets[BURST_MAX];
	struct lookup flows[BURST_MAX];
	const struct dip_view *dips[BURST_MAX];
	const struct back_way *ways[BURST_MAX]; /* of those in backs */
	uint16_t back_vlans[BURST_MAX];		/* the tags with which these leave; see vlan_leave_back */
	uint32_t len_in[BURST_MAX];		/* frame length as received */
	uint8_t parsed[BURST_MAX];		/* enum parse_result */
	uint8_t reason[BURST_MAX];    /* enum drop_reason of a frame that has ended; of one that is
				       * aside,    that of the packet it answers, or ANSWERS_NONE */
	uint8_t egress_of[BURST_MAX]; /* interface by which a frame that is ready leaves */
	struct trace_burst trace;     /* trace.tap == NULL: nothing else of it is set */
};

/** IP bytes that frame i may have when it leaves for its DIP: what the interface carries. A link
 * takes one tag on top of its MTU, but not two. */
static ALWAYS_INLINE uint32_t burst_mtu(const struct burst *b, unsigned i)
{
	const struct dip_view *d = b->dips[i];

	if (likely(b->packets[i].n_vlans <= 1) || d->vlan)
		return d->mtu;
	return d->mtu > 4 ? d->mtu - 4 : 0;
}

/** Frame i is dropped for this reason. */
static ALWAYS_INLINE void burst_end(struct burst *b, unsigned i, enum drop_reason reason)
{
	b->reason[i] = (uint8_t)reason;
	b->egress_of[i] = EGRESS_NONE;
	b->flows[i].vip = NULL;
	b->n_ended++;
}

/** Frame i, rewritten for its DIP, leaves by interface `egress`. */
static ALWAYS_INLINE void burst_send(struct burst *b, unsigned i, unsigned egress)
{
	b->egress_of[i] = (uint8_t)egress;
	b->egress |= 1u << egress;
}

/** Frame i, MAC addresses and all, leaves by interface `egress`, though not to a DIP: no DIP's
 *  counters move, and no later stage touches it. It must not have ended. */
static inline void burst_send_aside(struct burst *b, unsigned i, unsigned egress)
{
	b->flows[i].vip = NULL;
	b->aside |= 1u << i;
	b->reason[i] = ANSWERS_NONE;
	burst_send(b, i, egress);
}
