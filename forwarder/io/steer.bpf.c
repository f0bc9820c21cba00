/* The XDP program that decides which packets are ours.
 *
 * The one rule behind every branch: the host kernel owns the VIP's address too, as a rule (it
 * answers ARP, ND and ping for it), but has no socket behind the VIP's ports, so any TCP or UDP
 * packet of a VIP that slips through to it is answered with a RST or an ICMP error and kills a
 * connection. Whatever is, or could be a part of, TCP or UDP to a VIP therefore ends at a worker or
 * is dropped here; only what certainly is not goes on to the kernel.
 *
 * Only what is addressed to the interface's own MAC address is ours. A flooding switch, broadcast
 * or promiscuous mode bring copies of frames for other machines too, and l2 forwarding lowers no
 * TTL: two balancers that took such frames would send one packet to and fro for ever. The kernel
 * gets them, which bridges them if it is to and never answers them (neither PACKET_OTHERHOST nor
 * PACKET_BROADCAST and PACKET_MULTICAST get a RST or an ICMP error).
 *
 * Redirecting to a queue without a socket (no process, or one that is just starting) yields
 * XDP_DROP, for the same reason. */
#include "io/steer_map.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define VLAN_TAGS_MAX 2
#define EXT_HEADERS_MAX 8
#define TCP_HEADER_MIN 20
#define UDP_HEADER_LEN 8
#define IP4_FRAGMENT 0x3fff /* more-fragments bit and offset */

#define NEXTHDR_HOP 0
#define NEXTHDR_ROUTING 43
#define NEXTHDR_FRAGMENT 44
#define NEXTHDR_AUTH 51
#define NEXTHDR_DEST 60

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, STEER_QUEUES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STEER_VIPS_MAX);
	__type(key, struct steer_addr_key);
	__type(value, __u32);
} vip_addrs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STEER_VIPS_MAX);
	__type(key, struct steer_vip_key);
	__type(value, __u32);
} vips SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, N_STEER_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} steer_counts SEC(".maps");

/* Bytes of a frame that an AF_XDP socket here can take; set before loading. */
const volatile __u32 frame_max = 1792;
/* The sockets take frames of several buffers; set before loading. */
const volatile __u32 multi = 0;

/* The interface's MAC address, its first byte the lowest, as load_mac makes it. Set before
 * attaching, changed in one store while frames come. */
volatile __u64 own_mac;

/* A queue has one CPU at a time, so plain additions do. */
struct steer_queue_counts queue_counts[STEER_QUEUES_MAX];

#include "io/steer_wide.bpf.h"

/* What the walk over the headers has found. */
enum verdict { OTHERS, OURS, BY_PORT };

static __always_inline int vip_has_address(const struct steer_vip_key *key)
{
	return bpf_map_lookup_elem(&vip_addrs, key->addr) != NULL || wide_has_address(key);
}

/* Is there a VIP that takes it? Which one, the worker finds. */
static __always_inline int vip_has_port(struct steer_vip_key *key)
{
	__be16 port = key->port;
	__u8 proto = key->proto;

	if (bpf_map_lookup_elem(&vips, key))
		return 1;
	key->proto = 0;
	if (bpf_map_lookup_elem(&vips, key))
		return 1;
	key->port = 0;
	key->proto = proto;
	if (bpf_map_lookup_elem(&vips, key))
		return 1;
	key->proto = 0;
	return bpf_map_lookup_elem(&vips, key) != NULL || wide_has_port(key, port, proto);
}

/* The ports, if a whole minimal header is there (l4_len: bytes by the IP header); else the packet
 * is broken, and ours to count. */
static __always_inline enum verdict read_port(void *l4, void *end, __u32 l4_len, __u8 proto,
					      struct steer_vip_key *key)
{
	__u32 need = proto == IPPROTO_TCP ? TCP_HEADER_MIN : UDP_HEADER_LEN;
	__be16 *ports = l4;

	if (l4_len < need || l4 + UDP_HEADER_LEN > end ||
	    (proto == IPPROTO_TCP && l4 + TCP_HEADER_MIN > end))
		return OURS;
	key->port = ports[1];
	key->proto = proto;
	return BY_PORT;
}

static __always_inline int is_balanced(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP;
}

static __always_inline int is_extension(__u8 next)
{
	return next == NEXTHDR_HOP || next == NEXTHDR_ROUTING || next == NEXTHDR_FRAGMENT ||
	       next == NEXTHDR_AUTH || next == NEXTHDR_DEST;
}

#include "io/steer_icmp.bpf.h"

