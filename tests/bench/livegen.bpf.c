/* Makes each frame that BPF_PROG_TEST_RUN recycles another flow's and sends it. The frame is IPv4
 * TCP without options; source address and port are the flow's, and IP identification and TCP
 * sequence number take up the difference, so that both checksums stay what they were in the
 * template (made with zeros there). */
#include "../tests/bench/livegen_map.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FLOWS_PER_ADDRESS 16
#define FIRST_ADDRESS 0x0a000000 /* 10.0.0.0 */
#define FIRST_PORT 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct livegen_map);
} config SEC(".maps");

struct headers {
	struct ethhdr eth;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((packed));

SEC("xdp")
int livegen(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	__u32 zero = 0;
	struct livegen_map *c = bpf_map_lookup_elem(&config, &zero);

	if (!c || (void *)(h + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	/* Any order with all flows in it; one thread runs this. */
	__u32 flow = (__u32)(c->n_frames++ * 0x9e3779b1u) % c->n_flows;
	__u32 saddr = bpf_htonl(FIRST_ADDRESS + flow / FLOWS_PER_ADDRESS);
	__u16 sport = bpf_htons(FIRST_PORT + flow % FLOWS_PER_ADDRESS);
	__u32 sum = (saddr & 0xffff) + (saddr >> 16);

	sum = (sum & 0xffff) + (sum >> 16);
	h->ip.saddr = saddr;
	h->ip.id = ~sum;
	h->tcp.source = sport;
	h->tcp.seq = ~saddr;
	h->tcp.window = ~sport;
	return bpf_redirect(c->ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
