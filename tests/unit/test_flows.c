/* The flow table against a naive model: the same set of flows, the same counts, lists in order of
 * the last record, and the right one forgotten. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/flows.h"
#include "tests/unit/frames.h"

#define N_KEYS 600
#define N_DIPS 5

struct model_flow {
	bool known;
	struct flow_meta meta;
	bool pinned;
};

static uint64_t now_ms = 1000000;
static struct flow_slot *slots;
static struct flow_table table;
static struct flow_set sets[2];
static struct model_flow model[2][N_KEYS];

static uint64_t fake_now_ns(void)
{
	return now_ms * 1000000u;
}

static struct flow_key key_of(unsigned i)
{
	uint8_t src[4] = {10, 0, (uint8_t)(i >> 8), (uint8_t)i};

	return (struct flow_key){.src = ip_addr_v4(src), .sport_be = 80, .proto = 6};
}

/* Few different hashes for the index to place, so that runs are long. */
static uint64_t hash_of(unsigned i)
{
	return flow_key_hash(&(struct flow_key){.sport_be = (uint16_t)i}, 7) & ~(uint64_t)0x3f00000;
}

static void table_open(uint32_t capacity)
{
	clock_set_source(fake_now_ns, NULL);
	slots = calloc(capacity, sizeof(*slots));
	ck_assert_int_eq(flow_table_init(&table, slots, capacity), 0);
	for (unsigned s = 0; s < 2; s++)
		ck_assert_int_eq(flow_set_init(&sets[s], &table, 10 + s, N_DIPS), 0);
	memset(model, 0, sizeof(model));
}

static void table_close(void)
{
	for (unsigned s = 0; s < 2; s++) {
		while (sets[s].n)
			flow_table_remove(&table, flow_set_ref(&sets[s], 0)->slot);
		flow_set_destroy(&sets[s], &table);
	}
	ck_assert_uint_eq(table.n, 0);
	flow_table_destroy(&table);
	free(slots);
	clock_set_source(NULL, NULL);
}

static uint32_t find(unsigned s, unsigned i)
{
	struct flow_key key = key_of(i);

	return flow_table_find(&table, &sets[s], &key, hash_of(i));
}

static void check_flow(unsigned s, unsigned i)
{
	uint32_t slot = find(s, i);

	ck_assert_msg((slot != FLOW_NONE) == model[s][i].known, "flow %u of set %u", i, s);
	if (slot == FLOW_NONE)
		return;
	struct flow_meta m = flow_meta_get(&slots[slot]);
	const struct flow_ref *r = flow_table_ref(&table, slot);
	ck_assert_int_eq(memcmp(&m, &model[s][i].meta, sizeof(m)), 0);
	ck_assert_uint_eq(r->dip, m.dip);
	ck_assert_uint_eq(r->hash, hash_of(i));
	ck_assert_uint_eq(r->slot, slot);
	ck_assert_int_eq(!!(r->flags & REF_PINNED), model[s][i].pinned);
}

static void check_all(void)
{
	uint32_t total = 0;

	for (unsigned s = 0; s < 2; s++) {
		uint64_t dips[N_DIPS] = {0};
		uint32_t n = 0, pinned = 0, listed = 0;
		for (unsigned i = 0; i < N_KEYS; i++) {
			check_flow(s, i);
			if (!model[s][i].known)
				continue;
			n++;
			pinned += model[s][i].pinned;
			dips[model[s][i].meta.dip]++;
		}
		ck_assert_uint_eq(sets[s].n, n);
		ck_assert_uint_eq(sets[s].n_pinned, pinned);
		for (unsigned d = 0; d < N_DIPS; d++)
			ck_assert_uint_eq(sets[s].dip_flows[d], dips[d]);
		for (int l = 0; l < N_FLOW_LISTS; l++)
			listed += sets[s].lists[l].n;
		ck_assert_uint_eq(listed, n);
		total += n;
	}
	ck_assert_uint_eq(table.n, total);
	ck_assert_uint_eq(table.class_n[0] + table.class_n[1] + table.class_n[2] + table.class_n[3],
			  total);
}

/* Every list in order of the last record; closing flows may have changed lists when their pin flag
 * did, so theirs are not. */
static void check_order(void)
{
	for (unsigned s = 0; s < 2; s++) {
		for (int l = LIST_HALF_OPEN; l < N_FLOW_LISTS; l++) {
			uint32_t last = 0;
			for (uint32_t i = sets[s].lists[l].head; i != FLOW_NONE;
			     i = table.side[i].next) {
				uint32_t seen = flow_meta_get(&slots[i]).seen_ms;
				ck_assert_uint_ge(seen, last);
				last = seen;
			}
		}
	}
}

