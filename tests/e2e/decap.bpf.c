/* The backend's side of `mode: ipip`, for kernels without tunnel devices: a tc program at ingress takes
 * the outer header off, and the packet goes on to the VIP on lo. Counts what it has unwrapped. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} unwrapped SEC(".maps");

static __always_inline int unwrap(struct __sk_buff *skb, int outer_len)
{
	__u32 index = 0;
	__u64 *n = bpf_map_lookup_elem(&unwrapped, &index);

	if (bpf_skb_adjust_room(skb, -outer_len, BPF_ADJ_ROOM_MAC, 0))
		return TC_ACT_SHOT;
	if (n)
		__sync_fetch_and_add(n, 1);
	return TC_ACT_OK;
}

SEC("tc")
int decap(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct ipv6hdr *ip6 = data + sizeof(*eth);

	if (skb->protocol == bpf_htons(ETH_P_IP) && (void *)(ip + 1) <= end && ip->ihl == 5 &&
	    ip->protocol == IPPROTO_IPIP)
		return unwrap(skb, sizeof(*ip));
	if (skb->protocol == bpf_htons(ETH_P_IPV6) && (void *)(ip6 + 1) <= end &&
	    ip6->nexthdr == IPPROTO_IPV6)
		return unwrap(skb, sizeof(*ip6));
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
