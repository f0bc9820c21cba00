#include "tests/unit/frames.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct cursor {
	uint8_t *buf;
	uint32_t len;
};

static void put(struct cursor *c, const void *bytes, uint32_t n)
{
	assert(c->len + n <= FRAMES_MAX);
	memcpy(c->buf + c->len, bytes, n);
	c->len += n;
}

static void put_8(struct cursor *c, unsigned v)
{
	put(c, &(uint8_t){(uint8_t)v}, 1);
}

static void put_16(struct cursor *c, unsigned v)
{
	put_8(c, v >> 8);
	put_8(c, v & 0xff);
}

static void put_32(struct cursor *c, uint32_t v)
{
	put_16(c, v >> 16);
	put_16(c, v & 0xffff);
}

static void put_fill(struct cursor *c, uint8_t byte, uint32_t n)
{
	while (n-- > 0)
		put_8(c, byte);
}

static void set_16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

struct ip_addr frames_ip(const char *text)
{
	struct ip_addr a;

	if (ip_addr_parse(text, &a) != 0) {
		fprintf(stderr, "frames_ip: %s is no address\n", text);
		abort();
	}
	return a;
}

uint16_t frames_sum16(const void *data, uint32_t len, uint32_t sum)
{
	const uint8_t *b = data;

	for (uint32_t i = 0; i < len; i++) {
		sum += (uint32_t)b[i] << (i % 2 == 0 ? 8 : 0);
		sum = (sum & 0xffff) + (sum >> 16);
	}
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void put_ethernet(struct cursor *c, const struct frames_spec *s, bool v6)
{
	static const uint8_t none[6], to[6] = {2, 0, 0, 0, 0, 2}, from[6] = {2, 0, 0, 0, 0, 1};

	put(c, memcmp(s->dst_mac, none, 6) ? s->dst_mac : to, 6);
	put(c, memcmp(s->src_mac, none, 6) ? s->src_mac : from, 6);
	for (unsigned i = 0; i < s->n_vlans; i++) {
		uint16_t tpid = s->vlan_tpid[i];

		if (tpid == 0)
			tpid = i + 1 < s->n_vlans ? 0x88a8 : 0x8100;
		put_16(c, tpid);
		put_16(c, s->vlan_tci[i]);
	}
	put_16(c, v6 ? 0x86dd : 0x0800);
}

static void put_v4(struct cursor *c, const struct frames_spec *s, uint8_t proto, uint32_t l4_len)
{
	uint32_t start = c->len, header_len = 20u + s->v4_options_len;

	put_8(c, 0x40 | header_len / 4);
	put_8(c, s->tos);
	put_16(c, header_len + l4_len);
	put_16(c, s->ip_id);
	put_16(c, s->v4_frag);
	put_8(c, s->ttl ? s->ttl : 64);
	put_8(c, proto);
	put_16(c, 0);
	put(c, &s->src.b[12], 4);
	put(c, &s->dst.b[12], 4);
	put(c, s->v4_options, s->v4_options_len);
	set_16(c->buf + start + 10, ~frames_sum16(c->buf + start, header_len, 0) & 0xffff);
}

static void put_extension(struct cursor *c, const struct frames_spec *s, uint8_t kind, uint8_t next)
{
	put_8(c, next);
	switch (kind) {
	case IPPROTO_FRAGMENT:
		put_8(c, 0);
		put_16(c, s->v6_frag ? s->v6_frag : 1);
		put_32(c, 0x12345678);
		break;
	case IPPROTO_AH:
		put_8(c, 4); /* 24 bytes */
		put_16(c, 0);
		put_fill(c, 0xa5, 20);
		break;
	case IPPROTO_ROUTING:
		put_8(c, 2); /* 24 bytes: type 0, one address */
		put_8(c, 0);
		put_8(c, s->segments_left);
		put_32(c, 0);
		put(c, s->final_dst.b, 16);
		break;
	default: /* options: one PadN */
		put_8(c, 0);
		put_8(c, 1);
		put_8(c, 4);
		put_32(c, 0);
	}
}

static void put_v6(struct cursor *c, const struct frames_spec *s, uint8_t proto, uint32_t l4_len)
{
	uint32_t start = c->len;

	put_32(c, 6u << 28 | (uint32_t)s->tos << 20 | s->flow_label);
	put_16(c, 0);
	put_8(c, s->n_exts > 0 ? s->exts[0] : proto);
	put_8(c, s->ttl ? s->ttl : 64);
	put(c, s->src.b, 16);
	put(c, s->dst.b, 16);
	for (unsigned i = 0; i < s->n_exts; i++)
		put_extension(c, s, s->exts[i], i + 1 < s->n_exts ? s->exts[i + 1] : proto);
	set_16(c->buf + start + 4, c->len - start - 40 + l4_len);
}

static uint32_t l4_header_len(const struct frames_spec *s, uint8_t proto)
{
	if (proto == IPPROTO_TCP)
		return 20u + s->tcp_options;
	return proto == IPPROTO_UDP ? 8 : 0;
}

static void put_l4_header(struct cursor *c, const struct frames_spec *s, uint8_t proto)
{
	if (proto == IPPROTO_TCP) {
		uint8_t flags = s->tcp_flags || s->no_tcp_flags ? s->tcp_flags : FRAMES_ACK;

		put_16(c, s->sport);
		put_16(c, s->dport);
		put_32(c, 1000);
		put_32(c, 2000);
		put_8(c, (5u + s->tcp_options / 4) << 4);
		put_8(c, flags);
		put_16(c, 8192); /* window */
		put_16(c, 0);
		put_16(c, 0);
		put_fill(c, 1, s->tcp_options);
	} else if (proto == IPPROTO_UDP) {
		put_16(c, s->sport);
		put_16(c, s->dport);
		put_16(c, 8 + s->payload_len);
		put_16(c, 0);
	}
}

/* The pseudo-header's sum, from the description. */
static uint16_t pseudo_sum(const struct frames_spec *s, uint8_t proto, uint32_t len)
{
	const struct ip_addr *dst = s->segments_left > 0 ? &s->final_dst : &s->dst;
	unsigned skip = ip_addr_is_v4(&s->dst) ? 12 : 0;
	uint16_t sum = frames_sum16(s->src.b + skip, 16 - skip, proto);

	sum = frames_sum16(dst->b + skip, 16 - skip, sum);
	return frames_sum16(NULL, 0, (uint32_t)sum + len);
}

/* full with one bit flipped, so that it is neither "none" nor looks partial. */
static uint16_t wrong_sum(uint16_t full, uint16_t pseudo)
{
	uint16_t wrong = full ^ 0x0100;

	for (unsigned bit = 9; wrong == 0 || wrong == pseudo; bit++)
		wrong = full ^ (uint16_t)(1u << bit);
	return wrong;
}

static void set_l4_sum(uint8_t *l4, uint32_t len, const struct frames_spec *s, uint8_t proto)
{
	uint8_t *field = l4 + (proto == IPPROTO_TCP ? 16 : 6);
	uint16_t pseudo = pseudo_sum(s, proto, len);
	uint16_t full = (uint16_t)~frames_sum16(l4, len, pseudo);

	if (proto == IPPROTO_UDP && full == 0)
		full = 0xffff;
	switch (s->sum) {
	case FRAMES_SUM_FULL:
		set_16(field, full);
		break;
	case FRAMES_SUM_PARTIAL:
		set_16(field, pseudo);
		break;
	case FRAMES_SUM_WRONG:
		set_16(field, wrong_sum(full, pseudo));
		break;
	case FRAMES_SUM_ZERO:
		break;
	}
}

uint32_t frames_build(uint8_t *buf, const struct frames_spec *s)
{
	struct cursor c = {.buf = buf};
	bool v6 = !ip_addr_is_v4(&s->dst);
	uint8_t proto = s->proto ? s->proto : IPPROTO_TCP;
	uint32_t covered = l4_header_len(s, proto) + s->payload_len;
	uint64_t state = s->payload_seed * 2654435761u + 1;

	put_ethernet(&c, s, v6);
	if (v6)
		put_v6(&c, s, proto, covered + s->udp_surplus);
	else
		put_v4(&c, s, proto, covered + s->udp_surplus);
	uint32_t l4 = c.len;
	put_l4_header(&c, s, proto);
	for (uint32_t i = 0; i < s->payload_len; i++)
		put_8(&c, frames_random(&state) & 0xff);
	if (proto == IPPROTO_TCP || proto == IPPROTO_UDP)
		set_l4_sum(buf + l4, covered, s, proto);
	put_fill(&c, 0x5a, s->udp_surplus);
	put_fill(&c, 0, s->padding);
	if (!s->no_min && c.len < 60)
		put_fill(&c, 0, 60 - c.len);
	return c.len;
}

uint32_t frames_cut(uint8_t *buf, const uint8_t *whole, uint32_t id, uint32_t at, uint32_t n)
{
	const uint8_t *ip = whole + 14;
	bool v6 = ip[0] >> 4 == 6;
	uint32_t header_len = v6 ? 40 : 20;
	uint32_t l4_len = v6 ? (uint32_t)ip[4] << 8 | ip[5] : ((uint32_t)ip[2] << 8 | ip[3]) - 20;
	struct cursor c = {.buf = buf};

	if (n > l4_len - at)
		n = l4_len - at;
	put(&c, whole, 14 + header_len);
	if (v6) {
		set_16(buf + 14 + 4, 8 + n);
		buf[14 + 6] = 44;
		put_8(&c, ip[6]);
		put_8(&c, 0);
		put_16(&c, at | (at + n < l4_len));
		put_32(&c, id);
	} else {
		set_16(buf + 14 + 2, 20 + n);
		set_16(buf + 14 + 4, id);
		set_16(buf + 14 + 6, at / 8 | (at + n < l4_len ? 0x2000 : 0));
		set_16(buf + 14 + 10, 0);
		set_16(buf + 14 + 10, ~frames_sum16(buf + 14, 20, 0) & 0xffff);
	}
	put(&c, ip + header_len + at, n);
	return c.len;
}

uint8_t *frames_guarded(const void *data, uint32_t len)
{
	static uint8_t *end;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t room = (FRAMES_MAX + page - 1) / page * page;

	if (end == NULL) {
		uint8_t *m = mmap(NULL, room + page, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert(m != MAP_FAILED);
		end = m + room;
		if (mprotect(end, page, PROT_NONE) != 0)
			abort();
	}
	assert(len <= room);
	if (len > 0)
		memcpy(end - len, data, len);
	return end - len;
}

uint64_t frames_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

uint64_t frames_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0)
			     : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();

	if (seed == 0)
		seed = 1;
	printf("TEST_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

static uint32_t below(uint64_t *state, uint32_t n)
{
	return mul_shift32((uint32_t)(frames_random(state) >> 32), n);
}

static void random_ip(uint64_t *state, bool v6, struct ip_addr *a)
{
	uint64_t bits[2] = {frames_random(state), frames_random(state)};

	if (v6) {
		memcpy(a->b, bits, 16);
		a->b[0] = 0x20; /* never IPv4-mapped */
	} else {
		*a = ip_addr_v4(bits);
	}
}

/* Hop-by-hop first if at all, the rest in any order. */
static void random_exts(uint64_t *state, struct frames_spec *s)
{
	static const uint8_t kinds[] = {IPPROTO_ROUTING, IPPROTO_DSTOPTS, IPPROTO_AH};

	s->n_exts = below(state, 9);
	for (unsigned i = 0; i < s->n_exts; i++)
		s->exts[i] = kinds[below(state, 3)];
	if (s->n_exts > 0 && below(state, 2))
		s->exts[0] = IPPROTO_HOPOPTS;
	for (unsigned i = 0; i < s->n_exts; i++)
		if (s->exts[i] == IPPROTO_ROUTING && below(state, 4) == 0)
			s->segments_left = 1;
	random_ip(state, true, &s->final_dst);
}

void frames_random_spec(uint64_t *state, struct frames_spec *s)
{
	bool v6 = below(state, 2);

	*s = (struct frames_spec){
		.sport = (uint16_t)frames_random(state),
		.dport = (uint16_t)frames_random(state),
		.proto = below(state, 2) ? IPPROTO_TCP : IPPROTO_UDP,
		.tcp_flags = (uint8_t)frames_random(state),
		.no_tcp_flags = true,
		.payload_len = below(state, 4) ? below(state, 100) : below(state, 1400),
		.payload_seed = (uint32_t)frames_random(state),
		.n_vlans = below(state, 3),
		.tos = (uint8_t)frames_random(state),
		.ttl = (uint8_t)frames_random(state),
		.ip_id = (uint16_t)frames_random(state),
		.padding = below(state, 3) ? 0 : below(state, 50),
		.no_min = below(state, 2),
	};
	random_ip(state, v6, &s->src);
	random_ip(state, v6, &s->dst);
	for (unsigned i = 0; i < s->n_vlans; i++)
		s->vlan_tci[i] = (uint16_t)frames_random(state);
	if (s->proto == IPPROTO_TCP)
		s->tcp_options = (uint8_t)(below(state, 2) ? 4 * below(state, 11) : 0);
	else
		s->udp_surplus = below(state, 4) ? 0 : below(state, 20);
	if (v6) {
		s->flow_label = (uint32_t)frames_random(state) & 0xfffff;
		if (below(state, 2))
			random_exts(state, s);
	} else if (below(state, 3) == 0) {
		s->v4_options_len = (uint8_t)(4 * below(state, 11));
		memset(s->v4_options, 1, sizeof(s->v4_options));
	}
}