static struct flow_meta random_meta(uint64_t *rng)
{
	uint64_t r = frames_random(rng);

	return (struct flow_meta){.seen_ms = (uint32_t)now_ms,
				  .dip = (uint16_t)(1 + r % 4),
				  .phase = (uint8_t)(FLOW_HALF_OPEN + (r >> 8) % 3),
				  .flags = (uint8_t)((r >> 16) % 8)};
}

START_TEST(behaves_like_the_model)
{
	uint64_t rng = frames_seed();

	table_open(N_KEYS * 8); /* no class can come near its cap: nothing is forgotten */
	for (unsigned step = 0; step < 200000; step++) {
		unsigned s = (unsigned)(frames_random(&rng) % 2);
		unsigned i = (unsigned)(frames_random(&rng) % N_KEYS);
		struct model_flow *m = &model[s][i];
		struct flow_key key = key_of(i);
		uint32_t slot = find(s, i);
		now_ms++;
		switch (frames_random(&rng) % 4) {
		case 0:
		case 1:
			m->meta = random_meta(&rng);
			if (slot == FLOW_NONE) {
				slot = flow_table_insert(&table, &sets[s], &key, hash_of(i),
							 m->meta, (uint32_t)now_ms);
				ck_assert_uint_ne(slot, FLOW_NONE);
				*m = (struct model_flow){.known = true, .meta = m->meta};
			} else {
				flow_table_update(&table, slot, m->meta);
			}
			break;
		case 2:
			if (slot != FLOW_NONE)
				flow_table_remove(&table, slot);
			m->known = m->pinned = false;
			break;
		default:
			if (slot == FLOW_NONE)
				break;
			m->pinned = !m->pinned;
			flow_table_flag(&table, slot, REF_PINNED, m->pinned ? REF_PINNED : 0);
		}
		check_flow(s, i);
		if (step % 5000 == 0) {
			check_all();
			check_order();
		}
	}
	check_all();
	ck_assert_uint_eq(table.n_forgotten, 0);
	table_close();
}
END_TEST

/* What the next process finds: every slot is adopted as it was, others are freed. */
START_TEST(slots_are_adopted_as_they_are)
{
	uint64_t rng = frames_seed();

	table_open(N_KEYS * 8);
	for (unsigned i = 0; i < N_KEYS; i++) {
		struct flow_key key = key_of(i);
		model[i & 1][i].meta = random_meta(&rng);
		model[i & 1][i].known = true;
		flow_table_insert(&table, &sets[i & 1], &key, hash_of(i), model[i & 1][i].meta, 1);
	}
	for (unsigned i = 0; i < N_KEYS; i += 7) {
		flow_table_remove(&table, find(i & 1, i));
		model[i & 1][i].known = false;
	}
	struct flow_slot *kept = slots;
	slots = calloc(N_KEYS * 8, sizeof(*slots));
	memcpy(slots, kept, N_KEYS * 8 * sizeof(*slots));
	for (unsigned s = 0; s < 2; s++)
		sets[s].n = 0;
	for (unsigned s = 0; s < 2; s++)
		flow_set_destroy(&sets[s], &table);
	flow_table_destroy(&table);
	free(kept);
	ck_assert_int_eq(flow_table_init(&table, slots, N_KEYS * 8), 0);
	for (unsigned s = 0; s < 2; s++)
		ck_assert_int_eq(flow_set_init(&sets[s], &table, 10 + s, N_DIPS), 0);
	for (uint32_t i = 0; i < N_KEYS * 8; i++) {
		if (flow_meta_get(&slots[i]).phase == FLOW_FREE)
			continue;
		/* set 11's flows are not wanted any more */
		bool wanted = slots[i].vip_uid == 10;
		ck_assert_int_eq(flow_table_adopt(&table, i, wanted ? &sets[0] : NULL), 0);
	}
	memset(model[1], 0, sizeof(model[1]));
	check_all();
	for (unsigned i = 0; i < N_KEYS; i++) { /* the freed slots serve again */
		struct flow_key key = key_of(i);
		model[1][i] = (struct model_flow){.known = true, .meta = random_meta(&rng)};
		ck_assert_uint_ne(
			flow_table_insert(&table, &sets[1], &key, hash_of(i), model[1][i].meta, 1),
			FLOW_NONE);
	}
	check_all();
	table_close();
}
END_TEST

