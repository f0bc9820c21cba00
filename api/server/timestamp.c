#include "api/server/timestamp.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

json_t *timestamp_print(int64_t wall_ms)
{
	int64_t ms = (wall_ms % 1000 + 1000) % 1000;
	time_t t = (time_t)((wall_ms - ms) / 1000);
	char day[24], text[40];
	struct tm tm;

	if (!gmtime_r(&t, &tm) || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900 ||
	    !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm))
		return json_null();
	snprintf(text, sizeof(text), "%s.%03dZ", day, (int)ms);
	return json_string(text);
}

/* The first three digits of a fraction count; *at is left behind all of them. */
static int64_t parse_fraction(const char **at)
{
	int64_t ms = 0;

	for (int unit = 100; isdigit((unsigned char)**at); unit /= 10, ++*at)
		ms += (**at - '0') * unit;
	return ms;
}

/* Z or +hh:mm, to the end of the text: seconds east of Greenwich. */
static bool parse_offset(const char *at, int64_t *east_s)
{
	int hours, minutes, end = 0;

	*east_s = 0;
	if (!strcmp(at, "Z") || !strcmp(at, "z"))
		return true;
	if ((*at != '+' && *at != '-') || strspn(at + 1, "0123456789:") != 5 ||
	    sscanf(at + 1, "%2d:%2d%n", &hours, &minutes, &end) != 2 || end != 5 || at[6] ||
	    hours > 23 || minutes > 59)
		return false;
	*east_s = (*at == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
	return true;
}

bool timestamp_parse(const char *text, int64_t *wall_ms)
{
	struct tm tm = {.tm_isdst = 0}, same;
	int64_t ms = 0, east_s;
	int end = 0;

	if (strspn(text, "0123456789-Tt:") < 19 ||
	    sscanf(text, "%4d-%2d-%2d%*1[Tt]%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &end) != 6 ||
	    end != 19)
		return false;
	const char *at = text + end;
	if (*at == '.') {
		if (!isdigit((unsigned char)*++at))
			return false;
		ms = parse_fraction(&at);
	}
	if (!parse_offset(at, &east_s))
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	same = tm;
	time_t t = timegm(&same);
	if (same.tm_mon != tm.tm_mon || same.tm_mday != tm.tm_mday || same.tm_hour != tm.tm_hour ||
	    same.tm_min != tm.tm_min)
		return false; /* 30 February */
	*wall_ms = ((int64_t)t - east_s) * 1000 + ms;
	return true;
}
