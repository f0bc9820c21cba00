/* Learning: the table of what is told by which ring, losses, and a randomised
 * run against a naive model. */
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "packet/parse.h"
#include "tests/unit/frames.h"
#include "worker/learn.h"

/* --- fixture -------------------------------------------------------------------------------------
 */

#define REFRESH_MS 5000u

/* ck_assert costs a write(2): too much for what is asked a million times. */
#define NEED(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ck_abort_msg("%s", #cond);                                                 \
	} while (0)

static struct learn_ring *rings[N_LEARN_RINGS];
static struct learn learn;
static struct vip_view vip;
static uint64_t rng_state;

static uint64_t rng(void)
{
	return frames_random(&rng_state);
}

static struct learn_ring *ring_new(uint32_t n)
{
	struct learn_ring *r = aligned_alloc(CACHE_LINE, learn_ring_bytes(n));

	ck_assert_ptr_nonnull(r);
	memset(r, 0, learn_ring_bytes(n));
	r->n = n;
	return r;
}

static void set_up(uint32_t n_opening, uint32_t n_datagram, uint32_t n_refresh)
{
	uint32_t n[N_LEARN_RINGS] = {n_opening, n_datagram, n_refresh};

	for (int i = 0; i < N_LEARN_RINGS; i++)
		rings[i] = ring_new(n[i]);
	ck_assert_int_eq(learn_init(&learn, rings), 0);
	vip = (struct vip_view){
		.refresh_ms = REFRESH_MS,
		.uid = 77,
		.slot = 7,
		.affinity = AFFINITY_FLOW,
		.on_learn_overflow = OVERFLOW_FORWARD,
	};
}

static void tear_down(void)
{
	learn_destroy(&learn);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		free(rings[i]);
}

static struct lookup flow(uint64_t hash, uint16_t dip)
{
	struct lookup f = {.vip = &vip, .hash = hash, .dip = dip};

	memcpy(&f.key.src.b[8], &hash, 8);
	f.key.sport_be = (uint16_t)hash;
	f.key.dport_be = htons(443);
	f.key.proto = IPPROTO_TCP;
	return f;
}

/* Which ring the newest record went through since the last call, -1 for none; takes it out. */
static int taken(struct learn_record *out)
{
	int found = -1;

	for (int i = 0; i < N_LEARN_RINGS; i++) {
		const struct learn_record *r = learn_ring_peek(rings[i]);
		if (!r)
			continue;
		ck_assert_int_eq(found, -1);
		found = i;
		*out = *r;
		learn_ring_pop(rings[i]);
	}
	return found;
}

/* --- the table -----------------------------------------------------------------------------------
 */

/* What a packet is: one of the 16 combinations of TCP's SEG_*, or UDP, without or with an Initial.
 */
#define UDP_PACKET 16
#define INITIAL_PACKET 17
#define N_PACKETS 18

static enum learn_kind kind_of_packet(unsigned packet)
{
	if (packet == UDP_PACKET)
		return LEARN_DATAGRAM;
	if (packet == INITIAL_PACKET)
		return LEARN_INITIAL;
	if (packet & SEG_RST)
		return LEARN_RST;
	if (packet & SEG_SYN)
		return LEARN_SYN;
	if (packet & SEG_FIN)
		return LEARN_FIN;
	return packet & SEG_PAYLOAD ? LEARN_DATA : LEARN_ACK;
}

static bool give(struct learn_burst *b, const struct lookup *f, unsigned packet)
{
	if (packet == UDP_PACKET)
		return learn_packet(&learn, b, f, IPPROTO_UDP, 0);
	if (packet == INITIAL_PACKET)
		return learn_packet(&learn, b, f, IPPROTO_UDP, SEG_INITIAL);
	return learn_packet(&learn, b, f, IPPROTO_TCP, (uint8_t)packet);
}

