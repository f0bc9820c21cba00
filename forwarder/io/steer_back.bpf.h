/* Packets of mode nat on their way back, from a DIP to a client. A part of steer.bpf.c.
 *
 * The balancer is the DIPs' router, and the kernel does a router's part for them: it knows routes,
 * rules and neighbours, so the next hop is asked of its FIB here (a worker would need one for each
 * client there is). The packet then goes to a worker, which translates it; not from here to the
 * egress at once, because a local sender's partial checksum must be completed, which takes a look at
 * the whole packet, and because the other end of a veth drops what is redirected to it. All that a
 * router answers with an ICMP error is left to the kernel as it came, since it will not be forwarded
 * (no hop left, too big, no route, prohibited), and so is what is for the balancer itself. What the
 * kernel would forward never gets to it: from a DIP's own address it means nothing to the client.
 *
 * What a DIP, or a router on its side, has to say about a client's packets (no such port, a link that
 * is too narrow) goes back by the same way: it quotes the packet as the DIP got it.
 *
 * Of a packet in fragments the first tells whose it is, and that is remembered for the others.
 *
 * Which DIPs' side a packet came from, the worker checks. */
#pragma once

#define AF_INET 2
#define AF_INET6 10
#define IP4_DF 0x4000
#define HOP_SEEN_NS 1000000000ull /* so often is a next hop's use noted */
#define PART_LIFE_NS 1000000000ull /* FRAGMENT_LIFE_MS of the worker's cache */
#define IP6_MORE 1

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STEER_BACKS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct steer_back_key);
	__type(value, struct steer_back);
} backs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STEER_HOPS_MAX);
	__type(key, struct steer_hop_key);
	__type(value, __u64);
} back_used SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STEER_WANTED_MAX);
	__type(key, struct steer_hop_key);
	__type(value, __u64);
} back_wanted SEC(".maps");

/* Of packets in fragments that a DIP's address has sent, lately. The worker has such a table of its
 * own; this one is for what it must not get, the rest of what the kernel forwards for a DIP. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STEER_PARTS_MAX);
	__type(key, struct steer_part_key);
	__type(value, struct steer_part);
} back_parts SEC(".maps");

/* Ways in `backs`: with none nothing is looked up. */
volatile __u32 n_backs;

/* The kernel's index of each interface, in the order of the worker's; 0 = none. */
volatile __u32 egress_ifindex[STEER_IFACES_MAX];

/* Of VLANs and bonds the code. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STEER_STACKED_MAX);
	__type(key, __u32); /* the kernel's index */
	__type(value, __u32);
} back_outs SEC(".maps");

enum part { WHOLE, FIRST, LATER };

/* Where the packet is in the frame, and whose. */
struct way_back {
	struct steer_back_key from;
	__be16 dport;
	void *l3;
	__u8 is_v6;
	__u8 hops; /* TTL */
	__u8 is_error; /* an ICMP error that quotes a packet to that end */
	__u8 by_router; /* it does not come from that end itself */
	__u8 part; /* enum part; of LATER the ports, and of IPv6 the protocol, are not known */
	__u32 part_id;
};

static __always_inline int read_ends(void *l4, void *end, __u8 proto, struct way_back *w)
{
	__be16 *ports = l4;

	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP) || l4 + 4 > end)
		return 0;
	w->from.proto = proto;
	w->from.port = ports[w->is_error];
	w->dport = ports[!w->is_error];
	return 1;
}

static __always_inline void put_ipv4(__u8 *addr, const __be32 *from)
{
	addr[10] = 0xff;
	addr[11] = 0xff;
	__builtin_memcpy(&addr[12], from, 4);
}

static __always_inline int read_icmp4_ends(struct iphdr *ip, void *end, struct way_back *w)
{
	struct iphdr *quoted;

	if (ip->frag_off & bpf_htons(IP4_FRAGMENT))
		return 0;
	void *l4 = quote_of_icmp4(ip, end, &quoted);
	if (!l4)
		return 0;
	put_ipv4(w->from.addr, &quoted->daddr);
	w->is_error = 1;
	w->by_router = quoted->daddr != ip->saddr;
	return read_ends(l4, end, quoted->protocol, w);
}