static __always_inline enum verdict walk_ipv4(void *l3, void *end, struct steer_vip_key *key)
{
	struct iphdr *ip = l3;

	/* Too short to have an address: the kernel drops it without an answer. */
	if ((void *)(ip + 1) > end)
		return OTHERS;
	key->addr[10] = 0xff;
	key->addr[11] = 0xff;
	__builtin_memcpy(&key->addr[12], &ip->daddr, 4);
	if (!vip_has_address(key))
		return OTHERS;
	if (ip->protocol == IPPROTO_ICMP)
		return walk_icmp4(ip, end, key);
	if (!is_balanced(ip->protocol))
		return OTHERS;

	__u32 header_len = ip->ihl * 4;
	__u32 total_len = bpf_ntohs(ip->tot_len);
	if (header_len < sizeof(*ip) || total_len < header_len ||
	    (ip->frag_off & bpf_htons(IP4_FRAGMENT)))
		return OURS;
	return read_port(l3 + header_len, end, total_len - header_len, ip->protocol, key);
}

/* Walk the extension headers. A chain that is cut off or longer than EXT_HEADERS_MAX may hide TCP
 * or UDP, so it is ours. */
static __always_inline enum verdict walk_ipv6(struct xdp_md *ctx, void *l3, void *end,
					      struct steer_vip_key *key)
{
	struct ipv6hdr *ip = l3;

	if ((void *)(ip + 1) > end)
		return OTHERS;
	__builtin_memcpy(key->addr, &ip->daddr, 16);
	if (!vip_has_address(key))
		return OTHERS;

	__u32 left = bpf_ntohs(ip->payload_len);
	__u8 next = ip->nexthdr;
	void *p = ip + 1;
	for (int i = 0; i <= EXT_HEADERS_MAX; i++) {
		__u8 *ext = p;
		__u32 len;

		if (next == IPPROTO_ICMPV6)
			return walk_icmp6(ctx, ip, p, end, key);
		if (is_balanced(next))
			return read_port(p, end, left, next, key);
		if (!is_extension(next))
			return OTHERS;
		if (left < 8 || p + 8 > end)
			return OURS;
		if (next == NEXTHDR_FRAGMENT) /* of ping and the like: the kernel's */
			return is_balanced(ext[0]) || is_extension(ext[0]) ? OURS : OTHERS;
		len = next == NEXTHDR_AUTH ? (ext[1] + 2) * 4 : (ext[1] + 1) * 8;
		if (len > left)
			return OURS;
		next = ext[0];
		left -= len;
		p += len;
	}
	return OURS;
}

static __always_inline __u64 load_mac(const unsigned char *mac)
{
	__u64 value = 0;

	for (int i = ETH_ALEN - 1; i >= 0; i--)
		value = value << 8 | mac[i];
	return value;
}

/* From the Ethernet header over at most two tags to the IP header. */
static __always_inline enum verdict walk(struct xdp_md *ctx, struct steer_vip_key *key)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end || load_mac(eth->h_dest) != own_mac)
		return OTHERS;
	__be16 type = eth->h_proto;
	void *p = eth + 1;
#pragma unroll
	for (int i = 0; i < VLAN_TAGS_MAX; i++) {
		__be16 *tag = p;

		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (p + 4 > end)
			return OTHERS;
		type = tag[1];
		p += 4;
	}
	if (type == bpf_htons(ETH_P_IP))
		return walk_ipv4(p, end, key);
	if (type == bpf_htons(ETH_P_IPV6))
		return walk_ipv6(ctx, p, end, key);
	return OTHERS;
}

#include "io/steer_back.bpf.h"

/* Of no VIP: on its way back, or the kernel's. */
static __always_inline int is_others(struct xdp_md *ctx)
{
	return !n_backs || !take_way_back(ctx);
}

/* Counted by queue, so that one whose socket gets nothing of what it should is noticed. */
static __always_inline int redirect(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	int verdict = bpf_redirect_map(&xsks, queue, XDP_DROP);

	if (queue < STEER_QUEUES_MAX) {
		if (verdict == XDP_REDIRECT)
			queue_counts[queue].redirected++;
		else
			queue_counts[queue].refused++;
	}
	return verdict;
}

SEC("xdp.frags")
int steer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct steer_vip_key key = {};

	switch (walk(ctx, &key)) {
	case OTHERS:
		if (is_others(ctx))
			return XDP_PASS;
		break;
	case BY_PORT:
		if (!vip_has_port(&key))
			return XDP_PASS;
		break;
	case OURS:
		break;
	}
	/* What the sockets do not take is dropped where it can be counted (older kernels would
	 * hand over a cut-off packet). */
	if (bpf_xdp_get_buff_len(ctx) > frame_max ||
	    (!multi && bpf_xdp_get_buff_len(ctx) > end - data)) {
		__u32 index = STEER_TOO_BIG;
		__u64 *n = bpf_map_lookup_elem(&steer_counts, &index);

		if (n)
			(*n)++;
		return XDP_DROP;
	}
	return redirect(ctx);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