/* Rows by what the seen cache says, columns by kind (SYN DATA ACK FIN RST DATAGRAM INITIAL): the
 * ring (O, D, R or - for silence) and the phase that the entry has afterwards (s, e, c, a). */
struct seen_row {
	const char *says;
	uint8_t phase; /* SEEN_NONE: does not hold the flow */
	bool same_dip, fresh;
	const char *expect[7];
};

static const struct seen_row rows_flow[] = {
	{"nothing", SEEN_NONE, false, false, {"Os", "Re", "Ra", "Oc", "Oc", "De", "Oe"}},
	{"syn", SEEN_SYN, true, true, {"Os", "Oe", "Oe", "Oc", "Oc", "Oe", "Oe"}},
	{"established", SEEN_ESTABLISHED, true, true, {"Os", "-e", "-e", "Oc", "Oc", "-e", "Oe"}},
	{"closing", SEEN_CLOSING, true, true, {"Os", "Oe", "-c", "-c", "-c", "Oe", "Oe"}},
	{"acked", SEEN_ACKED, true, true, {"Os", "Re", "-a", "Oc", "Oc", "De", "Oe"}},
	{"old acked", SEEN_ACKED, true, false, {"Os", "Re", "Ra", "Oc", "Oc", "De", "Oe"}},
	{"moved acked", SEEN_ACKED, false, true, {"Os", "Oe", "Oa", "Oc", "Oc", "Oe", "Oe"}},
	{"old syn", SEEN_SYN, true, false, {"Os", "Oe", "Oe", "Oc", "Oc", "Oe", "Oe"}},
	{"old established",
	 SEEN_ESTABLISHED,
	 true,
	 false,
	 {"Os", "Re", "Re", "Oc", "Oc", "De", "Oe"}},
	{"old closing", SEEN_CLOSING, true, false, {"Os", "Oe", "Rc", "Oc", "Oc", "Oe", "Oe"}},
	{"moved syn", SEEN_SYN, false, true, {"Os", "Oe", "Oe", "Oc", "Oc", "Oe", "Oe"}},
	{"moved", SEEN_ESTABLISHED, false, true, {"Os", "Oe", "Oe", "Oc", "Oc", "Oe", "Oe"}},
	{"moved closing", SEEN_CLOSING, false, true, {"Os", "Oe", "Oc", "Oc", "Oc", "Oe", "Oe"}},
	{"old moved", SEEN_ESTABLISHED, false, false, {"Os", "Oe", "Oe", "Oc", "Oc", "Oe", "Oe"}},
};

static const struct seen_row rows_client[] = {
	{"nothing", SEEN_NONE, false, false, {"Oe", "Re", "Re", "Re", "Re", "De", "Oe"}},
	{"established", SEEN_ESTABLISHED, true, true, {"-e", "-e", "-e", "-e", "-e", "-e", "-e"}},
	{"old established",
	 SEEN_ESTABLISHED,
	 true,
	 false,
	 {"Oe", "Re", "Re", "Re", "Re", "De", "Oe"}},
	{"moved", SEEN_ESTABLISHED, false, true, {"Oe", "Oe", "Oe", "Oe", "Oe", "Oe", "Oe"}},
	{"old moved", SEEN_ESTABLISHED, false, false, {"Oe", "Oe", "Oe", "Oe", "Oe", "Oe", "Oe"}},
};

