/* Everything that is counted, for Prometheus (text format 0.0.4). One family after the other, each
 * from its table; a series is named by the ids that operators chose, so it lives as long as its VIP
 * or DIP does. Times are in seconds, but for the gauges that keep the names of GET /v1/consistency.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/problem.h"
#include "api/server/resources.h"
#include "base/clock.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

static void family(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n >= k && strcmp(text + n - k, end) == 0;
}

/* By Prometheus' own rule, what ends in _total is a counter. */
static const char *type_of(const char *name)
{
	return ends_with(name, "_total") ? "counter" : "gauge";
}

static void scalar(FILE *f, const char *name, const char *help, uint64_t value)
{
	family(f, name, type_of(name), help);
	fprintf(f, "%s %" PRIu64 "\n", name, value);
}

/* key="value", with what the format asks to be escaped. */
static void label(FILE *f, const char *key, const char *value)
{
	fprintf(f, "%s=\"", key);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			fputc('\\', f);
		if (*value == '\n')
			fputs("\\n", f);
		else
			fputc(*value, f);
	}
	fputc('"', f);
}

static void seconds(FILE *f, uint64_t us)
{
	fprintf(f, "%" PRIu64 ".%06" PRIu64, us / 1000000u, us % 1000000u);
}

/* --- the promise ---------------------------------------------------------------------------------
 */

/* name_us becomes concury_<name>_seconds. */
static void print_histogram(FILE *f, const char *name_us, const char *help,
			    const struct histogram *h)
{
	char name[64];

	snprintf(name, sizeof(name), "concury_%.*s_seconds", (int)(strlen(name_us) - strlen("_us")),
		 name_us);
	family(f, name, "histogram", help);
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		fprintf(f, "%s_bucket{le=\"", name);
		seconds(f, histogram_limit(i));
		fprintf(f, "\"} %" PRIu64 "\n", histogram_up_to(h, i));
	}
	fprintf(f, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum ", name, h->count, name);
	seconds(f, h->sum);
	fprintf(f, "\n%s_count %" PRIu64 "\n", name, h->count);
}

static void print_consistency(FILE *f, const struct api_backend *b)
{
	struct consistency c;

	b->read_consistency(b->ctx, &c);
#define PRINT(name, text) scalar(f, "concury_consistency_" #name, text, c.name);
	CONSISTENCY_FIELDS(PRINT)
#undef PRINT
#define PRINT(name, text) print_histogram(f, #name, text, &c.name);
	CONSISTENCY_HISTOGRAMS(PRINT)
#undef PRINT
}

/* --- VIPs and DIPs -------------------------------------------------------------------------------
 */

/* A family of VIPs or DIPs: which member of its struct. */
struct series {
	const char *name;
	const char *help;
	size_t offset;
};

static const struct series vip_series[] = {
	{"concury_vip_packets_total", "packets sent to the DIPs of a VIP",
	 offsetof(struct vip_info, packets)},
	{"concury_vip_bytes_total", "bytes sent to the DIPs of a VIP, as received",
	 offsetof(struct vip_info, bytes)},
	{"concury_vip_return_packets_total",
	 "packets from the DIPs of a VIP, sent to clients by mode nat",
	 offsetof(struct vip_info, return_packets)},
	{"concury_vip_return_bytes_total",
	 "bytes from the DIPs of a VIP, sent to clients by mode nat",
	 offsetof(struct vip_info, return_bytes)},
	{"concury_vip_flows", "known flows of a VIP", offsetof(struct vip_info, flows)},
	{"concury_vip_flows_pinned",
	 "known flows of a VIP that are not where their hash is at home",
	 offsetof(struct vip_info, flows_pinned)},
};

static const struct series dip_series[] = {
	{"concury_dip_packets_total", "packets sent to a DIP", offsetof(struct dip_info, packets)},
	{"concury_dip_bytes_total", "bytes sent to a DIP, as received",
	 offsetof(struct dip_info, bytes)},
	{"concury_dip_return_packets_total", "packets from a DIP, sent to clients by mode nat",
	 offsetof(struct dip_info, return_packets)},
	{"concury_dip_return_bytes_total", "bytes from a DIP, sent to clients by mode nat",
	 offsetof(struct dip_info, return_bytes)},
	{"concury_dip_flows", "known flows of a DIP", offsetof(struct dip_info, flows)},
	{"concury_dip_flows_opened_total", "flows learned on a DIP",
	 offsetof(struct dip_info, flows_opened)},
	{"concury_dip_health_checks_total", "checks of a DIP that have ended",
	 offsetof(struct dip_info, health.stats.checks_total)},
	{"concury_dip_health_checks_failed_total", "checks of a DIP that have failed",
	 offsetof(struct dip_info, health.stats.failed_total)},
};

