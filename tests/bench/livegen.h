/* A packet generator in the kernel: BPF_PROG_TEST_RUN with live frames, in a thread of its own.
 * Several million frames a second on one core, where a generator in user space makes one or two. */
#pragma once

#include "base/error.h"

struct livegen_config {
	/* Frames leave by this interface of the calling thread's namespace; its driver must take
	 * redirected frames, as a veth does whose peer has XDP. */
	int ifindex;
	int cpu;	  /* pinned to; -1: not */
	uint32_t n_flows; /* source addresses from 10.0.0.0 and ports from 1024 */
	/* IPv4 TCP without tags and options; its checksums are made with zero for source address
	 * and port, IP id, TCP sequence number and window, which the generator fills in. */
	const uint8_t *frame;
	uint32_t len;
};

struct livegen;

/** Start to send without end. 0 or negative with err set. Thread: any, SIGUSR1 is used up. */
MUST_CHECK int livegen_start(const struct livegen_config *c, struct livegen **out,
			     struct error *err);

/** Frames made so far. */
uint64_t livegen_frames(const struct livegen *g);

/** Stop, wait for the thread, free. 0, or what made the kernel end it early. NULL is fine. */
int livegen_stop(struct livegen *g);
