/* In-band learning: what a packet tells control, and the rings and cache it goes through. The rings
 * lie in the state file and outlive a killed process; the seen cache does not. */
#pragma once

#include <stdatomic.h>

#include "base/fault.h"
#include "lookup/snapshot.h"

enum learn_kind {
	LEARN_SYN = 1,  /* TCP SYN without ACK */
	LEARN_DATA,     /* TCP with payload */
	LEARN_ACK,      /* TCP without payload, SYN, FIN, RST */
	LEARN_FIN,      /* TCP FIN (with or without payload) */
	LEARN_RST,
	LEARN_DATAGRAM, /* UDP */
	LEARN_INITIAL,  /* UDP that opens a QUIC connection */
};

/** Whether a packet of this kind by itself says that a connection begins. */
static ALWAYS_INLINE bool learn_kind_opens(uint8_t kind)
{
	return kind == LEARN_SYN || kind == LEARN_INITIAL;
}

enum learn_ring_id {
	RING_OPENING,  /* every TCP SYN and QUIC Initial, FIN and RST that are news, any packet whose DIP
			  or phase differs from those in its seen entry */
	RING_DATAGRAM, /* UDP that the seen cache does not hold, or from too long ago */
	RING_REFRESH,  /* other packets that it does not hold, or from too long ago; rate-limited */
	N_LEARN_RINGS,
};

/** One record, one cache line. Written completely before the ring's head moves over it. */
struct learn_record {
	struct flow_key key;
	uint64_t hash;
	uint64_t seq;        /* over the worker's three rings, from 1: control merges by it */
	uint64_t generation; /* of the snapshot that chose the DIP */
	uint32_t time_ms;    /* low bits of clock_now_ms */
	uint32_t vip_uid;
	uint16_t vip_slot;
	uint16_t dip;
	uint8_t kind;        /* enum learn_kind */
	uint8_t ring;        /* enum learn_ring_id it went through */
	uint16_t zero;
};
_Static_assert(sizeof(struct learn_record) == 64, "one cache line");

/** Single producer (worker), single consumer (control). In shared memory: no pointers. Positions only
 *  grow; entry of position i is records[i & (n - 1)]. All-zero is an empty ring. */
struct learn_ring {
	CACHE_ALIGNED _Atomic uint64_t head; /* next to write; worker */
	uint64_t cached_tail;                /* worker's */
	CACHE_ALIGNED _Atomic uint64_t tail; /* next to read; control */
	CACHE_ALIGNED uint64_t n;            /* records, a power of two; set once */
	CACHE_ALIGNED struct learn_record records[];
};

/** Bytes of a ring of n records. */
static inline size_t learn_ring_bytes(uint32_t n)
{
	return sizeof(struct learn_ring) + (size_t)n * sizeof(struct learn_record);
}

/** Control: the next record without taking it, or NULL. Thread: control. */
const struct learn_record *learn_ring_peek(const struct learn_ring *r);
/** Control: take the record that peek showed. */
void learn_ring_pop(struct learn_ring *r);
/** Records waiting. Thread: control. */
uint64_t learn_ring_count(const struct learn_ring *r);
/** Worker: false if full (nothing written). */
bool learn_ring_push(struct learn_ring *r, const struct learn_record *rec);

/* --- the seen cache ------------------------------------------------------------------------------ */

/* ACKED: all that was seen is a bare ACK, which leaves open whether the flow is closing: payload must be
 * told, since it would revive it. */
enum seen_phase { SEEN_NONE, SEEN_SYN, SEEN_ESTABLISHED, SEEN_CLOSING, SEEN_ACKED };

/** Direct-mapped by the hash; written or renewed only once the flow's record is in a ring. */
struct seen_entry {
	uint64_t hash;
	uint32_t time_ms;
	uint16_t dip;
	uint8_t phase; /* enum seen_phase */
	uint8_t zero;
};

#define SEEN_ENTRIES SIM_SIZE(16384u, 256u) /* 256 KiB: fits a private L2 */

/** Refresh records a worker may write in a second; more are lost (and counted). */
#define LEARN_REFRESH_PER_S SIM_SIZE(200000u, 2000u)

/** When a record was lost, by hash bucket: control counts a flow's idle time from the last loss in its
 *  bucket too, so no loss can make an active flow look idle. Value: clock_now_ms low bits, 0 = never. */
#define LOSS_BUCKETS SIM_SIZE(4096u, 64u)
static ALWAYS_INLINE uint32_t loss_bucket(uint64_t hash)
{
	return (uint32_t)(hash >> 32) & (LOSS_BUCKETS - 1);
}

/** One worker's learning state. */
struct learn {
	struct learn_ring *rings[N_LEARN_RINGS]; /* in the state file */
	struct seen_entry *seen;                 /* SEEN_ENTRIES, hugemem */
	_Atomic uint32_t *lost_ms;               /* LOSS_BUCKETS */
	uint64_t seq;
	uint32_t refresh_tokens;
	uint32_t refresh_refill_ms;
};

/** rings: this worker's three, set up. Continues the sequence numbers that it finds in them. 0, -ENOMEM,
 *  or -EINVAL if a ring's size or positions cannot be (nothing is left allocated then). */
MUST_CHECK int learn_init(struct learn *l, struct learn_ring *const rings[N_LEARN_RINGS]);
void learn_destroy(struct learn *l);

/** A burst's constants, and what of it could not be told to control. */
struct learn_burst {
	uint64_t generation; /* in: of the snapshot that chose the DIPs */
	uint32_t now_ms;     /* in: low bits of clock_now_ms */
	bool several_workers; /* in: a flow may come by several, as clients do */
	uint32_t unlearned;  /* out: carried, though control may not know the flow on this DIP */
	uint32_t lost[N_LEARN_RINGS]; /* out: records lost, by the ring they were meant for */
};

/** Tell control about one packet that is about to be sent to f->dip (a usable DIP), if it is news.
 *  proto: IPPROTO_TCP or IPPROTO_UDP; segment: SEG_* of the packet. False: the news could not be told
 *  and the VIP wants the packet dropped. Adds to b->unlearned and b->lost. Thread: the worker. Never
 *  waits. */
MUST_CHECK bool learn_packet(struct learn *l, struct learn_burst *b, const struct lookup *f,
			     uint8_t proto, uint8_t segment);

/** Where a hash has its place in the seen cache. */
static ALWAYS_INLINE uint32_t seen_index(uint64_t hash)
{
	return (uint32_t)hash & (SEEN_ENTRIES - 1);
}

/** Ask for what learn_packet will read, as soon as the hash is known. */
static ALWAYS_INLINE void learn_prefetch(const struct learn *l, uint64_t hash)
{
	cpu_prefetch(&l->seen[seen_index(hash)]);
}
