/* Layout of steer's maps, shared by the XDP program and user space. */
#pragma once

#include <linux/types.h>

#define STEER_VIPS_MAX 4096  /* = VIPS_MAX */
#define STEER_QUEUES_MAX 256 /* RX queues of an interface */

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
	STEER_TOO_BIG, /* dropped: does not fit a frame of the UMEM, or came in several buffers */
	N_STEER_COUNTS,
};
