/* One cell of the experiment: some flows, a loss and a delay of host agents' reports, one change of
 * the pool; and what came of it. Shared by the simulated and the real half. */
#pragma once

#include "tests/experiment/paper_lb.h"
#include "tests/unit/frames.h"

#define CELL_VIP "10.9.0.100"
#define CELL_OPEN_MS 2000u /* flows are opened evenly over this time, then the pool changes */
#define CELL_WEIGHT 1000u

enum pool_change { CHANGE_WEIGHT, CHANGE_ADD, CHANGE_DRAIN, N_POOL_CHANGES };
extern const char *const pool_change_names[];

struct cell {
	enum pool_change change;
	uint32_t n_flows;
	unsigned loss; /* percent of the reports */
	uint32_t delay_ms;
};

struct outcome {
	uint32_t n_wrong;	 /* flows of which some packet reached another DIP than its first */
	uint32_t first_wrong_ms; /* after the change; UINT32_MAX: never */
	uint32_t n_silent;	 /* flows of which a packet never arrived */
	struct paper_change paper; /* the baseline's; all 0 for Concury */
};

/** Flow number i: a client 10.64.x.y, one port each. */
struct frames_spec cell_frame(uint32_t i, uint8_t tcp_flags, uint32_t payload);
struct flow_key cell_flow(uint32_t i);
/** Its number, of a frame that was sent; UINT32_MAX: not one of ours. */
uint32_t cell_number(const struct ip_addr *src, uint16_t sport);
struct flow_key *cell_flows(uint32_t n); /* free() it */

/** Weights by DIP before (after == false) and after the change. [0] is unused. */
void cell_weights(enum pool_change change, bool after, uint32_t weights[PAPER_DIPS_MAX + 1]);

/** The DIP of each flow's first packet, and what later ones say. */
struct watch {
	uint8_t *first; /* by flow, 0: none yet */
	bool *wrong;
	struct outcome *outcome;
};
void watch_init(struct watch *w, const struct cell *c, struct outcome *o);
void watch_destroy(struct watch *w);
/** A packet of flow i reached a DIP (not 0), ms after the change. */
void watch_packet(struct watch *w, uint32_t i, unsigned dip, uint32_t ms);

/** The host agents' way to control: each report is lost with some chance, or arrives late. */
struct reports {
	unsigned loss;
	uint32_t delay_ms;
	uint32_t n, next; /* sent; delivered */
	uint32_t *flows;
	uint64_t *due_ms;
};
void reports_init(struct reports *r, const struct cell *c);
void reports_destroy(struct reports *r);
void reports_send(struct reports *r, uint32_t flow, uint64_t now_ms);
/** The next flow whose report has arrived by now, or UINT32_MAX. */
uint32_t reports_take(struct reports *r, uint64_t now_ms);

/** Flows of the baseline that it should have lost: those that were not reported by the change,
 * times the chance of each. */
double cell_expected(const struct cell *c, const struct outcome *paper);

void cell_print_head(const char *where);
/** One row; true if it is as it must be: nothing wrong in Concury's, the paper's share within five
 *  standard deviations of what is expected, nothing silent in either. */
MUST_CHECK bool cell_print(const struct cell *c, const struct outcome *paper,
			   const struct outcome *concury);
