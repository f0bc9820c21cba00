/* The paper's protocol (Concury, arXiv 1908.01889) as a forwarder over a port: the baseline of the
 * experiment. Frames are parsed, rewritten and sent by the same code as Concury's; what differs is
 * what a packet is looked up in, and how that is kept. */
#pragma once

#include "io/port.h"
#include "lookup/flow_key.h"

#define PAPER_DIPS_MAX 8

struct paper_lb_config {
	struct port *port;
	struct ip_addr vip;
	uint8_t src_mac[6];
	uint8_t macs[PAPER_DIPS_MAX + 1][6]; /* by DIP, 1.. */
	/* Every flow that will ever be opened: the seed of the arrays is one under which no set of
	 * them has a cycle, so that the baseline never has to build anew. */
	uint32_t n_flows;
	const struct flow_key *flows;
};

/** What a change of the pool does to a flow that was not reported, known from the arrays alone. */
struct paper_change {
	uint32_t n_reported;
	double moved;	  /* share of the Dcodes that change their DIP */
	double disturbed; /* share of (a, b) pairs of cells whose value changes */
	double wrong;	  /* so, the chance that such a flow finds another DIP */
};

struct paper_lb;

/** A forwarder with weights[d] for DIP d (0: none), d in 1 .. PAPER_DIPS_MAX. Aborts without
 * memory. Thread: one at a time, like all here. */
struct paper_lb *paper_lb_new(const struct paper_lb_config *c, const uint32_t *weights);
void paper_lb_free(struct paper_lb *lb);

/** Forward what has come in by queue 0. Returns the number of frames. */
unsigned paper_lb_round(struct paper_lb *lb);

/** The flow's DIP as a packet would find it. */
unsigned paper_lb_lookup(const struct paper_lb *lb, const struct flow_key *key);

/** The report of a host agent that this flow was opened on its DIP. Reported once at most. */
void paper_lb_report(struct paper_lb *lb, const struct flow_key *key, unsigned dip);

/** New weights: a new table with the fewest moves, and new arrays in which all reported flows keep
 *  their DIP. A DIP that had weight and has 0 now keeps the least share a DIP can have, for without
 * a Dcode of its own even its reported flows would be lost. */
struct paper_change paper_lb_change(struct paper_lb *lb, const uint32_t *weights);
