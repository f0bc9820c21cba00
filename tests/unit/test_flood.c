/* A flood of spoofed SYNs beside live connections, new real ones and a pool change a second. The
 * flood opens more flows than the table has room for; it may push out its like and nothing else.
 * Prints a table. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SHRINK = 10 };
#else
enum { SHRINK = 1 };
#endif

enum {
	LIVE = 10000 / SHRINK,
	NEW = 500 / SHRINK,	 /* real ones a second */
	FLOOD = 100000 / SHRINK, /* spoofed SYNs a second */
	SECONDS = 20,
	CAPACITY = 32768 / SHRINK,
	HALF_OPEN_MAX = CAPACITY / 4 + 1, /* the cap of the class */
	BURST = 80000, /* spoofed SYNs that control has no time for: more than the rings hold */
	SLICES = 50,   /* of a second */
	FLOOD_FROM = 1 << 20, /* numbers of the spoofed flows */
};

static struct world *w;
static uint8_t first[LIVE + NEW * SECONDS];

static void speak(uint32_t i, uint8_t flags)
{
	unsigned dip = world_tcp(w, i & 1, i, flags, flags & FRAMES_PSH ? 10 : 0);

	ck_assert_uint_ne(dip, 0);
	if (!first[i])
		first[i] = (uint8_t)dip;
	if (dip != first[i])
		ck_abort_msg("flow %u went from %u to %u", i, first[i], dip);
}

static void open_flow(uint32_t i)
{
	speak(i, FRAMES_SYN);
	speak(i, FRAMES_ACK);
	speak(i, PSH_ACK);
}

/* One DIP gets another weight, one comes or is drained. b1 always has weight. */
static void change_pool(uint64_t *rng)
{
	unsigned d = 1 + (unsigned)(frames_random(rng) % 8);

	ck_assert_uint_eq(
		world_set_weight(w, "web", d, (uint32_t)(frames_random(rng) % 4) * 10 + (d == 1))
			->change.flows_moved,
		0);
}

static void check_classes(uint64_t n_real)
{
	struct consistency c = world_consistency(w);

	ck_assert_uint_eq(c.flows_established, n_real);
	ck_assert_uint_le(c.flows_half_open, HALF_OPEN_MAX);
	ck_assert_uint_le(c.flows_known, CAPACITY);
	ck_assert_uint_eq(c.flows_closing + c.flows_unproven, 0);
	ck_assert_uint_eq(c.flows_lost_total + c.violations_total, 0);
}

static void flood_second(uint64_t *rng, uint32_t second)
{
	uint32_t flood = FLOOD_FROM + second * FLOOD;
	uint32_t fresh = LIVE + second * NEW;

	for (uint32_t s = 0; s < SLICES; s++) {
		for (uint32_t k = 0; k < FLOOD / SLICES; k++, flood++) {
			world_tcp(w, flood & 1, flood, FRAMES_SYN, 0);
			if (k % 1024 == 1023)
				world_settle(w);
		}
		for (uint32_t k = 0; k < NEW / SLICES; k++)
			open_flow(fresh++);
		for (uint32_t k = s; k < fresh; k += SLICES)
			speak(k, PSH_ACK);
		if (s == SLICES / 2)
			change_pool(rng);
		world_advance_ms(1000 / SLICES);
		world_settle(w);
	}
}

static void print_row(uint32_t second)
{
	struct consistency c = world_consistency(w);

	printf("%3u %11lu %11lu %11lu %11lu %11lu\n", second, (unsigned long)c.flows_established,
	       (unsigned long)c.flows_half_open, (unsigned long)c.flows_pinned,
	       (unsigned long)c.flows_forgotten_total, (unsigned long)c.flows_unlearned_total);
}

static void start(void)
{
	memset(first, 0, sizeof(first));
	w = world_new(2, CAPACITY);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned d = 1; d <= 8; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
	for (uint32_t i = 0; i < LIVE; i++) {
		open_flow(i);
		if (i % 256 == 0)
			world_settle(w);
	}
	world_settle(w);
	printf("%3s %11s %11s %11s %11s %11s\n", "s", "established", "half-open", "pinned",
	       "forgotten", "unlearned");
}

START_TEST(a_flood_pushes_out_only_itself)
{
	uint64_t rng = frames_seed();

	start();
	for (uint32_t second = 0; second < SECONDS; second++) {
		flood_second(&rng, second);
		check_classes(LIVE + (second + 1) * NEW);
		print_row(second + 1);
	}
	struct consistency c = world_consistency(w);
	ck_assert_uint_eq(c.flows_unlearned_total, 0);
	/* What was opened and is not known any more was forgotten; no real one is among it. (A real
	 * one that was half-open for a moment leaves one place of the class empty.) */
	ck_assert_uint_eq(c.flows_opened_total, LIVE + SECONDS * (NEW + FLOOD));
	ck_assert_uint_eq(c.flows_forgotten_total, c.flows_opened_total - c.flows_known);
	ck_assert_uint_ge(c.flows_half_open, HALF_OPEN_MAX - NEW);
	world_free(w);
}
END_TEST

/* Control falls behind: records of openings are lost, the flood's and real ones' alike. What was
 * known before stays where it is; what is new is learned from its later packets, and never counted
 * wrong. */
START_TEST(a_flood_too_fast_to_be_learned)
{
	uint64_t rng = frames_seed();

	start();
	for (uint32_t second = 0; second < SECONDS / 5; second++) {
		uint32_t flood = FLOOD_FROM + second * BURST;
		for (uint32_t k = 0; k < BURST; k++, flood++)
			world_tcp(w, flood & 1, flood, FRAMES_SYN, 0);
		change_pool(&rng);
		for (uint32_t i = 0; i < LIVE; i++) {
			speak(i, PSH_ACK);
			if (i % 256 == 0)
				world_settle(w);
		}
		world_advance_ms(1000);
		world_settle(w);
		check_classes(LIVE);
		print_row(second + 1);
	}
	struct consistency c = world_consistency(w);
	ck_assert_uint_gt(c.flows_unlearned_total, 0);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("flood");
	TCase *t = tcase_create("flood");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, a_flood_pushes_out_only_itself);
	tcase_add_test(t, a_flood_too_fast_to_be_learned);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
