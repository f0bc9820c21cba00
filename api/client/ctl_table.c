#include "api/client/ctl_table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct ctl_table {
	unsigned n_columns;
	bool right[CTL_COLUMNS_MAX];
	size_t n_cells; /* the heads are the first ones */
	size_t room;
	char (*cells)[CTL_CELL_LEN];
	bool failed;
};

/* --- numbers -------------------------------------------------------------------------------------
 */

/* Three digits that count, and the unit. */
static const char *scale(uint64_t n, unsigned step, const char *const *units, char *buf,
			 size_t size)
{
	double x = (double)n;
	unsigned unit = 0;

	/* 999.5 would be printed with four. */
	for (; x >= 999.5 && units[unit + 1]; unit++)
		x /= step;
	int digits = x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
	snprintf(buf, size, "%.*f%s", digits, x, units[unit]);
	return buf;
}

const char *ctl_human_count(uint64_t n, char *buf, size_t size)
{
	static const char *const units[] = {"", "k", "M", "G", "T", "P", "E", NULL};

	if (n >= 10000)
		return scale(n, 1000, units, buf, size);
	snprintf(buf, size, "%u", (unsigned)n);
	return buf;
}

const char *ctl_human_bytes(uint64_t n, char *buf, size_t size)
{
	static const char *const units[] = {" B",   " KiB", " MiB", " GiB",
					    " TiB", " PiB", " EiB", NULL};

	if (n >= 1000)
		return scale(n, 1024, units, buf, size);
	snprintf(buf, size, "%u B", (unsigned)n);
	return buf;
}

const char *ctl_human_seconds(uint64_t s, char *buf, size_t size)
{
	if (s < 60)
		snprintf(buf, size, "%us", (unsigned)s);
	else if (s < 3600)
		snprintf(buf, size, "%um%02us", (unsigned)s / 60, (unsigned)s % 60);
	else if (s < 86400)
		snprintf(buf, size, "%uh%02um", (unsigned)s / 3600, (unsigned)s / 60 % 60);
	else
		snprintf(buf, size, "%llud%02uh", (unsigned long long)s / 86400,
			 (unsigned)(s / 3600 % 24));
	return buf;
}

/* --- cells ---------------------------------------------------------------------------------------
 */

void ctl_clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* Columns on the screen: characters of UTF-8. */
static unsigned width(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static char *next_cell(struct ctl_table *t)
{
	if (t->n_cells == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		char(*grown)[CTL_CELL_LEN] = realloc(t->cells, room * sizeof(*grown));
		if (!grown) {
			t->failed = true;
			return NULL;
		}
		t->cells = grown;
		t->room = room;
	}
	return t->cells[t->n_cells++];
}

void ctl_table_add(struct ctl_table *t, const char *fmt, ...)
{
	char *cell = t ? next_cell(t) : NULL;
	va_list ap;

	if (!cell)
		return;
	va_start(ap, fmt);
	int len = vsnprintf(cell, CTL_CELL_LEN, fmt, ap);
	va_end(ap);
	if (len >= CTL_CELL_LEN) {
		/* Not in the middle of a character. */
		size_t end = CTL_CELL_LEN - 3;
		while (end && ((unsigned char)cell[end] & 0xc0) == 0x80)
			end--;
		memcpy(cell + end, "..", 3);
	}
	ctl_clean(cell);
}

void ctl_table_member(struct ctl_table *t, const json_t *object, const char *name)
{
	const json_t *m = json_object_get(object, name);

	if (json_is_string(m))
		ctl_table_add(t, "%s", json_string_value(m));
	else if (json_is_integer(m))
		ctl_table_add(t, "%lld", (long long)json_integer_value(m));
	else if (json_is_boolean(m))
		ctl_table_add(t, "%s", json_is_true(m) ? "yes" : "no");
	else
		ctl_table_add(t, "-");
}

void ctl_table_count(struct ctl_table *t, const json_t *object, const char *name)
{
	const json_t *m = json_object_get(object, name);
	char buf[32];

	ctl_table_add(t, "%s",
		      json_is_integer(m)
			      ? ctl_human_count((uint64_t)json_integer_value(m), buf, sizeof(buf))
			      : "-");
}

void ctl_table_bytes(struct ctl_table *t, const json_t *object, const char *name)
{
	const json_t *m = json_object_get(object, name);
	char buf[32];

	ctl_table_add(t, "%s",
		      json_is_integer(m)
			      ? ctl_human_bytes((uint64_t)json_integer_value(m), buf, sizeof(buf))
			      : "-");
}

/* --- tables --------------------------------------------------------------------------------------
 */

struct ctl_table *ctl_table_new(const char *columns)
{
	struct ctl_table *t = calloc(1, sizeof(*t));

	for (; t && *columns && t->n_columns < CTL_COLUMNS_MAX; columns += strspn(columns, " ")) {
		bool right = *columns == '>';
		size_t len = strcspn(columns, " ");
		t->right[t->n_columns++] = right;
		ctl_table_add(t, "%.*s", (int)(len - right), columns + right);
		columns += len;
	}
	return t;
}

static void print_row(const struct ctl_table *t, size_t first, const unsigned *widths, FILE *out)
{
	for (unsigned c = 0; c < t->n_columns; c++) {
		const char *cell = first + c < t->n_cells ? t->cells[first + c] : "";
		unsigned pad = widths[c] - width(cell);
		bool last = c + 1 == t->n_columns;
		if (t->right[c])
			fprintf(out, "%*s%s%s", (int)pad, "", cell, last ? "\n" : "  ");
		else
			fprintf(out, "%s%*s%s", cell, last ? 0 : (int)pad, "", last ? "\n" : "  ");
	}
}

void ctl_table_print(struct ctl_table *t, FILE *out, const char *none)
{
	unsigned widths[CTL_COLUMNS_MAX] = {0};

	if (!t || t->failed) {
		fputs("out of memory\n", out);
	} else if (t->n_cells == t->n_columns) {
		fprintf(out, "%s\n", none);
	} else {
		for (size_t i = 0; i < t->n_cells; i++) {
			unsigned w = width(t->cells[i]);
			if (w > widths[i % t->n_columns])
				widths[i % t->n_columns] = w;
		}
		for (size_t i = 0; i < t->n_cells; i += t->n_columns)
			print_row(t, i, widths, out);
	}
	ctl_table_free(t);
}

void ctl_table_free(struct ctl_table *t)
{
	if (t)
		free(t->cells);
	free(t);
}
