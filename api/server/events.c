/* Server-sent events (the HTML standard's text/event-stream): what control tells, as it happens.
 *
 * An event's id is the process's word and a number, so that a client that comes back says exactly
 * what it has seen: it gets what it missed, or is told that it missed more than is remembered
 * ("gap"), or that the forwarder was started anew ("restarted"). A client that reads too slowly for
 * what happens is told so and cut, rather than ever being waited for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/server/problem.h"
#include "api/server/resources.h"
#include "base/clock.h"

#define STREAMS_MAX 32u
#define KEEP_ALIVE_MS 15000u
#define WAIT_MS 250u /* so soon a client that has gone is noticed */
/* Room for one event: the longest has some 1,100 bytes unless its text is all control characters.
 */
#define EVENT_ROOM 4096u

struct event_stream {
	struct api_context *api;
	uint64_t after;
	bool greeted;
	bool restarted; /* what the client has seen was of another process */
	bool begun;	/* it has been told of all that was there when it came */
	bool ending;
	uint32_t kinds;	  /* bits of enum event_kind */
	char vip[ID_LEN]; /* "" = all */
	uint64_t spoke_ms;
};

/* --- text ----------------------------------------------------------------------------------------
 */

static json_t *id_or_null(const char *id)
{
	return *id ? json_string(id) : json_null();
}

static json_t *print_time(int64_t wall_ms)
{
	time_t t = (time_t)(wall_ms / 1000);
	struct tm tm;
	char day[24], text[40];

	if (!gmtime_r(&t, &tm) || !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm))
		return json_null();
	snprintf(text, sizeof(text), "%s.%03dZ", day, (int)(wall_ms % 1000));
	return json_string(text);
}

static json_t *print_values(const struct control_event *e)
{
	json_t *values = json_object();

	for (unsigned i = 0; i < EVENT_VALUES_MAX && e->values[i].name; i++) {
		if (json_object_set_new(values, e->values[i].name,
					json_integer((json_int_t)e->values[i].value))) {
			json_decref(values);
			return NULL;
		}
	}
	return values;
}

/* One message; 0 if there is no room or memory for it, and nothing is written. */
static size_t write_message(const struct event_stream *s, uint64_t id, const char *kind,
			    json_t *data, char *buf, size_t max)
{
	char *line = data ? json_dumps(data, JSON_COMPACT) : NULL;
	int n = -1;

	json_decref(data);
	if (line)
		n = snprintf(buf, max, "id: %s-%" PRIu64 "\nevent: %s\ndata: %s\n\n",
			     events_boot(s->api->backend.events), id, kind, line);
	free(line);
	return n > 0 && (size_t)n < max ? (size_t)n : 0;
}

static size_t write_event(const struct event_stream *s, const struct control_event *e, char *buf,
			  size_t max)
{
	const char *kind = event_kind_names[e->kind];

	return write_message(s, e->id, kind,
			     json_pack("{s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "kind", kind,
				       "time", print_time(e->wall_ms), "generation",
				       (json_int_t)e->generation, "count", (json_int_t)e->count,
				       "vip", id_or_null(e->vip), "dip", id_or_null(e->dip), "text",
				       problem_text(e->text), "values", print_values(e)),
			     buf, max);
}

static size_t write_restarted(const struct event_stream *s, char *buf, size_t max)
{
	return write_message(s, 0, "restarted",
			     json_pack("{s:s, s:s}", "kind", "restarted", "text",
				       "concuryd was started anew: these are events of another "
				       "process than those before"),
			     buf, max);
}

static size_t write_gap(const struct event_stream *s, uint64_t lost, char *buf, size_t max)
{
	return write_message(s, s->after, "gap",
			     json_pack("{s:s, s:I, s:s}", "kind", "gap", "lost", (json_int_t)lost,
				       "text",
				       "events were missed, because they are not "
				       "remembered any more"),
			     buf, max);
}

/* --- the stream ----------------------------------------------------------------------------------
 */

static bool wanted(const struct event_stream *s, const struct control_event *e)
{
	return (s->kinds >> e->kind & 1) && (!s->vip[0] || !strcmp(s->vip, e->vip));
}

/* The client has missed some. One that comes back goes on behind them; one that was too slow is
 * cut: it may come back. */
static size_t tell_gap(struct event_stream *s, uint64_t lost, char *buf, size_t max)
{
	s->after += lost;
	s->ending = s->begun;
	return write_gap(s, lost, buf, max);
}

/* As many as there are, and fit. */
static size_t write_news(struct event_stream *s, char *buf, size_t max)
{
	struct control_event e;
	uint64_t lost;
	size_t n = 0;

	while (max - n >= EVENT_ROOM && !s->ending) {
		bool got = events_read(s->api->backend.events, s->after, &e, 1, &lost);
		if (lost) {
			n += tell_gap(s, lost, buf + n, max - n);
			continue;
		}
		if (!got) {
			s->begun = true;
			break;
		}
		size_t written = wanted(s, &e) ? write_event(s, &e, buf + n, max - n) : 0;
		s->ending = wanted(s, &e) && !written; /* no memory: it may come back for it */
		s->after = s->ending ? s->after : e.id;
		n += written;
	}
	return n;
}

