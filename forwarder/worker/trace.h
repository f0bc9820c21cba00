/* Traces: copies of the frames that fit a filter, as they came in and as they went out, with what was
 * decided about them. A worker writes them into a ring of its own, from which one other thread reads.
 * A full ring loses copies, never packets. */
#pragma once

#include <stdatomic.h>

#include "io/port.h"
#include "packet/parse.h"
#include "worker/counters.h"

#define TRACE_SNAP_MAX 1920u /* bytes of a frame: whole ones, as our frames are */
#define TRACE_RECORDS SIM_SIZE(1024u, 16u)
#define TRACE_FORWARDED 0xff

/** What is traced; all zero: everything. */
struct trace_filter {
	uint32_t vip_uid; /* 0 = of any VIP, or of none */
	uint16_t dip;     /* index in the VIP; 0 = any */
	bool has_src;
	struct ip_addr src;
	bool has_dst;
	struct ip_addr dst;
	uint16_t sport_be; /* 0 = any */
	uint16_t dport_be;
	uint32_t snap;     /* bytes to keep of a frame, at most TRACE_SNAP_MAX */
};

enum trace_way { TRACE_IN, TRACE_OUT, TRACE_VOID /* it did not go out after all */ };

struct trace_record {
	uint64_t pair; /* the same for a frame's way in and its way out; rises with each frame */
	uint64_t time_ns; /* clock_now_ns of the burst */
	uint64_t generation;
	uint32_t session;
	uint32_t vip_uid; /* 0 = no VIP's */
	uint32_t len;     /* of the frame */
	uint32_t len_kept;
	uint32_t dcode; /* home */
	uint16_t dip;   /* DIP_NONE = none */
	uint8_t way;    /* enum trace_way */
	uint8_t verdict; /* TRACE_FORWARDED or enum drop_reason */
	uint8_t reason; /* enum lookup_reason */
	uint8_t zero;
	uint16_t iface; /* index */
	uint8_t data[TRACE_SNAP_MAX];
};

/** The worker whose frame a pair is, in the order of workers_trace_start's list. */
static inline uint8_t trace_pair_worker(uint64_t pair)
{
	return (uint8_t)(pair >> 56);
}

struct trace_ring {
	CACHE_ALIGNED _Atomic uint64_t head; /* next to write; the worker's */
	CACHE_ALIGNED _Atomic uint64_t tail; /* next to read */
	struct trace_record records[TRACE_RECORDS];
};

/** A worker's part. */
struct trace_tap {
	CACHE_ALIGNED _Atomic uint32_t session; /* of the trace that runs; 0 = none */
	CACHE_ALIGNED _Atomic uint32_t seen; /* the session that the last burst had; the worker's */
	_Atomic uint64_t lost;               /* frames that found the ring full; only grows */
	uint64_t pair;                       /* the worker's */
	/* set before the session, and then left alone */
	struct trace_filter filter;
	struct trace_ring *ring; /* NULL until the first trace; hugemem */
};

void trace_tap_destroy(struct trace_tap *tap);

/* --- the worker's side: a burst ------------------------------------------------------------------ */

/** A burst that is traced. */
struct trace_burst {
	struct trace_tap *tap; /* NULL: it is not */
	const struct snapshot *snapshot;
	uint64_t time_ns;
	uint64_t head;   /* of the ring: behind what this burst has written */
	uint32_t traced; /* bit i: frame i is */
	uint16_t in[BURST_MAX], out[BURST_MAX]; /* their records */
};

/** Once a burst, before everything else: true if a trace runs. Thread: the worker. */
static ALWAYS_INLINE bool trace_runs(struct trace_tap *tap)
{
	uint32_t session = atomic_load(&tap->session);

	if (likely(session == atomic_load_explicit(&tap->seen, memory_order_relaxed)))
		return unlikely(session != 0);
	atomic_store(&tap->seen, session);
	return session != 0;
}

/** Frame i is looked up, and untouched as yet. p: NULL if it could not be parsed. */
void trace_in(struct trace_burst *t, unsigned i, const struct frame *f, const struct packet *p,
	      const struct lookup *l);
/** Frame i is about to be sent by this interface. */
void trace_out(struct trace_burst *t, unsigned i, const struct frame *f, unsigned iface);
/** What became of frame i: TRACE_FORWARDED or a drop reason. */
void trace_verdict(struct trace_burst *t, unsigned i, uint8_t verdict);
/** Begin a burst / show what it wrote to the reader. */
void trace_begin(struct trace_burst *t, struct trace_tap *tap, const struct snapshot *s);
void trace_end(struct trace_burst *t);

/* --- the reader's side --------------------------------------------------------------------------- */

struct worker;

/** Begin a trace in all workers. Only one may run at a time, which is the caller's to see to. 0 or -ENOMEM.
 *  Thread: any, the same until workers_trace_stop. */
MUST_CHECK int workers_trace_start(struct worker *const *w, unsigned n,
				   const struct trace_filter *f);
/** The next record of a worker without taking it, NULL = none; take it. */
const struct trace_record *worker_trace_peek(struct worker *w);
void worker_trace_pop(struct worker *w);
/** Frames that were lost to full rings since all began: only grows. */
uint64_t workers_trace_lost(struct worker *const *w, unsigned n);
/** End it: when this returns no worker is in a burst that is traced. Waits for the bursts under way. */
void workers_trace_stop(struct worker *const *w, unsigned n);
