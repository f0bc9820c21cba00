/* What the forwarder is, does and has done: status, counters, consistency, audit, explain. */
#include <string.h>

#include "api/client/ctl_commands.h"
#include "api/client/ctl_table.h"

/* --- status --------------------------------------------------------------------------------------
 */

static void print_workers(struct ctl *c, const json_t *workers)
{
	struct ctl_table *t = ctl_table_new(">WORKER >CPU INTERFACE >QUEUE XDP");
	const json_t *w, *q;
	size_t i, k;

	json_array_foreach(workers, i, w)
	{
		json_array_foreach(json_object_get(w, "queues"), k, q)
		{
			ctl_table_member(t, w, "id");
			ctl_table_member(t, w, "cpu");
			ctl_table_member(t, q, "interface");
			ctl_table_member(t, q, "queue");
			ctl_table_member(t, q, "xdp_mode");
		}
	}
	ctl_table_print(t, c->out, "no workers");
}

static void print_status(struct ctl *c, const json_t *json)
{
	char up[32];
	long long uptime_s = json_integer_value(json_object_get(json, "uptime_s"));
	const json_t *flows = json_object_get(json, "flows");
	const json_t *huge = json_object_get(json, "hugepages");
	const json_t *warning;
	size_t i;

	fprintf(c->out, "concuryd %s (%s), %s, up %s, generation %lld\n", ctl_text(json, "version"),
		ctl_text(json, "commit"),
		json_is_true(json_object_get(json, "ready")) ? "ready" : "NOT READY",
		ctl_human_seconds((uint64_t)uptime_s, up, sizeof(up)),
		json_integer_value(json_object_get(json, "generation")));
	fprintf(c->out, "flows: %lld of %lld; state file: %s; huge pages: lookup %s, UMEM %s\n\n",
		json_integer_value(json_object_get(flows, "known")),
		json_integer_value(json_object_get(flows, "capacity")),
		ctl_text(json, "state_file"), ctl_text(huge, "lookup"), ctl_text(huge, "umem"));
	print_workers(c, json_object_get(json, "workers"));
	json_array_foreach(json_object_get(json, "warnings"), i, warning)
	{
		fprintf(c->out, "%swarning: %s\n", i ? "" : "\n",
			json_is_string(warning) ? json_string_value(warning) : "?");
	}
}

int ctl_status(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;
	struct ctl_answer a;

	(void)call;
	ctl_path_set(&path, "/v1/status");
	int rc = ctl_get(c, &path, &a);
	if (!rc && c->json)
		ctl_print_raw(c, &a);
	else if (!rc)
		print_status(c, a.json);
	if (!rc && !json_is_true(json_object_get(a.json, "ready")))
		rc = CTL_FAULTY;
	ctl_answer_free(&a);
	return rc;
}

/* --- counters ------------------------------------------------------------------------------------
 */

static void add_traffic(struct ctl_table *t, const char *vip, const json_t *traffic)
{
	ctl_table_add(t, "%s", vip);
	ctl_table_member(t, traffic, "id");
	ctl_table_count(t, traffic, "packets");
	ctl_table_bytes(t, traffic, "bytes");
}

static void print_traffic(struct ctl *c, const json_t *vips)
{
	struct ctl_table *t = ctl_table_new("VIP DIP >PACKETS >BYTES");
	const json_t *v, *d;
	size_t i, k;

	json_array_foreach(vips, i, v)
	{
		ctl_table_member(t, v, "id");
		ctl_table_add(t, "(all)");
		ctl_table_count(t, v, "packets");
		ctl_table_bytes(t, v, "bytes");
		json_array_foreach(json_object_get(v, "dips"), k, d)
		{
			add_traffic(t, "", d);
		}
	}
	ctl_table_print(t, c->out, "no VIPs");
}

