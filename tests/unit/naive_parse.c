#include "tests/unit/naive_parse.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/frames.h"

struct reader {
	const uint8_t *b;
	uint32_t at, end;
	bool failed;
};

/* The next n bytes as a number; 0 and failed when they are not there. */
static uint32_t get(struct reader *r, unsigned n)
{
	uint32_t v = 0;

	while (n-- > 0) {
		if (r->at >= r->end) {
			r->failed = true;
			return 0;
		}
		v = v << 8 | r->b[r->at++];
	}
	return v;
}

static struct ip_addr get_address(struct reader *r, bool v6)
{
	uint8_t b[16];

	for (unsigned i = 0; i < (v6 ? 16 : 4); i++)
		b[i] = (uint8_t)get(r, 1);
	if (!v6)
		return ip_addr_v4(b);
	struct ip_addr a;
	memcpy(a.b, b, 16);
	return a;
}

/* What an ICMP error quotes, of which the beginning must be there. */
static enum parse_result naive_quote(struct reader *r, struct packet *p)
{
	bool v6 = p->is_v6;
	uint32_t start = r->at, first = get(r, 1), next, header_len = (first & 15) * 4;

	get(r, v6 ? 5 : 3);
	next = v6 ? get(r, 1) : 0;
	get(r, v6 ? 1 : 2);
	uint32_t frag = v6 ? 0 : get(r, 2);
	if (!v6) {
		get(r, 1);
		next = get(r, 1);
		get(r, 2);
	}
	struct ip_addr from = get_address(r, v6), to = get_address(r, v6);
	if (r->failed || first >> 4 != (v6 ? 6 : 4) || (!v6 && header_len < 20) || (frag & 0x1fff))
		return PARSE_NOT_L4;
	if (!v6)
		r->at = start + header_len;
	for (unsigned n = 0;
	     v6 && (next == 0 || next == 43 || next == 44 || next == 51 || next == 60); n++) {
		uint32_t ext = r->at, kind = next, len;

		next = get(r, 1);
		len = get(r, 1);
		len = kind == 51 ? 4 * (len + 2) : kind == 44 ? 8 : 8 * (len + 1);
		uint32_t offset = get(r, 2);
		get(r, 4);
		if (r->failed || n == 8 || (kind == 44 && offset & 0xfff8))
			return PARSE_NOT_L4;
		r->at = ext + len;
	}
	uint16_t sport_be = htons((uint16_t)get(r, 2)), dport_be = htons((uint16_t)get(r, 2));
	if (r->failed || (next != IPPROTO_TCP && next != IPPROTO_UDP) ||
	    !ip_addr_equal(&from, &p->dst))
		return PARSE_NOT_L4;
	p->src = to;
	p->sport_be = dport_be;
	p->dport_be = sport_be;
	p->proto = (uint8_t)next;
	p->segment = SEG_UNTOLD;
	p->kind = PACKET_ICMP_ERROR;
	return PARSE_OK;
}

static enum parse_result naive_icmp(struct reader *r, struct packet *p)
{
	uint32_t type = get(r, 1);

	get(r, 7);
	if (r->failed)
		return PARSE_NOT_L4;
	if (type == (p->is_v6 ? 128 : 8))
		return PARSE_ECHO;
	if (p->is_v6 ? type >= 1 && type <= 4 : type == 3 || type == 11 || type == 12)
		return naive_quote(r, p);
	return PARSE_NOT_L4;
}

static enum parse_result naive_l4(struct reader *r, struct packet *p)
{
	uint32_t start = r->at;