static uint64_t member(const void *object, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *)object + offset, sizeof(value));
	return value;
}

static void print_vip_series(FILE *f, const struct series *s, const struct vip_info *vips, size_t n)
{
	family(f, s->name, type_of(s->name), s->help);
	for (size_t i = 0; i < n; i++) {
		fprintf(f, "%s{", s->name);
		label(f, "vip", vips[i].conf.id);
		fprintf(f, "} %" PRIu64 "\n", member(&vips[i], s->offset));
	}
}

static void print_dip_series(FILE *f, const struct series *s, const struct vip_info *vips, size_t n)
{
	family(f, s->name, type_of(s->name), s->help);
	for (size_t i = 0; i < n; i++) {
		for (unsigned k = 0; vips[i].dips && k < vips[i].n_dips; k++) {
			fprintf(f, "%s{", s->name);
			label(f, "vip", vips[i].conf.id);
			fputc(',', f);
			label(f, "dip", vips[i].dips[k].conf.id);
			fprintf(f, "} %" PRIu64 "\n", member(&vips[i].dips[k], s->offset));
		}
	}
}

static void dip_sample(FILE *f, const char *name, const struct vip_info *v, unsigned dip)
{
	fprintf(f, "%s{", name);
	label(f, "vip", v->conf.id);
	fputc(',', f);
	label(f, "dip", v->dips[dip].conf.id);
	fputs("} ", f);
}

/* What min_up makes of it does not show here: an alarm is wanted then, too. */
static bool is_healthy(const struct dip_health_info *h)
{
	if (h->now.override != OVERRIDE_NONE)
		return h->now.override == OVERRIDE_UP;
	return !h->checked || h->now.verdict == VERDICT_UP;
}

static void print_dip_health(FILE *f, const struct vip_info *vips, size_t n)
{
	static const char health[] = "concury_dip_health";
	static const char latency[] = "concury_dip_health_latency_seconds";

	family(f, health, "gauge", "1 if a DIP's checks, or an override, say that it is up");
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; vips[i].dips && k < vips[i].n_dips; k++) {
			dip_sample(f, health, &vips[i], k);
			fprintf(f, "%d\n", is_healthy(&vips[i].dips[k].health));
		}
	family(f, latency, "gauge", "how long the last check of a DIP took");
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; vips[i].dips && k < vips[i].n_dips; k++) {
			dip_sample(f, latency, &vips[i], k);
			seconds(f, vips[i].dips[k].health.stats.latency_us);
			fputc('\n', f);
		}
}

static void dip_gauge(FILE *f, const char *name, const struct vip_info *v, const struct dip_info *d,
		      uint64_t value)
{
	fprintf(f, "%s{", name);
	label(f, "vip", v->conf.id);
	fputc(',', f);
	label(f, "dip", d->conf.id);
	fprintf(f, "} %" PRIu64 "\n", value);
}

/* A series for each state that there is, of which one is 1: none comes or goes with the state. */
static void print_states(FILE *f, const struct vip_info *v, const struct dip_info *d)
{
	for (unsigned s = 0; dip_state_names[s]; s++) {
		fputs("concury_dip_state{", f);
		label(f, "vip", v->conf.id);
		fputc(',', f);
		label(f, "dip", d->conf.id);
		fputc(',', f);
		label(f, "state", dip_state_names[s]);
		fprintf(f, "} %d\n", d->state == s);
	}
}

/* Gauges that are no 64-bit members. */
static void print_dip_gauges(FILE *f, const struct vip_info *vips, size_t n)
{
	static const char weight[] = "concury_dip_weight", dcodes[] = "concury_dip_dcodes";

	family(f, weight, "gauge", "the weight of a DIP, as it is configured");
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; vips[i].dips && k < vips[i].n_dips; k++)
			dip_gauge(f, weight, &vips[i], &vips[i].dips[k],
				  vips[i].dips[k].conf.weight);
	family(f, dcodes, "gauge", "Dcodes of a DIP: its share of new flows, of those of its VIP");
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; vips[i].dips && k < vips[i].n_dips; k++)
			dip_gauge(f, dcodes, &vips[i], &vips[i].dips[k], vips[i].dips[k].dcodes);
	family(f, "concury_dip_state", "gauge",
	       "1 for the state that a DIP is in, 0 for the others");
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; vips[i].dips && k < vips[i].n_dips; k++)
			print_states(f, &vips[i], &vips[i].dips[k]);
}

static void print_vips(FILE *f, const struct api_backend *b)
{
	size_t n = 0;
	struct vip_info *vips = b->read_vips(b->ctx, NULL, true, &n);

	for (size_t i = 0; i < ARRAY_LEN(vip_series); i++)
		print_vip_series(f, &vip_series[i], vips, n);
	for (size_t i = 0; i < ARRAY_LEN(dip_series); i++)
		print_dip_series(f, &dip_series[i], vips, n);
	print_dip_health(f, vips, n);
	print_dip_gauges(f, vips, n);
	b->free_vips(vips, n);
}