static void check_cell(const struct seen_row *row, unsigned packet, uint32_t now_ms,
		       uint32_t age_ms)
{
	static const char ring_letter[] = "ODR", phase_letter[] = "?seca";
	enum learn_kind kind = kind_of_packet(packet);
	const char *expect = row->expect[kind - LEARN_SYN];
	struct lookup f = flow(rng(), 3);
	struct seen_entry *e = &learn.seen[seen_index(f.hash)];
	struct seen_entry before = {
		.hash = f.hash,
		.time_ms = now_ms - age_ms,
		.dip = row->same_dip ? 3 : 4,
		.phase = row->phase,
	};
	struct learn_burst b = {.generation = 9, .now_ms = now_ms};
	uint64_t seq = learn.seq;
	struct learn_record r = {0};

	vip.loss_ms = before.time_ms - 1;
	if (row->phase == SEEN_NONE) { /* another flow's entry, of the worst kind */
		before.hash = f.hash + SEEN_ENTRIES;
		before.dip = 3;
		before.phase = (uint8_t)(1 + rng() % 3);
	}
	*e = before;
	ck_assert(give(&b, &f, packet));
	int ring = taken(&r);
	ck_assert_msg((ring < 0 ? '-' : ring_letter[ring]) == expect[0],
		      "kind %d, seen cache says %s: ring %d, not %c", kind, row->says, ring,
		      expect[0]);
	ck_assert_msg(phase_letter[e->phase] == expect[1], "kind %d after %s: phase %d, not %c",
		      kind, row->says, e->phase, expect[1]);
	ck_assert(e->hash == f.hash && e->dip == 3);
	ck_assert_uint_eq(e->time_ms, ring < 0 ? before.time_ms : now_ms);
	ck_assert_uint_eq(b.unlearned + b.lost[0] + b.lost[1] + b.lost[2], 0);
	ck_assert_uint_eq(learn.seq, seq + (ring >= 0));
	if (ring < 0)
		return;
	ck_assert(flow_key_equal(&r.key, &f.key) && r.hash == f.hash && r.dip == 3);
	ck_assert(r.seq == seq + 1 && r.generation == 9 && r.time_ms == now_ms);
	ck_assert(r.vip_uid == 77 && r.vip_slot == 7 && r.kind == kind && r.ring == ring);
}

static void check_rows(const struct seen_row *rows, size_t n_rows)
{
	static const uint32_t nows[] = {0, 1, 3000, 4999, 5000, 5001, 123456789, UINT32_MAX};
	static const uint32_t fresh[] = {0, 1, REFRESH_MS},
			      old[] = {REFRESH_MS + 1, 70000, 1u << 31};

	for (size_t i = 0; i < n_rows; i++)
		for (unsigned k = 0; k < N_PACKETS; k++)
			for (size_t t = 0; t < ARRAY_LEN(nows) * 3; t++) {
				uint32_t age = rows[i].fresh ? fresh[t % 3] : old[t % 3];
				learn.refresh_tokens = 1;
				check_cell(&rows[i], k, nows[t / 3], age);
			}
}

START_TEST(test_table_flow)
{
	set_up(4, 4, 4);
	rng_state = frames_seed();
	check_rows(rows_flow, ARRAY_LEN(rows_flow));
	tear_down();
}
END_TEST

START_TEST(test_table_client)
{
	set_up(4, 4, 4);
	rng_state = frames_seed();
	vip.affinity = AFFINITY_CLIENT;
	check_rows(rows_client, ARRAY_LEN(rows_client));
	tear_down();
}
END_TEST

/* Once a DIP of the VIP was lost, a client's entry from before is as good as one of another DIP:
 * told of with the openings, whatever the packet. So it is with any flow once some came in
 * fragments. Flows that only one worker sees stay silent. */
START_TEST(test_loss_of_a_dip)
{
	static const uint32_t starts[] = {50000, UINT32_MAX - 100, 0};

	set_up(4, 4, 4);
	for (unsigned i = 0; i < 3 * ARRAY_LEN(starts); i++) {
		uint32_t now = starts[i / 3];
		bool client = i % 3 == 1, fragments = i % 3 == 2;
		struct lookup f = flow(1000 + i, 3);
		struct learn_burst b = {.now_ms = now, .several_workers = fragments};
		struct learn_record r;

		vip.affinity = client ? AFFINITY_CLIENT : AFFINITY_FLOW;
		vip.loss_ms = now - 1; /* before the flow speaks */
		ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_PAYLOAD));
		ck_assert_int_eq(taken(&r), RING_REFRESH);
		b.now_ms = now + 1;
		ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_PAYLOAD));
		ck_assert_int_eq(taken(&r), -1);
		vip.loss_ms = now; /* in the millisecond when it spoke: after that, perhaps */
		ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_PAYLOAD));
		ck_assert_int_eq(taken(&r), client || fragments ? RING_OPENING : -1);
		b.now_ms = now + 2;
		ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_PAYLOAD));
		ck_assert_int_eq(taken(&r), -1);
		ck_assert_uint_eq(b.unlearned, 0);
	}
	tear_down();
}
END_TEST

