/* The keepers that Concury is measured against, and Concury as one of them: each finds what was
 * opened, keeps it while pools change as it can stand, and shows the weakness that it is known
 * for. All seeds are fixed. */
#include <check.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "tests/bench/peers/keeper.h"

#define N_VIPS 4u
#define N_DIPS 8u /* of them one spare */
#define N_FLOWS 4096u

static struct dcode_dip dips[N_VIPS][N_DIPS];
static struct pool pools[N_VIPS];
static uint16_t opened[N_FLOWS];

static void *start_with(const struct keeper *keeper, uint32_t n_flows, unsigned n_threads,
			unsigned n_spare)
{
	for (unsigned v = 0; v < N_VIPS; v++) {
		for (unsigned d = 0; d < N_DIPS; d++)
			dips[v][d] = (struct dcode_dip){.id = peer_mix(v * N_DIPS + d, 7),
							.weight = 2,
							.index = (uint16_t)(d + 1),
							.up = true};
		pools[v] = (struct pool){.dips = dips[v], .n = N_DIPS - 1, .n_spare = n_spare};
	}
	struct keeper_config c = {.n_vips = N_VIPS,
				  .n_threads = n_threads,
				  .n_flows = n_flows,
				  .seed = 5,
				  .pools = pools,
				  .witness = true};
	return keeper->create(&c);
}

/* A keeper for so many flows; the last DIP of each pool is a spare one. */
static void *start(const struct keeper *keeper, uint32_t n_flows, unsigned n_threads)
{
	return start_with(keeper, n_flows, n_threads, 1);
}

static void spare_comes(const struct keeper *keeper, void *k)
{
	for (unsigned v = 0; v < N_VIPS; v++) {
		pools[v].n = N_DIPS;
		pools[v].n_spare = 0;
		keeper->change(k, v, &pools[v]);
	}
}

static uint16_t open_flow(const struct keeper *keeper, void *k, uint32_t i)
{
	struct flow_key key;

	bench_flow_key(i, &key);
	return keeper->open(k, 0, i % N_VIPS, &key);
}

static void open_all(const struct keeper *keeper, void *k)
{
	for (uint32_t i = 0; i < N_FLOWS; i++)
		opened[i] = open_flow(keeper, k, i);
	if (keeper->work)
		keeper->work(k);
}

static void close_flow(const struct keeper *keeper, void *k, uint32_t i)
{
	struct flow_key key;

	bench_flow_key(i, &key);
	keeper->close(k, 0, i % N_VIPS, &key);
}

/* The DIPs of flows first .. first + n - 1, on a thread. */
static void look_up(const struct keeper *keeper, void *k, unsigned thread, uint32_t first,
		    uint32_t n, uint16_t *out)
{
	for (uint32_t i = 0; i < n; i += PEER_BURST) {
		struct keeper_burst b;
		for (uint32_t j = 0; j < PEER_BURST; j++) {
			uint32_t flow = first + (i + j) % n;
			bench_flow_key(flow, &b.l[j].key);
			b.vips[j] = (uint16_t)(flow % N_VIPS);
		}
		keeper->lookup(k, thread, &b);
		for (uint32_t j = 0; j < PEER_BURST && i + j < n; j++)
			out[i + j] = b.l[j].dip;
	}
}

static uint16_t look_up_one(const struct keeper *keeper, void *k, uint32_t i)
{
	uint16_t dip;

	look_up(keeper, k, 0, i, 1, &dip);
	return dip;
}

/* How many flows are elsewhere, not counting those of a DIP (0: count all). */
static unsigned broken(const struct keeper *keeper, void *k, uint16_t but_of)
{
	static uint16_t now[N_FLOWS];
	unsigned n = 0;

	look_up(keeper, k, 0, 0, N_FLOWS, now);
	for (uint32_t i = 0; i < N_FLOWS; i++)
		n += now[i] != opened[i] && opened[i] != but_of;
	return n;
}

/* --- all of them ---------------------------------------------------------------------------------
 */

