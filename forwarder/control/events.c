/* A reader that falls behind loses events and is told how many: it can never make control wait, nor
 * hold memory. Control holds the lock for the copy of one event, a reader for the copy of some, so
 * what the one can cost the other is a microsecond or so.
 *
 * What may come in thousands (publishes of a busy orchestrator, violations of a broken forwarder)
 * would wash everything else out of the ring. So each kind has its share of a second; what is above
 * it is added up into one event that is held back until the second is over. */
#include "control/events.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"

#define EVENTS_MAX SIM_SIZE(4096u, 16u)
#define WINDOW_MS 1000u

const char *const event_kind_names[] = {
#define EVENT_NAME(kind, per_second, text) #kind,
	EVENT_KINDS(EVENT_NAME)
#undef EVENT_NAME
		NULL};

static const uint8_t per_second[] = {
#define EVENT_SHARE(kind, share, text) share,
	EVENT_KINDS(EVENT_SHARE)
#undef EVENT_SHARE
};

struct share {
	uint64_t since_ms;	   /* begin of its second */
	unsigned n;		   /* events that came in it */
	struct control_event held; /* count == 0: none is */
};

struct events {
	char boot[EVENTS_BOOT_LEN];
	pthread_mutex_t mutex; /* of the rest */
	pthread_cond_t came;
	uint64_t last; /* id */
	uint64_t generation;
	bool closed;
	struct share shares[N_EVENT_KINDS];
	struct control_event ring[EVENTS_MAX]; /* by id */
};

struct events *events_new(const char *boot)
{
	struct events *e = calloc(1, sizeof(*e));
	pthread_condattr_t attr;

	if (!e)
		return NULL;
	snprintf(e->boot, sizeof(e->boot), "%s", boot);
	pthread_mutex_init(&e->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&e->came, &attr);
	pthread_condattr_destroy(&attr);
	return e;
}

void events_free(struct events *e)
{
	if (!e)
		return;
	pthread_cond_destroy(&e->came);
	pthread_mutex_destroy(&e->mutex);
	free(e);
}

const char *events_boot(const struct events *e)
{
	return e->boot;
}

/* --- writing -------------------------------------------------------------------------------------
 */

static struct control_event *slot_of(struct events *e, uint64_t id)
{
	return &e->ring[id % EVENTS_MAX];
}

static void append(struct events *e, const struct control_event *event)
{
	struct control_event *slot = slot_of(e, ++e->last);

	*slot = *event;
	slot->id = e->last;
	pthread_cond_broadcast(&e->came);
}

static void let_out(struct events *e, struct share *s)
{
	if (s->held.count)
		append(e, &s->held);
	s->held.count = 0;
}

/* One of the ids that several events have: "" once they differ. */
static void merge_id(char *id, const char *was)
{
	if (strcmp(id, was) != 0)
		id[0] = '\0';
}

static void hold_back(struct share *s, struct control_event *event)
{
	if (s->held.count) {
		event->count += s->held.count;
		merge_id(event->vip, s->held.vip);
		merge_id(event->dip, event->vip[0] ? s->held.dip : "");
	}
	s->held = *event;
}

static void add(struct events *e, struct control_event *event)
{
	struct share *s = &e->shares[event->kind];
	uint64_t now_ms = clock_now_ms();

	if (now_ms - s->since_ms >= WINDOW_MS) {
		let_out(e, s);
		s->since_ms = now_ms;
		s->n = 0;
	}
	if (per_second[event->kind] && s->n >= per_second[event->kind])
		hold_back(s, event);
	else
		append(e, event);
	s->n++;
}

void events_emit(struct events *e, const struct event_note *note, const char *fmt, ...)
{
	struct control_event event = {.kind = note->kind,
				      .wall_ms = clock_wall_ms(),
				      .generation = note->generation,
				      .count = note->count ? note->count : 1};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(event.text, sizeof(event.text), fmt, ap);
	va_end(ap);
	snprintf(event.vip, sizeof(event.vip), "%s", note->vip ? note->vip : "");
	snprintf(event.dip, sizeof(event.dip), "%s", note->dip ? note->dip : "");
	memcpy(event.values, note->values, sizeof(event.values));
	pthread_mutex_lock(&e->mutex);
	if (!event.generation)
		event.generation = e->generation;
	e->generation = event.generation;
	add(e, &event);
	pthread_mutex_unlock(&e->mutex);
}

void events_tick(struct events *e)
{
	uint64_t now_ms = clock_now_ms();

	pthread_mutex_lock(&e->mutex);
	for (unsigned i = 0; i < N_EVENT_KINDS; i++)
		if (now_ms - e->shares[i].since_ms >= WINDOW_MS)
			let_out(e, &e->shares[i]);
	pthread_mutex_unlock(&e->mutex);
}

/* --- reading -------------------------------------------------------------------------------------
 */

unsigned events_read(struct events *e, uint64_t after, struct control_event *out, unsigned n,
		     uint64_t *lost)
{
	unsigned got = 0;

	pthread_mutex_lock(&e->mutex);
	uint64_t oldest =
		e->last > EVENTS_MAX ? e->last - EVENTS_MAX : 0; /* still after this one */
	*lost = after < oldest ? oldest - after : 0;
	for (uint64_t id = after + *lost; id < e->last && got < n;)
		out[got++] = *slot_of(e, ++id);
	pthread_mutex_unlock(&e->mutex);
	return got;
}

uint64_t events_last(struct events *e)
{
	pthread_mutex_lock(&e->mutex);
	uint64_t last = e->last;
	pthread_mutex_unlock(&e->mutex);
	return last;
}

bool events_wait(struct events *e, uint64_t after, unsigned timeout_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
	until.tv_sec += (time_t)(timeout_ms / 1000) + until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_mutex_lock(&e->mutex);
	while (!e->closed && e->last <= after &&
	       pthread_cond_timedwait(&e->came, &e->mutex, &until) != ETIMEDOUT)
		;
	bool open = !e->closed;
	pthread_mutex_unlock(&e->mutex);
	return open;
}

void events_close(struct events *e)
{
	pthread_mutex_lock(&e->mutex);
	e->closed = true;
	pthread_cond_broadcast(&e->came);
	pthread_mutex_unlock(&e->mutex);
}
