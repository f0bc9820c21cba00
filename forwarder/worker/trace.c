/* Starting and stopping without a lock in the worker. The session is a word that the worker reads
 * once a burst, and says in `seen` when it has read another one. So who has set it to 0 knows, once
 * `seen` is 0 as well, that no burst of the old session is under way; a worker that is not RUNNING
 * is in no burst, and reads the word anew before its next one (all these are sequentially
 * consistent). Only then are filter and ring somebody else's to write.
 *
 * A record is written in three steps, since a frame is rewritten in place and its end is known
 * last: the copy before it is touched, the copy before it is sent, and the verdict. The reader sees
 * none of them before the burst is over. */
#include "worker/trace.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hugemem.h"
#include "worker/worker.h"

#define NO_RECORD UINT16_MAX

_Static_assert(TRACE_RECORDS < NO_RECORD, "a record's place fits");
_Static_assert((TRACE_RECORDS & (TRACE_RECORDS - 1)) == 0, "a power of two");
_Static_assert((int)N_DROP_REASONS < TRACE_FORWARDED, "a verdict of its own");

void trace_tap_destroy(struct trace_tap *tap)
{
	hugemem_free(tap->ring, sizeof(*tap->ring));
	tap->ring = NULL;
}

/* --- the worker's side ---------------------------------------------------------------------------
 */

void trace_begin(struct trace_burst *t, struct trace_tap *tap, const struct snapshot *s)
{
	t->tap = tap;
	t->snapshot = s;
	t->time_ns = clock_now_ns();
	t->head = atomic_load_explicit(&tap->ring->head, memory_order_relaxed);
	t->traced = 0;
}

static bool is_wanted(const struct trace_filter *f, const struct packet *p, const struct lookup *l)
{
	if (f->vip_uid && (!l->vip || l->vip->uid != f->vip_uid))
		return false;
	if (f->dip && (!l->vip || l->dip != f->dip))
		return false;
	if (!f->has_src && !f->sport_be && !f->has_dst && !f->dport_be)
		return true;
	return p && (!f->has_src || ip_addr_equal(&p->src, &f->src)) &&
	       (!f->has_dst || ip_addr_equal(&p->dst, &f->dst)) &&
	       (!f->sport_be || p->sport_be == f->sport_be) &&
	       (!f->dport_be || p->dport_be == f->dport_be);
}

/* The next record to write, its place in *at; NULL if the ring has no room for `n` more. */
static struct trace_record *next_record(struct trace_burst *t, unsigned n, uint16_t *at)
{
	struct trace_ring *r = t->tap->ring;
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);

	if (t->head + n - tail > TRACE_RECORDS)
		return NULL;
	*at = (uint16_t)(t->head++ % TRACE_RECORDS);
	return &r->records[*at];
}

static void keep(struct trace_record *r, const struct trace_tap *tap, const struct frame *f)
{
	r->len = f->len;
	uint32_t front = f->len - (f->more < f->len ? f->more : 0);
	r->len_kept = front < tap->filter.snap ? front : tap->filter.snap;
	memcpy(r->data, f->data, r->len_kept);
}

void trace_in(struct trace_burst *t, unsigned i, const struct frame *f, const struct packet *p,
	      const struct lookup *l)
{
	struct trace_tap *tap = t->tap;
	enum lookup_reason reason = LOOKUP_NONE;

	if (!is_wanted(&tap->filter, p, l))
		return;
	/* Two: there shall be room for its way out. */
	struct trace_record *r = next_record(t, 2, &t->in[i]);
	if (!r) {
		counter_add(&tap->lost, 1);
		return;
	}
	t->traced |= 1u << i;
	t->out[i] = NO_RECORD;
	r->pair = ++tap->pair;
	r->time_ns = t->time_ns;
	r->generation = t->snapshot->generation;
	r->session = atomic_load_explicit(&tap->seen, memory_order_relaxed);
	r->vip_uid = l->vip ? l->vip->uid : 0;
	r->dcode = 0;
	r->dip = DIP_NONE;
	if (l->vip)
		r->dip = snapshot_lookup_one(t->snapshot, l->vip, &l->key, &reason, &r->dcode);
	if (l->vip && l->dip != r->dip) {
		r->dip = l->dip;
		reason = LOOKUP_SERVER_ID;
	}
	r->reason = (uint8_t)reason;
	r->way = TRACE_IN;
	r->iface = f->iface;
	keep(r, tap, f);
}

