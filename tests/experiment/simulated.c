/* The experiment on a simulated clock: frames go in by a port of memory and come out of it, one
 * thread, no waiting. Concury is the whole forwarder of tests/unit/world; the baseline is paper_lb
 * over a port of the same kind. Usage: simulated [--check]; without --check the whole matrix. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "io/port_mem.h"
#include "tests/experiment/cell.h"
#include "tests/unit/world.h"

#define STEP_MS 10u
#define STEPS (CELL_OPEN_MS / STEP_MS)
#define SETTLE_EVERY 256u /* flows: far fewer than a ring holds */

/* What is put to the test. */
struct subject {
	unsigned (*send)(void *ctx,
			 const struct frames_spec *s); /* the DIP that it reached, or 0 */
	void (*report)(void *ctx, uint32_t flow, unsigned dip);
	void (*settle)(void *ctx);
	void (*change)(void *ctx, enum pool_change change, struct outcome *o);
	void *ctx;
};

/* --- Concury: its agents are switched off, learning is its own
 * ------------------------------------------------------------------------------------------- */

static unsigned concury_send(void *ctx, const struct frames_spec *s)
{
	return world_send(ctx, 0, s);
}

static void concury_report(void *ctx, uint32_t flow, unsigned dip)
{
	(void)ctx;
	(void)flow;
	(void)dip;
}

static void concury_settle(void *ctx)
{
	world_settle(ctx);
}

static void concury_change(void *ctx, enum pool_change change, struct outcome *o)
{
	uint32_t before[PAPER_DIPS_MAX + 1], after[PAPER_DIPS_MAX + 1];

	(void)o;
	cell_weights(change, false, before);
	cell_weights(change, true, after);
	for (unsigned d = 1; d <= PAPER_DIPS_MAX; d++) {
		if (after[d] && !before[d])
			world_put_dip(ctx, "web", d, after[d], CONTROL_CREATED);
		else if (after[d] != before[d])
			world_set_weight(ctx, "web", d, after[d]);
	}
}

static void concury_new(struct subject *s, const struct cell *c)
{
	uint32_t weights[PAPER_DIPS_MAX + 1];
	struct world *w = world_new(1, 1 << 18);

	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	cell_weights(c->change, false, weights);
	for (unsigned d = 1; d <= PAPER_DIPS_MAX; d++)
		if (weights[d])
			world_put_dip(w, "web", d, weights[d], CONTROL_CREATED);
	*s = (struct subject){concury_send, concury_report, concury_settle, concury_change, w};
}

/* --- the paper's protocol
 * ------------------------------------------------------------------------- */

struct paper_world {
	struct port *port;
	struct paper_lb *lb;
};

static unsigned paper_send(void *ctx, const struct frames_spec *s)
{
	static uint8_t frame[FRAMES_MAX], out[2048];
	struct paper_world *p = ctx;
	int rc = port_mem_inject(p->port, 0, 0, frame, frames_build(frame, s));

	assert(rc == 0);
	paper_lb_round(p->lb);
	return port_mem_take(p->port, 0, out, sizeof(out)) ? out[5] : 0;
}

static void paper_report(void *ctx, uint32_t flow, unsigned dip)
{
	struct flow_key key = cell_flow(flow);

	paper_lb_report(((struct paper_world *)ctx)->lb, &key, dip);
}

static void paper_settle(void *ctx)
{
	(void)ctx;
}

static void paper_change(void *ctx, enum pool_change change, struct outcome *o)
{
	uint32_t weights[PAPER_DIPS_MAX + 1];

	cell_weights(change, true, weights);
	o->paper = paper_lb_change(((struct paper_world *)ctx)->lb, weights);
}

static void paper_new(struct subject *s, struct paper_world *p, const struct cell *c)
{
	struct port_mem_config pc = {.n_queues = 1,
				     .n_ifaces = 1,
				     .n_frames = 256,
				     .frame_size = 2048,
				     .headroom = 256,
				     .tx_ring = 256};
	struct paper_lb_config lc = {.vip = frames_ip(CELL_VIP), .n_flows = c->n_flows};
	struct flow_key *flows = cell_flows(c->n_flows);
	uint32_t weights[PAPER_DIPS_MAX + 1];

	for (uint8_t d = 1; d <= PAPER_DIPS_MAX; d++)
		memcpy(lc.macs[d], (uint8_t[]){2, 0xd1, 0, 0, 0, d}, 6);
	p->port = port_mem_new(&pc);
	assert(p->port);
	lc.port = p->port;
	lc.flows = flows;
	cell_weights(c->change, false, weights);
	p->lb = paper_lb_new(&lc, weights);
	free(flows);
	*s = (struct subject){paper_send, paper_report, paper_settle, paper_change, p};
}