static uint32_t insert(unsigned s, unsigned i, uint8_t phase, uint8_t flags)
{
	struct flow_key key = key_of(i);
	struct flow_meta m = {
		.seen_ms = (uint32_t)now_ms++, .dip = 1, .phase = phase, .flags = flags};

	return flow_table_insert(&table, &sets[s], &key, hash_of(i), m, 1);
}

START_TEST(the_longest_idle_of_the_cheapest_class_is_forgotten)
{
	table_open(64);
	/* 60 established flows are the most there may be: a sixteenth is for the others */
	for (unsigned i = 0; i < 60; i++)
		insert(i & 1, i, FLOW_ESTABLISHED, 0);
	for (unsigned i = 60; i < 64; i++)
		insert(0, i, FLOW_HALF_OPEN, 0);
	ck_assert_uint_eq(table.n, 64);
	/* full: a flood pushes out its like, the oldest first */
	for (unsigned i = 100; i < 300; i++) {
		insert(1, i, i & 1 ? FLOW_HALF_OPEN : FLOW_ESTABLISHED, i & 1 ? 0 : FLOW_UNPROVEN);
		ck_assert_uint_eq(table.n, 64);
		if (i == 100)
			ck_assert_uint_eq(find(0, 60), FLOW_NONE);
		for (unsigned k = 0; k < 60; k++)
			ck_assert_uint_ne(find(k & 1, k), FLOW_NONE);
	}
	ck_assert_uint_eq(table.n_forgotten, 200);
	/* one more established: the longest idle of that class goes */
	insert(0, 400, FLOW_ESTABLISHED, 0);
	ck_assert_uint_eq(find(0, 0), FLOW_NONE);
	ck_assert_uint_ne(find(1, 1), FLOW_NONE);
	table_close();
}
END_TEST

START_TEST(a_pinned_flow_is_forgotten_last)
{
	table_open(64);
	for (unsigned i = 0; i < 60; i++) {
		uint32_t slot = insert(0, i, FLOW_ESTABLISHED, 0);
		if (i < 30)
			flow_table_flag(&table, slot, REF_PINNED, REF_PINNED);
	}
	for (unsigned i = 0; i < 30; i++) {
		insert(0, 100 + i, FLOW_ESTABLISHED, 0);
		ck_assert_uint_eq(find(0, 30 + i), FLOW_NONE);
	}
	for (unsigned i = 0; i < 30; i++)
		ck_assert_uint_ne(find(0, i), FLOW_NONE);
	table_close();
}
END_TEST

START_TEST(a_watch_collects_what_a_scan_may_miss)
{
	table_open(64);
	for (unsigned i = 0; i < 10; i++)
		insert(0, i, FLOW_ESTABLISHED, 0);
	flow_set_watch(&table, &sets[0]);
	ck_assert_uint_eq(sets[0].n_fresh, 0);
	uint32_t last = flow_set_ref(&sets[0], 9)->slot;
	flow_table_remove(&table, find(0, 3)); /* the last one moves into the hole */
	ck_assert_uint_eq(sets[0].n_fresh, 1);
	ck_assert_uint_eq(sets[0].fresh[0], last);
	uint32_t slot = insert(0, 20, FLOW_ESTABLISHED, 0);
	ck_assert_uint_eq(sets[0].n_fresh, 2);
	ck_assert_uint_eq(sets[0].fresh[1], slot);
	ck_assert(flow_table_ref(&table, slot)->flags & REF_LATE);
	struct flow_meta m = flow_meta_get(&slots[find(0, 5)]);
	m.seen_ms++;
	flow_table_update(&table, find(0, 5), m);
	ck_assert_uint_eq(sets[0].n_fresh, 2); /* a refresh changes no placement */
	m.dip = 2;
	flow_table_update(&table, find(0, 5), m);
	ck_assert_uint_eq(sets[0].n_fresh, 3);
	insert(1, 21, FLOW_ESTABLISHED, 0);
	ck_assert_uint_eq(sets[0].n_fresh, 3); /* another VIP's flow */
	flow_set_unwatch(&table, &sets[0]);
	ck_assert(!(flow_table_ref(&table, slot)->flags & REF_LATE));
	insert(0, 22, FLOW_ESTABLISHED, 0);
	ck_assert_uint_eq(sets[0].n_fresh, 0);
	table_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("flows");
	TCase *t = tcase_create("flows");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, behaves_like_the_model);
	tcase_add_test(t, slots_are_adopted_as_they_are);
	tcase_add_test(t, the_longest_idle_of_the_cheapest_class_is_forgotten);
	tcase_add_test(t, a_pinned_flow_is_forgotten_last);
	tcase_add_test(t, a_watch_collects_what_a_scan_may_miss);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