void trace_out(struct trace_burst *t, unsigned i, const struct frame *f, unsigned iface)
{
	struct trace_ring *ring = t->tap->ring;

	if (!(t->traced >> i & 1))
		return;
	struct trace_record *r = next_record(t, 1, &t->out[i]);
	if (!r) {
		t->out[i] = NO_RECORD;
		counter_add(&t->tap->lost, 1);
		return;
	}
	const struct trace_record *in = &ring->records[t->in[i]];
	memcpy(r, in, offsetof(struct trace_record, data));
	r->way = TRACE_OUT;
	r->iface = (uint16_t)iface;
	keep(r, t->tap, f);
}

void trace_verdict(struct trace_burst *t, unsigned i, uint8_t verdict)
{
	struct trace_record *records = t->tap->ring->records;

	if (!(t->traced >> i & 1))
		return;
	records[t->in[i]].verdict = verdict;
	if (t->out[i] == NO_RECORD)
		return;
	records[t->out[i]].verdict = verdict;
	if (verdict != TRACE_FORWARDED)
		records[t->out[i]].way = TRACE_VOID;
}

void trace_end(struct trace_burst *t)
{
	atomic_store_explicit(&t->tap->ring->head, t->head, memory_order_release);
}

/* --- the reader's side ---------------------------------------------------------------------------
 */

int workers_trace_start(struct worker *const *w, unsigned n, const struct trace_filter *f)
{
	static _Atomic uint32_t last_session;

	assert(f->snap && f->snap <= TRACE_SNAP_MAX && n <= 256);
	for (unsigned i = 0; i < n; i++) {
		struct trace_tap *tap = &w[i]->trace;
		assert(atomic_load(&tap->session) == 0);
		if (!tap->ring)
			tap->ring = hugemem_alloc(sizeof(*tap->ring), NULL);
		if (!tap->ring)
			return -ENOMEM;
	}
	uint32_t session = atomic_fetch_add(&last_session, 1) + 1;
	if (session == 0)
		session = atomic_fetch_add(&last_session, 1) + 1;
	for (unsigned i = 0; i < n; i++) {
		struct trace_tap *tap = &w[i]->trace;
		tap->filter = *f;
		tap->pair = (uint64_t)i << 56;
		/* what an earlier trace has left */
		atomic_store(&tap->ring->tail, atomic_load(&tap->ring->head));
		atomic_store(&tap->session, session);
	}
	return 0;
}

const struct trace_record *worker_trace_peek(struct worker *w)
{
	struct trace_ring *r = w->trace.ring;
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	if (tail == atomic_load_explicit(&r->head, memory_order_acquire))
		return NULL;
	return &r->records[tail % TRACE_RECORDS];
}

void worker_trace_pop(struct worker *w)
{
	struct trace_ring *r = w->trace.ring;
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
}

uint64_t workers_trace_lost(struct worker *const *w, unsigned n)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < n; i++)
		lost += counter_read(&w[i]->trace.lost);
	return lost;
}

void workers_trace_stop(struct worker *const *w, unsigned n)
{
	static const struct timespec pause = {.tv_nsec = 200000};

	for (unsigned i = 0; i < n; i++)
		atomic_store(&w[i]->trace.session, 0);
	for (unsigned i = 0; i < n; i++)
		while (atomic_load(&w[i]->trace.seen) != 0 && !workers_parked(&w[i], 1))
			nanosleep(&pause, NULL);
}
