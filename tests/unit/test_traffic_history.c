/* Counters of the last quarter of an hour: against a naive list of all that was ever read, while
 * VIPs come and go. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/traffic_history.h"
#include "base/clock.h"
#include "tests/unit/prng.h"

#define NAMES 6u
#define STEPS 400u

static uint64_t now_ns;
static unsigned n_reads;
static bool there[NAMES];
static struct traffic_point counters[NAMES]; /* of each */

static uint64_t fake_ns(void)
{
	return now_ns;
}

static int64_t fake_wall(void)
{
	return 1700000000 + (int64_t)(now_ns / 1000000000u);
}

static struct vip_info *read_vips(void *ctx, const char *vip, bool with_dips, size_t *n)
{
	struct vip_info *list = calloc(NAMES, sizeof(*list));

	(void)ctx;
	ck_assert_ptr_nonnull(list);
	ck_assert_ptr_null(vip);
	ck_assert(!with_dips);
	n_reads++;
	*n = 0;
	for (unsigned i = 0; i < NAMES; i++) {
		if (!there[i])
			continue;
		struct vip_info *v = &list[(*n)++];
		snprintf(v->conf.id, sizeof(v->conf.id), "v%u", i);
		v->packets = counters[i].packets / 2;
		v->return_packets = counters[i].packets - v->packets;
		v->bytes = counters[i].bytes / 2;
		v->return_bytes = counters[i].bytes - v->bytes;
		v->flows = counters[i].flows;
		v->flows_pinned = counters[i].flows_pinned;
	}
	return list;
}

static void free_vips(struct vip_info *v, size_t n)
{
	(void)n;
	free(v);
}

static const struct api_backend backend = {.read_vips = read_vips, .free_vips = free_vips};

static void set_up(void)
{
	now_ns = 5000000000u;
	n_reads = 0;
	memset(there, 0, sizeof(there));
	clock_set_source(fake_ns, fake_wall);
}

static void tear_down(void)
{
	clock_set_source(NULL, NULL);
}

static void pass(unsigned ms)
{
	now_ns += ms * 1000000ull;
}

START_TEST(nothing_yet)
{
	struct traffic_history *h = traffic_history_new();
	int64_t times[TRAFFIC_POINTS];
	struct traffic_point points[TRAFFIC_POINTS];

	ck_assert_ptr_nonnull(h);
	ck_assert_uint_eq(traffic_history_read(NULL, NULL, times, points), 0);
	ck_assert_uint_eq(traffic_history_read(h, NULL, times, points), 0);
	ck_assert_uint_eq(traffic_history_read(h, "v0", times, points), 0);
	traffic_history_tick(h, &backend);
	ck_assert_uint_eq(traffic_history_read(h, NULL, times, points), 1);
	ck_assert_uint_eq(points[0].packets, 0);
	ck_assert_uint_eq(traffic_history_read(h, "v0", times, points), 0);
	traffic_history_free(h);
	traffic_history_free(NULL);
}
END_TEST

START_TEST(one_look_an_interval)
{
	struct traffic_history *h = traffic_history_new();

	ck_assert_ptr_nonnull(h);
	traffic_history_tick(h, &backend);
	ck_assert_uint_eq(n_reads, 1);
	for (unsigned i = 0; i < TRAFFIC_INTERVAL_S - 1; i++) {
		pass(1000);
		traffic_history_tick(h, &backend);
	}
	ck_assert_uint_eq(n_reads, 1);
	pass(1000);
	traffic_history_tick(h, &backend);
	ck_assert_uint_eq(n_reads, 2);
	traffic_history_free(h);
}
END_TEST

static bool equal(const struct traffic_point *a, const struct traffic_point *b)
{
	return a->packets == b->packets && a->bytes == b->bytes && a->flows == b->flows &&
	       a->flows_pinned == b->flows_pinned;
}

static struct {
	int64_t time_ms;
	bool there[NAMES];
	struct traffic_point points[NAMES];
} all[STEPS];