/* --- interfaces, drops, learning -----------------------------------------------------------------
 */

static void labelled(FILE *f, const char *name, const char *key, const char *word, uint64_t value)
{
	fprintf(f, "%s{", name);
	label(f, key, word);
	fprintf(f, "} %" PRIu64 "\n", value);
}

static void print_interfaces(FILE *f, const struct api_traffic *t)
{
#define IFACE(m) (offsetof(struct api_traffic, ifaces[0].m) - offsetof(struct api_traffic, ifaces))
	static const struct series series[] = {
		{"concury_interface_receive_packets_total", "packets taken from an interface",
		 IFACE(rx_packets)},
		{"concury_interface_receive_bytes_total", "bytes taken from an interface",
		 IFACE(rx_bytes)},
		{"concury_interface_transmit_packets_total", "packets sent by an interface",
		 IFACE(tx_packets)},
		{"concury_interface_transmit_bytes_total", "bytes sent by an interface",
		 IFACE(tx_bytes)},
	};
#undef IFACE

	for (size_t s = 0; s < ARRAY_LEN(series); s++) {
		family(f, series[s].name, "counter", series[s].help);
		for (unsigned i = 0; i < t->n_ifaces; i++)
			labelled(f, series[s].name, "interface", t->ifaces[i].name,
				 member(&t->ifaces[i], series[s].offset));
	}
}

static void print_traffic(FILE *f, const struct api_backend *b)
{
	struct api_traffic t;

	b->read_traffic(b->ctx, &t);
	print_interfaces(f, &t);
	family(f, "concury_drops_total", "counter", "packets dropped, by reason");
	for (unsigned i = 0; i < N_DROP_REASONS; i++)
		labelled(f, "concury_drops_total", "reason", drop_reason_name[i], t.drops[i]);
	scalar(f, "concury_receive_kernel_drops_total",
	       "packets that the kernel could not hand over (ring or fill ring full)",
	       t.rx_kernel_drops);
	family(f, "concury_learn_lost_total", "counter",
	       "learn records that found their ring full or, of refreshes, the rate limit reached");
	labelled(f, "concury_learn_lost_total", "ring", "opening", t.lost_openings);
	labelled(f, "concury_learn_lost_total", "ring", "datagram", t.lost_datagrams);
	labelled(f, "concury_learn_lost_total", "ring", "refresh", t.lost_refreshes);
	scalar(f, "concury_checksums_completed_total",
	       "packets whose checksum the sender's kernel had left to its card",
	       t.checksums_completed);
	family(f, "concury_answers_total", "counter",
	       "ICMP and ICMPv6 messages sent in the name of VIPs");
	labelled(f, "concury_answers_total", "kind", "echo", t.echo_replies);
	labelled(f, "concury_answers_total", "kind", "too_big", t.too_big_replies);
	family(f, "concury_quic_packets_total", "counter",
	       "QUIC packets with an ID of their server's: whether it, or their flow, named the "
	       "DIP");
	labelled(f, "concury_quic_packets_total", "by", "id", t.quic_by_id);
	labelled(f, "concury_quic_packets_total", "by", "flow", t.quic_by_flow);
}

/* --- the page ------------------------------------------------------------------------------------
 */

static void print_daemon(FILE *f, const struct api_context *api)
{
	const struct api_backend *b = &api->backend;
	uint64_t flows, capacity;

	b->read_capacity(b->ctx, &flows, &capacity);
	family(f, "concury_build_info", "gauge",
	       "the version and the commit of the program; always 1");
	fputs("concury_build_info{", f);
	label(f, "version", CONCURY_VERSION);
	fputc(',', f);
	label(f, "commit", b->info.commit);
	fputs("} 1\n", f);
	scalar(f, "concury_ready", "1 while packets are forwarded",
	       atomic_load(&api->ready) && b->serving(b->ctx));
	scalar(f, "concury_uptime_seconds", "time since the start of the process",
	       (clock_now_ms() - api->started_ms) / 1000u);
	scalar(f, "concury_flows_capacity", "flows that can be known at once", capacity);
}

void metrics_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (f) {
		print_daemon(f, req->api);
		print_consistency(f, b);
		print_vips(f, b);
		print_traffic(f, b);
	}
	/* A write that found no memory shows at the close, or left its mark before. */
	bool failed = !f || ferror(f);
	failed |= f && fclose(f);
	if (failed) {
		free(text);
		problem_set(resp, 500, "out of memory");
		return;
	}
	response_text(resp, METRICS_TYPE, text, len);
}
