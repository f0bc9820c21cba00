/* The learn rings: between two threads, across the kill of the writer, learn_init's errors, and
 * what bounds the refresh ring. */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>

#include "packet/parse.h"
#include "tests/unit/scarce_memory.h"
#include "worker/learn.h"

/* --- fixture -------------------------------------------------------------------------------------
 */

static struct learn_ring *rings[N_LEARN_RINGS];
static struct learn learn;
static const struct vip_view vip = {
	.refresh_ms = 5000,
	.affinity = AFFINITY_FLOW,
	.on_learn_overflow = OVERFLOW_DROP, /* says nothing about refreshes */
};

static struct learn_ring *ring_new(uint32_t n)
{
	struct learn_ring *r = hugemem_alloc(learn_ring_bytes(n), NULL);

	ck_assert_ptr_nonnull(r);
	r->n = n;
	return r;
}

static void set_up(uint32_t n)
{
	for (int i = 0; i < N_LEARN_RINGS; i++)
		rings[i] = ring_new(n);
	ck_assert_int_eq(learn_init(&learn, rings), 0);
}

static void tear_down(void)
{
	learn_destroy(&learn);
	for (int i = 0; i < N_LEARN_RINGS; i++)
		hugemem_free(rings[i], 0);
	ck_assert_int_eq(allocs_live, 0);
}

static struct lookup flow(uint64_t hash)
{
	return (struct lookup){.vip = &vip, .hash = hash, .dip = 1};
}

static void empty(struct learn_ring *ring)
{
	while (learn_ring_peek(ring))
		learn_ring_pop(ring);
}

/* --- the ring ------------------------------------------------------------------------------------
 */

START_TEST(test_ring_basics)
{
	set_up(4);
	struct learn_ring *r = rings[0];
	struct learn_record rec = {0};

	ck_assert_ptr_null(learn_ring_peek(r));
	for (uint64_t round = 0, next = 1; round < 100; round++) {
		unsigned n = 1 + (unsigned)(round % 4);
		for (unsigned i = 0; i < n; i++) {
			rec.seq = next + i;
			ck_assert(learn_ring_push(r, &rec));
			ck_assert_uint_eq(learn_ring_count(r), i + 1);
		}
		if (n == 4) {
			rec.seq = 0;
			ck_assert(!learn_ring_push(r, &rec));
			ck_assert_uint_eq(learn_ring_count(r), 4);
		}
		for (unsigned i = 0; i < n; i++) {
			ck_assert_uint_eq(learn_ring_peek(r)->seq, next++);
			learn_ring_pop(r);
		}
		ck_assert_ptr_null(learn_ring_peek(r));
	}
	tear_down();
}
END_TEST

#define SPSC_RECORDS 200000u

static void *spsc_producer(void *arg)
{
	struct learn_ring *r = arg;

	for (uint64_t i = 1; i <= SPSC_RECORDS; i++) {
		struct learn_record rec = {.seq = i, .hash = ~i, .generation = i * 3};
		while (!learn_ring_push(r, &rec))
			sched_yield();
	}
	return NULL;
}

START_TEST(test_ring_two_threads)
{
	struct learn_ring *r = ring_new(64);
	pthread_t producer;

	ck_assert_int_eq(pthread_create(&producer, NULL, spsc_producer, r), 0);
	uint64_t wrong = 0;
	for (uint64_t i = 1; i <= SPSC_RECORDS; i++) {
		const struct learn_record *rec;
		while (!(rec = learn_ring_peek(r)))
			sched_yield();
		wrong += rec->seq != i || rec->hash != ~i || rec->generation != i * 3;
		wrong += learn_ring_count(r) > 64;
		learn_ring_pop(r);
	}
	pthread_join(producer, NULL);
	ck_assert_uint_eq(wrong, 0);
	ck_assert_ptr_null(learn_ring_peek(r));
	hugemem_free(r, 0);
}
END_TEST

/* The records of a ring, as the next process would drain it, are exactly first..last. */
static void check_drains(struct learn_ring *r, uint64_t first, uint64_t last)
{
	for (uint64_t seq = first; seq <= last; seq++) {
		const struct learn_record *rec = learn_ring_peek(r);
		if (!rec || rec->seq != seq || rec->hash != seq * 5)
			ck_abort_msg("record %llu is not whole", (unsigned long long)seq);
		learn_ring_pop(r);
	}
	ck_assert_ptr_null(learn_ring_peek(r));
}

