/* Layout of steer's maps, shared by the XDP program and user space. */
#pragma once

#include <linux/types.h>

#define STEER_VIPS_MAX 4096  /* = VIPS_MAX: what leaves makes room before what comes */
#define STEER_OWN_MAX 4096   /* addresses of the host that are VIPs' too */
#define STEER_QUEUES_MAX 256 /* RX queues of an interface */
#define STEER_IFACES_MAX 16  /* = IFACES_MAX */

/* Key of map `vips`. Addresses are IPv4-mapped for IPv4. */
struct steer_vip_key {
	__u8 addr[16];
	__be16 port; /* 0 = any */
	__u8 proto;  /* IPPROTO_TCP, IPPROTO_UDP, 0 = both */
	__u8 zero;
};

/* Key of map `vip_addrs`; its value is the number of VIPs (__u32) that have the address. */
struct steer_addr_key {
	__u8 addr[16];
};

/* Indexes of the per-CPU array `steer_counts`. */
enum steer_count {
	STEER_TOO_BIG, /* dropped: longer than the sockets take, or in several buffers that they do not take */
	N_STEER_COUNTS,
};

/* --- the ways back of mode nat ------------------------------------------------------------------- */

#define STEER_BACKS_MAX 393216 /* DIPs, each with two protocols and an address */
#define STEER_PARTS_MAX 16384
#define STEER_HOPS_MAX 4096
#define STEER_WANTED_MAX 256

/* Key of map `backs`: a DIP's end of its connections (struct back_key); or, port and proto being 0, the
 * address of some. */
struct steer_back_key {
	__u8 addr[16];
	__be16 port; /* 0 = any */
	__u8 proto;  /* IPPROTO_TCP, IPPROTO_UDP */
	__u8 zero;
};

/* Its value: the source that clients will see, by which routes may be chosen. Of an address: one of
 * those. */
struct steer_back {
	__u8 vip[16];
	__u32 n; /* of an address: ends that have it */
};

/* Key of map `back_parts`: a packet in fragments. */
struct steer_part_key {
	__u8 src[16];
	__u8 dst[16];
	__u32 id;
	__u32 ifindex; /* it has come in by */
	__u32 proto;   /* of IPv4 */
};

/* Its value: what the first one has told. */
struct steer_part {
	__u64 seen_ns;
	__u8 vip[16];
	__be16 sport;
	__be16 dport;
	__u8 proto;
	__u8 ours; /* 0: it is the kernel's, as the others then are */
	__u8 zero[2];
};

/* Key of maps `back_used` and `back_wanted`: a next hop towards clients. */
struct steer_hop_key {
	__u8 addr[16];
	__u32 ifindex;
};

/* How steer hands a packet on its way back to a worker: the kernel's FIB has been asked already, and
 * the frame has the MAC addresses with which it leaves. The egress interface, or why there is none,
 * stands in place of the Ethernet type (the outer one), which is told by two bits of it. No frame
 * comes from the wire with such a type: below 0x0600 it would be a length, and steer passes those on
 * to the kernel. (Metadata in front of the frame would be the other way, but not every driver has
 * room for it, and AF_XDP does not tell whether there is any.) */
#define STEER_BACK_TYPE 0x0400
#define STEER_BACK_MASK 0xfe00
#define STEER_BACK_KIND_SHIFT 7 /* enum steer_back_kind */
#define STEER_BACK_CODE_MASK 0x7f

enum steer_back_kind { STEER_BACK_V4, STEER_BACK_V6, STEER_BACK_CTAG, STEER_BACK_STAG };

/* Codes from 0 on are interfaces, from STEER_IFACES_MAX on such as stand on them (map `back_outs`). */
#define STEER_STACKED_MAX 96

enum steer_back_code {
	STEER_BACK_NO_NEIGHBOR = STEER_IFACES_MAX + STEER_STACKED_MAX, /* of the next hop no MAC address is
									* known */
	STEER_BACK_TOO_BIG,	       /* for the way to the client, and may be fragmented */
	STEER_BACK_ELSEWHERE,	       /* the way leads out by an interface that is not served */
};

/* --- VIPs that are more than one address or one port ----------------------------------------------- */

#define STEER_BLOCKS_MAX (STEER_VIPS_MAX * 31) /* at most 30 blocks of ports a VIP, and its own entry */
#define STEER_BLOCK_SIZES 17		       /* 2^0 .. 2^16 ports */

/* Key of map `vip_blocks`: a prefix and 2^bits ports, as in lookup/wide_match.c. Its value is the number
 * of VIPs (__u32) that have it. */
struct steer_block_key {
	__u8 addr[16]; /* the prefix's first */
	__u16 port;    /* the block's first, host order */
	__u16 port_end; /* of STEER_WHOLE, else 0 */
	__u8 bits;     /* of the port that do not matter; STEER_WHOLE: a VIP's own entry */
	__u8 host_bits;
	__u8 proto; /* IPPROTO_TCP, IPPROTO_UDP, 0 = both */
	__u8 zero;
};

#define STEER_WHOLE 0xff

/* Key of the trie `vip_prefixes`. Mapped or not, an IPv4 address is no part of an IPv6 prefix. */
struct steer_prefix_key {
	__u32 len; /* bits of what follows that count */
	__u8 family; /* 4 or 6 */
	__u8 addr[16];
	__u8 zero[3];
};

#define STEER_ADDRESS_LEN (8 + 128) /* the longest len */

/* Its value: the VIPs of this very prefix. */
struct steer_prefix {
	__u8 addr[16];
	__u32 len;
	__u32 host_bits;
	__u32 n_vips;
	__u32 sizes; /* bit i: there are blocks of 2^i ports */
	__u32 n_blocks[STEER_BLOCK_SIZES];
};

/* --- queues ------------------------------------------------------------------------------------------ */

/* What became of the frames of one RX queue that are ours. Shared memory of the program and its process. */
struct steer_queue_counts {
	__u64 redirected; /* to the queue's socket */
	__u64 refused;	  /* dropped: it has none */
	__u64 room[6];	  /* a cache line each */
};
