#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "api/server/problem.h"
#include "api/server/resources.h"
#include "base/hex.h"

/* True if it was given, and is one. */
static bool read_port(const struct api_request *req, const char *pointer, bool required,
		      uint16_t *out, struct field_errors *errors)
{
	const char *text = request_query(req, pointer + 1);

	*out = 0;
	if (!text) {
		if (required)
			field_errors_add(errors, pointer, "required", "it must be given");
		return false;
	}
	size_t len = strlen(text);
	unsigned long n = len && len <= 5 && strspn(text, "0123456789") == len
				  ? strtoul(text, NULL, 10)
				  : ULONG_MAX;
	if (n > UINT16_MAX)
		field_errors_add(errors, pointer, "out_of_range", "0 to 65535");
	else
		*out = (uint16_t)n;
	return n <= UINT16_MAX;
}

/* Of a VIP of one port it is that, whether given or not. */
static void read_dport(const struct api_request *req, const struct vip_conf *vip, uint16_t *out,
		       struct field_errors *errors)
{
	const struct vip_match *m = &vip->match;
	bool required = m->port_end || (!m->port && vip->affinity == AFFINITY_FLOW);
	uint16_t last = m->port_end ? m->port_end : m->port;

	if (!read_port(req, "?dport", required, out, errors))
		return;
	if (m->port && (*out < m->port || *out > last))
		field_errors_add(errors, "?dport", "out_of_range", "%u to %u, the VIP's", m->port,
				 last);
}

/* A connection ID decides about datagrams of a VIP that routes by it. */
static void read_cid(const struct api_request *req, const struct vip_conf *vip,
		     struct explain_question *q, struct field_errors *errors)
{
	const char *text = request_query(req, "cid");
	int len;

	if (!text)
		return;
	len = hex_parse(text, q->cid, sizeof(q->cid));
	if (len < 0)
		field_errors_add(errors, "?cid", "bad_value", "1 to 20 octets in hexadecimal");
	else if (vip->quic != QUIC_SERVER_ID || q->proto == IPPROTO_TCP)
		field_errors_add(errors, "?cid", "not_applicable",
				 "only for UDP of a VIP whose quic is server-id");
	else
		q->cid_len = (uint8_t)len;
}

/* Of a VIP of one address it is that, whether given or not. */
static void read_dst(const struct api_request *req, const struct vip_match *m,
		     struct explain_question *q, struct field_errors *errors)
{
	const char *dst = request_query(req, "dst");
	char prefix[IP_PREFIX_STRLEN];

	q->dst = m->address;
	if (!dst && m->host_bits)
		field_errors_add(errors, "?dst", "required", "the VIP has several addresses");
	else if (dst && ip_addr_parse(dst, &q->dst))
		field_errors_add(errors, "?dst", "bad_value", "an IPv4 or IPv6 address");
	else if (!vip_match_has_address(m, &q->dst))
		field_errors_add(errors, "?dst", "out_of_range", "not of the VIP (%s)",
				 ip_prefix_format(&m->address, m->host_bits, prefix));
}

/* What the VIP, once known, asks of the question. */
static void check_against_vip(const struct api_request *req, const struct vip_conf *vip,
			      struct explain_question *q, struct field_errors *errors)
{
	const char *protocol = request_query(req, "protocol");
	const struct vip_match *m = &vip->match;

	read_port(req, "?sport", vip->affinity == AFFINITY_FLOW, &q->sport, errors);
	read_dport(req, vip, &q->dport, errors);
	read_dst(req, m, q, errors);
	if (ip_addr_is_v4(&q->src) != ip_addr_is_v4(&m->address))
		field_errors_add(errors, "?src", "bad_value",
				 "an address of the VIP's family is needed");
	if (protocol && !strcmp(protocol, "tcp") && m->protocol != VIP_UDP)
		q->proto = IPPROTO_TCP;
	else if (protocol && !strcmp(protocol, "udp") && m->protocol != VIP_TCP)
		q->proto = IPPROTO_UDP;
	else if (protocol)
		field_errors_add(errors, "?protocol", "bad_value",
				 "tcp or udp, as the VIP takes them");
	read_cid(req, vip, q, errors);
}

static bool refuse(struct api_response *resp, const struct field_errors *errors)
{
	if (!errors->n)
		return false;
	problem_query(resp, errors);
	return true;
}

static bool read_question(const struct api_request *req, struct explain_question *q,
			  struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	const char *src = request_query(req, "src");
	struct field_errors errors = {.n = 0};
	size_t n = 0;

	memset(q, 0, sizeof(*q));
	q->vip = request_query(req, "vip");
	if (!q->vip)
		field_errors_add(&errors, "?vip", "required", "it must be given");
	if (!src)
		field_errors_add(&errors, "?src", "required", "it must be given");
	else if (ip_addr_parse(src, &q->src))
		field_errors_add(&errors, "?src", "bad_value", "an IPv4 or IPv6 address");
	if (refuse(resp, &errors))
		return false;
	struct vip_info *vip = b->read_vips(b->ctx, q->vip, false, &n);
	if (n)
		check_against_vip(req, &vip[0].conf, q, &errors);
	else
		problem_set(resp, 404, "no VIP has the id '%s'", q->vip);
	b->free_vips(vip, n);
	return n && !refuse(resp, &errors);
}

void explain_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct explanation e = {.found = false};
	struct explain_question q;

	if (!read_question(req, &q, resp))
		return;
	b->explain(b->ctx, &q, &e);
	if (!e.found) {
		problem_set(resp, 404, "the VIP '%s' takes no such packet", q.vip);
		return;
	}
	response_json(resp, 200,
		      json_pack("{s:s, s:o, s:s, s:I, s:I, s:b}", "vip", q.vip, "dip",
				e.dip[0] ? json_string(e.dip) : json_null(), "reason", e.reason,
				"dcode", (json_int_t)e.dcode, "generation",
				(json_int_t)e.generation, "known", (int)e.known));
}
