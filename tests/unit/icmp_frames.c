#include "tests/unit/icmp_frames.h"

#include <netinet/in.h>
#include <string.h>

static void put_16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

uint32_t icmp_frames_build(uint8_t *buf, const struct icmp_spec *s)
{
	static uint8_t quote[FRAMES_MAX];
	struct frames_spec outer = s->outer, quoted = s->quoted;
	bool v6 = !ip_addr_is_v4(&outer.dst);
	uint32_t quote_len = s->quoted_len;

	outer.proto = v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	outer.no_min = true;
	memset(quote, 0xa5, quote_len);
	if (!s->no_quote) {
		quoted.n_vlans = quoted.padding = 0;
		quoted.no_min = true;
		uint32_t all = frames_build(quote, &quoted) - 14;
		memmove(quote, quote + 14, all);
		if (quote_len == 0 || quote_len > all)
			quote_len = all;
	}
	outer.payload_len = 8 + quote_len;
	uint32_t len = frames_build(buf, &outer);
	uint32_t icmp_len = 8 + quote_len;
	uint8_t *icmp = buf + len - outer.padding - icmp_len;
	memset(icmp, 0, 8);
	icmp[0] = s->type;
	icmp[1] = s->code;
	put_16(icmp + 4, s->rest >> 16);
	put_16(icmp + 6, s->rest & 0xffff);
	memcpy(icmp + 8, quote, quote_len);
	uint32_t sum = 0;
	if (v6) {
		uint8_t ends[32];

		memcpy(ends, &outer.src, 16);
		memcpy(ends + 16, &outer.dst, 16);
		sum = frames_sum16(ends, 32, icmp_len + IPPROTO_ICMPV6);
	}
	put_16(icmp + 2, 0xffffu ^ frames_sum16(icmp, icmp_len, sum));
	return len;
}

void icmp_frames_random(uint64_t *state, struct icmp_spec *s)
{
	static const uint8_t v4_types[] = {3, 11, 12, 0, 5, 8}, v6_types[] = {1, 2, 3, 4, 128, 135};
	uint64_t r = frames_random(state);

	memset(s, 0, sizeof(*s));
	frames_random_spec(state, &s->quoted);
	s->outer.dst = s->quoted.src;
	bool v6 = !ip_addr_is_v4(&s->outer.dst);
	s->outer.src = frames_ip(v6 ? "2001:db8:77::1" : "203.0.113.77");
	s->outer.n_vlans = (unsigned)(r % 3);
	s->outer.padding = (uint32_t)(r >> 4 & 15);
	if ((r >> 8 & 15) == 0)
		s->outer.dst = frames_ip(v6 ? "2001:db8:88::1" : "203.0.113.88");
	if ((r >> 12 & 15) == 0 && !v6)
		s->quoted.v4_frag = r >> 16 & 1 ? 0x2000 : 0x2007;
	s->type = (v6 ? v6_types : v4_types)[(r >> 20) % 6];
	s->code = (uint8_t)(r >> 24 & 3);
	s->rest = (uint32_t)(r >> 32);
	s->quoted_len = r >> 28 & 1 ? 0 : (uint32_t)(r >> 40) % 120;
	s->no_quote = (r >> 52 & 15) == 0;
	s->quoted.payload_len %= 1000;
}