/* An all-zero cache holds nothing, not even the flow whose hash is 0. */
START_TEST(test_hash_zero)
{
	set_up(4, 4, 4);
	struct lookup f = flow(0, DIP_NONE + 1);
	struct learn_burst b = {.now_ms = 1};
	struct learn_record r;

	ck_assert(learn_packet(&learn, &b, &f, IPPROTO_UDP, 0));
	ck_assert_int_eq(taken(&r), RING_DATAGRAM);
	ck_assert(learn_packet(&learn, &b, &f, IPPROTO_UDP, 0));
	ck_assert_int_eq(taken(&r), -1);
	tear_down();
}
END_TEST

/* --- losses --------------------------------------------------------------------------------------
 */

static void fill(struct learn_ring *ring)
{
	struct learn_record r = {.seq = 0};

	while (learn_ring_push(ring, &r))
		;
}

static void empty(struct learn_ring *ring)
{
	while (learn_ring_peek(ring))
		learn_ring_pop(ring);
}

/* One packet for a flow that the cache knows as `phase` on `dip` (SEEN_NONE: not), with
 * all rings full. */
struct loss {
	const char *name;
	unsigned packet;
	uint8_t phase;
	uint16_t dip;
	uint32_t age_ms;
	int ring;
	bool unlearned; /* counted so when forwarded */
};

static const struct loss losses[] = {
	{"new syn", SEG_SYN, SEEN_NONE, 0, 0, RING_OPENING, true},
	{"syn again", SEG_SYN, SEEN_SYN, 3, 0, RING_OPENING, true},
	{"new fin", SEG_FIN, SEEN_NONE, 0, 0, RING_OPENING, true},
	{"fin", SEG_FIN, SEEN_ESTABLISHED, 3, 0, RING_OPENING, false},
	{"rst", SEG_RST, SEEN_SYN, 3, 0, RING_OPENING, false},
	{"payload after fin", SEG_PAYLOAD, SEEN_CLOSING, 3, 0, RING_OPENING, false},
	{"ack elsewhere", 0, SEEN_ESTABLISHED, 4, 0, RING_OPENING, true},
	{"new initial", INITIAL_PACKET, SEEN_NONE, 0, 0, RING_OPENING, true},
	{"initial again", INITIAL_PACKET, SEEN_ESTABLISHED, 3, 0, RING_OPENING, true},
	{"new datagram", UDP_PACKET, SEEN_NONE, 0, 0, RING_DATAGRAM, true},
	/* scenario 7: the tuple comes back after its time-out, its stale entry still there */
	{"late datagram", UDP_PACKET, SEEN_ESTABLISHED, 3, 70000, RING_DATAGRAM, true},
	{"datagram elsewhere", UDP_PACKET, SEEN_ESTABLISHED, 4, 0, RING_OPENING, true},
	{"new ack", 0, SEEN_NONE, 0, 0, RING_REFRESH, false},
	{"late data", SEG_PAYLOAD, SEEN_ESTABLISHED, 3, 70000, RING_REFRESH, false},
};

