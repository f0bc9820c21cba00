#include "control/preflight_report.h"

#include <stdarg.h>

static void print(struct report *r, const char *rank, const char *fix, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));

static void print(struct report *r, const char *rank, const char *fix, const char *fmt, va_list ap)
{
	fprintf(r->out, "%-7s ", rank);
	vfprintf(r->out, fmt, ap);
	fputc('\n', r->out);
	if (fix)
		fprintf(r->out, "        mend: %s\n", fix);
}

void report_ok(struct report *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print(r, "ok", NULL, fmt, ap);
	va_end(ap);
}

void report_note(struct report *r, const char *fix, const char *fmt, ...)
{
	va_list ap;

	r->n_notes++;
	va_start(ap, fmt);
	print(r, "note", fix, fmt, ap);
	va_end(ap);
}

void report_block(struct report *r, const char *fix, const char *fmt, ...)
{
	va_list ap;

	r->n_blocking++;
	va_start(ap, fmt);
	print(r, "blocks", fix, fmt, ap);
	va_end(ap);
}
