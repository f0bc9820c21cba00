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

static __always_inline enum verdict walk_icmp4(struct iphdr *ip, void *end,
					       struct steer_vip_key *key)
{
	__u32 header_len = ip->ihl * 4;
	__u8 *icmp = (void *)ip + header_len;
	struct iphdr *quoted = (void *)icmp + ICMP_HEADER_LEN;

	if (header_len < sizeof(*ip) || (ip->frag_off & bpf_htons(IP4_FRAGMENT)) ||
	    (void *)quoted > end)
		return OTHERS;
	if (icmp[0] == ICMP4_ECHO)
		return echo(key);
	if ((icmp[0] != ICMP4_UNREACHABLE && icmp[0] != ICMP4_TIME_EXCEEDED &&
	     icmp[0] != ICMP4_PARAMETER) ||
	    (void *)(quoted + 1) > end)
		return OTHERS;
	header_len = quoted->ihl * 4;
	if (quoted->version != 4 || header_len < sizeof(*quoted) || quoted->saddr != ip->daddr ||
	    (quoted->frag_off & bpf_htons(IP4_OFFSET)))
		return OTHERS;
	return quoted_port((void *)quoted + header_len, end, quoted->protocol, key);
}

static __always_inline int same_ip6(const struct in6_addr *x, const struct in6_addr *y)
{
	return x->s6_addr32[0] == y->s6_addr32[0] && x->s6_addr32[1] == y->s6_addr32[1] &&
	       x->s6_addr32[2] == y->s6_addr32[2] && x->s6_addr32[3] == y->s6_addr32[3];
}

/* icmp: where the header of an ICMPv6 message to key->addr begins. */
static __always_inline enum verdict walk_icmp6(struct ipv6hdr *ip, void *icmp, void *end,
					       struct steer_vip_key *key)
{
	__u8 *type = icmp;
	struct ipv6hdr *quoted = icmp + ICMP_HEADER_LEN;

	if ((void *)quoted > end)
		return OTHERS;
	if (*type == ICMP6_ECHO)
		return echo(key);
	if (*type < ICMP6_UNREACHABLE || *type > ICMP6_PARAMETER || (void *)(quoted + 1) > end ||
	    quoted->version != 6 || !same_ip6(&quoted->saddr, &ip->daddr))
		return OTHERS;

	__u8 next = quoted->nexthdr;
	void *p = quoted + 1;
	for (int i = 0; i <= EXT_HEADERS_MAX; i++) {
		__u8 *ext = p;
		__u32 len;

		if (next != NEXTHDR_HOP && next != NEXTHDR_ROUTING && next != NEXTHDR_FRAGMENT &&
		    next != NEXTHDR_AUTH && next != NEXTHDR_DEST)
			return quoted_port(p, end, next, key);
		if (i == EXT_HEADERS_MAX || p + 8 > end)
			return OTHERS;
		if (next == NEXTHDR_FRAGMENT) {
			if (*(__be16 *)(p + 2) & bpf_htons(IP6_OFFSET))
				return OTHERS;
			len = 8;
		} else {
			len = next == NEXTHDR_AUTH ? (ext[1] + 2) * 4 : (ext[1] + 1) * 8;
		}
		next = ext[0];
		p += len;
	}
	return OTHERS;
}
