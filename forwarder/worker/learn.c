/* In-band learning. The promise that a flow stays on its DIP needs control to know the flow before
 * a pool changes, and nobody but the worker sees every packet; so the worker reports, and it does
 * so before the packet leaves. What keeps the reports few is the seen cache: a packet that would
 * repeat what its entry says, within a refresh interval, is silent. What makes the reports safe to
 * lose is that an entry is written only once its record is in a ring: after a loss the flow's next
 * packet tries again.
 *
 * Three rings, because they fail differently. An opening (or end, or move) that is lost can cost a
 * connection, so its ring carries nothing that a flood of bare ACKs could fill. Datagrams have no
 * SYN: each unknown one may open a flow, and a flood of them must not push out TCP's openings. A
 * refresh only moves an idle clock, so it is rate-limited; a lost one marks its hash bucket, and
 * control then counts idle time from the mark. So does every other lost record: whatever is lost,
 * no active flow looks idle.
 *
 * A ring survives its writer's death between any two stores: the record is written completely
 * before the release store of `head` moves over it, `tail` is moved only by the reader after it is
 * done, and `cached_tail` is a hint that learn_init reads anew. So positions tail..head always are
 * whole records, and the one at head, perhaps torn, is not looked at by anyone. The last record
 * written stands at head - 1 even when it was read long ago, so the highest sequence number is
 * found there. */
#include "worker/learn.h"

#include <errno.h>

#include "base/hugemem.h"
#include "packet/parse.h"

#define SEEN_BYTES (SEEN_ENTRIES * sizeof(struct seen_entry))
#define LOST_BYTES (LOSS_BUCKETS * sizeof(uint32_t))

/* The refresh bucket holds 10 ms' worth: after a quiet time, one short burst of many flows. */
#define REFRESH_PER_MS (LEARN_REFRESH_PER_S / 1000)
#define REFRESH_FULL_MS 10u

/* --- the ring ------------------------------------------------------------------------------------
 */

static ALWAYS_INLINE uint64_t ring_index(const struct learn_ring *r, uint64_t position)
{
	return position & (r->n - 1);
}

const struct learn_record *learn_ring_peek(const struct learn_ring *r)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	if (tail == atomic_load_explicit(&r->head, memory_order_acquire))
		return NULL;
	return &r->records[ring_index(r, tail)];
}

void learn_ring_pop(struct learn_ring *r)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	/* release: the record has been read before the worker may write over it */
	atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
}

uint64_t learn_ring_count(const struct learn_ring *r)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	return atomic_load_explicit(&r->head, memory_order_acquire) - tail;
}

/* True if one more record fits at head; asks for the reader's line only when the hint says no. */
static ALWAYS_INLINE bool ring_has_room(struct learn_ring *r, uint64_t head)
{
	if (head - r->cached_tail < r->n)
		return true;
	r->cached_tail = atomic_load_explicit(&r->tail, memory_order_acquire);
	return head - r->cached_tail < r->n;
}

bool learn_ring_push(struct learn_ring *r, const struct learn_record *rec)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	if (!ring_has_room(r, head))
		return false;
	r->records[ring_index(r, head)] = *rec;
	FAULT_POINT();
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	return true;
}

/* Check a ring, perhaps one that a killed process left, and take its hint and last number from it.
 */
static int ring_adopt(struct learn_ring *r, uint64_t *last_seq)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);

	if (r->n == 0 || (r->n & (r->n - 1)) != 0 || head - tail > r->n)
		return -EINVAL;
	r->cached_tail = tail;
	if (head != 0) {
		uint64_t seq = r->records[ring_index(r, head - 1)].seq;
		if (seq > *last_seq)
			*last_seq = seq;
	}
	return 0;
}

/* --- setting up ----------------------------------------------------------------------------------
 */

