#include <stdlib.h>
#include <string.h>

#include "api/client/ctl.h"
#include "api/client/ctl_table.h"
#include "api/client/ctl_top.h"

#define HEAD_LINES 4u /* above the table */

void ctl_top_look_free(struct ctl_top_look *l)
{
	json_decref(l->status);
	json_decref(l->counters);
	json_decref(l->consistency);
	json_decref(l->vips);
	json_decref(l->dips);
	*l = (struct ctl_top_look){.at_ms = 0};
}

/* --- rates ---------------------------------------------------------------------------------------
 */

static uint64_t member(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static const json_t *find(const json_t *list, const char *key, const char *id)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		const char *text = json_string_value(json_object_get(item, key));
		if (text && !strcmp(text, id))
			return item;
	}
	return NULL;
}

/* Of a counter, a second; 0 where it is new or began anew (concuryd was restarted). */
static uint64_t rate(const json_t *before, const json_t *now, const char *name, uint64_t ms)
{
	uint64_t was = member(before, name), is = member(now, name);

	return before && is > was && ms ? (is - was) * 1000 / ms : 0;
}

static uint64_t sum_rate(const json_t *before, const json_t *now, const char *name, uint64_t ms)
{
	uint64_t sum = 0;
	const json_t *i;
	size_t k;

	json_array_foreach(now, k, i)
	{
		sum += rate(find(before, "name", ctl_text(i, "name")), i, name, ms);
	}
	return sum;
}

static uint64_t drops_rate(const json_t *before, const json_t *now, uint64_t ms)
{
	uint64_t sum = rate(before, now, "rx_kernel_drops", ms);
	const char *reason;
	json_t *n;

	json_object_foreach(json_object_get(now, "drops"), reason, n)
	{
		sum += rate(json_object_get(before, "drops"), json_object_get(now, "drops"), reason,
			    ms);
	}
	return sum;
}

/* --- the screen ----------------------------------------------------------------------------------
 */

static void print_head(const struct ctl_top_look *before, const struct ctl_top_look *now, FILE *out)
{
	uint64_t ms = now->at_ms - before->at_ms;
	const json_t *c0 = json_object_get(before->counters, "interfaces");
	const json_t *c1 = json_object_get(now->counters, "interfaces");
	const json_t *flows = json_object_get(now->status, "flows");
	char a[32], b[32], c[32], d[32], e[32];

	fprintf(out, "concuryd %s  %s  up %s  generation %lld  warnings %zu\n",
		ctl_text(now->status, "version"),
		json_is_true(json_object_get(now->status, "ready")) ? "ready" : "NOT READY",
		ctl_human_seconds(member(now->status, "uptime_s"), a, sizeof(a)),
		(long long)member(now->status, "generation"),
		json_array_size(json_object_get(now->status, "warnings")));
	fprintf(out, "rx %s packets/s %s/s  tx %s packets/s %s/s  dropped %s/s\n",
		ctl_human_count(sum_rate(c0, c1, "rx_packets", ms), a, sizeof(a)),
		ctl_human_bytes(sum_rate(c0, c1, "rx_bytes", ms), b, sizeof(b)),
		ctl_human_count(sum_rate(c0, c1, "tx_packets", ms), c, sizeof(c)),
		ctl_human_bytes(sum_rate(c0, c1, "tx_bytes", ms), d, sizeof(d)),
		ctl_human_count(drops_rate(before->counters, now->counters, ms), e, sizeof(e)));
	fprintf(out, "flows %s of %s  pinned %s  opened %s/s  violations %lld\n\n",
		ctl_human_count(member(flows, "known"), a, sizeof(a)),
		ctl_human_count(member(flows, "capacity"), b, sizeof(b)),
		ctl_human_count(member(now->consistency, "flows_pinned"), c, sizeof(c)),
		ctl_human_count(
			rate(before->consistency, now->consistency, "flows_opened_total", ms), d,
			sizeof(d)),
		(long long)member(now->consistency, "violations_total"));
}

static void add_row(struct ctl_table *t, const json_t *was, const json_t *is, uint64_t ms)
{
	char buf[32];

	ctl_table_member(t, is, "state");
	if (json_object_get(is, "weight"))
		ctl_table_member(t, is, "weight");
	else
		ctl_table_add(t, " ");
	ctl_table_count(t, is, "flows");
	ctl_table_add(t, "%s", ctl_human_count(rate(was, is, "packets", ms), buf, sizeof(buf)));
	ctl_table_add(t, "%s/s", ctl_human_bytes(rate(was, is, "bytes", ms), buf, sizeof(buf)));
}

static void print_table(const struct ctl_top_look *before, const struct ctl_top_look *now,
			FILE *out)
{
	struct ctl_table *t = ctl_table_new("VIP DIP STATE >WEIGHT >FLOWS >PACKETS/S >BYTES/S");
	uint64_t ms = now->at_ms - before->at_ms;
	const json_t *v, *d;
	size_t i, k;

	json_array_foreach(json_object_get(now->vips, "items"), i, v)
	{
		const char *vip = ctl_text(v, "id");
		const json_t *dips = json_object_get(json_object_get(now->dips, vip), "items");
		const json_t *old = json_object_get(json_object_get(before->dips, vip), "items");
		ctl_table_add(t, "%s", vip);
		ctl_table_add(t, "%s", ctl_text(v, "address"));
		add_row(t, find(json_object_get(before->vips, "items"), "id", vip), v, ms);
		json_array_foreach(dips, k, d)
		{
			ctl_table_add(t, " ");
			ctl_table_member(t, d, "id");
			add_row(t, find(old, "id", ctl_text(d, "id")), d, ms);
		}
	}
	ctl_table_print(t, out, "no VIPs");
}

/* Copy lines from..to of a text, each cut to columns (0 = whole). Returns how many lines it has. */
static unsigned copy_lines(const char *text, unsigned from, unsigned to, unsigned columns,
			   FILE *out)
{
	unsigned n = 0;

	for (; *text; n++) {
		size_t len = strcspn(text, "\n");
		size_t shown = 0;
		if (n >= from && n < to) {
			for (unsigned at = 0; shown < len; shown++) {
				at += ((unsigned char)text[shown] & 0xc0) != 0x80;
				if (columns && at > columns)
					break;
			}
			fprintf(out, "%.*s\n", (int)shown, text);
		}
		text += len + (text[len] == '\n');
	}
	return n;
}

unsigned ctl_top_print(const struct ctl_top_look *before, const struct ctl_top_look *now,
		       unsigned rows, unsigned columns, unsigned skip, FILE *out)
{
	char *head = NULL, *table = NULL;
	size_t size;
	unsigned n = 0;
	FILE *f = open_memstream(&head, &size);
	FILE *g = open_memstream(&table, &size);

	if (f)
		print_head(before, now, f);
	if (g)
		print_table(before, now, g);
	if (f && fclose(f) == 0)
		copy_lines(head, 0, rows ? rows : HEAD_LINES, columns, out);
	if (g && fclose(g) == 0) {
		/* The heads of the columns stay. */
		if (!rows || rows > HEAD_LINES)
			copy_lines(table, 0, 1, columns, out);
		unsigned left = !rows			? UINT32_MAX - 1 - skip
				: rows > HEAD_LINES + 1 ? rows - HEAD_LINES - 1
							: 0;
		n = copy_lines(table, 1 + skip, 1 + skip + left, columns, out);
	}
	free(head);
	free(table);
	return n;
}
