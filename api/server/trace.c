/* GET /v1/trace: matching packets, in and out, with what was decided about each, as a pcapng file
 * that is written while the packets come (so `curl -N ... | tcpdump -r -` shows them live).
 *
 * The workers copy frames into rings of their own; the connection's thread reads these. One trace
 * runs at a time: its cost to forwarding, a copy of each matching frame, is what an operator asks
 * for once, not what several clients can add up. */
#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/server/pcapng.h"
#include "api/server/problem.h"
#include "api/server/resources.h"
#include "base/clock.h"

#define PACKETS_MAX 10000u
#define SECONDS_MAX 60u
#define PIECE 32u      /* records read, and named, at a time */
#define PAUSE_US 20000 /* where there are none */

enum { FACE_IN, FACE_OUT };

struct trace {
	struct api_context *api;
	struct trace_filter filter;
	unsigned n_wanted; /* packets */
	unsigned n_in;	   /* got so far */
	uint64_t n_out;
	uint64_t last_pair[256]; /* of the last packet that counts, by worker */
	uint64_t until_ms;
	uint64_t to_wall_ns; /* what makes clock_now_ns a time since 1970 */
	uint64_t lost_before;
	bool stopped; /* no more is written; what was is still to be read */
	bool done;
	struct pcapng file; /* what is not sent yet: from `sent` on */
	size_t sent;
	char ifaces[IFACES_MAX][IF_NAMESIZE];
	struct trace_record records[PIECE];
	struct trace_name names[PIECE];
};

/* --- the file ------------------------------------------------------------------------------------
 */

static void describe(const struct trace *t, const struct trace_record *r,
		     const struct trace_name *name, char *text, size_t size)
{
	const char *vip = name->vip[0] ? name->vip : r->vip_uid ? "a VIP that is gone" : "no VIP";
	const char *dip = name->dip_id[0] ? name->dip_id : "a DIP that is gone";
	const char *iface = r->iface < IFACES_MAX ? t->ifaces[r->iface] : "?";

	if (r->verdict == TRACE_FORWARDED)
		snprintf(text, size,
			 "%s %s, VIP %s: forwarded to DIP %s (%s, Dcode %u, generation %llu)",
			 r->way == TRACE_IN ? "in by" : "out by", iface, vip, dip, name->why,
			 r->dcode, (unsigned long long)r->generation);
	else
		snprintf(text, size, "in by %s, VIP %s: dropped: %s (%s)", iface, vip,
			 drop_reason_name[r->verdict], drop_reason_text[r->verdict]);
}

static void write_record(struct trace *t, const struct trace_record *r,
			 const struct trace_name *name)
{
	char text[400];

	uint64_t *last_pair = &t->last_pair[trace_pair_worker(r->pair)];

	if (r->way == TRACE_VOID || (r->way == TRACE_IN && t->n_in == t->n_wanted) ||
	    (r->way == TRACE_OUT && r->pair > *last_pair))
		return;
	if (r->way == TRACE_IN) {
		t->n_in++;
		*last_pair = r->pair;
	} else {
		t->n_out++;
	}
	describe(t, r, name, text, sizeof(text));
	pcapng_packet(&t->file, r->way == TRACE_IN ? FACE_IN : FACE_OUT, r->time_ns + t->to_wall_ns,
		      r->data, r->len_kept, r->len, text);
}

/* A piece of what the workers have written; false if there was nothing. */
static bool collect(struct trace *t)
{
	const struct api_backend *b = &t->api->backend;
	unsigned n = b->trace_read(b->ctx, t->records, PIECE);

	for (unsigned i = 0; i < n; i++)
		t->names[i] = (struct trace_name){.vip_uid = t->records[i].vip_uid,
						  .dcode = t->records[i].dcode,
						  .dip = t->records[i].dip,
						  .reason = t->records[i].reason};
	if (n)
		b->trace_names(b->ctx, t->names, n);
	for (unsigned i = 0; i < n; i++)
		write_record(t, &t->records[i], &t->names[i]);
	return n != 0;
}

/* The end: with what could not be kept. */
static void finish(struct trace *t)
{
	const struct api_backend *b = &t->api->backend;
	uint64_t now_ns = clock_now_ns() + t->to_wall_ns;
	uint64_t lost = b->trace_lost(b->ctx) - t->lost_before;

	pcapng_statistics(&t->file, FACE_IN, now_ns, t->n_in + lost, lost);
	pcapng_statistics(&t->file, FACE_OUT, now_ns, t->n_out, 0);
	t->done = true;
}

static size_t send_some(struct trace *t, char *buf, size_t max)
{
	size_t n = t->file.len - t->sent < max ? t->file.len - t->sent : max;

	if (n)
		memcpy(buf, t->file.data + t->sent, n);
	t->sent += n;
	if (t->sent == t->file.len)
		t->sent = t->file.len = 0;
	return n;
}

static void stop_workers(struct trace *t)
{
	if (!t->stopped)
		t->api->backend.trace_stop(t->api->backend.ctx);
	t->stopped = true;
}