int learn_init(struct learn *l, struct learn_ring *const rings[N_LEARN_RINGS])
{
	struct learn fresh = {.refresh_tokens = REFRESH_PER_MS * REFRESH_FULL_MS};

	for (int i = 0; i < N_LEARN_RINGS; i++) {
		int ret = ring_adopt(rings[i], &fresh.seq);
		if (ret != 0)
			return ret;
		fresh.rings[i] = rings[i];
	}
	fresh.seen = hugemem_alloc(SEEN_BYTES, NULL);
	fresh.lost_ms = hugemem_alloc(LOST_BYTES, NULL);
	if (!fresh.seen || !fresh.lost_ms) {
		learn_destroy(&fresh);
		return -ENOMEM;
	}
	*l = fresh;
	return 0;
}

void learn_destroy(struct learn *l)
{
	hugemem_free(l->seen, SEEN_BYTES);
	hugemem_free((void *)l->lost_ms, LOST_BYTES);
	*l = (struct learn){0};
}

/* --- one packet ----------------------------------------------------------------------------------
 */

/* RST counts before everything (RFC 9293 3.10.7: it ends whatever it hits), SYN before FIN and
 * data: a SYN with data (TCP Fast Open) opens, and one with FIN is nonsense that opens nothing
 * worse. */
static ALWAYS_INLINE enum learn_kind kind_of(uint8_t proto, uint8_t segment)
{
	if (proto == IPPROTO_UDP)
		return segment & SEG_INITIAL ? LEARN_INITIAL : LEARN_DATAGRAM;
	if (segment == 0)
		return LEARN_ACK;
	if (segment == SEG_PAYLOAD)
		return LEARN_DATA;
	if (segment & SEG_RST)
		return LEARN_RST;
	return segment & SEG_SYN ? LEARN_SYN : LEARN_FIN;
}

/* The phase a packet leaves its flow in. The flow of `affinity: client` is the client: no
 * connection's opening or end says anything about it. */
static ALWAYS_INLINE enum seen_phase phase_after(enum learn_kind kind, enum seen_phase was,
						 bool per_client)
{
	if (per_client)
		return SEEN_ESTABLISHED;
	switch (kind) {
	case LEARN_SYN:
		return SEEN_SYN;
	case LEARN_FIN:
	case LEARN_RST:
		return SEEN_CLOSING;
	case LEARN_ACK:
		if (was == SEEN_NONE)
			return SEEN_ACKED;
		return was == SEEN_CLOSING || was == SEEN_ACKED ? was : SEEN_ESTABLISHED;
	default:
		return SEEN_ESTABLISHED;
	}
}

/* The ring for a flow that the cache does not hold, or from too long ago. An end goes with the
 * openings: were it lost to the refresh limit under load, the table would fill with dead flows. */
static ALWAYS_INLINE enum learn_ring_id ring_of_unseen(enum learn_kind kind, bool per_client)
{
	switch (kind) {
	case LEARN_DATAGRAM:
		return RING_DATAGRAM;
	case LEARN_SYN:
	case LEARN_INITIAL:
		return RING_OPENING;
	case LEARN_FIN:
	case LEARN_RST:
		return per_client ? RING_REFRESH : RING_OPENING;
	default:
		return RING_REFRESH;
	}
}

/* Take a refresh token, if there is one; unused ones of up to 10 ms are kept. */
static bool refresh_allowed(struct learn *l, uint32_t now_ms)
{
	uint32_t elapsed = now_ms - l->refresh_refill_ms;

	if (elapsed != 0) {
		uint32_t full = REFRESH_PER_MS * REFRESH_FULL_MS;
		uint32_t tokens = l->refresh_tokens;
		tokens += (elapsed < REFRESH_FULL_MS ? elapsed : REFRESH_FULL_MS) * REFRESH_PER_MS;
		l->refresh_tokens = tokens < full ? tokens : full;
		l->refresh_refill_ms = now_ms;
	}
	return l->refresh_tokens != 0;
}