/* The worker is killed at any point of a push: the image it leaves is the ring before it with any
 * part of the new record's bytes written. The next worker goes on with whole records and later
 * numbers. */
START_TEST(test_ring_killed_in_push)
{
	enum { N = 4 };

	set_up(N);
	struct learn_ring *r = rings[0], *image = ring_new(N);
	for (uint64_t seq = 1; seq <= 13; seq++) { /* each place with each number waiting */
		struct learn_record rec = {.seq = seq, .hash = seq * 5};
		uint64_t waiting = learn_ring_count(r), at = atomic_load(&r->head) & (N - 1);
		for (size_t cut = 0; cut <= sizeof(rec); cut++) {
			memcpy(image, r, learn_ring_bytes(N));
			memcpy(&image->records[at], &rec, cut);
			image->cached_tail = seq * cut; /* whatever it was: it is read anew */
			struct learn_ring *kept[N_LEARN_RINGS] = {image, rings[1], rings[2]};
			struct learn l;
			ck_assert_int_eq(learn_init(&l, kept), 0);
			ck_assert_uint_eq(l.seq, seq - 1);
			struct learn_burst b = {.now_ms = 1};
			struct lookup f = flow(seq * 5);
			ck_assert(learn_packet(&l, &b, &f, IPPROTO_TCP, SEG_SYN));
			check_drains(image, seq - waiting, seq);
			learn_destroy(&l);
		}
		ck_assert(learn_ring_push(r, &rec));
		if (seq % 3 == 0 || waiting + 1 == N)
			check_drains(r, seq - waiting, seq);
	}
	hugemem_free(image, 0);
	tear_down();
}
END_TEST

START_TEST(test_init_continues)
{
	set_up(8);
	struct learn_burst b = {.now_ms = 1};
	for (uint64_t i = 1; i <= 3; i++) {
		struct lookup f = flow(i);
		ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_SYN));
		ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_PAYLOAD));
		f = flow(i + 100);
		ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_PAYLOAD));
		f = flow(i + 200);
		ck_assert(learn_packet(&learn, &b, &f, IPPROTO_UDP, 0));
	}
	ck_assert_uint_eq(learn.seq, 12);
	learn_destroy(&learn);
	ck_assert_int_eq(learn_init(&learn, rings), 0);
	ck_assert_uint_eq(learn.seq, 12);
	/* what was read already counts too */
	for (int i = 0; i < N_LEARN_RINGS; i++)
		empty(rings[i]);
	learn_destroy(&learn);
	ck_assert_int_eq(learn_init(&learn, rings), 0);
	ck_assert_uint_eq(learn.seq, 12);
	/* a fresh cache knows no flow: all are told again */
	struct lookup f = flow(1);
	ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_PAYLOAD));
	ck_assert(learn_ring_peek(rings[RING_REFRESH]));
	ck_assert_uint_eq(learn_ring_peek(rings[RING_REFRESH])->seq, 13);
	tear_down();
}
END_TEST

/* A full ring stays whole, whatever its writer last believed of the reader. */
START_TEST(test_init_full)
{
	set_up(4);
	struct learn_burst b = {.now_ms = 1};
	struct lookup f = flow(1);
	uint64_t head = 0;

	for (; learn_packet(&learn, &b, &f, IPPROTO_UDP, 0); f.hash++)
		head++;
	ck_assert_uint_eq(head, 4);
	learn_destroy(&learn);
	rings[RING_DATAGRAM]->cached_tail = head;
	ck_assert_int_eq(learn_init(&learn, rings), 0);
	ck_assert(!learn_packet(&learn, &b, &f, IPPROTO_UDP, 0));
	for (uint64_t seq = 1; seq <= head; seq++) {
		ck_assert_uint_eq(learn_ring_peek(rings[RING_DATAGRAM])->seq, seq);
		learn_ring_pop(rings[RING_DATAGRAM]);
	}
	tear_down();
}
END_TEST

