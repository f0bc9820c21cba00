#include "api/client/ctl_diff.h"

#include <stdlib.h>
#include <string.h>

#include "api/client/ctl_table.h"

#define NAME_LEN 160u

struct diff {
	const struct ctl_diff_style *style;
	FILE *out;
	unsigned n;
};

static void begin(struct diff *d, char sign)
{
	const char *colour = sign == '+' ? "\033[32m" : sign == '-' ? "\033[31m" : "\033[33m";

	d->n++;
	fprintf(d->out, "%s%c ", d->style->colour ? colour : "", sign);
}

static void end(struct diff *d)
{
	fputs(d->style->colour ? "\033[0m\n" : "\n", d->out);
}

/* A value as JSON on one line; jansson escapes control characters. */
static void print_value(struct diff *d, const json_t *value)
{
	char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;

	fputs(text ? text : "(default)", d->out);
	free(text);
}

/* --- members -------------------------------------------------------------------------------------
 */

/* A line for each member that is to be another one. */
static void diff_members(struct diff *d, const char *what, const char *before,
			 const json_t *current, const json_t *wanted)
{
	const char *name;
	json_t *was;

	json_object_foreach((json_t *)current, name, was)
	{
		json_t *is = json_object_get(wanted, name);
		char path[NAME_LEN];
		snprintf(path, sizeof(path), "%s%s%s", before, *before ? "." : "", name);
		if (!is || !strcmp(path, "id") || !strcmp(path, "dips") || json_equal(was, is))
			continue;
		if (json_is_object(was) && json_is_object(is)) {
			diff_members(d, what, path, was, is);
			continue;
		}
		begin(d, '~');
		fprintf(d->out, "%s  %s: ", what, path);
		print_value(d, was);
		fputs(" -> ", d->out);
		print_value(d, json_is_null(is) ? NULL : is);
		end(d);
	}
}

/* --- objects -------------------------------------------------------------------------------------
 */

static const char *id_of(const json_t *object)
{
	const char *id = json_string_value(json_object_get(object, "id"));

	return id ? id : "?";
}

static const json_t *find(const json_t *list, const char *id)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (!strcmp(id_of(item), id))
			return item;
	}
	return NULL;
}

/* What an object is called: "vip web", "dip web/b1". */
static void name_of(char *buf, const char *vip, const json_t *object)
{
	snprintf(buf, NAME_LEN, "%s %s%s%s", vip ? "dip" : "vip", vip ? vip : "", vip ? "/" : "",
		 id_of(object));
	ctl_clean(buf);
}

static void print_added(struct diff *d, const char *what, const json_t *object)
{
	const char *name;
	json_t *value;

	begin(d, '+');
	fputs(what, d->out);
	json_object_foreach((json_t *)object, name, value)
	{
		if (!strcmp(name, "id") || !strcmp(name, "dips"))
			continue;
		fprintf(d->out, "  %s: ", name);
		print_value(d, value);
	}
	end(d);
}

/* Two lists of objects with ids; vip: whose DIPs they are, or NULL for VIPs. */
static void diff_lists(struct diff *d, const char *vip, const json_t *current, const json_t *wanted)
{
	char what[NAME_LEN];
	const json_t *o;
	size_t i;

	json_array_foreach(current, i, o)
	{
		if (d->style->keep || find(wanted, id_of(o)))
			continue;
		name_of(what, vip, o);
		begin(d, '-');
		fputs(what, d->out);
		end(d);
	}
	json_array_foreach(wanted, i, o)
	{
		const json_t *was = find(current, id_of(o));
		name_of(what, vip, o);
		if (was)
			diff_members(d, what, "", was, o);
		else
			print_added(d, what, o);
		/* Without a list of DIPs, a VIP that is there has none any more. */
		if (!vip)
			diff_lists(d, id_of(o), json_object_get(was, "dips"),
				   json_object_get(o, "dips"));
	}
}

unsigned ctl_diff_object(const char *what, const json_t *before, const json_t *after,
			 const struct ctl_diff_style *style, FILE *out)
{
	struct diff d = {.style = style, .out = out};

	if (json_is_object(before) && json_is_object(after)) {
		diff_members(&d, what, "", before, after);
	} else if (json_is_object(after)) {
		print_added(&d, what, after);
	} else {
		begin(&d, '-');
		fputs(what, out);
		end(&d);
	}
	return d.n;
}

unsigned ctl_diff_print(const json_t *current, const json_t *wanted,
			const struct ctl_diff_style *style, FILE *out)
{
	struct diff d = {.style = style, .out = out};

	diff_lists(&d, NULL, json_object_get(current, "vips"), json_object_get(wanted, "vips"));
	return d.n;
}
