/* An agent's report: who sends it is asked before a byte of it is parsed. */
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/problem.h"
#include "api/server/resources.h"
#include "api/server/token.h"

#define INTEGER_MAX ((uint64_t)INT64_MAX)

#define MEMBERS_MAX 10

/* Reads the members of one object; what was not asked for by the end is unknown. */
struct members {
	const json_t *object;
	const char *pointer; /* of the object */
	unsigned n_taken;
	const char *taken[MEMBERS_MAX]; /* names */
	struct field_errors *errors;
};

static void fault(const struct members *m, const char *name, const char *code, const char *detail)
{
	char pointer[FIELD_POINTER_LEN];

	codec_pointer(pointer, m->pointer, name);
	field_errors_add(m->errors, pointer, code, "%s", detail);
}

static const json_t *take(struct members *m, const char *name, bool required)
{
	const json_t *value = json_object_get(m->object, name);

	assert(m->n_taken < MEMBERS_MAX);
	m->taken[m->n_taken++] = name;
	if (!value && required)
		fault(m, name, "required", "it must be given");
	return value;
}

static uint64_t take_integer(struct members *m, const char *name, bool required, uint64_t max)
{
	const json_t *value = take(m, name, required);
	char range[64];

	if (!value)
		return 0;
	if (!json_is_integer(value)) {
		fault(m, name, "type", "must be an integer");
		return 0;
	}
	json_int_t n = json_integer_value(value);
	if (n < 0 || (uint64_t)n > max) {
		snprintf(range, sizeof(range), "0 to %llu", (unsigned long long)max);
		fault(m, name, "out_of_range", range);
		return 0;
	}
	return (uint64_t)n;
}

static bool take_flag(struct members *m, const char *name)
{
	const json_t *value = take(m, name, false);

	if (value && !json_is_boolean(value))
		fault(m, name, "type", "must be true or false");
	return json_is_true(value);
}

static const char *take_text(struct members *m, const char *name)
{
	const json_t *value = take(m, name, true);

	if (value && !json_is_string(value))
		fault(m, name, "type", "must be a string");
	return json_string_value(value);
}

static void refuse_unknown(const struct members *m)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)m->object, name, value)
	{
		unsigned i = 0;
		while (i < m->n_taken && strcmp(m->taken[i], name) != 0)
			i++;
		if (i == m->n_taken)
			fault(m, name, "unknown", "no such member");
	}
}

/* --- the parts -----------------------------------------------------------------------------------
 */

static void parse_entry(const json_t *value, const char *pointer, struct agent_entry *out,
			struct field_errors *errors)
{
	struct members m = {.object = value, .pointer = pointer, .errors = errors};

	if (!json_is_object(value)) {
		field_errors_add(errors, pointer, "type", "must be an object");
		return;
	}
	const char *src = take_text(&m, "src");
	const char *protocol = take_text(&m, "protocol");
	const json_t *dst = take(&m, "dst", false);
	out->sport = (uint16_t)take_integer(&m, "sport", true, UINT16_MAX);
	out->dport = (uint16_t)take_integer(&m, "dport", true, UINT16_MAX);
	out->age_ms = (uint32_t)take_integer(&m, "age_ms", false, AGENT_AGE_MAX_MS);
	refuse_unknown(&m);
	if (src && ip_addr_parse(src, &out->src))
		fault(&m, "src", "bad_value", "an IPv4 or IPv6 address");
	out->has_dst = dst != NULL;
	if (dst && (!json_is_string(dst) || ip_addr_parse(json_string_value(dst), &out->dst)))
		fault(&m, "dst", "bad_value", "an IPv4 or IPv6 address");
	out->proto = protocol && !strcmp(protocol, "udp") ? IPPROTO_UDP : IPPROTO_TCP;
	if (protocol && out->proto == IPPROTO_TCP && strcmp(protocol, "tcp") != 0)
		fault(&m, "protocol", "bad_value", "one of: tcp, udp");
}

/* Append a list of connections to entries, which has room for AGENT_ENTRIES_MAX. */
static void parse_entries(struct members *m, const char *name, bool ended,
			  struct agent_entry *entries, unsigned *n)
{
	const json_t *list = take(m, name, false);
	char pointer[64];

	if (list && !json_is_array(list)) {
		fault(m, name, "type", "must be an array");
		return;
	}
	if (json_array_size(list) > AGENT_ENTRIES_MAX - *n) {
		fault(m, name, "too_many", "a report has at most 4096 connections");
		return;
	}
	for (size_t i = 0; i < json_array_size(list) && m->errors->n < FIELD_ERRORS_MAX; i++) {
		entries[*n] = (struct agent_entry){.ended = ended};
		snprintf(pointer, sizeof(pointer), "/%s/%zu", name, i);
		parse_entry(json_array_get(list, i), pointer, &entries[*n], m->errors);
		(*n)++;
	}
}