static ssize_t trace_stream_read(void *state, char *buf, size_t max)
{
	struct trace *t = state;
	size_t n = send_some(t, buf, max);

	if (n || t->done || t->file.failed)
		return n ? (ssize_t)n : -1;
	if (t->n_in == t->n_wanted || clock_now_ms() >= t->until_ms || !atomic_load(&t->api->ready))
		stop_workers(t);
	if (collect(t))
		return (ssize_t)send_some(t, buf, max);
	if (t->stopped)
		finish(t);
	else
		usleep(PAUSE_US);
	return (ssize_t)send_some(t, buf, max);
}

static void trace_stream_close(void *state)
{
	struct trace *t = state;

	stop_workers(t);
	atomic_store(&t->api->traces, false);
	pcapng_free(&t->file);
	free(t);
}

/* --- the request ---------------------------------------------------------------------------------
 */

static unsigned read_number(const struct api_request *req, const char *pointer, unsigned low,
			    unsigned high, unsigned usual, struct field_errors *errors)
{
	const char *text = request_query(req, pointer + 1);
	size_t len = text ? strlen(text) : 0;

	if (!text)
		return usual;
	unsigned long n = len && len <= 9 && strspn(text, "0123456789") == len
				  ? strtoul(text, NULL, 10)
				  : ULONG_MAX;
	if (n < low || n > high)
		field_errors_add(errors, pointer, "out_of_range", "%u to %u", low, high);
	return (unsigned)n;
}

static void read_filter(const struct api_request *req, struct trace *t, struct field_errors *errors)
{
	const char *src = request_query(req, "src");
	const char *dst = request_query(req, "dst");
	unsigned seconds = read_number(req, "?seconds", 1, SECONDS_MAX, 10, errors);
	unsigned sport = read_number(req, "?sport", 1, UINT16_MAX, 0, errors);

	t->n_wanted = read_number(req, "?packets", 1, PACKETS_MAX, 100, errors);
	t->until_ms = clock_now_ms() + 1000ull * seconds;
	t->filter.snap = read_number(req, "?snap", 14, TRACE_SNAP_MAX, 256, errors);
	t->filter.sport_be = htons((uint16_t)sport);
	t->filter.dport_be = htons((uint16_t)read_number(req, "?dport", 1, UINT16_MAX, 0, errors));
	t->filter.has_dst = dst != NULL;
	if (dst && ip_addr_parse(dst, &t->filter.dst))
		field_errors_add(errors, "?dst", "bad_value", "an IPv4 or IPv6 address");
	t->filter.has_src = src != NULL;
	if (src && ip_addr_parse(src, &t->filter.src))
		field_errors_add(errors, "?src", "bad_value", "an IPv4 or IPv6 address");
	if (request_query(req, "dip") && !request_query(req, "vip"))
		field_errors_add(errors, "?vip", "required", "a DIP is one of a VIP");
}

/* Find what the filter names; false with the answer set. */
static bool find_target(const struct api_request *req, struct trace *t, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	const char *vip = request_query(req, "vip");
	const char *dip = request_query(req, "dip");
	struct trace_target target = {.vip_found = false};

	if (!vip)
		return true;
	b->trace_target(b->ctx, vip, dip, &target);
	t->filter.vip_uid = target.vip_uid;
	t->filter.dip = target.dip;
	if (!target.vip_found)
		problem_set(resp, 404, "no VIP has the id '%s'", vip);
	else if (!target.dip_found)
		problem_set(resp, 404, "the VIP '%s' has no DIP '%s'", vip, dip);
	return target.vip_found && target.dip_found;
}

/* With the only trace that may run taken; false if there is no memory. */
static bool begin(struct trace *t)
{
	const struct api_backend *b = &t->api->backend;
	struct api_traffic traffic;

	b->read_traffic(b->ctx, &traffic);
	for (unsigned i = 0; i < traffic.n_ifaces; i++)
		memcpy(t->ifaces[i], traffic.ifaces[i].name, sizeof(t->ifaces[i]));
	t->to_wall_ns = (uint64_t)clock_wall_ms() * 1000000u - clock_now_ns();
	t->lost_before = b->trace_lost(b->ctx);
	pcapng_begin(&t->file, "concuryd " CONCURY_VERSION);
	pcapng_interface(&t->file, "in", "packets as they were received", t->filter.snap);
	pcapng_interface(&t->file, "out", "packets as they were sent", t->filter.snap);
	return !t->file.failed && b->trace_start(b->ctx, &t->filter) == 0;
}

/* True if the answer has taken it over. */
static bool start(struct trace *t, struct api_response *resp)
{
	bool runs = false;

	if (!atomic_compare_exchange_strong(&t->api->traces, &runs, true)) {
		problem_set(resp, 409, "another trace runs: it ends within %u s", SECONDS_MAX);
		resp->retry_after_s = 1;
	} else if (!begin(t)) {
		atomic_store(&t->api->traces, false);
		problem_set(resp, 500, "out of memory");
	} else {
		response_stream(resp, "application/x-pcapng",
				&(struct api_stream){trace_stream_read, trace_stream_close, t});
		return true;
	}
	return false;
}

void trace_get(struct api_request *req, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	struct trace *t = calloc(1, sizeof(*t));

	if (!t) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	t->api = req->api;
	read_filter(req, t, &errors);
	if (errors.n)
		problem_query(resp, &errors);
	else if (find_target(req, t, resp) && start(t, resp))
		return;
	pcapng_free(&t->file);
	free(t);
}