	p->l4_offset = (uint16_t)start;
	if (p->proto == (p->is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP) && p->kind != PACKET_FIRST)
		return naive_icmp(r, p);
	if (p->proto != IPPROTO_TCP && p->proto != IPPROTO_UDP)
		return PARSE_NOT_L4;
	p->sport_be = htons((uint16_t)get(r, 2));
	p->dport_be = htons((uint16_t)get(r, 2));
	p->segment = 0;
	if (p->proto == IPPROTO_UDP) {
		uint32_t len = get(r, 2);

		get(r, 2);
		bool whole = p->kind != PACKET_FIRST;
		if (r->failed || len < 8 || (whole && start + len > r->end))
			return PARSE_MALFORMED;
		if (start + len > r->end)
			len = r->end - start;
		if (len - 8 >= 1200) {
			uint32_t first = get(r, 1), version = get(r, 4), cid_len = get(r, 1);
			uint32_t initial = version == 0x6b3343cf ? 0xd : 0xc;

			if (first >> 4 == initial && version != 0 && cid_len <= 20)
				p->segment = SEG_INITIAL;
		}
		return PARSE_OK;
	}
	get(r, 8);
	uint32_t header_len = (get(r, 1) >> 4) * 4, flags = get(r, 1);
	get(r, 6);
	if (r->failed || header_len < 20 || start + header_len > r->end)
		return PARSE_MALFORMED;
	if (start + header_len < r->end)
		p->segment |= SEG_PAYLOAD;
	if (flags & FRAMES_FIN)
		p->segment |= SEG_FIN;
	if (flags & FRAMES_RST)
		p->segment |= SEG_RST;
	if ((flags & FRAMES_SYN) && !(flags & FRAMES_ACK) && !(flags & FRAMES_FIN) &&
	    !(flags & FRAMES_RST))
		p->segment |= SEG_SYN;
	return PARSE_OK;
}

/* A part of a packet; at: bytes of it that come before. */
static enum parse_result naive_part(struct reader *r, struct packet *p, uint32_t at)
{
	bool balanced = p->proto == IPPROTO_TCP || p->proto == IPPROTO_UDP;

	p->kind = at ? PACKET_LATER : PACKET_FIRST;
	if (at == 0) {
		enum parse_result result = naive_l4(r, p);
		return result == PARSE_OK ? PARSE_FRAGMENT : result;
	}
	p->segment = SEG_UNTOLD;
	if (p->is_v6 &&
	    (p->proto == 0 || p->proto == 43 || p->proto == 44 || p->proto == 51 || p->proto == 60))
		p->proto = 0;
	else if (!balanced)
		return PARSE_NOT_L4;
	return p->proto == IPPROTO_TCP && at == 8 ? PARSE_MALFORMED : PARSE_FRAGMENT;
}

static bool naive_source_routed(struct reader *r, uint32_t end)
{
	while (r->at < end) {
		uint32_t start = r->at, kind = get(r, 1), len, pointer;

		if (kind == 0)
			return false;
		if (kind == 1)
			continue;
		if (end - start < 3)
			return false; /* too short for a source route */
		len = get(r, 1);
		pointer = get(r, 1);
		if (len == 0 || start + len > end)
			return false;
		if (kind == 131 || kind == 137)
			return len >= 3 && pointer <= len;
		r->at = start + len;
	}
	return false;
}

static enum parse_result naive_v4(struct reader *r, struct packet *p)
{
	uint32_t start = r->at, first = get(r, 1), header_len = (first & 15) * 4;

	p->is_v6 = false;
	p->tos = (uint8_t)get(r, 1);
	p->l3_len = (uint16_t)get(r, 2);
	uint32_t id = get(r, 2);
	uint32_t frag = get(r, 2);
	get(r, 1);
	p->proto = (uint8_t)get(r, 1);
	get(r, 2);
	p->src = get_address(r, false);
	p->dst = get_address(r, false);
	if (r->failed || first >> 4 != 4 || header_len < 20 || p->l3_len < header_len ||
	    start + p->l3_len > r->end)
		return PARSE_MALFORMED;
	r->end = start + p->l3_len;
	p->keep_checksum = naive_source_routed(r, start + header_len);
	r->at = start + header_len;
	if (frag & 0x3fff) {
		p->fragment_id = id;
		return naive_part(r, p, (frag & 0x1fff) * 8);
	}
	return naive_l4(r, p);
}

static enum parse_result naive_v6(struct reader *r, struct packet *p)
{
	uint32_t start = r->at, first = get(r, 4), payload_len = get(r, 2), next = get(r, 1);
	unsigned n = 0, n_fragment = 0;

