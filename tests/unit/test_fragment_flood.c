/* Floods of fragments: what they may take in memory and time is bounded, and whole packets go on
 * meanwhile. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "tests/unit/forwarding.h"
#include "tests/unit/frames.h"

#define VIP4 "198.51.100.1"
#define VIP6 "2001:db8::1"
#define N_DIPS 4u
#define N_ROUNDS 1500u
#define IN_A_ROUND (BURST_MAX - 1) /* and a whole packet */
#define PART 64u

/* What a fragment may cost, in whole packets. All that are held are looked for once a round, which
 * is eight looks into a cache line for each packet of a full burst, and seen to be about two. */
#define COST_MAX 20

static struct forwarding fw;
static struct worker *w;
static struct snapshot *snap;
static uint64_t state, now_ms = 1000000;
static uint8_t whole[FRAMES_MAX], part[FRAMES_MAX], buf[FRAMES_MAX];

static uint64_t fake_now_ns(void)
{
	return now_ms * 1000000;
}

static int64_t fake_wall_s(void)
{
	return 1000;
}

static void set_up(const char *dst)
{
	const struct frames_spec spec = {
		.src = frames_ip(strchr(dst, ':') ? "2001:db8:1::9" : "192.0.2.9"),
		.dst = frames_ip(dst),
		.sport = 1024,
		.dport = 53,
		.proto = IPPROTO_UDP,
		.payload_len = 4 * PART,
	};

	frames_build(whole, &spec);
	state = frames_seed();
	clock_set_source(fake_now_ns, fake_wall_s);
	snap = snapshot_new(42, 0);
	forwarding_add(snap, forwarding_vip(0, dst, N_DIPS));
	forwarding_init(&fw, 512, 128, 4096);
	w = fw.worker;
	worker_set_snapshot(w, snap);
}

static void tear_down(void)
{
	forwarding_destroy(&fw);
	snapshot_free(snap);
	clock_set_source(NULL, NULL);
}

static void give(const uint8_t *frame, uint32_t len)
{
	ck_assert_int_eq(port_mem_inject(fw.port, 0, 0, frame, len), 0);
}

static void give_whole(void)
{
	bool v6 = whole[12] == 0x86;

	give(whole, 14 + (v6 ? 40 : 20) + 8 + 4 * PART);
}

static void give_part(uint32_t id, unsigned k)
{
	give(part, frames_cut(part, whole, id, k * PART, PART));
}

/* Frames that were sent. */
static unsigned take(void)
{
	unsigned n = 0;

	for (unsigned k = 0; k < FORWARDING_IFACES; k++)
		while (port_mem_take(fw.port, k, buf, sizeof(buf)))
			n++;
	return n;
}

/* A round, and the thread's time that it takes: others on the machine are not in it. */
static uint64_t round_ns(void)
{
	struct timespec a, b;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	worker_round(w);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	return (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (uint64_t)b.tv_nsec -
	       (uint64_t)a.tv_nsec;
}

static uint64_t plain_ns(void)
{
	uint64_t ns = 0;

	for (unsigned r = 0; r < N_ROUNDS; r++) {
		for (unsigned i = 0; i < BURST_MAX; i++)
			give_whole();
		ns += round_ns();
		ck_assert_uint_eq(take(), BURST_MAX);
	}
	return ns;
}

/* Nearly all lack their first; with `news` some do not, so all that are held are looked for in each
 * round. */
static void check_flood_of_later_ones(const char *dst, bool news)
{
	uint64_t ns = 0, n_later = 0, n_sent = 0, plain;

	set_up(dst);
	plain = plain_ns();
	for (unsigned r = 0; r < N_ROUNDS; r++) {
		uint32_t id = (uint32_t)frames_random(&state);

		for (unsigned i = 0; i < IN_A_ROUND; i++) {
			bool first = news && i == IN_A_ROUND / 2;

			give_part(first ? id : (uint32_t)frames_random(&state),
				  first ? 0 : 1 + i % 3);
			n_later += !first;
		}
		give_whole();
		ns += round_ns();
		unsigned n = take();
		ck_assert_uint_ge(n, 1u + news);
		n_sent += n - 1 - news;
		ck_assert_uint_le(port_mem_n_held(fw.port), PORT_HELD_MAX);
		now_ms += r % 8 == 0;
	}
	/* Of 65,536 identifications some are drawn again, and then found. */
	unsigned n_held = port_mem_n_held(fw.port);
	ck_assert_uint_ge(n_held, PORT_HELD_MAX * 3 / 4);
	ck_assert_uint_lt(n_sent, n_later / 10);
	ck_assert_uint_eq(counter_read(&w->counters->drops[DROP_fragment_overflow]),
			  n_later - n_sent - n_held);
	printf("%s%s: a fragment costs %.2f whole packets\n", dst, news ? ", with news" : "",
	       (double)ns / (double)plain);
	ck_assert_uint_lt(ns, COST_MAX * plain);
	now_ms += FRAGMENT_HOLD_MS + 1;
	worker_round(w);
	ck_assert_uint_eq(counter_read(&w->counters->drops[DROP_fragment_timeout]), n_held);
	ck_assert_uint_eq(port_mem_n_free(fw.port), FORWARDING_FRAMES);
	tear_down();
}

START_TEST(flood_of_later_ones)
{
	check_flood_of_later_ones(_i & 1 ? VIP6 : VIP4, _i & 2);
}
END_TEST

/* First fragments of ever new packets: all are sent, none is held, and whose first came just now
 * finds it, as the newest entry of a full set is the last to give way. */
START_TEST(flood_of_first_ones)
{
	uint64_t ns = 0, plain;

	set_up(_i ? VIP6 : VIP4);
	plain = plain_ns();
	for (unsigned r = 0; r < N_ROUNDS; r++) {
		for (unsigned i = 0; i < IN_A_ROUND; i++)
			give_part(r * IN_A_ROUND + i, 0);
		give_part(r * IN_A_ROUND + IN_A_ROUND - 1, 1);
		ns += round_ns();
		ck_assert_uint_eq(take(), BURST_MAX);
		ck_assert_uint_eq(port_mem_n_held(fw.port), 0);
		now_ms += r % 8 == 0;
	}
	ck_assert_uint_eq(forwarding_drops(w), 0);
	ck_assert_uint_lt(ns, COST_MAX * plain);
	tear_down();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fragment_flood");
	TCase *tc = tcase_create("fragment_flood");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, flood_of_later_ones, 0, 4);
	tcase_add_loop_test(tc, flood_of_first_ones, 0, 2);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