START_TEST(finds_what_was_opened)
{
	const struct keeper *keeper = keepers[_i];
	void *k = start(keeper, 8 * N_FLOWS, 1);
	unsigned used[N_DIPS + 1] = {0};

	open_all(keeper, k);
	for (uint32_t i = 0; i < N_FLOWS; i++) {
		ck_assert_uint_ge(opened[i], 1);
		ck_assert_uint_lt(opened[i], N_DIPS);
		used[opened[i]]++;
	}
	for (unsigned d = 1; d < N_DIPS; d++) /* a seventh is 585 */
		ck_assert_uint_gt(used[d], 400);
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	for (uint32_t i = 0; i < N_FLOWS; i += 5)
		ck_assert_uint_eq(open_flow(keeper, k, i), opened[i]);
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	ck_assert_uint_gt(keeper->bytes(k), 0);
	if (keeper->false_hits && keeper != keepers[0])
		ck_assert_uint_eq(keeper->false_hits(k), 0);
	keeper->destroy(k);
}
END_TEST

START_TEST(keeps_when_a_dip_comes)
{
	const struct keeper *keeper = keepers[_i];
	void *k = start(keeper, 8 * N_FLOWS, 1);
	unsigned on_new = 0;

	open_all(keeper, k);
	spare_comes(keeper, k);
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	for (uint32_t i = 0; i < N_FLOWS; i++)
		on_new += open_flow(keeper, k, N_FLOWS + i) == N_DIPS;
	ck_assert_uint_gt(on_new, N_FLOWS / 16); /* its share is an eighth */
	ck_assert_uint_lt(on_new, N_FLOWS / 4);
	keeper->destroy(k);
}
END_TEST

START_TEST(leaves_a_dip_that_fails_and_no_other)
{
	const struct keeper *keeper = keepers[_i];
	void *k = start(keeper, 8 * N_FLOWS, 1);

	open_all(keeper, k);
	for (unsigned v = 0; v < N_VIPS; v++) {
		dips[v][2].up = false;
		keeper->change(k, v, &pools[v]);
	}
	for (uint32_t i = 0; i < N_FLOWS; i++) {
		if (opened[i] == 3)
			close_flow(keeper, k, i);
	}
	for (uint32_t i = 0; i < N_FLOWS; i++)
		ck_assert_uint_ne(open_flow(keeper, k, N_FLOWS + i), 3);
	for (uint32_t i = 0; i < N_FLOWS; i++) {
		if (opened[i] == 3)
			ck_assert_uint_ne(look_up_one(keeper, k, i), 3);
	}
	unsigned n_broken = broken(keeper, k, 3);
	ck_assert_uint_eq(n_broken, 0);
	keeper->destroy(k);
}
END_TEST

START_TEST(forgets_what_was_closed)
{
	const struct keeper *keeper = keepers[_i];
	void *k = start(keeper, 8 * N_FLOWS, 1);
	unsigned on_new = 0;

	open_all(keeper, k);
	spare_comes(keeper, k);
	for (uint32_t i = 0; i < N_FLOWS; i += 2)
		close_flow(keeper, k, i);
	for (unsigned v = 0; v < N_VIPS; v++) /* pins of the closed go with a publish */
		keeper->change(k, v, &pools[v]);
	for (uint32_t i = 0; i < N_FLOWS; i += 2)
		on_new += open_flow(keeper, k, i) == N_DIPS;
	ck_assert_uint_gt(on_new, N_FLOWS / 2 / 16);
	for (uint32_t i = 1; i < N_FLOWS; i += 2)
		ck_assert_uint_eq(look_up_one(keeper, k, i), opened[i]);
	keeper->destroy(k);
}
END_TEST

/* --- each one's ----------------------------------------------------------------------------------
 */

/* What keeps a flow when one DIP drains. */
static void drain_one(const struct keeper *keeper, void *k)
{
	for (unsigned v = 0; v < N_VIPS; v++) {
		dips[v][2].weight = 0;
		keeper->change(k, v, &pools[v]);
	}
}