static void print_counters(struct ctl *c, const json_t *json)
{
	struct ctl_table *t =
		ctl_table_new("INTERFACE >RX-PACKETS >RX-BYTES >TX-PACKETS >TX-BYTES");
	struct ctl_table *drops = ctl_table_new("DROPPED-BECAUSE >PACKETS");
	const json_t *i;
	json_t *n;
	const char *reason;
	size_t k;

	json_array_foreach(json_object_get(json, "interfaces"), k, i)
	{
		ctl_table_member(t, i, "name");
		ctl_table_count(t, i, "rx_packets");
		ctl_table_bytes(t, i, "rx_bytes");
		ctl_table_count(t, i, "tx_packets");
		ctl_table_bytes(t, i, "tx_bytes");
	}
	ctl_table_print(t, c->out, "no interfaces");
	fputc('\n', c->out);
	print_traffic(c, json_object_get(json, "vips"));
	fputc('\n', c->out);
	json_object_foreach(json_object_get(json, "drops"), reason, n)
	{
		if (json_integer_value(n))
			ctl_table_add(drops, "%s", reason);
		if (json_integer_value(n))
			ctl_table_count(drops, json_object_get(json, "drops"), reason);
	}
	if (json_integer_value(json_object_get(json, "rx_kernel_drops"))) {
		ctl_table_add(drops, "(in the kernel)");
		ctl_table_count(drops, json, "rx_kernel_drops");
	}
	ctl_table_print(drops, c->out, "nothing was dropped");
}

int ctl_counters(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	(void)call;
	ctl_path_set(&path, "/v1/counters");
	return ctl_show(c, &path, print_counters);
}

/* --- consistency ---------------------------------------------------------------------------------
 */

/* Histograms are for machines. */
static void print_numbers(struct ctl *c, const json_t *json)
{
	struct ctl_table *t = ctl_table_new("CONSISTENCY >VALUE");
	const char *name;
	json_t *n;

	json_object_foreach((json_t *)json, name, n)
	{
		if (!json_is_integer(n))
			continue;
		ctl_table_add(t, "%s", name);
		ctl_table_member(t, json, name);
	}
	ctl_table_print(t, c->out, "nothing");
}

int ctl_consistency(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	(void)call;
	ctl_path_set(&path, "/v1/consistency");
	return ctl_show(c, &path, print_numbers);
}

int ctl_audit(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;
	struct ctl_answer a;

	(void)call;
	ctl_path_set(&path, "/v1/audit");
	int rc = ctl_ask(c, &(struct ctl_request){.method = "POST", .path = &path}, &a);
	if (!rc && c->json)
		ctl_print_raw(c, &a);
	else if (!rc)
		ctl_print_members(c, a.json);
	if (!rc && json_integer_value(json_object_get(a.json, "flows_misplaced")))
		rc = CTL_FAULTY;
	ctl_answer_free(&a);
	return rc;
}

int ctl_limits(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	(void)call;
	ctl_path_set(&path, "/v1/limits");
	return ctl_show(c, &path, ctl_print_members);
}

/* --- explain -------------------------------------------------------------------------------------
 */

static void print_explanation(struct ctl *c, const json_t *json)
{
	static const struct {
		const char *word, *text;
	} reasons[] = {{"home", "where its hash says"},
		       {"pin", "a known flow that lives elsewhere than its hash says"},
		       {"exact", "a known flow, just learned, that lives elsewhere"},
		       {"reroll", "the DIP that its hash says is down"},
		       {"server_id", "its connection ID says so"},
		       {"none", "no DIP can be used"}};
	const char *reason = ctl_text(json, "reason");
	const char *dip = json_string_value(json_object_get(json, "dip"));
	const char *text = reason;

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (!strcmp(reason, reasons[i].word))
			text = reasons[i].text;
	fprintf(c->out, "%s: %s, %s (Dcode %lld, generation %lld)\n", dip ? dip : "dropped", text,
		json_is_true(json_object_get(json, "known")) ? "known" : "not known",
		json_integer_value(json_object_get(json, "dcode")),
		json_integer_value(json_object_get(json, "generation")));
}

int ctl_explain(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;

	ctl_path_set(&path, "/v1/explain");
	ctl_path_query(&path, "vip", call->args[0]);
	ctl_path_query(&path, "src", call->args[1]);
	ctl_path_query(&path, "sport", call->args[2]);
	ctl_path_query(&path, "dport", call->n_args > 3 ? call->args[3] : NULL);
	ctl_path_query(&path, "dst", call->n_args > 4 ? call->args[4] : NULL);
	ctl_path_query(&path, "protocol", ctl_option(call, OPT_PROTOCOL));
	ctl_path_query(&path, "cid", ctl_option(call, OPT_CID));
	return ctl_show(c, &path, print_explanation);
}