static void check_loss(const struct loss *c, bool drop)
{
	struct lookup f = flow(rng(), 3);
	struct seen_entry *e = &learn.seen[seen_index(f.hash)];
	uint32_t now_ms = rng() % 4 ? (uint32_t)rng() : 0;
	struct seen_entry before = {
		.hash = c->phase ? f.hash : 0,
		.time_ms = now_ms - c->age_ms,
		.dip = c->dip,
		.phase = c->phase,
	};
	struct learn_burst b = {.now_ms = now_ms};
	uint64_t seq = learn.seq;
	bool may_drop = c->ring != RING_REFRESH;
	struct learn_record r;

	*e = before;
	vip.on_learn_overflow = drop ? OVERFLOW_DROP : OVERFLOW_FORWARD;
	atomic_store(&learn.lost_ms[loss_bucket(f.hash)], 0);
	bool carried = give(&b, &f, c->packet);

	ck_assert_msg(carried == !(drop && may_drop), "%s, %s", c->name, drop ? "drop" : "forward");
	ck_assert_msg(b.unlearned == (!drop && c->unlearned), "%s: unlearned", c->name);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		ck_assert_msg(b.lost[i] == (i == c->ring), "%s: lost[%d]", c->name, i);
	ck_assert(memcmp(e, &before, sizeof(before)) == 0);
	ck_assert_uint_eq(atomic_load(&learn.lost_ms[loss_bucket(f.hash)]), now_ms ? now_ms : 1);
	ck_assert_uint_eq(learn.seq, seq);

	/* the flow's next packet tries again, and control hears of it */
	empty(rings[c->ring]);
	ck_assert(give(&b, &f, c->packet));
	ck_assert_uint_eq(learn.seq, seq + 1);
	ck_assert(e->hash == f.hash && e->time_ms == now_ms);
	const struct learn_record *got = learn_ring_peek(rings[c->ring]);
	ck_assert(got && got->hash == f.hash && got->ring == c->ring);
	r = *got;
	learn_ring_pop(rings[c->ring]);
	ck_assert_uint_eq(r.seq, seq + 1);
	fill(rings[c->ring]);
}

START_TEST(test_losses)
{
	set_up(8, 8, 8);
	rng_state = frames_seed();
	for (int i = 0; i < N_LEARN_RINGS; i++)
		fill(rings[i]);
	for (int round = 0; round < 50; round++)
		for (size_t i = 0; i < ARRAY_LEN(losses); i++) {
			learn.refresh_tokens = 100;
			check_loss(&losses[i], false);
			check_loss(&losses[i], true);
		}
	tear_down();
}
END_TEST

/* --- against a naive model -----------------------------------------------------------------------
 */

#define MODEL_FLOWS 64
#define MODEL_RING 16u

/* What control would have been told last about each flow, if the cache still holds it. */
static struct {
	uint64_t hash;
	bool held;
	uint16_t dip;
	uint8_t phase;
	uint64_t time_ms;
} model[MODEL_FLOWS];

static unsigned model_queued[N_LEARN_RINGS];

/* Row of rows_flow for flow i at now_ms. */
static const char *model_expect(unsigned i, uint16_t dip, enum learn_kind kind, uint64_t now_ms)
{
	for (size_t k = 0; k < ARRAY_LEN(rows_flow); k++) {
		const struct seen_row *row = &rows_flow[k];
		bool fresh = now_ms - model[i].time_ms <= REFRESH_MS;
		if (!model[i].held && row->phase == SEEN_NONE)
			return row->expect[kind - LEARN_SYN];
		if (!model[i].held || row->phase != model[i].phase)
			continue;
		bool same_dip = dip == model[i].dip;
		if (row->same_dip == same_dip && (row->fresh == fresh || !same_dip))
			return row->expect[kind - LEARN_SYN];
	}
	abort();
}

/* The ring took flow i's record: the cache's place is now the flow's. */
static void model_told(unsigned i, uint16_t dip, char phase, uint64_t now_ms)
{
	for (unsigned k = 0; k < MODEL_FLOWS; k++)
		if (seen_index(model[k].hash) == seen_index(model[i].hash))
			model[k].held = false;
	model[i].held = true;
	model[i].dip = dip;
	model[i].phase = phase == 's'	? SEEN_SYN
			 : phase == 'e' ? SEEN_ESTABLISHED
			 : phase == 'c' ? SEEN_CLOSING
					: SEEN_ACKED;
	model[i].time_ms = now_ms;
}