START_TEST(concury_keeps_all_that_it_knows)
{
	const struct keeper *keeper = &keeper_concury;
	void *k = start(keeper, N_FLOWS, 1);
	uint16_t unknown[512], now[512];
	unsigned moved = 0;

	open_all(keeper, k);
	look_up(keeper, k, 0, N_FLOWS, 512, unknown); /* never reported */
	drain_one(keeper, k);
	spare_comes(keeper, k);
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	look_up(keeper, k, 0, N_FLOWS, 512, now);
	for (unsigned i = 0; i < 512; i++)
		moved += now[i] != unknown[i];
	ck_assert_uint_gt(moved, 512 / 8);
	ck_assert_uint_lt(moved, 512 / 2);
	keeper->destroy(k);
}
END_TEST

START_TEST(paper_loses_what_was_not_reported)
{
	const struct keeper *keeper = &keeper_paper;
	void *k = start(keeper, N_FLOWS, 1);
	uint16_t unknown[512], now[512];
	unsigned moved = 0;

	open_all(keeper, k);
	drain_one(keeper, k);
	spare_comes(keeper, k);
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	look_up(keeper, k, 0, N_FLOWS, 512, unknown);
	for (unsigned v = 0; v < N_VIPS; v++) /* nothing is different, but the arrays are new */
		keeper->change(k, v, &pools[v]);
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	look_up(keeper, k, 0, N_FLOWS, 512, now);
	for (unsigned i = 0; i < 512; i++)
		moved += now[i] != unknown[i];
	ck_assert_uint_gt(moved, 512 / 2);
	keeper->destroy(k);
}
END_TEST

START_TEST(maglev_forgets_at_capacity)
{
	const struct keeper *keeper = &keeper_maglev;
	void *k = start(keeper, N_FLOWS / 8, 1);

	open_all(keeper, k);
	ck_assert_uint_eq(broken(keeper, k, 0), 0); /* the ring is what it was */
	drain_one(keeper, k);
	ck_assert_uint_gt(broken(keeper, k, 0), N_FLOWS / 16);
	keeper->destroy(k);
}
END_TEST

START_TEST(maglev_knows_nothing_on_another_thread)
{
	const struct keeper *keeper = &keeper_maglev;
	static uint16_t now[N_FLOWS];
	void *k = start(keeper, 8 * N_FLOWS, 2);
	unsigned n = 0;

	open_all(keeper, k);
	drain_one(keeper, k);
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	look_up(keeper, k, 1, 0, N_FLOWS, now);
	for (uint32_t i = 0; i < N_FLOWS; i++)
		n += now[i] != opened[i];
	ck_assert_uint_gt(n, N_FLOWS / 8);
	keeper->destroy(k);
}
END_TEST

/* Flows that were never opened hit words of others, and go by their versions; a first packet is
 * parted from those. */
START_TEST(silkroad_hits_falsely_by_digests)
{
	const struct keeper *keeper = &keeper_silkroad;
	void *k = start(keeper, N_FLOWS, 1);
	static uint16_t dip[64 * N_FLOWS];
	uint64_t hits;

	open_all(keeper, k);
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	look_up(keeper, k, 0, N_FLOWS, 64 * N_FLOWS, dip);
	hits = keeper->false_hits(k);
	ck_assert_uint_gt(hits, 8); /* some five of eight words are used: 20 */
	ck_assert_uint_lt(hits, 40);
	for (uint32_t i = 0; i < 64 * N_FLOWS; i++) {
		hits = keeper->false_hits(k);
		look_up_one(keeper, k, N_FLOWS + i);
		if (keeper->false_hits(k) == hits)
			continue;
		open_flow(keeper, k, N_FLOWS + i);
		keeper->work(k);
		hits = keeper->false_hits(k);
		look_up_one(keeper, k, N_FLOWS + i);
		ck_assert_uint_eq(keeper->false_hits(k), hits);
	}
	ck_assert_uint_eq(broken(keeper, k, 0), 0);
	keeper->destroy(k);
}
END_TEST