/* --- one cell
 * -------------------------------------------------------------------------------------- */

struct run {
	const struct cell *cell;
	const struct subject *subject;
	struct watch watch;
	struct reports reports;
	struct outcome *outcome;
};

static void send_packet(struct run *r, uint32_t i, uint8_t flags, uint32_t payload, uint32_t ms)
{
	struct frames_spec s = cell_frame(i, flags, payload);
	unsigned dip = r->subject->send(r->subject->ctx, &s);

	if (dip)
		watch_packet(&r->watch, i, dip, ms);
	else
		r->outcome->n_silent++;
}

static void deliver_reports(struct run *r)
{
	for (uint32_t i; (i = reports_take(&r->reports, world_now_ms())) != UINT32_MAX;)
		r->subject->report(r->subject->ctx, i, r->watch.first[i]);
}

static void open_flows(struct run *r)
{
	const struct cell *c = r->cell;

	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t end = (uint32_t)((uint64_t)c->n_flows * (step + 1) / STEPS);
		for (uint32_t i = (uint32_t)((uint64_t)c->n_flows * step / STEPS); i < end; i++) {
			send_packet(r, i, FRAMES_SYN, 0, 0);
			send_packet(r, i, FRAMES_ACK, 0, 0);
			reports_send(&r->reports, i, world_now_ms());
			if (i % SETTLE_EVERY == 0)
				r->subject->settle(r->subject->ctx);
		}
		deliver_reports(r);
		r->subject->settle(r->subject->ctx);
		world_advance_ms(STEP_MS);
	}
}

/* Every flow speaks at once after the change, and again until the last report is in. */
static void speak_on(struct run *r)
{
	static const uint32_t rounds_ms[] = {0, 1000, 5000, 12000};
	uint32_t ms = 0;

	for (unsigned k = 0; k < sizeof(rounds_ms) / sizeof(*rounds_ms); k++) {
		for (; ms < rounds_ms[k]; ms += STEP_MS * 10) {
			world_advance_ms(STEP_MS * 10);
			deliver_reports(r);
			r->subject->settle(r->subject->ctx);
		}
		for (uint32_t i = 0; i < r->cell->n_flows; i++) {
			send_packet(r, i, FRAMES_PSH | FRAMES_ACK, 10, ms);
			if (i % SETTLE_EVERY == 0)
				r->subject->settle(r->subject->ctx);
		}
	}
}

static void run_cell(const struct cell *c, const struct subject *s, struct outcome *o)
{
	struct run r = {.cell = c, .subject = s, .outcome = o};

	watch_init(&r.watch, c, o);
	reports_init(&r.reports, c);
	open_flows(&r);
	s->change(s->ctx, c->change, o);
	speak_on(&r);
	reports_destroy(&r.reports);
	watch_destroy(&r.watch);
}

static bool compare(const struct cell *c)
{
	struct paper_world p;
	struct outcome paper, concury;
	struct subject s;

	paper_new(&s, &p, c);
	run_cell(c, &s, &paper);
	paper_lb_free(p.lb);
	port_mem_free(p.port);
	concury_new(&s, c);
	run_cell(c, &s, &concury);
	struct consistency k = world_consistency(s.ctx);
	bool witnessed = k.violations_total == 0 && k.flows_unlearned_total == 0;
	world_free(s.ctx);
	return cell_print(c, &paper, &concury) && witnessed;
}

static bool whole_matrix(void)
{
	static const unsigned losses[] = {0, 10, 50, 100};
	static const uint32_t delays[] = {0, 1000, 10000};
	static const uint32_t sizes[] = {10000, 100000};
	bool ok = true;

	for (unsigned n = 0; n < 2; n++)
		for (unsigned change = 0; change < N_POOL_CHANGES; change++)
			for (unsigned d = 0; d < 3; d++)
				for (unsigned l = 0; l < 4; l++) {
					struct cell c = {change, sizes[n], losses[l], delays[d]};
					ok &= compare(&c);
				}
	return ok;
}

int main(int argc, char **argv)
{
	static const struct cell check = {CHANGE_WEIGHT, 10000, 50, 0};
	bool only_check = argc > 1 && strcmp(argv[1], "--check") == 0;

	if (!only_check)
		printf("72 cells on a simulated clock: about two minutes\n");
	cell_print_head("simulated: ports of memory");
	bool ok = only_check ? compare(&check) : whole_matrix();
	printf("%sok - experiment, simulated: Concury moves no flow, the paper's protocol what its "
	       "reports missed\n",
	       ok ? "" : "not ");
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
