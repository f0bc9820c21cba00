/* A verdict turns after `fall` failures or `rise` successes in a row. The first result of a new DIP
 * decides alone: it gets no packet before, so there is nothing to be careful with.
 *
 * Flap damping is that of BGP (RFC 2439): each time a DIP goes down adds 1,000 to its penalty,
 * which halves every half_life_s. A DIP that goes down with more than 2,500 (the third time within
 * about half a half-life) is damped: it stays down, however well its checks do, until the penalty
 * is below 1,250. The penalty is capped at 5,000, so that this takes two half-lives at most. */
#include "control/health_state.h"

#include <math.h>

#define PENALTY_DOWN 1000.0
#define PENALTY_SUPPRESS 2500.0
#define PENALTY_REUSE 1250.0
#define PENALTY_MAX 5000.0

void health_state_begin(struct health_state *s, enum health_verdict verdict)
{
	*s = (struct health_state){.verdict = verdict};
}

void health_state_forget_results(struct health_state *s)
{
	s->consecutive = 0;
}

static void decay(struct health_state *s, const struct health_rules *r, uint64_t now_ms)
{
	double half_lives = r->half_life_s
				    ? (double)(now_ms - s->penalty_ms) / (r->half_life_s * 1000.0)
				    : INFINITY;

	s->penalty *= exp2(-half_lives);
	s->penalty_ms = now_ms;
	if (s->penalty < PENALTY_REUSE)
		s->damped = false;
}

static bool turn(struct health_state *s, enum health_verdict verdict)
{
	bool changed = s->verdict != verdict;

	s->verdict = verdict;
	return changed;
}

static bool went_down(struct health_state *s, const struct health_rules *r)
{
	/* A new DIP that fails its first check was never up. */
	if (s->verdict == VERDICT_UP && r->half_life_s) {
		s->penalty = fmin(s->penalty + PENALTY_DOWN, PENALTY_MAX);
		s->damped |= s->penalty > PENALTY_SUPPRESS;
	}
	return turn(s, VERDICT_DOWN);
}

bool health_state_result(struct health_state *s, const struct health_rules *r, bool ok,
			 uint64_t now_ms)
{
	decay(s, r, now_ms);
	if (ok != s->last_ok)
		s->consecutive = 0;
	s->last_ok = ok;
	if (s->consecutive < UINT32_MAX)
		s->consecutive++;
	if (s->verdict == VERDICT_UNKNOWN)
		return ok ? turn(s, VERDICT_UP) : went_down(s, r);
	if (!ok && s->verdict == VERDICT_UP && s->consecutive >= r->fall)
		return went_down(s, r);
	if (ok && s->verdict == VERDICT_DOWN && s->consecutive >= r->rise && !s->damped)
		return turn(s, VERDICT_UP);
	return false;
}