START_TEST(silkroad_runs_out_of_versions)
{
	const struct keeper *keeper = &keeper_silkroad;
	void *k = start(keeper, 8 * N_FLOWS, 1);

	for (uint32_t i = 0; i < N_FLOWS; i++) {
		if (i && i % 64 == 0) { /* a flow in four is of this VIP: 16 hold each version */
			dips[0][0].weight++;
			keeper->change(k, 0, &pools[0]);
		}
		opened[i] = open_flow(keeper, k, i);
		keeper->work(k);
		if (i == 62 * 64 - 1)
			for (uint32_t j = 0; j <= i; j++)
				ck_assert_uint_eq(look_up_one(keeper, k, j), opened[j]);
	}
	for (unsigned i = 0; i < 4; i++) {
		dips[0][0].weight++;
		keeper->change(k, 0, &pools[0]);
	}
	ck_assert_uint_gt(broken(keeper, k, 0), 0);
	keeper->destroy(k);
}
END_TEST

START_TEST(conntrack_loses_live_flows_in_a_flood)
{
	const struct keeper *keeper = &keeper_conntrack;
	void *k = start(keeper, 2 * N_FLOWS, 1);

	open_all(keeper, k);
	drain_one(keeper, k);
	ck_assert_uint_eq(broken(keeper, k, 0), 0); /* all have spoken */
	for (uint32_t i = 0; i < 4 * N_FLOWS; i++)
		open_flow(keeper, k, N_FLOWS + i);
	ck_assert_uint_gt(broken(keeper, k, 0), N_FLOWS / 16);
	keeper->destroy(k);

	/* Those who speak while it goes on are kept. */
	k = start(keeper, 2 * N_FLOWS, 1);
	open_all(keeper, k);
	drain_one(keeper, k);
	for (uint32_t i = 0; i < 4 * N_FLOWS; i++) {
		open_flow(keeper, k, N_FLOWS + i);
		if (i % (N_FLOWS / 4) == 0)
			ck_assert_uint_eq(broken(keeper, k, 0), 0);
	}
	keeper->destroy(k);
}
END_TEST

START_TEST(jet_breaks_flows_of_what_was_not_announced)
{
	const struct keeper *keeper = &keeper_jet;
	void *k = start_with(keeper, 8 * N_FLOWS, 1, 0);

	open_all(keeper, k);
	spare_comes(keeper, k);
	ck_assert_uint_gt(broken(keeper, k, 0), N_FLOWS / 16); /* its share: an eighth */
	ck_assert_uint_lt(broken(keeper, k, 0), N_FLOWS / 4);
	keeper->destroy(k);

	k = start(keeper, 8 * N_FLOWS, 1);
	open_all(keeper, k);
	drain_one(keeper, k); /* all of a DIP's flows, and no other */
	ck_assert_uint_gt(broken(keeper, k, 0), N_FLOWS / 16);
	ck_assert_uint_eq(broken(keeper, k, 3), 0);
	keeper->destroy(k);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("keepers");
	TCase *all = tcase_create("all"), *each = tcase_create("each");

	tcase_set_timeout(all, 60);
	tcase_add_loop_test(all, finds_what_was_opened, 0, N_KEEPERS);
	tcase_add_loop_test(all, keeps_when_a_dip_comes, 0, N_KEEPERS);
	tcase_add_loop_test(all, leaves_a_dip_that_fails_and_no_other, 0, N_KEEPERS);
	tcase_add_loop_test(all, forgets_what_was_closed, 0, N_KEEPERS);
	suite_add_tcase(s, all);
	tcase_set_timeout(each, 60);
	tcase_add_test(each, concury_keeps_all_that_it_knows);
	tcase_add_test(each, paper_loses_what_was_not_reported);
	tcase_add_test(each, maglev_forgets_at_capacity);
	tcase_add_test(each, maglev_knows_nothing_on_another_thread);
	tcase_add_test(each, silkroad_hits_falsely_by_digests);
	tcase_add_test(each, silkroad_runs_out_of_versions);
	tcase_add_test(each, conntrack_loses_live_flows_in_a_flood);
	tcase_add_test(each, jet_breaks_flows_of_what_was_not_announced);
	suite_add_tcase(s, each);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(suite());

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
