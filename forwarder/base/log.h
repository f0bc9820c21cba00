/* Lines for the operator on standard error: "who: what (why)". lookup/ and packet/ never log. */
#pragma once

#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/** Lines above this level are dropped (default LOG_INFO). Thread: main, before others start. */
void log_set_level(enum log_level level);

/** Write one line; control characters in it become '?'. Thread: any (a line is one write(2), so lines never interleave). */
void log_line(enum log_level level, const char *who, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** A rate limit for a line that may repeat: at most `burst` lines in each `interval_ms`. */
struct log_limit {
	uint32_t interval_ms;
	uint32_t burst;
	uint64_t window_start_ms;
	uint32_t n_in_window;
	uint64_t n_suppressed;
};

/** True if the line may be written now; *n_suppressed gets how many were held back since the last
 *  one. Thread: the owner of the limit. */
int log_limit_pass(struct log_limit *limit, uint64_t *n_suppressed);

#define log_error(who, ...) log_line(LOG_ERROR, who, __VA_ARGS__)
#define log_warning(who, ...) log_line(LOG_WARNING, who, __VA_ARGS__)
#define log_info(who, ...) log_line(LOG_INFO, who, __VA_ARGS__)
#define log_debug(who, ...) log_line(LOG_DEBUG, who, __VA_ARGS__)