static bool record_push(struct learn *l, const struct learn_burst *b, const struct lookup *f,
			enum learn_kind kind, enum learn_ring_id ring)
{
	if (ring == RING_REFRESH && !refresh_allowed(l, b->now_ms))
		return false;
	struct learn_record rec = {
		.key = f->key,
		.hash = f->hash,
		.seq = l->seq + 1,
		.generation = b->generation,
		.time_ms = b->now_ms,
		.vip_uid = f->vip->uid,
		.vip_slot = f->vip->slot,
		.dip = f->dip,
		.kind = (uint8_t)kind,
		.ring = (uint8_t)ring,
	};
	if (!learn_ring_push(l->rings[ring], &rec))
		return false;
	l->seq++;
	if (ring == RING_REFRESH)
		l->refresh_tokens--;
	return true;
}

/* A record is lost: mark its bucket, count, and say whether the packet may go all the same.
 * place_known: the cache says that control was told of this flow on this DIP. Then only a phase or
 * a refresh is lost, and the flow is still a learned one; not so for what may open a new
 * connection, nor for a datagram, whose flow control may have timed out meanwhile. */
static bool record_lost(struct learn *l, struct learn_burst *b, const struct lookup *f,
			enum learn_kind kind, enum learn_ring_id ring, bool place_known)
{
	atomic_store_explicit(&l->lost_ms[loss_bucket(f->hash)], b->now_ms ? b->now_ms : 1,
			      memory_order_relaxed);
	b->lost[ring]++;
	if (ring == RING_REFRESH)
		return true;
	if (f->vip->on_learn_overflow == OVERFLOW_DROP)
		return FAULT(stale_entry_carries) && place_known;
	if (!place_known || learn_kind_opens(kind) || kind == LEARN_DATAGRAM)
		b->unlearned++;
	return true;
}

/* The packets of one client come by several workers. One of them may have told of its new place
 * after its DIP was lost; when that one is lost too, the client comes back to where it was, and
 * this worker's entry would call that old news. So it is with flows some of whose packets come in
 * fragments, which have no ports to choose a queue by: once there were any, no flow is known to
 * have one worker. */
static ALWAYS_INLINE bool is_of_before_a_loss(const struct seen_entry *e, const struct vip_view *v,
					      const struct learn_burst *b)
{
	return (v->affinity == AFFINITY_CLIENT || b->several_workers) &&
	       b->now_ms - e->time_ms >= b->now_ms - v->loss_ms && !FAULT(trust_old_places);
}

bool learn_packet(struct learn *l, struct learn_burst *b, const struct lookup *f, uint8_t proto,
		  uint8_t segment)
{
	struct seen_entry *e = &l->seen[seen_index(f->hash)];
	enum learn_kind kind = kind_of(proto, segment);
	bool per_client = f->vip->affinity == AFFINITY_CLIENT;
	bool held = e->hash == f->hash && e->phase != SEEN_NONE;
	enum seen_phase phase = phase_after(kind, held ? e->phase : SEEN_NONE, per_client);
	bool same_dip = held && e->dip == f->dip && !is_of_before_a_loss(e, f->vip, b);
	bool same = same_dip && e->phase == phase;
	/* Payload after a bare ACK of an unknown flow: as good as unseen. */
	bool settles = same_dip && e->phase == SEEN_ACKED && phase == SEEN_ESTABLISHED;
	enum learn_ring_id ring;

	/* Every SYN and Initial is told: it dates the flow's opening, and a new connection on an
	 * old tuple looks just like the first one sent again. */
	if ((learn_kind_opens(kind) && !per_client) || (held && !same && !settles))
		ring = RING_OPENING;
	else if (same && b->now_ms - e->time_ms <= f->vip->refresh_ms)
		return true;
	else
		ring = ring_of_unseen(kind, per_client);

	if (!record_push(l, b, f, kind, ring))
		return record_lost(l, b, f, kind, ring, same_dip);
	*e = (struct seen_entry){
		.hash = f->hash,
		.time_ms = b->now_ms,
		.dip = f->dip,
		.phase = (uint8_t)phase,
	};
	return true;
}
