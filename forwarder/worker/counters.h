/* Counters of the packet path. Each has one writer, its worker; anyone may read (relaxed). The drop
 * reasons are one table, from which enum, JSON name and metric come. */
#pragma once

#include <stdatomic.h>

#include "base/fault.h"
#include "io/port.h"

/*           name            what it means */
#define DROP_REASONS(X)                                                                            \
	X(malformed, "a header is truncated or contradicts itself")                                \
	X(fragment_timeout, "a later fragment whose first did not come in time")                   \
	X(fragment_overflow, "a later fragment that gave way to others that wait for a first")     \
	X(not_l4, "neither TCP nor UDP nor an error about one, to a VIP")                          \
	X(no_vip, "no VIP matches (it has just been removed)")                                     \
	X(no_dip, "no DIP of the VIP is usable")                                                   \
	X(no_neighbor, "the DIP's next hop is not resolved")                                       \
	X(frame_too_big, "does not fit the egress MTU, or its first buffer holds too little")      \
	X(no_headroom, "no room to put an outer header in front")                                  \
	X(ttl_expired, "the packet's TTL or hop limit ended here")                                 \
	X(family_mismatch, "the DIP's address family does not fit the packet's")                   \
	X(untranslatable, "mode nat: its checksum covers addresses that may not change")           \
	X(back_unresolved, "mode nat: the next hop back to the client is not resolved")            \
	X(back_elsewhere, "mode nat: back to the client leads no interface that is served")        \
	X(back_unknown, "mode nat: from a DIP that has just gone")                                 \
	X(back_spoofed, "mode nat: from a DIP's address, but not by the DIP's interface")          \
	X(answer_limit, "an echo request beyond the rate of answers")                              \
	X(tx_full, "the egress ring was full")                                                     \
	X(learn_overflow, "the flow could not be learned and the VIP wants it dropped")

enum drop_reason {
#define DROP_ENUM(name, text) DROP_##name,
	DROP_REASONS(DROP_ENUM)
#undef DROP_ENUM
		N_DROP_REASONS
};

/** JSON name and explanation of each reason. */
extern const char *const drop_reason_name[N_DROP_REASONS];
extern const char *const drop_reason_text[N_DROP_REASONS];

struct traffic_counter {
	_Atomic uint64_t packets;
	_Atomic uint64_t bytes;
};

#define DIPS_MAX SIM_SIZE(131072, 1024)
/* dip_view.counter is below this. One change may replace all DIPs: both have counters until the swap. */
#define DIP_COUNTERS_MAX (2 * DIPS_MAX)

/** All counters of one worker. dips and back are hugemem arrays of DIP_COUNTERS_MAX. Counters only
 * grow; who takes over a DIP counter subtracts what it found (control does). */
struct worker_counters {
	CACHE_ALIGNED struct traffic_counter rx[IFACES_MAX];
	struct traffic_counter tx[IFACES_MAX];
	_Atomic uint64_t drops[N_DROP_REASONS];
	_Atomic uint64_t unlearned; /* openings and datagrams carried though their ring was full */
	_Atomic uint64_t lost_openings; /* records that found the opening ring full */
	_Atomic uint64_t lost_datagrams;
	_Atomic uint64_t lost_refreshes; /* by a full ring or the rate limit */
	_Atomic uint64_t checksums_completed;
	_Atomic uint64_t echo_replies;	  /* sent in a VIP's name */
	_Atomic uint64_t too_big_replies; /* so too; each besides a drop as frame_too_big */
	_Atomic uint64_t quic_by_id;   /* packets whose connection ID named their DIP */
	_Atomic uint64_t quic_by_flow; /* with an ID of their server that names no usable DIP */
	_Atomic uint64_t bursts;
	_Atomic uint64_t sleeps;
	struct traffic_counter *dips;
	struct traffic_counter
		*back; /* mode nat: what came from the DIPs and was sent to clients */
};

MUST_CHECK struct worker_counters *worker_counters_new(void);
void worker_counters_free(struct worker_counters *c);

/** Single-writer increment: a plain add, no locked instruction. Thread: the owning worker. */
static ALWAYS_INLINE void counter_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static ALWAYS_INLINE uint64_t counter_read(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}