START_TEST(test_init_errors)
{
	set_up(8);
	struct learn l;

	for (int i = 0; i < N_LEARN_RINGS; i++) {
		rings[i]->n = 0;
		ck_assert_int_eq(learn_init(&l, rings), -EINVAL);
		rings[i]->n = 6;
		ck_assert_int_eq(learn_init(&l, rings), -EINVAL);
		rings[i]->n = 8;
		atomic_store(&rings[i]->head, 100);
		atomic_store(&rings[i]->tail, 101);
		ck_assert_int_eq(learn_init(&l, rings), -EINVAL);
		atomic_store(&rings[i]->tail, 91);
		ck_assert_int_eq(learn_init(&l, rings), -EINVAL);
		atomic_store(&rings[i]->tail, 92);
		ck_assert_int_eq(learn_init(&l, rings), 0);
		learn_destroy(&l);
	}
	int live = allocs_live;
	for (int n = 0; n < 2; n++) {
		allocs_left = n;
		ck_assert_int_eq(learn_init(&l, rings), -ENOMEM);
		ck_assert_int_eq(allocs_live, live);
	}
	allocs_left = -1;
	tear_down();
}
END_TEST

/* --- the rate limit ----------------------------------------------------------------------------
 */

static uint64_t next_hash = 1;

/* n refreshes of new flows at now_ms: how many got through. */
static uint32_t refreshes(uint32_t n, uint32_t now_ms)
{
	struct learn_burst b = {.now_ms = now_ms};
	uint64_t seq = learn.seq;
	bool all = true;

	for (uint32_t i = 0; i < n; i++) {
		struct lookup f = flow(next_hash++);
		all &= learn_packet(&learn, &b, &f, IPPROTO_TCP, 0);
		empty(rings[RING_REFRESH]);
	}
	ck_assert(all && b.unlearned == 0);
	ck_assert_uint_eq(b.lost[RING_REFRESH] + (learn.seq - seq), n);
	return b.lost[RING_REFRESH] ? (uint32_t)(learn.seq - seq) : UINT32_MAX;
}

START_TEST(test_rate_limit)
{
	const uint32_t per_ms = LEARN_REFRESH_PER_S / 1000;

	set_up(8);
	uint32_t t = UINT32_MAX - 2;
	ck_assert_uint_eq(refreshes(5000, t), 10 * per_ms);
	ck_assert_uint_eq(refreshes(5000, t), 0);
	ck_assert_uint_eq(refreshes(5000, t + 1), per_ms);
	ck_assert_uint_eq(refreshes(5000, t + 4), 3 * per_ms); /* over the wrap */
	ck_assert_uint_eq(refreshes(5000, t + 4), 0);
	ck_assert_uint_eq(refreshes(5000, t + 1000000), 10 * per_ms);
	ck_assert_uint_eq(refreshes(per_ms, t + 1000001), UINT32_MAX); /* none lost */
	/* at a steady excess, exactly the rate over a second */
	uint32_t got = 0;
	for (uint32_t ms = 1; ms <= 1000; ms++)
		got += refreshes(per_ms + 50, t + 1000001 + ms);
	ck_assert_uint_eq(got, LEARN_REFRESH_PER_S);
	/* openings and datagrams are not limited */
	bool all = true;
	struct learn_burst b = {.now_ms = t + 1000001 + 1000};
	for (int i = 0; i < 5000; i++) {
		struct lookup f = flow(next_hash++);
		all &= learn_packet(&learn, &b, &f, IPPROTO_TCP, SEG_SYN);
		f = flow(next_hash++);
		all &= learn_packet(&learn, &b, &f, IPPROTO_UDP, 0);
		empty(rings[RING_OPENING]);
		empty(rings[RING_DATAGRAM]);
	}
	ck_assert(all && b.lost[0] + b.lost[1] + b.lost[2] == 0);
	/* a full ring takes no token */
	for (struct learn_record r = {0}; learn_ring_push(rings[RING_REFRESH], &r);)
		;
	learn.refresh_tokens = 5;
	struct lookup f = flow(next_hash++);
	ck_assert(learn_packet(&learn, &b, &f, IPPROTO_TCP, 0));
	ck_assert_uint_eq(learn.refresh_tokens, 5);
	ck_assert_uint_eq(b.lost[RING_REFRESH], 1);
	tear_down();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("learn_ring");
	TCase *tc = tcase_create("learn_ring");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_ring_basics);
	tcase_add_test(tc, test_ring_two_threads);
	tcase_add_test(tc, test_ring_killed_in_push);
	tcase_add_test(tc, test_init_continues);
	tcase_add_test(tc, test_init_full);
	tcase_add_test(tc, test_init_errors);
	tcase_add_test(tc, test_rate_limit);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