	get(r, 1);
	p->src = get_address(r, true);
	p->dst = get_address(r, true);
	if (r->failed || first >> 28 != 6 || start + 40 + payload_len > r->end ||
	    40 + payload_len > 65535)
		return PARSE_MALFORMED;
	p->is_v6 = true;
	p->keep_checksum = false;
	p->tos = (uint8_t)(first >> 20);
	p->l3_len = (uint16_t)(40 + payload_len);
	r->end = start + p->l3_len;
	for (; next == 0 || next == 43 || next == 44 || next == 51 || next == 60; n++) {
		uint32_t ext = r->at, kind = next, len;

		next = get(r, 1);
		len = get(r, 1);
		len = kind == 51 ? 4 * (len + 2) : 8 * (len + 1);
		uint32_t third = get(r, 1);
		uint32_t segments_left = get(r, 1), id = get(r, 4);
		if (r->failed || n == 8)
			return PARSE_MALFORMED;
		if (kind == 44) {
			uint32_t offset = third << 8 | segments_left;

			if (n_fragment++)
				return PARSE_MALFORMED;
			p->fragment_id = id;
			if (offset >> 3) {
				p->proto = (uint8_t)next;
				return naive_part(r, p, offset & ~7u);
			}
			p->kind = offset & 1 ? PACKET_FIRST : PACKET_FLOW;
			len = 8;
		}
		if (ext + len > r->end || (kind == 0 && n > 0) || (kind == 51 && len < 12))
			return PARSE_MALFORMED;
		if (kind == 51 || (kind == 43 && segments_left > 0))
			p->keep_checksum = true;
		r->at = ext + len;
	}
	p->proto = (uint8_t)next;
	return p->kind == PACKET_FIRST ? naive_part(r, p, 0) : naive_l4(r, p);
}

enum parse_result naive_parse(const uint8_t *data, uint32_t len, struct packet *p)
{
	struct reader r = {.b = data, .end = len};
	uint32_t type;

	memset(p, 0, sizeof(*p));
	get(&r, 12);
	type = get(&r, 2);
	while (!r.failed && (type == 0x8100 || type == 0x88a8)) {
		if (p->n_vlans == 2)
			return PARSE_NOT_IP;
		uint32_t tci = get(&r, 2);

		if (p->n_vlans++ == 0)
			p->vlan_tci_be = htons((uint16_t)tci);
		type = get(&r, 2);
	}
	if (r.failed)
		return PARSE_MALFORMED;
	p->l3_offset = (uint16_t)r.at;
	if (type == 0x0800)
		return naive_v4(&r, p);
	return type == 0x86dd ? naive_v6(&r, p) : PARSE_NOT_IP;
}

bool naive_packet_equal(const struct packet *x, const struct packet *y, enum parse_result result)
{
	if (result == PARSE_MALFORMED || result == PARSE_NOT_IP)
		return true;
	bool network = ip_addr_equal(&x->src, &y->src) && ip_addr_equal(&x->dst, &y->dst) &&
		       x->is_v6 == y->is_v6 && x->l3_offset == y->l3_offset &&
		       x->l3_len == y->l3_len && x->tos == y->tos && x->n_vlans == y->n_vlans &&
		       x->vlan_tci_be == y->vlan_tci_be;
	if (result == PARSE_ECHO)
		return network && x->l4_offset == y->l4_offset && x->proto == y->proto;
	if (result == PARSE_FRAGMENT && (x->kind != y->kind || x->fragment_id != y->fragment_id))
		return false;
	if (result == PARSE_FRAGMENT && x->kind == PACKET_LATER)
		return network && x->proto == y->proto && x->segment == y->segment &&
		       x->keep_checksum == y->keep_checksum;
	if (result != PARSE_OK && result != PARSE_FRAGMENT)
		return network;
	return network && x->sport_be == y->sport_be && x->dport_be == y->dport_be &&
	       x->l4_offset == y->l4_offset && x->proto == y->proto && x->segment == y->segment &&
	       x->keep_checksum == y->keep_checksum && x->kind == y->kind;
}