_Static_assert(AGENT_ENTRIES_MAX == 4096, "the message above says so");

static void parse_load(struct members *report, struct agent_load *out)
{
	const json_t *load = take(report, "load", false);
	struct members m = {.object = load, .pointer = "/load", .errors = report->errors};

	if (!load)
		return;
	if (!json_is_object(load)) {
		fault(report, "load", "type", "must be an object");
		return;
	}
	out->connections = take_integer(&m, "connections", false, INTEGER_MAX);
	out->cpus = (uint32_t)take_integer(&m, "cpus", false, UINT32_MAX);
	out->load_percent = (uint32_t)take_integer(&m, "load_percent", false, UINT32_MAX);
	refuse_unknown(&m);
}

static void parse_instance(struct members *m, struct agent_report *out)
{
	const char *text = take_text(m, "instance");

	if (!text)
		return;
	if (strlen(text) != AGENT_INSTANCE_LEN - 1 ||
	    strspn(text, "0123456789abcdef") != AGENT_INSTANCE_LEN - 1)
		fault(m, "instance", "bad_value", "16 lower-case hexadecimal digits");
	else
		memcpy(out->instance, text, AGENT_INSTANCE_LEN);
}

static bool parse_report(const json_t *body, struct agent_report *out, struct agent_entry *entries,
			 struct field_errors *errors)
{
	struct members m = {.object = body, .pointer = "", .errors = errors};

	*out = (struct agent_report){.entries = entries};
	if (!json_is_object(body)) {
		field_errors_add(errors, "", "type", "must be an object");
		return false;
	}
	parse_instance(&m, out);
	const char *kind = take_text(&m, "kind");
	if (kind && strcmp(kind, "full") != 0 && strcmp(kind, "delta") != 0)
		fault(&m, "kind", "bad_value", "one of: full, delta");
	out->full = kind && !strcmp(kind, "full");
	out->sequence = take_integer(&m, "sequence", true, INTEGER_MAX);
	if (!out->sequence && json_object_get(body, "sequence"))
		fault(&m, "sequence", "out_of_range", "they start from 1");
	out->first = take_integer(&m, "part", false, UINT32_MAX) == 0;
	out->last = !take_flag(&m, "more");
	out->clock_ms = take_integer(&m, "clock_ms", false, INTEGER_MAX);
	out->orphans = take_integer(&m, "orphans", false, INTEGER_MAX);
	parse_load(&m, &out->load);
	/* Ends first: a tuple that is in both is in use again. */
	parse_entries(&m, "ended", true, entries, &out->n);
	parse_entries(&m, "opened", false, entries, &out->n);
	refuse_unknown(&m);
	return errors->n == 0;
}

/* --- the request ---------------------------------------------------------------------------------
 */

static json_t *print_answer(const struct agent_answer *a)
{
	char address[IP_PREFIX_STRLEN];
	const struct vip_match *m = &a->match;

	return json_pack("{s:I, s:s, s:b, s:I, s:i, s:[{s:s, s:i, s:o, s:s}]}", "ack",
			 (json_int_t)a->ack, "instance", a->instance, "resync", (int)a->resync,
			 "clock_ms", (json_int_t)a->clock_ms, "refused", (int)a->n_refused, "vips",
			 "address", ip_prefix_format(&m->address, m->host_bits, address), "port",
			 (int)m->port, "port_end",
			 m->port_end ? json_integer(m->port_end) : json_null(), "protocol",
			 vip_protocol_names[m->protocol]);
}

static void run_report(struct api_request *req, const json_t *body, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct agent_entry *entries = malloc(AGENT_ENTRIES_MAX * sizeof(*entries));
	struct field_errors errors = {.n = 0};
	struct agent_answer answer;
	struct agent_report report;

	if (!entries) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	if (!parse_report(body, &report, entries, &errors)) {
		change_refuse(resp, &errors);
	} else {
		b->agent_report(b->ctx, req->path_args[0], &report, &answer);
		if (answer.found)
			response_json(resp, 200, print_answer(&answer));
		else
			problem_set(resp, 404, "no agent has the id '%s'", req->path_args[0]);
	}
	free(entries);
}

void report_post(struct api_request *req, struct api_response *resp)
{
	json_t *body = body_parse(req, false, resp);

	if (!body)
		return;
	run_report(req, body, resp);
	json_decref(body);
}
