/* The backend's side of the tunnels, for kernels without tunnel devices: an XDP program takes outer
 * headers off, and the packet goes on to the VIP on lo. Counts what it has unwrapped. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define GUE_PORT 6080

struct gue {
	__u8 variant_and_len; /* 0: variant 0, a data packet, no options */
	__u8 proto;
	__be16 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} unwrapped SEC(".maps");

/* Take len bytes off from behind the Ethernet header; what follows is of inner_proto. */
static __always_inline int unwrap(struct xdp_md *ctx, int len, __u8 inner_proto)
{
	struct ethhdr *eth = (void *)(long)ctx->data, outer;
	__u32 index = 0;
	__u64 *n = bpf_map_lookup_elem(&unwrapped, &index);

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	outer = *eth;
	outer.h_proto = bpf_htons(inner_proto == IPPROTO_IPV6 ? ETH_P_IPV6 : ETH_P_IP);
	if (bpf_xdp_adjust_head(ctx, len))
		return XDP_DROP;
	eth = (void *)(long)ctx->data;
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	*eth = outer;
	if (n)
		__sync_fetch_and_add(n, 1);
	return XDP_PASS;
}

/* What comes behind an outer IP header of outer_len bytes. */
static __always_inline int decap_proto(struct xdp_md *ctx, int outer_len, __u8 proto)
{
	struct udphdr *udp = (void *)(long)ctx->data + sizeof(struct ethhdr) + outer_len;
	struct gue *gue = (void *)(udp + 1);

	if (proto == IPPROTO_IPIP || proto == IPPROTO_IPV6)
		return unwrap(ctx, outer_len, proto);
	if (proto != IPPROTO_UDP || (void *)(gue + 1) > (void *)(long)ctx->data_end ||
	    udp->dest != bpf_htons(GUE_PORT))
		return XDP_PASS;
	if (gue->variant_and_len || gue->flags ||
	    (gue->proto != IPPROTO_IPIP && gue->proto != IPPROTO_IPV6))
		return XDP_DROP;
	return unwrap(ctx, outer_len + sizeof(*udp) + sizeof(*gue), gue->proto);
}

SEC("xdp")
int decap(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct ipv6hdr *ip6 = data + sizeof(*eth);

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP) && (void *)(ip + 1) <= end && ip->ihl == 5)
		return decap_proto(ctx, sizeof(*ip), ip->protocol);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6) && (void *)(ip6 + 1) <= end)
		return decap_proto(ctx, sizeof(*ip6), ip6->nexthdr);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
