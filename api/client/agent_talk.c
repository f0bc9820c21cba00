/* An agent is in one of three states. GREETING: it knows nothing of the forwarder yet, and asks
 * with an empty report, which is never applied, for the VIP and the clock. TELLING: all connections
 * go out in the parts of a full report. IN_STEP: what is new goes out, or that nothing is. One
 * report is on its way at a time and is kept until it is acknowledged; a lost one goes out again
 * under its number. Whatever cannot be mended so (the forwarder has restarted, too many ends came
 * together) leads back to TELLING.
 *
 * A report keeps the date of its making, however late it comes and however often it is sent: a list
 * of all connections that looked younger than it is would end those that have opened since. */
#include "api/client/agent_talk.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/log.h"

#define BACK_OFF_AFTER 10u /* refusals in a row that are tried again at the next interval */
#define BACK_OFF_MAX_MS 30000u
#define AGE_MAX_MS 604800000u /* what the API takes */
#define AWAY_TRIES 4u	      /* an interval, at a forwarder that does not answer */
#define CONFIRM_MS 300u	      /* after a list: by then the forwarder knows if it wants another */

int agent_talk_init(struct agent_talk *t, const struct agent_options *o, void (*look)(void *ctx),
		    void *ctx)
{
	*t = (struct agent_talk){.url = o->url,
				 .interval_ms = o->interval_ms,
				 .vips_given = o->n_vips != 0,
				 .look = look,
				 .ctx = ctx,
				 .table = agent_table_new(),
				 .n_vips = o->n_vips};
	if (!t->table)
		return -ENOMEM;
	memcpy(t->vips, o->vips, sizeof(t->vips));
	snprintf(t->state.instance, sizeof(t->state.instance), "%016llx",
		 (unsigned long long)entropy_u64());
	return 0;
}

void agent_talk_destroy(struct agent_talk *t)
{
	agent_table_free(t->table);
	t->table = NULL;
}

/* --- telling -------------------------------------------------------------------------------------
 */

static void begin_telling(struct agent_talk *t)
{
	t->mode = AGENT_TELLING;
	t->begin = true;
	t->waiting = false;
}

/* The next report, under the next number. */
static void make_report(struct agent_talk *t)
{
	struct agent_outgoing *r = &t->out;
	uint64_t made_ms = clock_now_ms(); /* before any look */

	if (agent_table_overflowed(t->table) && t->mode != AGENT_GREETING)
		begin_telling(t);
	if (t->mode == AGENT_TELLING && t->begin) {
		/* Twice: what one dump passed by, the other shows. */
		t->look(t->ctx);
		t->look(t->ctx);
		agent_table_all_news(t->table);
		r->part = 0;
		t->begin = false;
	}
	r->sequence++;
	r->made_ms = made_ms;
	r->full = t->mode == AGENT_TELLING;
	r->n = t->mode == AGENT_GREETING ? 0 : agent_table_take(t->table, r->news, AGENT_NEWS_MAX);
	r->more = agent_table_has_news(t->table);
}

const struct agent_outgoing *agent_talk_next(struct agent_talk *t)
{
	t->asked_ms = clock_now_ms();
	if (!t->waiting)
		make_report(t);
	t->waiting = true;
	return &t->out;
}

uint32_t agent_talk_age_ms(const struct agent_outgoing *r, const struct agent_news *n)
{
	/* What came while the report was made: a date too early does no harm. */
	uint64_t age_ms = r->made_ms > n->at_ms ? r->made_ms - n->at_ms : 0;

	return age_ms < AGE_MAX_MS ? (uint32_t)age_ms : AGE_MAX_MS;
}

uint64_t agent_talk_clock_ms(const struct agent_outgoing *r, const struct agent_state *s)
{
	uint64_t at_ms = FAULT(redate_list) ? clock_now_ms() : r->made_ms;

	return s->clock_known ? at_ms + s->clock_base_ms : 0;
}

/* --- hearing -------------------------------------------------------------------------------------
 */