static void model_step(uint64_t now_ms)
{
	unsigned i = (unsigned)(rng() % MODEL_FLOWS);
	unsigned packet = (unsigned)(rng() % N_PACKETS);
	uint16_t dip = rng() % 8 ? 1 : 2;
	const char *expect = model_expect(i, dip, kind_of_packet(packet), now_ms);
	struct lookup f = flow(model[i].hash, dip);
	struct learn_burst b = {.now_ms = (uint32_t)now_ms};
	int ring = expect[0] == '-' ? -1 : expect[0] == 'O' ? 0 : expect[0] == 'D' ? 1 : 2;
	uint64_t seq = learn.seq;

	learn.refresh_tokens = 1;
	vip.on_learn_overflow = rng() % 2 ? OVERFLOW_DROP : OVERFLOW_FORWARD;
	bool carried = give(&b, &f, packet);
	bool lost = ring >= 0 && model_queued[ring] == MODEL_RING;
	if (learn.seq != seq + (ring >= 0 && !lost))
		ck_abort_msg("packet %u of flow %u at %llu: want %s", packet, i,
			     (unsigned long long)now_ms, expect);
	NEED(b.lost[0] + b.lost[1] + b.lost[2] == lost);
	NEED(carried == !(lost && ring != RING_REFRESH && vip.on_learn_overflow == OVERFLOW_DROP));
	if (ring >= 0 && !lost) {
		model_queued[ring]++;
		model_told(i, dip, expect[1], now_ms);
	}
}

/* Drain some records of each ring; all rings together must give each number exactly once, in order
 * within a ring. */
static void model_drain(uint64_t *last_seq)
{
	for (int r = 0; r < N_LEARN_RINGS; r++)
		for (unsigned n = (unsigned)(rng() % (MODEL_RING + 1)); n && model_queued[r]; n--) {
			const struct learn_record *rec = learn_ring_peek(rings[r]);
			NEED(rec && rec->ring == r && rec->seq > last_seq[r]);
			last_seq[r] = rec->seq;
			learn_ring_pop(rings[r]);
			model_queued[r]--;
		}
}

START_TEST(test_against_model)
{
	uint64_t now_ms = ((uint64_t)1 << 32) - 60000, last_seq[N_LEARN_RINGS] = {0};
	unsigned drained_rounds = 0;

	set_up(MODEL_RING, MODEL_RING, MODEL_RING);
	rng_state = frames_seed();
	/* four flows share each place of the cache */
	for (unsigned i = 0; i < MODEL_FLOWS; i++) {
		model[i].hash = (rng() & ~(uint64_t)(SEEN_ENTRIES - 1)) | (i / 4 * 7);
		model[i].held = false;
	}
	memset(model_queued, 0, sizeof(model_queued));
	for (unsigned n = 0; n < 300000; n++) {
		now_ms += rng() % 4 ? 0 : rng() % 4 ? rng() % 300 : rng() % (2 * REFRESH_MS);
		model_step(now_ms);
		if (rng() % 12 == 0) {
			model_drain(last_seq);
			drained_rounds++;
		}
	}
	ck_assert_uint_gt(drained_rounds, 1000);
	for (int r = 0; r < N_LEARN_RINGS; r++)
		ck_assert_uint_eq(learn_ring_count(rings[r]), model_queued[r]);
	tear_down();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("learn");
	TCase *tc = tcase_create("learn");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_table_flow);
	tcase_add_test(tc, test_table_client);
	tcase_add_test(tc, test_loss_of_a_dip);
	tcase_add_test(tc, test_hash_zero);
	tcase_add_test(tc, test_losses);
	tcase_add_test(tc, test_against_model);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
