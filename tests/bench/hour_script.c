#include "tests/bench/hour_script.h"

#define SPARE_DIPS 2u
#define WORKING_MIN (HOUR_DIPS / 2)
#define WEIGHT_MAX 4u
#define EVENT_S 10u
#define FAILED_S 60u
#define DRAINING_S 600u

static uint32_t draw(struct hour_script *s, uint32_t n)
{
	return (uint32_t)(peer_mix(s->random++, 11) % n);
}

void hour_script_start(struct hour_script *s)
{
	*s = (struct hour_script){0};
	for (unsigned v = 0; v < HOUR_VIPS; v++) {
		for (unsigned d = 0; d < HOUR_DIPS; d++)
			s->dips[v][d] = (struct hour_dip){
				.use = d < HOUR_DIPS - SPARE_DIPS ? HOUR_WORKING : HOUR_SPARE,
				.weight = 1 + draw(s, WEIGHT_MAX)};
	}
}

struct pool hour_script_pool(const struct hour_script *s, unsigned vip, struct dcode_dip *dips)
{
	struct pool pool = {.dips = dips};

	for (unsigned spare = 0; spare < 2; spare++) {
		for (unsigned d = 0; d < HOUR_DIPS; d++) {
			const struct hour_dip *h = &s->dips[vip][d];
			if ((h->use == HOUR_SPARE) != spare)
				continue;
			dips[pool.n + pool.n_spare] = (struct dcode_dip){
				.id = peer_mix(vip * HOUR_DIPS + d, 12),
				.weight = h->use == HOUR_DRAINING ? 0 : h->weight,
				.index = (uint16_t)(d + 1),
				.up = h->use != HOUR_FAILED};
			pool.n += !spare;
			pool.n_spare += spare;
		}
	}
	return pool;
}

/* A DIP of a VIP in this use, or HOUR_DIPS. */
static unsigned pick(struct hour_script *s, unsigned vip, enum hour_use use)
{
	unsigned first = draw(s, HOUR_DIPS);

	for (unsigned i = 0; i < HOUR_DIPS; i++) {
		unsigned d = (first + i) % HOUR_DIPS;
		if (s->dips[vip][d].use == use)
			return d;
	}
	return HOUR_DIPS;
}

static unsigned count_working(const struct hour_script *s, unsigned vip)
{
	unsigned n = 0;

	for (unsigned d = 0; d < HOUR_DIPS; d++)
		n += s->dips[vip][d].use == HOUR_WORKING;
	return n;
}

/* One event; returns the index of a DIP that failed, or DIP_NONE. */
static uint16_t event(struct hour_script *s, unsigned vip, uint32_t second)
{
	bool enough = count_working(s, vip) > WORKING_MIN;
	unsigned kind = draw(s, 4), d = pick(s, vip, kind == 0 ? HOUR_SPARE : HOUR_WORKING);
	struct hour_dip *h = &s->dips[vip][d % HOUR_DIPS];

	if (kind == 0 && d < HOUR_DIPS) {
		h->use = HOUR_WORKING;
	} else if (kind == 1 && enough) {
		*h = (struct hour_dip){HOUR_DRAINING, h->weight, second + DRAINING_S};
	} else if (kind == 2 && enough) {
		*h = (struct hour_dip){HOUR_FAILED, h->weight, second + FAILED_S};
		return (uint16_t)(d + 1);
	} else {
		h = &s->dips[vip][pick(s, vip, HOUR_WORKING)];
		h->weight = h->weight % WEIGHT_MAX + 1;
	}
	return DIP_NONE;
}

void hour_script_step(struct hour_script *s, uint32_t second,
		      void (*changed)(void *ctx, unsigned vip, uint16_t gone), void *ctx)
{
	for (unsigned v = 0; v < HOUR_VIPS; v++) {
		for (unsigned d = 0; d < HOUR_DIPS; d++) {
			struct hour_dip *h = &s->dips[v][d];
			if (h->until != second || !second)
				continue;
			bool gone = h->use == HOUR_DRAINING;
			h->use = gone ? HOUR_SPARE : HOUR_WORKING;
			h->until = 0;
			s->n_changes++;
			changed(ctx, v, gone ? (uint16_t)(d + 1) : DIP_NONE);
		}
	}
	if (second % EVENT_S == 0) {
		unsigned vip = draw(s, HOUR_VIPS);
		uint16_t gone = event(s, vip, second);
		s->n_changes++;
		changed(ctx, vip, gone);
	}
}
