#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static enum log_level log_max = LOG_INFO;

void log_set_level(enum log_level level)
{
	log_max = level;
}

void log_line(enum log_level level, const char *who, const char *fmt, ...)
{
	static const char *const names[] = {"error: ", "warning: ", "", "debug: "};
	char line[1024];
	va_list ap;

	if (level > log_max)
		return;
	int n = snprintf(line, sizeof(line), "%s: %s", who, names[level]);
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	/* Some of the text is a client's or a backend's: it must not make lines of its own. */
	for (int i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[n++] = '\n';
	/* A log that cannot be written must not stop the forwarder. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

int log_limit_pass(struct log_limit *limit, uint64_t *n_suppressed)
{
	uint64_t now = clock_now_ms();

	if (now - limit->window_start_ms >= limit->interval_ms) {
		limit->window_start_ms = now;
		limit->n_in_window = 0;
	}
	if (limit->n_in_window >= limit->burst) {
		limit->n_suppressed++;
		return 0;
	}
	limit->n_in_window++;
	*n_suppressed = limit->n_suppressed;
	limit->n_suppressed = 0;
	return 1;
}