static __always_inline int read_ipv4_ends(void *end, struct way_back *w)
{
	struct iphdr *ip = w->l3;

	if ((void *)(ip + 1) > end || ip->ihl < 5)
		return 0;
	w->hops = ip->ttl;
	if (ip->protocol == IPPROTO_ICMP)
		return read_icmp4_ends(ip, end, w);
	put_ipv4(w->from.addr, &ip->saddr);
	if (ip->frag_off & bpf_htons(IP4_FRAGMENT)) {
		w->part = ip->frag_off & bpf_htons(IP4_OFFSET) ? LATER : FIRST;
		w->part_id = ip->id;
	}
	if (w->part == LATER) {
		w->from.proto = ip->protocol;
		return is_balanced(ip->protocol);
	}
	return read_ends(w->l3 + ip->ihl * 4, end, ip->protocol, w);
}

static __always_inline int read_icmp6_ends(struct xdp_md *ctx, struct ipv6hdr *ip, void *icmp,
					   void *end, struct way_back *w)
{
	struct quote6 q = {};

	if (!quote_of_icmp6(ctx, ip, icmp, end, &q))
		return 0;
	__builtin_memcpy(w->from.addr, &q.dst, 16);
	w->from.port = q.dport;
	w->from.proto = q.proto;
	w->dport = q.sport;
	w->is_error = 1;
	w->by_router = !same_ip6(&q.dst, &ip->saddr);
	return 1;
}

static __always_inline int read_ipv6_ends(struct xdp_md *ctx, void *end, struct way_back *w)
{
	struct ipv6hdr *ip = w->l3;

	if ((void *)(ip + 1) > end)
		return 0;
	w->is_v6 = 1;
	w->hops = ip->hop_limit;
	__builtin_memcpy(w->from.addr, &ip->saddr, 16);

	__u8 next = ip->nexthdr;
	void *p = ip + 1;
	for (int i = 0; i <= EXT_HEADERS_MAX; i++) {
		__u8 *ext = p;

		if (next == IPPROTO_ICMPV6)
			return w->part ? 0 : read_icmp6_ends(ctx, ip, p, end, w);
		__u32 len;

		if (!is_extension(next))
			return read_ends(p, end, next, w);
		if (p + 8 > end)
			return 0;
		if (next == NEXTHDR_FRAGMENT) {
			__be16 at = ((__be16 *)p)[1];

			w->part_id = ((__u32 *)p)[1];
			w->part = at & bpf_htons(IP6_OFFSET) ? LATER
				  : at & bpf_htons(IP6_MORE) ? FIRST
							     : WHOLE;
			if (w->part == LATER)
				return is_balanced(ext[0]) || is_extension(ext[0]);
			len = 8;
		} else {
			len = next == NEXTHDR_AUTH ? (ext[1] + 2) * 4 : (ext[1] + 1) * 8;
		}
		next = ext[0];
		p += len;
	}
	return 0;
}

static __always_inline int read_way_back(struct xdp_md *ctx, struct way_back *w)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end || load_mac(eth->h_dest) != own_mac)
		return 0;
	__be16 type = eth->h_proto;
	w->l3 = eth + 1;
#pragma unroll
	for (int i = 0; i < VLAN_TAGS_MAX; i++) {
		__be16 *tag = w->l3;

		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (w->l3 + 4 > end)
			return 0;
		type = tag[1];
		w->l3 += 4;
	}
	if (type == bpf_htons(ETH_P_IP))
		return read_ipv4_ends(end, w);
	return type == bpf_htons(ETH_P_IPV6) && read_ipv6_ends(ctx, end, w);
}

/* The most specific first, as in the worker's table. */
static __always_inline struct steer_back *find_back(const struct way_back *w)
{
	struct steer_back_key key = w->from;
	struct steer_back *b = bpf_map_lookup_elem(&backs, &key);

	if (b)
		return b;
	key.port = 0;
	return bpf_map_lookup_elem(&backs, &key);
}

