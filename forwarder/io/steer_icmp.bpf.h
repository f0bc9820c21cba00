/* Which ICMP and ICMPv6 to a VIP is ours: errors about its flows, by the packet that they quote, and
 * echo requests where the kernel does not have the address. All else is the kernel's. A part of
 * steer.bpf.c. */
#pragma once

#define ICMP4_ECHO 8
#define ICMP4_UNREACHABLE 3
#define ICMP4_TIME_EXCEEDED 11
#define ICMP4_PARAMETER 12
#define ICMP6_UNREACHABLE 1 /* and packet too big, time exceeded, parameter problem up to 4 */
#define ICMP6_PARAMETER 4
#define ICMP6_ECHO 128
#define ICMP_HEADER_LEN 8
#define IP4_OFFSET 0x1fff
#define IP6_OFFSET 0xfff8
#define QUOTE_AT_MASK 0x7fff /* a bound that the verifier sees */

/* The kernel's addresses among those of VIPs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STEER_OWN_MAX);
	__type(key, struct steer_addr_key);
	__type(value, __u32);
} own_addrs SEC(".maps");

static __always_inline enum verdict echo(const struct steer_vip_key *key)
{
	return bpf_map_lookup_elem(&own_addrs, key->addr) ? OTHERS : OURS;
}

/* The source of the quoted packet is the VIP's end of the flow. */
static __always_inline enum verdict quoted_port(void *l4, void *end, __u8 proto,
						struct steer_vip_key *key)
{
	__be16 *ports = l4;

	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP) || l4 + 4 > end)
		return OTHERS;
	key->port = ports[0];
	key->proto = proto;
	return BY_PORT;
}

/* The transport header that an ICMP error quotes (ip: its header, with ihl in its bounds), if the
 * quoted packet comes from where the error goes; else NULL. *quoted is that packet's IP header. */
static __always_inline void *quote_of_icmp4(struct iphdr *ip, void *end, struct iphdr **quoted)
{
	__u8 *icmp = (void *)ip + ip->ihl * 4;
	struct iphdr *q = (void *)icmp + ICMP_HEADER_LEN;

	if ((void *)(q + 1) > end || (icmp[0] != ICMP4_UNREACHABLE &&
				      icmp[0] != ICMP4_TIME_EXCEEDED && icmp[0] != ICMP4_PARAMETER))
		return NULL;
	__u32 header_len = q->ihl * 4;
	if (q->version != 4 || header_len < sizeof(*q) || q->saddr != ip->daddr ||
	    (q->frag_off & bpf_htons(IP4_OFFSET)))
		return NULL;
	*quoted = q;
	return (void *)q + header_len;
}

static __always_inline enum verdict walk_icmp4(struct iphdr *ip, void *end,
					       struct steer_vip_key *key)
{
	__u32 header_len = ip->ihl * 4;
	__u8 *icmp = (void *)ip + header_len;
	struct iphdr *quoted;

	if (header_len < sizeof(*ip) || (ip->frag_off & bpf_htons(IP4_FRAGMENT)) ||
	    (void *)icmp + ICMP_HEADER_LEN > end)
		return OTHERS;
	if (icmp[0] == ICMP4_ECHO)
		return echo(key);
	void *l4 = quote_of_icmp4(ip, end, &quoted);
	return l4 ? quoted_port(l4, end, quoted->protocol, key) : OTHERS;
}

static __always_inline int same_ip6(const struct in6_addr *x, const struct in6_addr *y)
{
	return x->s6_addr32[0] == y->s6_addr32[0] && x->s6_addr32[1] == y->s6_addr32[1] &&
	       x->s6_addr32[2] == y->s6_addr32[2] && x->s6_addr32[3] == y->s6_addr32[3];
}

/* Whose packet an ICMPv6 error quotes. */
struct quote6 {
	struct in6_addr src, dst;
	__be16 sport, dport;
	__u8 proto;
	__u8 zero[3];
};

/* Read the quoted packet that begins `at` bytes into the frame; 0 if it is no TCP or UDP packet, or the
 * ports are not there. Not static: so the verifier looks at it once, instead of once for each chain of
 * headers that an error may stand behind. */
int read_quote6(struct xdp_md *ctx, __u32 at, struct quote6 *q);
__attribute__((noinline)) int read_quote6(struct xdp_md *ctx, __u32 at, struct quote6 *q)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	struct ipv6hdr *ip = data + (at & QUOTE_AT_MASK);

	if (!q || (void *)(ip + 1) > end || ip->version != 6)
		return 0;
	q->src = ip->saddr;
	q->dst = ip->daddr;

	__u8 next = ip->nexthdr;
	void *p = ip + 1;
	for (int i = 0; i <= EXT_HEADERS_MAX; i++) {
		__u8 *ext = p;
		__u32 len;

		if (is_balanced(next)) {
			__be16 *ports = p;

			if (p + 4 > end)
				return 0;
			q->sport = ports[0];
			q->dport = ports[1];
			q->proto = next;
			return 1;
		}
		if (!is_extension(next) || p + 8 > end)
			return 0;
		if (next == NEXTHDR_FRAGMENT) {
			if (*(__be16 *)(p + 2) & bpf_htons(IP6_OFFSET))
				return 0;
			len = 8;
		} else {
			len = next == NEXTHDR_AUTH ? (ext[1] + 2) * 4 : (ext[1] + 1) * 8;
		}
		next = ext[0];
		p += len;
	}
	return 0;
}

/* What the error whose header is at icmp quotes, if that comes from where the error goes. */
static __always_inline int quote_of_icmp6(struct xdp_md *ctx, struct ipv6hdr *ip, void *icmp,
					  void *end, struct quote6 *q)
{
	__u8 *type = icmp;

	return icmp + ICMP_HEADER_LEN <= end && *type >= ICMP6_UNREACHABLE &&
	       *type <= ICMP6_PARAMETER &&
	       read_quote6(ctx, icmp + ICMP_HEADER_LEN - (void *)(long)ctx->data, q) &&
	       same_ip6(&q->src, &ip->daddr);
}

/* icmp: where the header of an ICMPv6 message to key->addr begins. */
static __always_inline enum verdict walk_icmp6(struct xdp_md *ctx, struct ipv6hdr *ip, void *icmp,
					       void *end, struct steer_vip_key *key)
{
	struct quote6 q = {};
	__u8 *type = icmp;

	if (icmp + ICMP_HEADER_LEN > end)
		return OTHERS;
	if (*type == ICMP6_ECHO)
		return echo(key);
	if (!quote_of_icmp6(ctx, ip, icmp, end, &q))
		return OTHERS;
	key->port = q.sport;
	key->proto = q.proto;
	return BY_PORT;
}
