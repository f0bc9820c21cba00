/* Connections that outlive a thousand pool changes, beside short ones that come and go: every
 * packet still goes where the first went, and pins and memory follow the flows that live, not those
 * that have been. Prints a table. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CHANGES = 100, LIVE = 2000 };
#else
enum { CHANGES = 1000, LIVE = 10000 };
#endif

enum {
	DIPS = 24,
	SHORT = 40,	  /* connections that open and end at each change */
	BYTES_A_PIN = 14, /* two arrays of 1.5 words a pin; some of them wait for their purge */
};

static struct world *w;

struct model {
	uint64_t rng;
	uint32_t n_live;
	uint8_t first[LIVE];
	bool exists[DIPS + 1];
	uint32_t next_short; /* number of the next short flow */
};

static void check_flow(struct model *m, uint32_t i)
{
	unsigned dip = world_tcp(w, i & 1, i, PSH_ACK, 10);

	ck_assert_msg(dip == m->first[i], "flow %u went from %u to %u", i, m->first[i], dip);
}

static void short_flows(struct model *m)
{
	for (unsigned k = 0; k < SHORT; k++) {
		uint32_t i = LIVE + m->next_short++;
		unsigned dip = world_tcp(w, i & 1, i, FRAMES_SYN, 0);
		ck_assert_uint_ne(dip, 0);
		ck_assert_uint_eq(world_tcp(w, i & 1, i, PSH_ACK, 100), dip);
		ck_assert_uint_eq(world_tcp(w, i & 1, i, FRAMES_FIN | FRAMES_ACK, 0), dip);
	}
}

/* A DIP is added, drained or given another weight; never cut. b1 always has weight. */
static void change_pool(struct model *m)
{
	unsigned d = 1 + (unsigned)(frames_random(&m->rng) % DIPS);
	uint32_t weight = (uint32_t)(frames_random(&m->rng) % 20) + (d == 1);

	m->exists[d] = world_dip_flows(w, "web", d) != UINT64_MAX;
	if (!m->exists[d])
		world_put_dip(w, "web", d, weight, CONTROL_CREATED);
	else if (d > 1 && frames_random(&m->rng) % 4 == 0)
		world_delete_dip(w, "web", d, false);
	else
		ck_assert_uint_eq(world_set_weight(w, "web", d, weight)->change.flows_moved, 0);
}

static void print_row(unsigned change, uint32_t n_live)
{
	struct consistency c = world_consistency(w);

	printf("%7u %10lu %10u %10lu %10lu %10lu\n", change, (unsigned long)c.flows_known, n_live,
	       (unsigned long)c.flows_pinned, (unsigned long)c.pin_bytes,
	       (unsigned long)c.dcode_bytes);
	ck_assert_uint_le(c.flows_pinned, c.flows_known);
	ck_assert_uint_le(c.pin_bytes, c.flows_pinned * BYTES_A_PIN + 4096);
}

/* What has ended is forgotten, and its pins are purged. */
static void let_ends_pass(void)
{
	for (unsigned s = 0; s < 80; s++) {
		world_advance_ms(1000);
		world_settle(w);
	}
}

static void end_flows(struct model *m, uint32_t from)
{
	for (uint32_t i = from; i < m->n_live; i++) {
		check_flow(m, i);
		world_tcp(w, i & 1, i, FRAMES_RST, 0);
	}
	m->n_live = from;
	let_ends_pass();
}

static void open_flows(struct model *m)
{
	for (uint32_t i = 0; i < LIVE; i++) {
		m->first[i] = (uint8_t)world_tcp(w, i & 1, i, FRAMES_SYN, 0);
		ck_assert_uint_ne(m->first[i], 0);
		world_tcp(w, i & 1, i, FRAMES_ACK, 0);
		if (i % 1000 == 0)
			world_settle(w);
	}
	m->n_live = LIVE;
	world_settle(w);
}

START_TEST(a_thousand_changes)
{
	static struct model m;

	m.rng = frames_seed();
	w = world_new(2, 1 << 17);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned d = 1; d <= 8; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
	open_flows(&m);
	printf("%7s %10s %10s %10s %10s %10s\n", "changes", "known", "long-lived", "pinned",
	       "pin bytes", "Dcode bytes");
	print_row(0, m.n_live);
	for (unsigned change = 1; change <= CHANGES; change++) {
		short_flows(&m);
		change_pool(&m);
		for (unsigned k = 0; k < 64; k++)
			check_flow(&m, (uint32_t)(frames_random(&m.rng) % m.n_live));
		world_advance_ms(200 + frames_random(&m.rng) % 600);
		world_settle(w);
		if (change == 1 || change == CHANGES / 100 || change == CHANGES / 10 ||
		    change % (CHANGES / 4) == 0)
			print_row(change, m.n_live);
	}
	let_ends_pass();
	struct consistency all = world_consistency(w);
	ck_assert_uint_eq(all.flows_known, LIVE);
	print_row(CHANGES, m.n_live);
	/* half of them end: so do their pins */
	end_flows(&m, LIVE / 2);
	struct consistency half = world_consistency(w);
	print_row(CHANGES, m.n_live);
	ck_assert_uint_eq(half.flows_known, LIVE / 2);
	ck_assert_uint_gt(half.flows_pinned, all.flows_pinned * 2 / 5);
	ck_assert_uint_lt(half.flows_pinned, all.flows_pinned * 3 / 5);
	end_flows(&m, 0);
	struct consistency none = world_consistency(w);
	print_row(CHANGES, 0);
	ck_assert_uint_eq(none.flows_known + none.flows_pinned + none.pin_bytes, 0);
	ck_assert_uint_eq(none.flows_lost_total + none.flows_forgotten_total, 0);
	ck_assert_uint_eq(none.flows_unlearned_total + none.violations_total, 0);
	ck_assert_uint_ge(none.publishes_total, CHANGES);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("long_lived");
	TCase *t = tcase_create("long_lived");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, a_thousand_changes);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