static __always_inline struct steer_back *find_address(const struct way_back *w)
{
	struct steer_back_key key = w->from;

	key.port = 0;
	key.proto = 0;
	return bpf_map_lookup_elem(&backs, &key);
}

static __always_inline int part_key_of(struct xdp_md *ctx, void *end,
				       const struct way_back *w, struct steer_part_key *key)
{
	struct ipv6hdr *ip6 = w->l3;
	struct iphdr *ip = w->l3;

	key->id = w->part_id;
	key->ifindex = ctx->ingress_ifindex;
	if (w->is_v6) {
		if ((void *)(ip6 + 1) > end)
			return 0;
		__builtin_memcpy(key->src, &ip6->saddr, 16);
		__builtin_memcpy(key->dst, &ip6->daddr, 16);
	} else {
		if ((void *)(ip + 1) > end)
			return 0;
		put_ipv4(key->src, &ip->saddr);
		put_ipv4(key->dst, &ip->daddr);
		key->proto = ip->protocol;
	}
	return 1;
}

static __always_inline void remember_part(struct xdp_md *ctx, void *end,
					  const struct way_back *w, const struct steer_back *b)
{
	struct steer_part_key key = {};
	struct steer_part part = {.seen_ns = bpf_ktime_get_coarse_ns(),
				  .sport = w->from.port,
				  .dport = w->dport,
				  .proto = w->from.proto,
				  .ours = b != NULL};

	if (!find_address(w) || !part_key_of(ctx, end, w, &key))
		return;
	if (b)
		__builtin_memcpy(part.vip, b->vip, 16);
	bpf_map_update_elem(&back_parts, &key, &part, BPF_ANY);
}

/* One that comes before its first is the worker's if a DIP's address has sent it. If its packet turns
 * out to be none of a VIP's, it waits there in vain. */
static __always_inline const __u8 *find_part(struct xdp_md *ctx, void *end,
						struct way_back *w)
{
	struct steer_part_key key = {};

	if (!part_key_of(ctx, end, w, &key))
		return NULL;
	struct steer_part *part = bpf_map_lookup_elem(&back_parts, &key);
	if (part && bpf_ktime_get_coarse_ns() - part->seen_ns <= PART_LIFE_NS) {
		w->from.port = part->sport;
		w->from.proto = part->proto;
		w->dport = part->dport;
		return part->ours ? part->vip : NULL;
	}
	struct steer_back *b = find_address(w);
	return b ? b->vip : NULL;
}

/* The source that the client will see; NULL: it is the kernel's packet. */
static __always_inline const __u8 *find_vip(struct xdp_md *ctx, void *end, struct way_back *w)
{
	if (w->part == LATER)
		return find_part(ctx, end, w);
	struct steer_back *b = find_back(w);
	if (w->part == FIRST)
		remember_part(ctx, end, w, b);
	return b ? b->vip : NULL;
}

/* The kernel's answer for the packet as the client will get it: BPF_FIB_LKUP_RET_*, or negative. */
static __always_inline long ask_fib(struct xdp_md *ctx, void *end, const struct way_back *w,
				    const __u8 *vip, struct bpf_fib_lookup *f)
{
	f->ifindex = ctx->ingress_ifindex;
	f->l4_protocol = w->is_error ? w->is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP : w->from.proto;
	f->sport = w->is_error ? 0 : w->from.port;
	f->dport = w->is_error ? 0 : w->dport;
	if (w->is_v6) {
		struct ipv6hdr *ip = w->l3;

		if ((void *)(ip + 1) > end)
			return -1;
		f->family = AF_INET6;
		f->tot_len = bpf_ntohs(ip->payload_len) + sizeof(*ip);
		f->flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
		if (w->by_router)
			__builtin_memcpy(f->ipv6_src, &ip->saddr, 16);
		else
			__builtin_memcpy(f->ipv6_src, vip, 16);
		__builtin_memcpy(f->ipv6_dst, &ip->daddr, 16);
	} else {
		struct iphdr *ip = w->l3;

		if ((void *)(ip + 1) > end)
			return -1;
		f->family = AF_INET;
		f->tot_len = bpf_ntohs(ip->tot_len);
		f->tos = ip->tos & 0x1c; /* what routes may be chosen by: IPTOS_RT_MASK */
		if (w->by_router)
			f->ipv4_src = ip->saddr;
		else
			__builtin_memcpy(&f->ipv4_src, &vip[12], 4);
		f->ipv4_dst = ip->daddr;
	}
	return bpf_fib_lookup(ctx, f, sizeof(*f), 0);
}

