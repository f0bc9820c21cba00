/* A DIP's health as JSON. */
#include <stdio.h>
#include <time.h>

#include "api/server/codec.h"

/* RFC 3339 with milliseconds; null for 0, and if it cannot be said. */
static json_t *print_time_ms(int64_t wall_ms)
{
	time_t s = (time_t)(wall_ms / 1000);
	struct tm tm;
	char text[40];
	size_t n;

	if (wall_ms == 0 || !gmtime_r(&s, &tm))
		return json_null();
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	if (!n)
		return json_null();
	snprintf(text + n, sizeof(text) - n, ".%03uZ", (unsigned)(wall_ms % 1000));
	return json_string(text);
}

/* The reasons are texts that operators wrote, the errors may quote a server: what is no UTF-8 is
 * not shown. */
static json_t *print_text(const char *text)
{
	json_t *shown = text[0] ? json_string(text) : json_null();

	return shown ? shown : json_string("(not UTF-8)");
}

static json_t *print_override(const struct dip_health *h)
{
	if (h->override == OVERRIDE_NONE)
		return json_null();
	return json_pack("{s:s, s:o, s:o}", "state", health_override_names[h->override], "reason",
			 print_text(h->reason), "until", print_time_ms(h->override_until_s * 1000));
}

json_t *codec_print_dip_health(const struct dip_health_info *h)
{
	const struct health_stats *s = &h->stats;
	bool checked = s->last_check_ms != 0;
	const char *result = s->last_ok ? "passed" : "failed";

	return json_pack("{s:s, s:o, s:b, s:b, s:o, s:o, s:o, s:I, s:o, s:I, s:I, s:o}", "state",
			 h->checked ? health_verdict_names[h->now.verdict] : "unchecked", "since",
			 print_time_ms(h->now.since_s * 1000), "ignored", (int)h->ignored, "damped",
			 (int)s->damped, "last_check", print_time_ms(s->last_check_ms),
			 "latency_us", checked ? json_integer(s->latency_us) : json_null(),
			 "last_result", checked ? json_string(result) : json_null(), "consecutive",
			 (json_int_t)s->consecutive, "last_error", print_text(s->last_error),
			 "checks_total", (json_int_t)s->checks_total, "checks_failed_total",
			 (json_int_t)s->failed_total, "override", print_override(&h->now));
}

json_t *codec_print_health_event(const struct health_event *e)
{
	return json_pack("{s:o, s:s, s:o}", "at", print_time_ms(e->at_ms), "state", e->state,
			 "cause", print_text(e->cause));
}