static struct traffic_point sum_of(unsigned step)
{
	struct traffic_point sum = {.packets = 0};

	for (unsigned i = 0; i < NAMES; i++) {
		const struct traffic_point *p = &all[step].points[i];
		if (!all[step].there[i])
			continue;
		sum.packets += p->packets;
		sum.bytes += p->bytes;
		sum.flows += p->flows;
		sum.flows_pinned += p->flows_pinned;
	}
	return sum;
}

/* Since when a VIP has been there without a gap, up to a step. */
static unsigned since(unsigned name, unsigned step)
{
	unsigned first = step + 1;

	while (first > 0 && all[first - 1].there[name])
		first--;
	return first;
}

static void compare(struct traffic_history *h, unsigned step)
{
	int64_t times[TRAFFIC_POINTS];
	struct traffic_point points[TRAFFIC_POINTS];
	unsigned oldest = step + 1 > TRAFFIC_POINTS ? step + 1 - TRAFFIC_POINTS : 0;
	unsigned n = traffic_history_read(h, NULL, times, points);

	ck_assert_uint_eq(n, step + 1 - oldest);
	for (unsigned i = 0; i < n; i++) {
		struct traffic_point sum = sum_of(oldest + i);
		ck_assert(equal(&points[i], &sum));
		ck_assert_int_eq(times[i], all[oldest + i].time_ms);
	}
	for (unsigned name = 0; name < NAMES; name++) {
		char id[8];
		unsigned first = since(name, step);
		if (first < oldest)
			first = oldest;
		snprintf(id, sizeof(id), "v%u", name);
		n = traffic_history_read(h, id, times, points);
		ck_assert_uint_eq(n, step + 1 - first);
		for (unsigned i = 0; i < n; i++) {
			ck_assert(equal(&points[i], &all[first + i].points[name]));
			ck_assert_int_eq(times[i], all[first + i].time_ms);
		}
	}
}

START_TEST(like_a_list_of_all)
{
	struct traffic_history *h = traffic_history_new();
	struct prng rng = prng_new("like_a_list_of_all");

	ck_assert_ptr_nonnull(h);
	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned i = 0; i < NAMES; i++) {
			if (prng_below(&rng, 40) == 0)
				there[i] = !there[i];
			counters[i].packets += prng_below(&rng, 1000);
			counters[i].bytes += prng_below(&rng, 100000);
			counters[i].flows = prng_below(&rng, 1000);
			counters[i].flows_pinned = prng_below(&rng, 100);
		}
		traffic_history_tick(h, &backend);
		all[step].time_ms = clock_wall_ms();
		memcpy(all[step].there, there, sizeof(there));
		memcpy(all[step].points, counters, sizeof(counters));
		compare(h, step);
		pass(TRAFFIC_INTERVAL_S * 1000u);
	}
	traffic_history_free(h);
}
END_TEST

static _Atomic bool stop;

static void *reader(void *arg)
{
	int64_t times[TRAFFIC_POINTS];
	struct traffic_point points[TRAFFIC_POINTS];

	while (!stop) {
		unsigned n = traffic_history_read(arg, "v1", times, points);
		for (unsigned i = 0; i < n; i++)
			ck_assert_uint_eq(points[i].packets, points[i].bytes);
	}
	return NULL;
}

START_TEST(read_while_written)
{
	struct traffic_history *h = traffic_history_new();
	pthread_t threads[2];

	ck_assert_ptr_nonnull(h);
	stop = false;
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, reader, h), 0);
	for (unsigned step = 0; step < 2000; step++) {
		there[0] = step % 3 != 0;
		there[1] = step % 7 != 0;
		counters[1].packets = counters[1].bytes = step;
		traffic_history_tick(h, &backend);
		pass(TRAFFIC_INTERVAL_S * 1000u);
	}
	stop = true;
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	traffic_history_free(h);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("traffic_history");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, nothing_yet);
	tcase_add_test(t, one_look_an_interval);
	tcase_add_test(t, like_a_list_of_all);
	tcase_add_test(t, read_while_written);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
