#include "control/preflight_report.h"

#include <stdarg.h>
#include <stdlib.h>

static void add(struct findings *r, enum finding_rank rank, const char *fix, const char *fmt,
		va_list ap) __attribute__((format(printf, 4, 0)));

static void add(struct findings *r, enum finding_rank rank, const char *fix, const char *fmt,
		va_list ap)
{
	struct finding *grown = realloc(r->list, (r->n + 1) * sizeof(*grown));
	struct finding f = {.rank = rank};

	r->n_of[rank]++;
	if (!grown)
		return;
	r->list = grown;
	if (vasprintf(&f.text, fmt, ap) < 0)
		return;
	f.command = fix ? strdup(fix) : NULL;
	r->list[r->n++] = f;
}

void report_ok(struct findings *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(r, FINDING_OK, NULL, fmt, ap);
	va_end(ap);
}

void report_note(struct findings *r, const char *fix, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(r, FINDING_NOTE, fix, fmt, ap);
	va_end(ap);
}

void report_block(struct findings *r, const char *fix, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(r, FINDING_BLOCKS, fix, fmt, ap);
	va_end(ap);
}

void findings_free(struct findings *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		free(f->list[i].text);
		free(f->list[i].command);
	}
	free(f->list);
	*f = (struct findings){.n = 0};
}

const char *finding_rank_name(enum finding_rank rank)
{
	static const char *const names[] = {
		[FINDING_OK] = "ok", [FINDING_NOTE] = "note", [FINDING_BLOCKS] = "blocks"};

	return names[rank];
}
