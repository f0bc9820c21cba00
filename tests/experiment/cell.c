#include "tests/experiment/cell.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/entropy.h"

#define PORTS 1024u /* of one client address */

const char *const pool_change_names[] = {"weight", "add", "drain"};

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

/* --- flows
 * ----------------------------------------------------------------------------------------- */

static struct ip_addr client_of(uint32_t i)
{
	uint32_t k = i / PORTS;
	uint8_t a[4] = {10, 64, (uint8_t)(k >> 8), (uint8_t)k};

	return ip_addr_v4(a);
}

struct frames_spec cell_frame(uint32_t i, uint8_t tcp_flags, uint32_t payload)
{
	return (struct frames_spec){.src = client_of(i),
				    .dst = frames_ip(CELL_VIP),
				    .sport = (uint16_t)(1024 + i % PORTS),
				    .dport = 80,
				    .tcp_flags = tcp_flags,
				    .payload_len = payload};
}

struct flow_key cell_flow(uint32_t i)
{
	return (struct flow_key){.src = client_of(i),
				 .sport_be = htons((uint16_t)(1024 + i % PORTS)),
				 .dport_be = htons(80),
				 .proto = IPPROTO_TCP};
}

uint32_t cell_number(const struct ip_addr *src, uint16_t sport)
{
	uint32_t k = (uint32_t)src->b[14] << 8 | src->b[15];

	if (src->b[12] != 10 || src->b[13] != 64 || sport < 1024 || sport >= 1024 + PORTS)
		return UINT32_MAX;
	return k * PORTS + sport - 1024;
}

struct flow_key *cell_flows(uint32_t n)
{
	struct flow_key *flows = must(calloc(n, sizeof(*flows)));

	for (uint32_t i = 0; i < n; i++)
		flows[i] = cell_flow(i);
	return flows;
}

void cell_weights(enum pool_change change, bool after, uint32_t weights[PAPER_DIPS_MAX + 1])
{
	memset(weights, 0, (PAPER_DIPS_MAX + 1) * sizeof(*weights));
	for (unsigned d = 1; d <= 3; d++)
		weights[d] = CELL_WEIGHT;
	if (!after)
		return;
	if (change == CHANGE_WEIGHT)
		weights[1] = 3 * CELL_WEIGHT;
	else if (change == CHANGE_ADD)
		weights[4] = CELL_WEIGHT;
	else
		weights[2] = 0;
}

/* --- what arrives
 * ---------------------------------------------------------------------------------- */

void watch_init(struct watch *w, const struct cell *c, struct outcome *o)
{
	w->first = must(calloc(c->n_flows, sizeof(*w->first)));
	w->wrong = must(calloc(c->n_flows, sizeof(*w->wrong)));
	w->outcome = o;
	*o = (struct outcome){.first_wrong_ms = UINT32_MAX};
}

void watch_destroy(struct watch *w)
{
	free(w->first);
	free(w->wrong);
}

void watch_packet(struct watch *w, uint32_t i, unsigned dip, uint32_t ms)
{
	struct outcome *o = w->outcome;

	if (!w->first[i])
		w->first[i] = (uint8_t)dip;
	if (w->first[i] == dip)
		return;
	if (ms < o->first_wrong_ms)
		o->first_wrong_ms = ms;
	o->n_wrong += !w->wrong[i];
	w->wrong[i] = true;
}

/* --- reports
 * --------------------------------------------------------------------------------------- */

void reports_init(struct reports *r, const struct cell *c)
{
	*r = (struct reports){.loss = c->loss, .delay_ms = c->delay_ms};
	r->flows = must(calloc(c->n_flows, sizeof(*r->flows)));
	r->due_ms = must(calloc(c->n_flows, sizeof(*r->due_ms)));
}

void reports_destroy(struct reports *r)
{
	free(r->flows);
	free(r->due_ms);
}

void reports_send(struct reports *r, uint32_t flow, uint64_t now_ms)
{
	if ((uint32_t)(entropy_u64() >> 32) % 100 < r->loss)
		return;
	r->flows[r->n] = flow;
	r->due_ms[r->n++] = now_ms + r->delay_ms;
}

uint32_t reports_take(struct reports *r, uint64_t now_ms)
{
	if (r->next == r->n || r->due_ms[r->next] > now_ms)
		return UINT32_MAX;
	return r->flows[r->next++];
}

/* --- the table
 * ------------------------------------------------------------------------------------- */

double cell_expected(const struct cell *c, const struct outcome *paper)
{
	return (c->n_flows - paper->paper.n_reported) * paper->paper.wrong;
}

void cell_print_head(const char *where)
{
	printf("%s\n", where);
	printf("%-6s %7s %5s %6s | %-46s | %s\n", "", "", "", "", "the paper's protocol",
	       "Concury");
	printf("%-6s %7s %5s %6s | %10s %7s %8s %8s %9s | %7s %9s\n", "change", "flows", "loss",
	       "delay", "unreported", "wrong", "of them", "expected", "first", "wrong", "first");
}

static void print_first(const struct outcome *o)
{
	if (o->first_wrong_ms == UINT32_MAX)
		printf(" %9s", "never");
	else
		printf(" %6u ms", o->first_wrong_ms);
}

bool cell_print(const struct cell *c, const struct outcome *paper, const struct outcome *concury)
{
	uint32_t unreported = c->n_flows - paper->paper.n_reported;
	double expected = cell_expected(c, paper);
	double slack = 5 * sqrt(expected * (1 - paper->paper.wrong)) + expected / 50;
	bool paper_right = fabs(paper->n_wrong - expected) <= slack;
	bool loss_right = true;

	if (c->delay_ms == 0) /* and as many were lost as were meant to be */
		loss_right = fabs(unreported - c->n_flows * c->loss / 100.0) <=
			     5 * sqrt(c->n_flows * c->loss * (100 - c->loss) / 1e4);
	printf("%-6s %7u %4u%% %4u s | %10u %7u %7.1f%% %7.1f%%", pool_change_names[c->change],
	       c->n_flows, c->loss, c->delay_ms / 1000, unreported, paper->n_wrong,
	       unreported ? 100.0 * paper->n_wrong / unreported : 0, 100 * paper->paper.wrong);
	print_first(paper);
	printf(" | %7u", concury->n_wrong);
	print_first(concury);
	bool ok = paper_right && loss_right && concury->n_wrong == 0 && !paper->n_silent &&
		  !concury->n_silent;
	printf("%s\n", ok ? "" : "   NOT AS IT MUST BE");
	if (paper->n_silent || concury->n_silent)
		printf("       flows that fell silent: %u, %u\n", paper->n_silent,
		       concury->n_silent);
	fflush(stdout);
	return ok;
}