static __always_inline void note_hop(void *map, const struct bpf_fib_lookup *f)
{
	struct steer_hop_key key = {.ifindex = f->ifindex};
	__u64 now = bpf_ktime_get_coarse_ns(), *seen;

	if (f->family == AF_INET)
		put_ipv4(key.addr, &f->ipv4_dst);
	else
		__builtin_memcpy(key.addr, f->ipv6_dst, 16);
	seen = bpf_map_lookup_elem(map, &key);
	if (!seen)
		bpf_map_update_elem(map, &key, &now, BPF_ANY);
	else if (now - *seen > HOP_SEEN_NS)
		*seen = now;
}

static __always_inline int egress_code(__u32 ifindex)
{
	for (int i = 0; i < STEER_IFACES_MAX; i++)
		if (egress_ifindex[i] == ifindex)
			return i;
	__u32 *code = bpf_map_lookup_elem(&back_outs, &ifindex);
	return code && *code < STEER_BACK_NO_NEIGHBOR ? *code : STEER_BACK_ELSEWHERE;
}

static __always_inline int may_be_fragmented(void *end, const struct way_back *w)
{
	struct iphdr *ip = w->l3;

	return !w->is_v6 && (void *)(ip + 1) <= end && !(ip->frag_off & bpf_htons(IP4_DF));
}

static __always_inline void mark(struct ethhdr *eth, const struct way_back *w, int code)
{
	__be16 type = eth->h_proto;
	int kind = w->is_v6 ? STEER_BACK_V6 : STEER_BACK_V4;

	if (type == bpf_htons(ETH_P_8021Q))
		kind = STEER_BACK_CTAG;
	else if (type == bpf_htons(ETH_P_8021AD))
		kind = STEER_BACK_STAG;
	eth->h_proto = bpf_htons(STEER_BACK_TYPE | kind << STEER_BACK_KIND_SHIFT | code);
}

/* 1: a worker's, as marked. 0: the kernel's. Not static: so the verifier looks at it once, instead of
 * once for each way in which a packet turns out to be no VIP's. */
int take_way_back(struct xdp_md *ctx);
__attribute__((noinline)) int take_way_back(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct way_back w = {};
	struct bpf_fib_lookup f = {};
	int code;

	if (!read_way_back(ctx, &w))
		return 0;
	const __u8 *vip = w.hops > 1 ? find_vip(ctx, end, &w) : NULL;
	if (!vip)
		return 0;
	switch (ask_fib(ctx, end, &w, vip, &f)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		note_hop(&back_used, &f);
		code = egress_code(f.ifindex);
		break;
	case BPF_FIB_LKUP_RET_NO_NEIGH:
		note_hop(&back_wanted, &f);
		code = STEER_BACK_NO_NEIGHBOR;
		break;
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
		if (!may_be_fragmented(end, &w))
			return 0;
		code = STEER_BACK_TOO_BIG;
		break;
	case BPF_FIB_LKUP_RET_UNSUPP_LWT:
		code = STEER_BACK_ELSEWHERE;
		break;
	default:
		return 0;
	}
	struct ethhdr *eth = data;
	if (code < STEER_BACK_NO_NEIGHBOR) {
		__builtin_memcpy(eth->h_dest, f.dmac, ETH_ALEN);
		__builtin_memcpy(eth->h_source, f.smac, ETH_ALEN);
	}
	mark(eth, &w, code);
	return 1;
}