static void learn_vips(struct agent_talk *t, const struct agent_reply *r)
{
	if (t->vips_given ||
	    (t->n_vips == r->n_vips && !memcmp(t->vips, r->vips, r->n_vips * sizeof(r->vips[0]))))
		return;
	memcpy(t->vips, r->vips, sizeof(t->vips));
	t->n_vips = r->n_vips;
	agent_table_clear(t->table);
	for (unsigned i = 0; i < t->n_vips; i++) {
		const struct agent_vip *v = &t->vips[i];
		char address[IP_PREFIX_STRLEN];
		ip_prefix_format(&v->address, v->host_bits, address);
		if (v->port_end)
			log_info("agent", "watching %s ports %u to %u", address, v->port,
				 v->port_end);
		else
			log_info("agent", "watching %s port %u", address, v->port);
	}
	if (t->mode != AGENT_GREETING)
		begin_telling(t);
}

/* A forwarder that is away or starts is to know all within an interval of its return; one that
 * refuses us is asked ever more seldom. */
static void on_failure(struct agent_talk *t, const struct agent_reply *r)
{
	bool refused = r->status >= 400 && r->status < 500;
	uint64_t delay = refused ? t->interval_ms : t->interval_ms / AWAY_TRIES;

	if (t->n_failures++ == 0)
		log_warning("agent", "%s: %s; trying on", t->url, r->error);
	t->n_refusals = refused ? t->n_refusals + 1 : 0;
	for (unsigned n = BACK_OFF_AFTER; n < t->n_refusals && delay < BACK_OFF_MAX_MS; n++)
		delay *= 2;
	/* From when it was asked: what was waited for an answer counts. */
	t->send_ms = t->asked_ms + (delay < BACK_OFF_MAX_MS ? delay : BACK_OFF_MAX_MS);
	/* Told that the report is not one: sending it again would not help. */
	if (r->status == 400 || r->status == 413 || r->status == 422)
		begin_telling(t);
}

static void on_applied(struct agent_talk *t)
{
	t->waiting = false;
	if (t->mode != AGENT_TELLING)
		return;
	t->out.part++;
	if (t->out.more)
		return;
	t->mode = AGENT_IN_STEP;
	log_info("agent", "in step with %s (%llu connections)", t->url,
		 (unsigned long long)agent_table_open(t->table));
}

void agent_talk_reply(struct agent_talk *t, const struct agent_reply *r, uint64_t next_ms)
{
	static struct log_limit limit = {.interval_ms = 60000, .burst = 1};
	uint64_t now = clock_now_ms(), suppressed;

	bool told = t->mode == AGENT_TELLING;

	if (r->status != 200) {
		on_failure(t, r);
		return;
	}
	if (t->n_failures)
		log_info("agent", "%s answers again", t->url);
	t->n_failures = t->n_refusals = 0;
	if (strcmp(t->forwarder, r->instance) != 0 && t->forwarder[0])
		log_info("agent", "concuryd has restarted");
	memcpy(t->forwarder, r->instance, sizeof(t->forwarder));
	/* The answer was made before it came: so this is never ahead of the forwarder's clock. */
	t->state.clock_base_ms = r->clock_ms - now;
	t->state.clock_known = true;
	if (r->refused && log_limit_pass(&limit, &suppressed))
		log_warning("agent", "%u connections refused: concuryd has them on another DIP",
			    r->refused);
	if (t->mode == AGENT_GREETING) {
		t->out.sequence = r->ack; /* the greeting was not applied */
		begin_telling(t);
	} else if (r->ack == t->out.sequence && !r->resync) {
		on_applied(t);
	} else {
		begin_telling(t);
	}
	learn_vips(t, r);
	t->send_ms = next_ms;
	if (t->mode == AGENT_TELLING || agent_table_has_news(t->table))
		t->send_ms = now;
	else if (told && now + CONFIRM_MS < next_ms)
		t->send_ms = now + CONFIRM_MS;
}

void agent_talk_hung_up(struct agent_talk *t)
{
	uint64_t soon_ms = t->asked_ms + t->interval_ms / AWAY_TRIES;

	if (t->n_refusals == 0 && soon_ms < t->send_ms)
		t->send_ms = soon_ms;
}