static size_t greet(struct event_stream *s, char *buf, size_t max)
{
	int n = snprintf(buf, max, "retry: 1000\n\n");

	s->greeted = true;
	if (n < 0 || (size_t)n >= max)
		return 0;
	return (size_t)n + (s->restarted ? write_restarted(s, buf + n, max - (size_t)n) : 0);
}

/* Its id moves a client past events that its filter kept from it. */
static size_t keep_alive(const struct event_stream *s, char *buf, size_t max)
{
	int n = snprintf(buf, max, ": still here\nid: %s-%" PRIu64 "\n\n",
			 events_boot(s->api->backend.events), s->after);

	return n > 0 && (size_t)n < max ? (size_t)n : 0;
}

static ssize_t stream_read(void *state, char *buf, size_t max)
{
	struct event_stream *s = state;
	struct events *events = s->api->backend.events;
	bool closed = false;
	size_t n = 0;

	if (s->ending || max < EVENT_ROOM)
		return -1;
	if (!s->greeted)
		n = greet(s, buf, max);
	else
		closed = !events_wait(events, s->after, WAIT_MS);
	n += write_news(s, buf + n, max - n);
	s->ending |= closed && s->after >= events_last(events);
	if (n == 0 && !s->ending && clock_now_ms() - s->spoke_ms >= KEEP_ALIVE_MS)
		n = keep_alive(s, buf, max);
	if (n)
		s->spoke_ms = clock_now_ms();
	return n || !s->ending ? (ssize_t)n : -1;
}

static void stream_close(void *state)
{
	struct event_stream *s = state;

	atomic_fetch_sub(&s->api->n_event_streams, 1);
	free(s);
}

/* --- the request ---------------------------------------------------------------------------------
 */

/* A list of kinds, separated by commas. */
static void read_kinds(const char *list, uint32_t *kinds, struct field_errors *errors)
{
	*kinds = list ? 0 : UINT32_MAX;
	while (list && !errors->n) {
		size_t len = strcspn(list, ",");
		unsigned k = 0;
		while (k < N_EVENT_KINDS && (strlen(event_kind_names[k]) != len ||
					     memcmp(event_kind_names[k], list, len) != 0))
			k++;
		if (k == N_EVENT_KINDS)
			field_errors_add(errors, "?kind", "bad_value",
					 "kinds of events, separated by commas");
		else
			*kinds |= 1u << k;
		list = list[len] ? list + len + 1 : NULL;
	}
}

/* "BOOT-NUMBER", or "0": all that is remembered. False if it can be no event's id. */
static bool read_place(struct event_stream *s, const char *text)
{
	const char *boot = events_boot(s->api->backend.events);
	const char *dash = strchr(text, '-');
	const char *digits = dash ? dash + 1 : text;
	size_t len = strlen(digits);

	if (!len || len > 19 || strspn(digits, "0123456789") != len || dash == text)
		return false;
	s->after = strtoull(digits, NULL, 10);
	if (!dash)
		return s->after == 0;
	s->restarted = strlen(boot) != (size_t)(dash - text) ||
		       memcmp(boot, text, (size_t)(dash - text)) != 0;
	if (s->restarted)
		s->after = 0;
	return s->after <= events_last(s->api->backend.events);
}

/* A client that comes back repeats its first request, and says in the header how far it has come
 * (so that counts, and is a parameter too, where it is wrong). */
static void read_request(struct event_stream *s, const struct api_request *req,
			 struct field_errors *errors)
{
	const char *vip = request_query(req, "vip");
	const char *since = request_query(req, "since");
	const char *id = req->last_event_id && *req->last_event_id ? req->last_event_id : NULL;

	read_kinds(request_query(req, "kind"), &s->kinds, errors);
	if (vip && !model_id_valid(vip))
		field_errors_add(errors, "?vip", "bad_value", "the id of a VIP");
	else if (vip)
		snprintf(s->vip, sizeof(s->vip), "%s", vip);
	if (!id && !since)
		s->after = events_last(s->api->backend.events);
	else if (!read_place(s, id ? id : since))
		field_errors_add(errors, id ? "?Last-Event-ID" : "?since", "bad_value",
				 "the id of an event, or 0 for all that are remembered");
}

static bool enter(struct api_context *api)
{
	if (atomic_fetch_add(&api->n_event_streams, 1) < STREAMS_MAX)
		return true;
	atomic_fetch_sub(&api->n_event_streams, 1);
	return false;
}

void events_get(struct api_request *req, struct api_response *resp)
{
	struct event_stream *s = calloc(1, sizeof(*s));
	struct field_errors errors = {.n = 0};

	if (!s) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	s->api = req->api;
	s->spoke_ms = clock_now_ms();
	read_request(s, req, &errors);
	if (errors.n) {
		problem_query(resp, &errors);
	} else if (!enter(req->api)) {
		problem_set(resp, 503, "%u clients follow the events already", STREAMS_MAX);
		resp->retry_after_s = 5;
	} else {
		response_stream(resp, "text/event-stream",
				&(struct api_stream){stream_read, stream_close, s});
		return;
	}
	free(s);
}
